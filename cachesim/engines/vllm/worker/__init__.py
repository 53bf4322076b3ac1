"""The worker: contents of the blocks, and the evaluation of a step."""
