"""Which exit code means what, and which of several is that of the command? The only place where this is decided."""

from __future__ import annotations

from typing import Iterable

HOLDS = 0            # everything asked for holds
BROKEN = 1           # something is broken; also a simulated server that ended itself
BAD_INPUT = 2        # a file or an argument that cannot be used, or a file that cannot be written
UNDECIDED = 3        # nothing is broken, but not everything could be decided
NOTHING = 5          # nothing was selected
CRASH = 70           # a fault of cachesim
INTERRUPTED = 130    # the user pressed Ctrl-C; 128 + its number for another signal that asked us to end
BROKEN_PIPE = 141    # the reader of our output went away

ORDER = (CRASH, BROKEN, BAD_INPUT, UNDECIDED, NOTHING, HOLDS)
"""The first of these that one of several results has is the code of all."""


def worst(codes: Iterable[int]) -> int:
    """The code of several results; 0 if there is none."""
    return min(codes, key=ORDER.index, default=HOLDS)


def interrupted(error: KeyboardInterrupt) -> int:
    """The code of a command that was asked to end."""
    number = getattr(error, "number", None)
    return INTERRUPTED if number is None else 128 + int(number)
