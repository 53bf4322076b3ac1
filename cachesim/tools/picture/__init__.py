"""Picture of a run in a single file: requests from top to bottom, token positions left to right."""
