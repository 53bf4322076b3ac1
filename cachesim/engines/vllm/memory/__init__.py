"""Memory of vLLM: the pool of blocks, and the block tables of requests."""
