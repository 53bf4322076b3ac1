"""Plots as text for a terminal: a row of block characters for each row or point, a sign for each state of a grid."""

from __future__ import annotations

from typing import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from cachesim.base.layout import WholeTable, block_bar, indented
from cachesim.tools.picture.plot import (
    MOST_ROWS,
    SIGNS,
    GridPlot,
    LegendEntry,
    Plot,
    PlotLine,
    PlotRow,
    PointPlot,
    RowPlot,
)
from cachesim.tools.picture.plot_axis import AxisScale

BAR = 32  # characters of the axis
SHORT = 20  # characters of numbers that stand aligned
CHARACTER = 8  # pixels of a character, for the places that an axis keeps free
FILLS = {"again": "█", "evaluated": "▓", "generated": "▓", "1": "▓", "2": "▒", "3": "░", "0": "█", "4": "█"}
KEPT = "░"  # tokens that are not evaluated, from any source
MARKS = {"before": "○", "0": "●", "1": "■", "2": "▲", "3": "◆", "4": "▼", "faint": "·", "bad": "✗"}
STYLES = {"good": "green", "bad": "red", "open": "yellow", "none": "dim"}


def plot_text(plots: Sequence[Plot]) -> Iterator[RenderableType]:
    """Yield the lines of plots, an empty line between two plots."""
    for number, plot in enumerate(plots):
        if number:
            yield Text("")
        yield Text(plot.title, "bold")
        for line in plot.about:
            yield Text(line, "dim")
        if isinstance(plot, RowPlot):
            yield from _rows(plot)
        elif isinstance(plot, PointPlot):
            yield from _points(plot)
        else:
            yield from _grid(plot)


def _rows(plot: RowPlot) -> Iterator[RenderableType]:
    ends = [row.start + sum(part.value for part in row.parts) for row in plot.rows if row.parts]
    marks = [mark.value for row in plot.rows for mark in row.marks]
    values = [*ends, *marks, *(line.value for line in plot.lines)]
    scale = AxisScale(plot.axis, values, 0, BAR * CHARACTER)
    is_short = all(len(row.says) <= SHORT for row in plot.rows)
    table = _table(Column(), Column(justify="right" if is_short else "left"), Column(no_wrap=True))
    yield Text(f"bars: {plot.axis.name}", "dim")
    for row in plot.rows[:MOST_ROWS]:
        style = "red" if row.is_bad else ""
        table.add_row(Text(row.name, style), Text(row.says, style), Text(_bar(row, scale), style or "cyan"))
    yield table
    yield from _left_out(len(plot.rows) - MOST_ROWS, "row")
    yield from _lines(plot.lines)
    yield from _legend(plot.legend, MARKS if marks else FILLS)


def _bar(row: PlotRow, scale: AxisScale) -> str:
    """Return the parts of a row, or its marks on a line."""
    signs = [" "] * (BAR + 1)
    at = row.start
    for part in row.parts:
        first = _place(at, scale)
        at += part.value
        last = max(first + 1, _place(at, scale)) if part.value else first
        signs[first:last] = FILLS.get(part.kind, KEPT) * (last - first)
    places = [_place(mark.value, scale) for mark in row.marks]
    if places:
        signs[min(places) : max(places)] = "─" * (max(places) - min(places))
    for mark, place in zip(row.marks, places, strict=True):
        signs[place] = MARKS[mark.kind]
    return "".join(signs).rstrip()


def _table(*columns: Column) -> WholeTable:
    return WholeTable(*columns, show_header=False, pad_edge=False)


def _place(value: float, scale: AxisScale) -> int:
    """Return the character of a number on an axis."""
    return round(scale.px(value) / CHARACTER)


def _points(plot: PointPlot) -> Iterator[RenderableType]:
    """Yield the points as bars of their y value. Small points are counted if there are others."""
    shown = [series for series in plot.series if series.kind != "faint"] or plot.series
    points = [(series, point) for series in shown for point in series.points]
    most = max((point.y for _, point in points), default=0.0)
    table = _table(Column(), Column(no_wrap=True), Column())
    yield Text(f"bars: {plot.y.name.replace(', log]', ']')}, from 0", "dim")
    for series, point in points[:MOST_ROWS]:
        bar = block_bar(round(1000 * point.y), round(1000 * most), BAR)
        style = "red" if series.kind == "bad" else "cyan"
        table.add_row(MARKS[series.kind], Text(bar, style), point.says or f"{plot.x.says(point.x)}: {point.y:g}")
    yield table
    hidden = sum(len(series.points) for series in plot.series if series not in shown)
    yield from _left_out(len(points) - MOST_ROWS, "point")
    yield from _left_out(hidden, "point")
    yield from _lines([*plot.levels, *plot.lines])
    yield from _legend([LegendEntry(one.kind, one.name) for one in shown if one.name], MARKS)


def _grid(plot: GridPlot) -> Iterator[RenderableType]:
    for row in plot.rows:
        yield Text.assemble(row.name, (f"  {row.says}" if row.says else "", "dim"))
        tiles = [(f"{SIGNS[tile.kind]} {tile.name}", STYLES[tile.kind]) for tile in row.tiles]
        yield indented(Text("   ").join(Text(says, style) for says, style in tiles))
    yield from _legend(plot.legend, SIGNS)


def _left_out(number: int, what: str) -> Iterator[Text]:
    """Yield a line about rows that are not shown."""
    if number > 0:
        yield Text(f"{number:,} more {what}{'s' * (number > 1)}; a file shows them (--plot FILE.svg)", "dim")


def _lines(lines: Sequence[PlotLine]) -> Iterator[Text]:
    """Yield what the lines across a plot say."""
    for line in lines:
        yield Text(f"| {line.says}", "" if line.is_limit else "dim")


def _legend(entries: Sequence[LegendEntry], signs: dict[str, str]) -> Iterator[Text]:
    """Yield the meaning of fills, marks or signs in one text."""
    if entries:
        yield Text("   ".join(f"{signs.get(one.kind, KEPT)} {one.says}" for one in entries), "dim")
