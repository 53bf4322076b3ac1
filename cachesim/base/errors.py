"""One error type per meaning, so that a caller knows what happened from the type alone.

``BadInput`` is the user's file or command (``NotInBuild``: right, but not for this version), ``ProcessAborted`` is the
simulated server process ending itself, ``Crash`` is our own fault. A rule that says no is a return value, never an
exception.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from difflib import get_close_matches
from reprlib import Repr
from typing import Iterable, Iterator

# How is a count written? One checkpoint, two checkpoints.

def counted(n: int, one: str, more: str = "") -> str:
    """``n`` and what is counted: ``one`` of them, or ``more`` of them (the same with an s where nothing is said)."""
    return f"{n} {one if n == 1 else more or one + 's'}"


ENDING = tuple(name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask us to end, besides Ctrl-C: what was found is told before."""

ECHOED = 80                  # characters of a value that a message repeats
CAUSE, PLACE = 400, 255      # of a whole cause or hint, and of the name of a file

_brief = Repr()              # looks at the first entries of a long list only
_brief.maxlist = _brief.maxdict = _brief.maxtuple = 20
_brief.maxstring = _brief.maxother = ECHOED


class BadInput(Exception):
    """A file or an argument that cannot be used. ``str()`` is one line: place, cause, nearest right word."""

    def __init__(self, cause: str, *, file: str = "", line: int | None = None, hint: str = "") -> None:
        self.cause, self.hint = cut(cause, CAUSE), cut(hint, CAUSE)
        self.file, self.line = cut(file, PLACE), line
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.cause}{f' ({self.hint})' if self.hint else ''}"

    def at(self, file: str, line: int | None = None) -> BadInput:
        """The same error with its place filled in where it was not known further down."""
        return type(self)(self.cause, file=self.file or file, line=self.line or line, hint=self.hint)


class NotInBuild(BadInput):
    """An option that the chosen version of the server does not have."""


class Unwritable(BadInput):
    """A file that the machine does not take: no room, no permission, no such folder."""


class ProcessAborted(Exception):
    """The simulated process ended itself (a GGML_ABORT or GGML_ASSERT of the real engine). ``text`` is what the real
    one says; ``kind`` an identifier of this end, the same whatever its ``numbers`` are.

    Raised inside a driver, caught by whoever runs it, and turned into an event and a verdict.
    """

    def __init__(self, text: str, kind: str, **numbers: int) -> None:
        self.kind, self.numbers = kind, numbers
        super().__init__(text)


class Terminated(KeyboardInterrupt):
    """A signal of ``ENDING`` came. What ends well at Ctrl-C ends well at this too."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Crash(Exception):
    """Something that cannot happen did: a fault of cachesim, reported as one."""


@contextmanager
def arriving() -> Iterator[None]:
    """What is written to standard output inside arrives there: a full disk is told in one line (Unwritable), a reader
    that went away is left to the command line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"standard output cannot be written: {(error.strerror or str(error)).lower()}") from None


def cut(text: str, most: int = ECHOED) -> str:
    """A text in one line of at most ``most`` characters; of a longer one the middle is left out."""
    text = _ends(text, most)
    if text.isprintable():
        return text
    return _ends("".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text), most)


def _ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    last = (most - 3) // 2
    return f"{text[: most - 3 - last]}...{text[len(text) - last :]}"


def quoted(value: object) -> str:
    """A value from elsewhere, as a message repeats it: in quotes if it is a text, never more than 80 characters."""
    if isinstance(value, str):
        return repr(value) if len(value) <= ECHOED - 2 else repr(cut(value, ECHOED - 2))
    if isinstance(value, int) and value.bit_length() > 4 * ECHOED:
        return f"an integer of {value.bit_length()} bits"       # its digits may be too many to be written
    try:
        return cut(_brief.repr(value))
    except ValueError:                                          # such an integer inside of something
        return f"a {type(value).__name__}"


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint naming the known word closest to ``word``, or the empty string."""
    if len(word) > ECHOED:
        return ""
    match = get_close_matches(word, list(known), n=1)
    return f"did you mean '{match[0]}'?" if match else ""
