"""Rules of vLLM's scheduler, block pool and worker: one decision is one function."""
