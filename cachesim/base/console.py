"""Output functions: results go to stdout, errors and notes to stderr. JSON carries its schema number.

All of them escape the control characters of the text that they print (``escaping``): whatever a scenario, a log or a
server contains, only cachesim moves the cursor and sets colours.
"""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, TypeVar

from cachesim.base.ending import interrupt_ignored
from cachesim.base.errors import stdout_errors
from cachesim.base.escaping import printable_line, terminal_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

SCHEMA = 1
WIDTH = 80
T = TypeVar("T")


class OutputOptions:
    """Output options of the command line, for the whole process."""

    colour = "auto"     # "auto" (on a terminal), "always" or "never"
    quiet = False       # only results and errors
    columns = WIDTH     # width if stdout is not a terminal
    pager: Sequence[str] = ()      # words of the command that shows long lists page by page, () = none


def say(text: str) -> None:
    """Print a result on stdout. Raise BadInput if stdout cannot be written."""
    with stdout_errors():
        print(terminal_text(text))


def ask(prompt: str) -> str | None:
    """Print a prompt and return the typed line, stripped and in lower case; None at the end of the input. After Ctrl-C
    and at the end of the input, the cursor is moved to a new line."""
    with stdout_errors():
        print(terminal_text(prompt), end="", flush=True)
    try:
        stream = getattr(sys.stdin, "buffer", None)          # undecodable bytes must not raise
        line = sys.stdin.readline() if stream is None else stream.readline().decode(errors="replace")
    except KeyboardInterrupt:
        say("")
        raise
    if not line.endswith("\n"):
        say("")
    return line.strip().lower() if line else None


def say_json(data: Mapping[str, Any]) -> None:
    """Print a result as JSON with its schema number on stdout. Raise BadInput if stdout cannot be written."""
    say(json.dumps({"schema": SCHEMA, **data}))


def show(*parts: RenderableType, width: int | None = None) -> None:
    """Print tables and text on stdout, as wide as the terminal, and flush them: a reader has them while the command
    works on. If stdout is not a terminal: ``width`` columns, else $COLUMNS, else 80. Raise BadInput if stdout cannot be
    written."""
    console = stdout_console(width)
    with stdout_errors():
        for part in parts:
            if sys.stdout.isatty():
                console.print(part, crop=False)
            else:
                sys.stdout.write(_captured(console, part))
        sys.stdout.flush()


def _captured(console: Console, *parts: RenderableType) -> str:
    """Return what a console prints, as it would be typed: without the blanks that fill lines up."""
    with console.capture() as capture:
        for part in parts:
            console.print(part, crop=False)
    return _FILLED.sub(lambda found: found[0].replace(" ", ""), capture.get())


_FILLED = re.compile(r"(?:[ ]|\x1b\[[0-9;]*m)+$", re.MULTILINE)       # blanks and colours at the end of a line


def show_paged(*parts: RenderableType) -> None:
    """Print like ``show``. On a terminal the text goes through the user's pager; without that program, it is
    printed."""
    if not OutputOptions.pager or not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        show(*parts)
        return
    import subprocess

    text = _captured(stdout_console(), *parts)
    with interrupt_ignored():                   # most pagers go on after Ctrl-C, and share the terminal
        try:
            process = subprocess.Popen(OutputOptions.pager, stdin=subprocess.PIPE)
        except OSError:
            show(*parts)
            return
        with suppress(BrokenPipeError):         # the reader quit
            process.communicate(text.encode())
        process.wait()


def stdout_console(width: int | None = None) -> Console:
    """Return a console on stdout, as ``show`` uses it, for tables that change while they are shown."""
    return _console_class()(
        width=None if sys.stdout.isatty() else width or OutputOptions.columns, **_PLAIN,
        force_terminal=True if OutputOptions.colour == "always" else None,
        no_color={"never": True, "always": False}.get(OutputOptions.colour),        # None: as $NO_COLOR says
    )


def as_text(*parts: RenderableType) -> str:
    """Return tables and text as a string, ``WIDTH`` columns wide, without colours."""
    console = _console_class()(width=WIDTH, file=io.StringIO(), force_terminal=False, **_PLAIN)
    return "\n".join(line.rstrip() for line in _captured(console, *parts).splitlines())


_PLAIN: Mapping[str, Any] = {"highlight": False, "markup": False, "emoji": False}      # a text is printed as it is
_FLAG = re.compile(r"(?<!\S)[(\"']?--?[A-Za-z][\w-]*( )(?=(\S+))")                       # a flag and its value
_JOINED = "\ufdd0"        # a noncharacter of Unicode, which stands for a blank at which a line does not break


def _joined(text: Text, width: int) -> Text:
    """Return a text whose flags are joined with their values, as far as both fit a line."""
    plain = text.plain
    at = [found.start(1) for found in _FLAG.finditer(plain) if len(found[0]) + len(found[2]) <= width]
    if not at:
        return text
    signs = list(plain)
    for place in at:
        signs[place] = _JOINED
    copy = text.copy()
    copy.plain = "".join(signs)
    return copy


def _with_blanks(segment: Segment) -> Segment:
    """Return a segment of a line with the blanks that were joined."""
    return segment._replace(text=segment.text.replace(_JOINED, " ")) if _JOINED in segment.text else segment


@cache
def _console_class() -> type[Console]:
    """Return the class of the consoles. It is defined on demand because rich takes long to import."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Span, Text

    from cachesim.base.layout import is_plain_line

    class EscapingConsole(Console):
        """Console that escapes the control characters of texts, and breaks no line between a flag and its value. Raise
        BrokenPipeError, which the command line turns into an exit code."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            if isinstance(renderable, str):
                renderable = Text(renderable)
            if not isinstance(renderable, Text):
                return super().render(renderable, options)
            options = options or self.options
            text = escaped(renderable)
            line = single_line(text, options)
            if line is not None:
                return [Segment(line, self.get_style(text.style) if text.style else None), Segment(text.end)]
            return map(_with_blanks, super().render(_joined(text, options.max_width), options))

    def single_line(text: Text, options: ConsoleOptions) -> str | None:
        """Return the line that a text of a single style fills, justified; None if rich must wrap or divide it, which
        takes most of the time of a long report."""
        plain = text.plain
        blanks = options.max_width - cell_len(plain)
        if not plain or not is_plain_line(text) or blanks < 0 or options.overflow == "ignore":
            return None
        padded = {"default": plain, "left": plain + " " * blanks, "right": " " * blanks + plain}
        return padded.get(text.justify or options.justify or "default")

    def escaped(text: Text) -> Text:
        """Return a text with escaped control characters; each character keeps its style."""
        plain = text.plain
        shown = terminal_text(plain)
        if shown == plain:
            return text
        at = [*accumulate((len(terminal_text(sign)) for sign in plain), initial=0)]
        copy = text.blank_copy(shown)
        copy.spans = [Span(at[start], at[min(end, len(plain))], style) for start, end, style in text.spans]
        return copy

    return EscapingConsole


def note(text: str) -> None:
    """Print a line on stderr unless ``-q`` was given."""
    if not OutputOptions.quiet:
        complain(text)


def complain(text: str) -> None:
    """Print a single line on stderr. Ignores a closed stderr."""
    on_stderr(f"cachesim: {printable_line(text)}")


def on_stderr(text: str) -> None:
    """Print a text on stderr without a prefix, if stderr exists."""
    if sys.stderr is not None:
        with suppress(OSError):              # stderr is closed
            print(terminal_text(text), file=sys.stderr)
