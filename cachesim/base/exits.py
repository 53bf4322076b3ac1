"""Exit codes and their order of precedence."""

from __future__ import annotations

from typing import Iterable

HOLDS = 0            # success: every property holds
BROKEN = 1           # a property fails, or the simulated server aborted
BAD_INPUT = 2        # unusable file or argument, or a file that cannot be written
UNDECIDED = 3        # no failure, but not everything could be decided
NOTHING = 5          # nothing selected
CRASH = 70           # bug in cachesim
INTERRUPTED = 130    # Ctrl-C; 128 + signal number for another signal that ends cachesim
BROKEN_PIPE = 141    # the reader of the output closed the pipe

ORDER = (CRASH, BROKEN, BAD_INPUT, UNDECIDED, NOTHING, HOLDS)
"""Precedence of the codes of several results: the first in this order that occurs is the exit code."""


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several results; 0 if there are no results."""
    return min(codes, key=ORDER.index, default=HOLDS)


def interrupted(error: KeyboardInterrupt) -> int:
    """Return the exit code of a command that was interrupted by Ctrl-C or a signal."""
    number = getattr(error, "number", None)
    return INTERRUPTED if number is None else 128 + int(number)
