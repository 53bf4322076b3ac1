"""Layout helpers of reports: wrapped and indented lines, tables that fit the width, shortened prompts."""

from __future__ import annotations

from typing import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

ROOMY = 100            # columns from which tables use wider spacing


class Fitted:
    """Renderable that is built for the width of the console. ``make`` gets the width in columns."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.make(options.max_width)


def indented(text: str | Text, style: str = "", by: int = 2) -> Padding:
    """Return a line whose continuation lines keep its indent. It wraps between words."""
    return Padding(Text(text, style) if isinstance(text, str) else text, (0, 0, 0, by), expand=False)


def lean_table(width: int = 0) -> Table:
    """Return a table without borders. Columns are 1 space apart, or 2 from a ``width`` of ``ROOMY`` columns on."""
    return Table(box=None, padding=(0, 2 if width >= ROOMY else 1, 0, 0), header_style="dim", expand=False)


def shortened(text: str, most: int) -> str:
    """Return a prompt in notation words in at most ``most`` characters, without words of its middle."""
    if len(text) <= most:
        return text
    words = text.split(".")
    head, tail = "", ""
    while words and len(head) + len(tail) + len(words[0]) + 4 <= most:
        head += words.pop(0) + "."
        if words and len(head) + len(tail) + len(words[-1]) + 4 <= most:
            tail = "." + words.pop() + tail
    return f"{head}…{tail}" if head else f"{text[: most - 1]}…"
