"""mlx-lm: its caches, its prompt cache, its server."""
