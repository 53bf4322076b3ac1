"""Comparison of the real llama-server with the simulator: ``make live``. Needs a built server; the tests do not."""
