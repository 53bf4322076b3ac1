"""Benchmarks of speed and memory: ``make bench``. They are not part of the test suite, which does not measure time."""
