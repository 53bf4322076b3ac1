"""Comparison of our classes and server with the real mlx-lm: ``make peers``. Needs mlx and mlx-lm, except for the
replay."""
