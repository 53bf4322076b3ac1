"""Where does output go? Results to stdout, complaints and progress to stderr; JSON always with its schema number."""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generator, Iterable, Mapping, TypeVar

from cachesim.base.errors import arriving

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = 1
WIDTH = 80
T = TypeVar("T")


class Manners:
    """How the command line wants to be talked to: ``colour`` "auto" (on a terminal), "always" or "never"; ``quiet``:
    results and errors only; ``columns`` where stdout is no terminal."""

    colour = "auto"
    quiet = False
    columns = WIDTH


def say(text: str) -> None:
    """A result, on stdout. Raises BadInput if that cannot be written, as the functions below."""
    with arriving():
        print(text)


def ask(prompt: str) -> str | None:
    """A line that the user types on the terminal, without spaces around it, in small letters; None at the end of the
    input. Ctrl-C and the end of the input leave the cursor at the beginning of a line."""
    with arriving():
        print(prompt, end="", flush=True)
    try:
        stream = getattr(sys.stdin, "buffer", None)          # bytes that are no text are no reason to end
        line = sys.stdin.readline() if stream is None else stream.readline().decode(errors="replace")
    except KeyboardInterrupt:
        say("")
        raise
    if not line.endswith("\n"):
        say("")
    return line.strip().lower() if line else None


def say_json(data: Mapping[str, Any]) -> None:
    """A result as JSON, on stdout."""
    say(json.dumps({"schema": SCHEMA, **data}))


def show(*parts: RenderableType, width: int | None = None) -> None:
    """Tables and text, on stdout: as wide as the terminal, ``width`` columns where there is none (else $COLUMNS, else
    80)."""
    from rich.console import Console

    class Pipe(Console):
        """Leaves a reader that went away to the command line, which has an exit code for it."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Pipe(
        width=None if sys.stdout.isatty() else width or Manners.columns, highlight=False,
        force_terminal=True if Manners.colour == "always" else None, no_color=Manners.colour == "never" or None,
    )
    with arriving():
        for part in parts:
            console.print(part, crop=False)


def as_text(*parts: RenderableType) -> str:
    """Tables and text as a string of ``WIDTH`` columns, without colours."""
    from rich.console import Console

    console = Console(width=WIDTH, highlight=False, file=io.StringIO(), force_terminal=False, no_color=True)
    with console.capture() as capture:
        for part in parts:
            console.print(part, crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def progress(items: Iterable[T], total: int | None, what: str) -> Generator[T, None, None]:
    """The items, with a progress bar on stderr if that is a terminal. ``total``: None if nobody knows."""
    if Manners.quiet or (total is not None and total < 2) or sys.stderr is None or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=what, total=total, console=Console(stderr=True), transient=True)


def note(text: str) -> None:
    """One line on stderr that ``-q`` leaves out."""
    if not Manners.quiet:
        complain(text)


def complain(text: str) -> None:
    """One line on stderr, whatever the text holds and whoever reads it."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    on_stderr(f"cachesim: {line}")


def on_stderr(line: str) -> None:
    """A line on stderr as it is, where there is one."""
    if sys.stderr is not None:
        with suppress(OSError):              # nobody is left to be told
            print(line, file=sys.stderr, flush=True)
