"""Our cache classes and the real ones side by side: ``make peers``. Needs mlx and mlx-lm; only the replay does not."""
