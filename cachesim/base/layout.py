"""Layout helpers of reports: wrapped and indented lines, tables that fit the width, shortened prompts."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

ROOMY = 100            # columns from which tables use wider spacing
NARROWEST = 12         # columns that a text needs at least, if it is that long
UNLIMITED = 10_000     # columns in which no cell of a report wraps
SCREEN = 80 * 24       # characters of a printed command, at most
EMPTY = frozenset({"", "-", "·"})
"""Cells without a value."""


class FittedRenderable:
    """Renderable that is built for the width of the console. ``make`` gets the width in columns."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.make(options.max_width)


def is_plain_line(text: Text) -> bool:
    """True if a text is a line that rich prints as it is where it fits: of a single style, without blanks at its ends
    and without characters to escape. Rich takes most of the time of a long report to find this out."""
    plain = text.plain
    return plain.isprintable() and plain == plain.strip(" ") and not text.spans and text.overflow != "ignore"


class IndentedText(Padding):
    """Text whose lines are all indented by ``by`` columns."""

    def __init__(self, text: Text, by: int) -> None:
        super().__init__(text, (0, 0, 0, by), expand=False)
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        fits = is_plain_line(text) and 0 < text.cell_len <= options.max_width - self.left
        if not fits or text.justify or options.justify:
            yield from super().__rich_console__(console, options)
            return
        yield Segment(" " * self.left)
        yield Segment(text.plain, console.get_style(text.style))
        yield Segment.line()


def indented(text: str | Text, style: str = "", by: int = 2) -> Padding:
    """Return a line whose continuation lines keep its indent. It wraps between words."""
    return IndentedText(Text(text, style) if isinstance(text, str) else text, by)


def as_typed(command: str, style: str = "", label: str = "", hint: str = "--json prints it") -> Text:
    """Return a command in a line that is never wrapped and never cut, so that it can be copied. ``label``: text before
    it; ``hint``: where to find a command that is longer than a screen, and is not printed."""
    if len(command) > SCREEN:
        return Text(f"{label}(a command of {len(command):,} characters: {hint})", style)
    return Text(f"{label}{command}", style, no_wrap=True, overflow="ignore")


class PlainCell(NamedTuple):
    """Cell that is a plain line: its text, the width of the text, the style of the text, and that around it."""

    plain: str
    width: int
    style: Style
    around: Style
    is_right: bool


class PlainColumn(NamedTuple):
    """Column of plain cells, its header included: their width, and the blanks before and after each."""

    cells: Sequence[PlainCell]
    width: int
    before: int
    after: int


