"""How long is an implementation waited for? Its time-out for a reply; one that hangs costs three of them in all."""

from __future__ import annotations

TIMEOUTS = 3                 # replies of one implementation that are waited for in vain; then it is asked no more
GRACE = 2.0                  # seconds to end by itself, for the first processes that do not


class GaveUp(Exception):
    """The implementation is asked no more: too many of its replies did not come."""


class Patience:
    """What is left of it, for all instances of one implementation together. ``timeout`` is in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.missed = self.killed = 0

    @property
    def low(self) -> bool:
        """Is there at most one time-out left? It belongs to the search for the smallest history that hangs."""
        return self.missed >= TIMEOUTS - 1

    @property
    def gone(self) -> bool:
        """Have all time-outs been used up?"""
        return self.missed >= TIMEOUTS

    @property
    def grace(self) -> float:
        """Seconds that a process is given to end by itself; little once several had to be killed."""
        return GRACE if self.killed < TIMEOUTS else GRACE / 100

    @property
    def silence(self) -> str:
        """How a reply that did not come is told."""
        return f"no reply within {self.timeout:g} seconds"

    @property
    def why(self) -> str:
        """What ``low`` and ``gone`` mean for a property that was not looked at."""
        return f"not played, for {self.missed} replies did not come in time"

    def check(self) -> None:
        """Raises GaveUp if nothing is left."""
        if self.gone:
            raise GaveUp(self.why)
