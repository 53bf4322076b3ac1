"""How long may an implementation take? A time-out for each reply, and a limit for the whole run.

One that hangs costs three time-outs in all. A Python object is interrupted by SIGALRM: only in the main thread, and
only if that signal is not in use; elsewhere there is no time-out.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from time import monotonic
from typing import Any, Iterator

from cachesim.tools.conformance.protocol import TimedOut

TIMEOUTS = 3                 # replies that may not come; then no more requests are sent
GRACE = 2.0                  # seconds to end by itself, for the first processes that do not


class GaveUp(Exception):
    """No more requests are sent: too many replies did not come."""


class _Late(BaseException):
    """Raised inside somebody else's code, whose ``except Exception`` must not catch it."""


class Patience:
    """What is left of it, for all instances of one implementation together. ``timeout`` is in seconds for a reply,
    ``seconds`` for all of them (None = no limit)."""

    def __init__(self, timeout: float, seconds: float | None = None) -> None:
        self.timeout, self.seconds = timeout, seconds
        self.missed = self.killed = 0
        self.end = None if seconds is None else monotonic() + seconds

    @property
    def spent(self) -> bool:
        """Returns True if the time for the whole run is over."""
        return self.end is not None and monotonic() >= self.end

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
        """How a reply that did not come is reported."""
        return f"no reply within {self.timeout:g} seconds"

    @property
    def why(self) -> str:
        """What ``low``, ``gone`` and ``spent`` mean for a property that was not looked at."""
        return f"not played: {self.missed} replies did not come in time" if self.low else f"not played: {self.stopped}"

    @property
    def stopped(self) -> str:
        """When the run was ended, if it is ``spent``."""
        return f"stopped after {self.seconds:g} seconds"

    def check(self) -> None:
        """Raises GaveUp if nothing is left."""
        if self.gone:
            raise GaveUp(self.why)

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Interrupt what runs inside after ``timeout`` seconds. Raises GaveUp before, TimedOut behind."""
        self.check()
        try:
            with _alarm(self.timeout):
                yield
        except _Late:
            self.missed += 1
            raise TimedOut(self.silence) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raises _Late inside after so many seconds, if this can be done without taking the signal from somebody."""
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not able or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def ring(*_: Any) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
