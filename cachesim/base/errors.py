"""Exception types, each with a single meaning, and helpers for the text of messages.

``BadInput`` is a fault in the user's file or command (``NotInBuild``: valid, but not for this version).
``ProcessAborted`` means that the simulated server process ended itself, ``Crash`` is a bug in cachesim. A rule that
refuses something returns a value; it never raises.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from reprlib import Repr
from typing import Any, Callable, Iterable, Iterator, Mapping, ParamSpec, Self, Sequence, TypeVar

from cachesim.base import exits


def counted(n: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun: "1 checkpoint", "2 checkpoints". ``plural`` is ``singular`` + "s" by default."""
    return f"{n} {singular if n == 1 else plural or singular + 's'}"


ENDING = tuple(name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals besides Ctrl-C that end cachesim; it prints its results so far first."""

ECHOED = 80                  # maximum characters of a quoted value in a message
CAUSE, PLACE = 400, 255      # maximum characters of a cause or hint, and of a file name

_brief = Repr()              # formats only the first entries of a long list
_brief.maxlist = _brief.maxdict = _brief.maxtuple = 20
_brief.maxstring = _brief.maxother = ECHOED


class BadInput(Exception):
    """A file or an argument that cannot be used. ``str()`` is a single line: ``file:line: cause (hint)``."""

    __module__ = "cachesim"      # the name under which users import it: pytest and tracebacks print it

    code = exits.BAD_INPUT       # exit code of the command

    def __init__(self, cause: str, *, file: str = "", line: int | None = None, hint: str = "") -> None:
        self.cause, self.hint = cut(cause, CAUSE), cut(hint, CAUSE)
        self.file, self.line = cut(file, PLACE), line
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.cause}{f' ({self.hint})' if self.hint else ''}"

    def at(self, file: str, line: int | None = None) -> Self:
        """Return a copy of this error with ``file`` and ``line`` filled in where they are missing."""
        return type(self)(self.cause, file=self.file or file, line=self.line or line, hint=self.hint)


P = ParamSpec("P")
T = TypeVar("T")


def public(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of the Python interface: the traceback of its BadInput ends at the call, whose argument is
    the fault. pytest hides the frame of the decorator."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except BadInput as bad:
            raise bad.with_traceback(None) from None

    return called


class OverLimit(BadInput):
    """Work or data that exceeds a limit of ``cachesim.base.limits``."""


class NothingFound(BadInput):
    """A valid selection that contains nothing to work on."""

    code = exits.NOTHING


class NotInBuild(BadInput):
    """Options with which the chosen version of the server does not start, or is not simulated."""


class NotStarted(BadInput):
    """A real server that did not start, so that nothing was decided."""

    code = exits.UNDECIDED


class Unwritable(BadInput):
    """A file that cannot be written: disk full, no permission, folder missing."""


class ProcessAborted(Exception):
    """The simulated process ended itself (a GGML_ABORT or GGML_ASSERT of the real engine).

    ``text`` is the message of the real engine, ``kind`` an identifier that does not depend on the ``numbers`` in it. A
    driver raises this exception; its caller turns it into an event and a verdict.
    """

    def __init__(self, text: str, kind: str, **numbers: int) -> None:
        self.kind, self.numbers = kind, numbers
        super().__init__(text)


class Terminated(KeyboardInterrupt):
    """A signal of ``ENDING`` arrived. A subclass of KeyboardInterrupt, so that code that handles Ctrl-C handles it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Unfinished(KeyboardInterrupt):
    """An interrupt, with the work that it left unfinished as a sentence. ``number`` of the signal, None for Ctrl-C."""

    def __init__(self, sentence: str, number: int | None) -> None:
        self.number = number
        super().__init__(sentence)


@contextmanager
def unfinished(sentence: str) -> Iterator[None]:
    """Say in an interrupt of the block what it left unfinished. Raise Unfinished."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Unfinished(sentence, getattr(error, "number", None)) from None


class Crash(Exception):
    """A bug in cachesim: a state that should be impossible."""


@contextmanager
def stdout_errors() -> Iterator[None]:
    """Turn an error while writing to standard output (disk full) into Unwritable. BrokenPipeError passes through: the
    command line handles it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"standard output cannot be written: {(error.strerror or str(error)).lower()}") from None


def cut(text: str, most: int = ECHOED) -> str:
    """Return ``text`` as a single printable line of at most ``most`` characters, shortened in the middle."""
    text = _ends(text, most)
    if text.isprintable():
        return text
    from cachesim.base.escaping import printable_line  # --help does not need its patterns

    return _ends(printable_line(text), most)


def first_of(names: Sequence[str], most: int = ECHOED) -> str:
    """Return names with commas in at most ``most`` characters: whole names, and how many more there are."""
    shown = len(names)
    while shown > 1 and sum(map(len, names[:shown])) + 2 * shown > most:
        shown -= 1
    more = f" and {len(names) - shown} more" if shown < len(names) else ""
    return cut(", ".join(names[:shown]), most) + more


def _ends(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    last = (most - 3) // 2
    return f"{text[: most - 3 - last]}...{text[len(text) - last :]}"


def quoted(value: object) -> str:
    """Return untrusted input for a message, in at most 80 characters. Strings are quoted."""
    if isinstance(value, str):
        return repr(value) if len(value) <= ECHOED - 2 else repr(cut(value, ECHOED - 2))
    if isinstance(value, int) and value.bit_length() > 4 * ECHOED:
        return f"an integer of {value.bit_length()} bits"       # Python refuses to print too many digits
    try:
        return cut(_brief.repr(value))
    except ValueError:                                          # contains an integer with too many digits
        return f"a {type(value).__name__}"


def nearest(word: str, known: Iterable[str], spelled: Mapping[str, str] | None = None) -> str:
    """Return a hint that names the known word closest to ``word``, or the empty string. ``spelled``: spelling of
    known words in the hint."""
    if len(word) > ECHOED:
        return ""
    match = get_close_matches(word, list(known), n=1)
    return f"did you mean '{(spelled or {}).get(match[0], match[0])}'?" if match else ""


def error_data(kind: str, code: int, bad: BaseException) -> dict[str, Any]:
    """Return an error as JSON data. ``kind``: "input", "interrupted" or "crash"."""
    if isinstance(bad, BadInput):
        return {"error": {"kind": kind, "code": code, "message": bad.cause, "file": bad.file or None,
                          "line": bad.line, "hint": bad.hint or None}}  # fmt: skip
    text = str(bad) or type(bad).__name__
    return {"error": {"kind": kind, "code": code, "message": text, "file": None, "line": None, "hint": None}}
