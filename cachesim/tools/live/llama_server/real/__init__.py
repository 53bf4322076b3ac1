"""Real llama-servers from the package index: installation, start, and comparison with the simulator."""
