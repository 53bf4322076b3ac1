"""Work counted in calls of functions, which no clock and no other process changes."""

from __future__ import annotations

import cProfile
import gc
import sys
from contextlib import contextmanager
from math import log2

STEEPEST = 1.2
"""Work that grows with a greater exponent is not linear."""


class Calls:
    """A number of calls."""

    number = 0


@contextmanager
def counted_calls():
    """Count the calls of Python functions and built-in functions, and each step of a generator. The garbage collector
    is off meanwhile: it makes no calls, but takes longer than all of them when there are many objects."""
    calls, before, profile, collecting = Calls(), sys.getprofile(), cProfile.Profile(), gc.isenabled()
    gc.disable()
    profile.enable()
    try:
        yield calls
    finally:
        profile.disable()
        sys.setprofile(before)
        if collecting:
            gc.enable()
        calls.number = sum(entry.callcount for entry in profile.getstats())


def exponent(once, twice):
    """Return the exponent of growth: 1 = linear, 2 = quadratic."""
    return log2(twice / once)
