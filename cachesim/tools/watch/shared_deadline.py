"""Deadline that one process sets and another one reads."""

from __future__ import annotations

import mmap
from struct import Struct
from time import monotonic
from typing import Callable

_TIME = Struct("d")


class SharedDeadline:
    """Deadline, which never comes unless it is set. Make it before the second process starts. ``clock``: time in
    seconds, equal in both processes."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._shared = mmap.mmap(-1, _TIME.size)
        _TIME.pack_into(self._shared, 0, float("inf"))

    def set(self, seconds: float) -> None:
        """Set the deadline to some seconds from now."""
        _TIME.pack_into(self._shared, 0, self._clock() + seconds)

    def is_over(self) -> bool:
        """True if the deadline has passed."""
        deadline: float = _TIME.unpack_from(self._shared, 0)[0]
        return self._clock() >= deadline
