"""What all tests share: Hypothesis draws the same examples on every run, without a deadline."""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
