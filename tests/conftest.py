"""What all tests share: one BLAS thread, as on the command line, and Hypothesis that always draws the same."""

import os

from cachesim.cli import ONE_THREAD

for name in ONE_THREAD:
    os.environ.setdefault(name, "1")       # before anything imports NumPy

from hypothesis import settings  # noqa: E402

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