class WholeTable(Table):
    """Table without borders that cuts no cell.

    Columns that are right-aligned or do not wrap are as wide as their widest cell. The texts of the others wrap. If
    that leaves less than ``NARROWEST`` columns for such a text, each row becomes pairs of heading and value, on as many
    lines as they need.
    """

    def __init__(
        self, *headers: Column | str, padding: tuple[int, int] | tuple[int, int, int, int] = (0, 1),
        show_header: bool = True, pad_edge: bool = True,
    ) -> None:
        super().__init__(*headers, box=None, padding=padding, show_header=show_header, pad_edge=pad_edge,
                         header_style="dim")  # fmt: skip

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.no_wrap = column.no_wrap or column.justify == "right"
        columns = [*self._plain_columns(console)]
        if len(columns) == len(self.columns) > 0 and self._plain_width(columns) <= options.max_width:
            yield from self._plain_rows(console, columns)
        elif self._needed(console, options) > options.max_width:
            yield from self._pairs(console, options)
        else:
            yield from super().__rich_console__(console, options)

    def _plain_columns(self, console: Console) -> Iterator[PlainColumn]:
        """Yield the columns up to the first one with a cell that is not a plain line."""
        top, right, bottom, left = self.padding
        for place, column in enumerate(self.columns):
            header = [column.header] if self.show_header else []
            style = console.get_style(self.header_style) + console.get_style(column.header_style)
            cells = [_plain_cell(cell, column, style, console) for cell in header]
            style = console.get_style(column.style)
            cells += [_plain_cell(cell, column, style, console) for cell in column.cells]
            plain = [cell for cell in cells if cell is not None]
            if top or bottom or len(plain) < len(cells):
                return
            before = left if place or self.pad_edge else 0
            after = right if place < len(self.columns) - 1 or self.pad_edge else 0
            width = max(*(cell.width for cell in plain), column.min_width or 0, 1 - before - after)
            yield PlainColumn(plain, width, before, after)

    def _plain_width(self, columns: Sequence[PlainColumn]) -> int:
        """Return the columns of the terminal that plain columns take, with the padding on the outer edges."""
        _, right, _, left = self.padding
        return sum(column.width + left + right for column in columns)

    def _plain_rows(self, console: Console, columns: Sequence[PlainColumn]) -> Iterator[Segment]:
        """Yield the lines of plain columns as rich prints them: parts without a style as a single text."""
        rows = zip(*(column.cells for column in columns), strict=True)
        for number, row in enumerate(rows, -1 if self.show_header else 0):
            row_style = console.get_style(self.get_row_style(console, number)) if number >= 0 else Style.null()
            plain = ""
            for cell, column in zip(row, columns, strict=True):
                blanks = " " * (column.width - cell.width)
                text = f"{blanks}{cell.plain}" if cell.is_right else f"{cell.plain}{blanks}"
                around = cell.around + row_style
                for part, style in ((" " * column.before, around), (text, around + cell.style),
                                    (" " * column.after, around)):  # fmt: skip
                    if not style:
                        plain += part
                    elif part:
                        yield Segment(plain)
                        yield Segment(part, style)
                        plain = ""
            yield Segment(plain)
            yield Segment.line()

    def _needed(self, console: Console, options: ConsoleOptions) -> int:
        """Return the columns that the table needs at least."""
        _, right, _, left = self.padding
        return sum(self._least(column, console, options) + left + right for column in self.columns)

    def _least(self, column: Column, console: Console, options: ConsoleOptions) -> int:
        """Return the columns that the cells of a column need at least, without padding."""
        roomy = options.update(max_width=UNLIMITED)
        cells = [*([column.header] if self.show_header else []), *column.cells]
        widest = max((console.measure(cell, options=roomy).maximum for cell in cells), default=0)
        return widest if column.no_wrap else min(widest, NARROWEST)

    def _pairs(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the lines of each row: its first cell, then as many pairs of heading and value on a line as fit."""
        for number, row in enumerate(self.rows):
            cells = [list(column.cells)[number] for column in self.columns]
            pairs = [_pair(column.header if self.show_header and place else "", cell)
                     for place, (column, cell) in enumerate(zip(self.columns, cells, strict=True))
                     if str(cell) not in EMPTY]  # fmt: skip
            lines: list[Text] = []
            for pair in pairs:
                if lines and lines[-1].cell_len + 2 + pair.cell_len <= options.max_width:
                    lines[-1] = Text.assemble(lines[-1], "  ", pair)
                else:
                    lines.append(Text.assemble("  " if lines else "", pair))
            style = row.style or ""
            yield from (Text.assemble(line, style=style) for line in lines)


def _plain_cell(cell: RenderableType, column: Column, around: Style, console: Console) -> PlainCell | None:
    """Return a cell as a plain line, None if it is another one. ``around``: style of the cell."""
    text = Text(cell) if isinstance(cell, str) else cell
    if not isinstance(text, Text) or not is_plain_line(text):
        return None
    justify = text.justify or column.justify
    if justify not in ("left", "right"):
        return None
    return PlainCell(text.plain, text.cell_len, console.get_style(text.style), around, justify == "right")


def _pair(header: RenderableType, cell: RenderableType) -> Text:
    """Return a heading and a value as a text that wraps nowhere but in the value."""
    value = cell if isinstance(cell, Text) else Text(str(cell))
    name = str(header)
    return Text.assemble((f"{name} ", "dim"), value) if name else value


def lean_table(width: int = 0) -> WholeTable:
    """Return a table without borders. Columns are 1 space apart, or 2 from a ``width`` of ``ROOMY`` columns on."""
    return WholeTable(padding=(0, 2 if width >= ROOMY else 1, 0, 0))


def block_bar(n: int, whole: int, width: int) -> str:
    """Return a bar of block characters for a share of a whole, in halves of a character. ``width``: characters of the
    whole. A share that is not 0 has half a character at least."""
    if whole <= 0 or n <= 0:
        return ""
    halves = max(1, round(2 * width * min(n, whole) / whole))
    return "█" * (halves // 2) + "▌" * (halves % 2)


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
