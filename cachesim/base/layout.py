"""What reports share in layout: lines that wrap behind their indent, tables as wide as there is room, short names."""

from __future__ import annotations

from typing import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

ROOMY = 100            # columns from which on tables are set wider


class Fitted:
    """Something that is made for the width of the console."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.make(options.max_width)


def indented(text: str | Text, style: str = "", by: int = 2) -> Padding:
    """A line that goes on behind its indent where it is too long, never in the middle of a word."""
    return Padding(Text(text, style) if isinstance(text, str) else text, (0, 0, 0, by), expand=False)


def lean_table(width: int = 0) -> Table:
    """A table without lines; columns a space apart, two where the console of this ``width`` has room for it."""
    return Table(box=None, padding=(0, 2 if width >= ROOMY else 1, 0, 0), header_style="dim", expand=False)


def shortened(text: str, most: int) -> str:
    """Words of a prompt, without those in its middle where it is longer than ``most``."""
    if len(text) <= most:
        return text
    words = text.split(".")
    head, tail = "", ""
    while words and len(head) + len(tail) + len(words[0]) + 4 <= most:
        head += words.pop(0) + "."
        if words and len(head) + len(tail) + len(words[-1]) + 4 <= most:
            tail = "." + words.pop() + tail
    return f"{head}…{tail}" if head else f"{text[: most - 1]}…"
