"""One error type per meaning, so that a caller knows what happened from the type alone.

``BadInput`` is the user's file or command (``NotInBuild``: right, but not for this version), ``Aborted`` is the
simulated server process ending itself, ``Crash`` is our own fault. A rule that says no is a return value, never an
exception.
"""

from __future__ import annotations

import signal
from difflib import get_close_matches
from typing import Iterable

ENDING = tuple(name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask us to end, besides Ctrl-C: what was found is told before."""


class BadInput(Exception):
    """A file or an argument that cannot be used. ``str()`` is one line: place, cause, nearest right word."""

    def __init__(self, cause: str, *, file: str = "", line: int | None = None, hint: str = "") -> None:
        self.cause, self.file, self.line, self.hint = cause, file, line, hint
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.cause}{f' ({self.hint})' if self.hint else ''}"

    def at(self, file: str, line: int | None = None) -> BadInput:
        """The same error with its place filled in where it was not known further down."""
        return type(self)(self.cause, file=self.file or file, line=self.line or line, hint=self.hint)


class NotInBuild(BadInput):
    """An option that the chosen version of the server does not have."""


class Aborted(Exception):
    """The simulated process ended itself (a GGML_ABORT or GGML_ASSERT of the real engine).

    Raised inside a driver, caught by whoever runs it, and turned into an event and a verdict.
    """


class Terminated(KeyboardInterrupt):
    """A signal of ``ENDING`` came. What ends well at Ctrl-C ends well at this too."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Crash(Exception):
    """Something that cannot happen did: a fault of cachesim, reported as one."""


def unwritable(error: OSError) -> BadInput:
    """Standard output does not take a result."""
    return BadInput(f"standard output cannot be written: {(error.strerror or str(error)).lower()}")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint naming the known word closest to ``word``, or the empty string."""
    match = get_close_matches(word, list(known), n=1)
    return f"did you mean '{match[0]}'?" if match else ""
