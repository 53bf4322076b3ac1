"""Terminal reports as HTML: the same texts and tables, so that no sentence has a second form. Text is escaped.

Bold lines become headings, lines that never wrap (commands) become code, and the styles of parts become classes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Container, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.base.escaping import markup
from cachesim.base.layout import ROOMY, FittedRenderable

STYLES = {"bold": "t-bold", "dim": "t-dim", "red": "t-red", "yellow": "t-yellow", "green": "t-green"}
"""Classes of the styles that a page shows."""
ROWS = 2_000           # parts of a report on a page


def report_html(report: RenderableType, name: str, without: Container[str] = ()) -> str:
    """Return a report as HTML, at most ``ROWS`` lines and tables of it. ``name``: what its tables are called.
    ``without``: lines that the page has already."""
    out = list[str]()
    for part in _flat([report]):
        if isinstance(part, Text) and part.plain in without:
            continue
        if len(out) == ROWS:
            out.append("<p>…</p>")
            break
        out.append(_html(part, f"{name}, table {len(out)}"))
    return "".join(out)


def _flat(parts: Iterable[RenderableType]) -> Iterator[Text | Table]:
    """Yield the texts and tables of a report, without empty lines. A padded text keeps its style."""
    for part in parts:
        if isinstance(part, Group):
            yield from _flat(part.renderables)
        elif isinstance(part, Padding):
            yield from _flat([part.renderable])
        elif isinstance(part, FittedRenderable):
            yield from _flat([part.make(ROOMY)])
        elif isinstance(part, Table):
            yield part
        elif isinstance(part, Text | str):
            text = part if isinstance(part, Text) else Text(part)
            yield from (line for line in text.split("\n") if line.plain.strip())


def _html(part: Text | Table, name: str) -> str:
    if isinstance(part, Table):
        return f'<div class="table" tabindex="0" role="region" aria-label="{name}">{_table(part)}</div>'
    if part.no_wrap:
        return f'<pre tabindex="0"><code>{markup(part.plain.strip())}</code></pre>'
    tag = "h2" if part.style == "bold" and not part.spans else "p"
    quoted = ' class="quoted"' if tag == "p" and part.plain.startswith(" ") else ""
    return f"<{tag}{quoted}>{spans_html(part)}</{tag}>"


def spans_html(text: Text) -> str:
    """Return a text with its styles as classes of spans."""
    edges = sorted({0, len(text), *(edge for span in text.spans for edge in (span.start, span.end))})
    out = list[str]()
    for start, stop in pairwise(edges):
        inside = [str(span.style) for span in text.spans if span.start <= start and stop <= span.end]
        kinds, shown = _kinds(str(text.style), *inside), markup(text.plain[start:stop])
        out.append(f"<span{kinds}>{shown}</span>" if kinds else shown)
    return "".join(out)


def _table(table: Table) -> str:
    """Return a table with its heads. Cells aligned at the right stay so."""
    columns = [[_cell(cell) for cell in column.cells] for column in table.columns]
    ends = [' class="end"' if column.justify == "right" else "" for column in table.columns]
    head = _row("th", map(_cell, (column.header for column in table.columns)), ends) if table.show_header else ""
    body = "".join(_row("td", cells, ends, str(row.style or "")) for cells, row in
                   zip(zip(*columns, strict=True), table.rows, strict=True))  # fmt: skip
    return f"<table>{head}{body}</table>"


def _row(tag: str, cells: Iterable[str], ends: list[str], style: str = "") -> str:
    each = "".join(_placed(tag if cell else "td", end, cell) for cell, end in zip(cells, ends, strict=True))
    return f"<tr{_kinds(style)}>{each}</tr>"


def _placed(tag: str, end: str, cell: str) -> str:
    """Return a cell as an element."""
    return f"<{tag}{end}>{cell}</{tag}>"


def _kinds(*styles: str) -> str:
    """Return the attribute with the classes of these styles, "" without any."""
    kinds = [kind for style, kind in STYLES.items() if any(style in one.split() for one in styles)]
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _cell(cell: RenderableType) -> str:
    return spans_html(cell) if isinstance(cell, Text) else markup(str(cell))
