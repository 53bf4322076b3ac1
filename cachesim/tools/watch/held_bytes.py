"""Limit in bytes of everything that ``watch`` holds: bodies and replies in flight, compared requests, and the queue.

``WATCHED_BYTES`` has three parts. An eighth may wait in the queue between relay and analysis, and at most half belongs
to compared requests. Bodies and replies in flight get what is left.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from cachesim.base.limits import WATCHED_BYTES

MOST = WATCHED_BYTES.value
QUEUE = MOST // 8            # bytes that may wait for the analysis
KEPT = MOST // 2             # bytes of compared requests
OBJECT = 200                 # bytes of an object and of its place in a list or a dictionary, at most
GROWTH = 8                   # a buffer that grows reserves an eighth more than it contains


class HeldBytes:
    """Counter of the bytes in the process of the analysis. ``kept``: those of compared requests."""

    def __init__(self, most: int = MOST - QUEUE) -> None:
        self._most = most
        self._in_flight = 0
        self.kept = 0

    @property
    def size(self) -> int:
        """Bytes that are held."""
        return self._in_flight + self.kept

    def recount(self, before: int, after: int) -> bool:
        """Count ``after`` bytes in flight instead of ``before``, if there is room for more; return True if there is."""
        if after > before and self.size + after - before > self._most:
            return False
        self._in_flight += after - before
        return True


def buffer_bytes(number: int) -> int:
    """Return the memory of this number of bytes in a buffer that grows."""
    return number + number // GROWTH


def bytes_of(value: Any) -> int:
    """Return the memory of a value with everything in its lists and objects. A part that occurs twice counts twice."""
    size, rest = 0, [value]
    while rest:
        one = rest.pop()
        size += getsizeof(one)
        if isinstance(one, dict):
            rest += one.keys()
            rest += one.values()
        elif isinstance(one, list | tuple):
            rest += one
    return size
