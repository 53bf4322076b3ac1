"""Time limits of an implementation: for each reply, and for the whole run.

An implementation that hangs costs three time-outs. A Python object is interrupted by SIGALRM: only in the main thread,
and only if that signal is not in use; otherwise it has no time-out.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from time import monotonic
from typing import Any, Iterator

from cachesim.tools.conformance.protocol import TimedOut

TIMEOUTS = 3                 # missed replies after which no more requests are sent
NOT_RUN = "not run: "
GRACE = 2.0                  # seconds that a process gets to end by itself, until several had to be killed


class TimeoutsExhausted(Exception):
    """Raised when no more requests are sent because too many replies were missed."""


class _Late(BaseException):
    """Raised inside foreign code, whose ``except Exception`` must not catch it."""


class TimeBudget:
    """Remaining time, shared by all instances of an implementation. ``timeout``: seconds for a reply; ``seconds``: for
    the whole run (None = no limit)."""

    def __init__(self, timeout: float, seconds: float | None = None) -> None:
        self.timeout, self.seconds = timeout, seconds
        self.missed = self.killed = 0
        self.end = None if seconds is None else monotonic() + seconds

    @property
    def is_spent(self) -> bool:
        """True if the time for the whole run is over."""
        return self.end is not None and monotonic() >= self.end

    @property
    def left(self) -> float:
        """Seconds until the next reply must be complete."""
        return self.timeout if self.end is None else max(0.0, min(self.timeout, self.end - monotonic()))

    @property
    def requests(self) -> int:
        """Requests sent so far, 0 if they are not counted."""
        return 0

    @property
    def is_low(self) -> bool:
        """True if at most a single time-out is left; it is reserved for shrinking the history that hangs."""
        return self.missed >= TIMEOUTS - 1

    @property
    def is_gone(self) -> bool:
        """True if all time-outs are used up."""
        return self.missed >= TIMEOUTS

    @property
    def grace(self) -> float:
        """Seconds that a process gets to end by itself; little after several had to be killed."""
        return GRACE if self.killed < TIMEOUTS else GRACE / 100

    @property
    def missed_reply(self) -> str:
        """Message for a missed reply."""
        return f"no reply within {self.timeout:g} seconds"

    @property
    def why(self) -> str:
        """Reason why a property was not tested, if ``low``, ``gone`` or ``spent`` is true."""
        return f"{NOT_RUN}{self.missed} replies timed out" if self.is_low else f"{NOT_RUN}{self.stopped}"

    @property
    def stopped(self) -> str:
        """Message for a run that ended because it is ``spent``."""
        return f"stopped after {self.seconds:g} seconds"

    def check(self) -> None:
        """Raise GaveUp if all time-outs are used up."""
        if self.is_gone:
            raise TimeoutsExhausted(self.why)

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Interrupt the body after ``timeout`` seconds. Raise GaveUp on entry, TimedOut on exit."""
        self.check()
        try:
            with _alarm(self.timeout):
                yield
        except _Late:
            self.missed += 1
            raise TimedOut(self.missed_reply) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise _Late in the body after so many seconds, unless SIGALRM is in use or unavailable."""
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
