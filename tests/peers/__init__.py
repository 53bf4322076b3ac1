"""Comparison with the real mlx-lm and the real scheduler of vLLM: ``make peers``. Needs them, except for the replay."""
