"""Plots of numbers that are compared, as SVG: rows with bars or marks on one axis, points on two axes, grids of states.

``draw_plots`` makes a drawing of a given width, so that the text of a page has its size on every screen. The title of a
plot is its message. Every colour has a shape, a letter or a word beside it. Text is escaped; no external resource is
used.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from textwrap import wrap
from typing import Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.escaping import attribute, markup
from cachesim.tools.picture.legend import LETTERS, WORDS
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.plot_axis import Axis, AxisScale
from cachesim.tools.picture.position_scale import cut, text

WIDE, NARROW = 760, 340  # pixels of a drawing in a file, and of one for a phone
MARGIN = 12.0  # pixels around everything
DIGIT, TITLE_DIGIT = 7.3, 9.1  # pixels of a character of a text, and of a title
LINE, TITLE_LINE = 17.0, 20.0  # pixels between two lines of a text, and of a title
BAR, MARK = 18.0, 5.0  # height of a bar, and half a mark, in pixels
HIGH = 300.0  # height of a field of points in pixels
COLOURS = 5  # series with a colour and a shape of their own
SHORTEST = 240.0  # pixels that the axis of rows has at least if names stand beside it
LETTER = 14.0  # pixels of a part that has room for a letter
LEAST = 3.0  # pixels of a part that is not 0: its edge of 1 pixel on each side has the colour of the paper
TILE = 26.0  # height of a tile of a grid in pixels
MOST_ROWS = 60  # rows that a plot shows


class PlotPart(NamedTuple):
    """Part of a bar. ``kind``: an origin of tokens, which has a colour and a hatching, or the number of a colour."""

    kind: str
    value: float
    says: str


class PlotMark(NamedTuple):
    """Mark of a row. ``kind``: number of a colour, "before", "faint" or "bad"."""

    kind: str
    value: float
    says: str = ""


class PlotRow(NamedTuple):
    """A row: a bar that begins at ``start``, or marks, which a line connects. ``says`` stands beside it."""

    name: str
    says: str
    parts: Sequence[PlotPart] = ()
    marks: Sequence[PlotMark] = ()
    start: float = 0.0
    is_bad: bool = False


class PlotLine(NamedTuple):
    """A value of an axis as a line across the plot, with its label. ``is_limit``: what the user has, not a bound."""

    value: float
    says: str
    is_limit: bool = True


class LegendEntry(NamedTuple):
    """Meaning of a kind of part or mark."""

    kind: str
    says: str


class RowPlot(NamedTuple):
    """Rows on one axis. ``left_out``: a line about rows that are not shown."""

    title: str
    about: Sequence[str]
    axis: Axis
    rows: Sequence[PlotRow]
    lines: Sequence[PlotLine] = ()
    legend: Sequence[LegendEntry] = ()


class PlotPoint(NamedTuple):
    """A point. ``label`` stands beside it, "" = only the tooltip ``says``."""

    x: float
    y: float
    says: str
    label: str = ""


class PlotSeries(NamedTuple):
    """Points of a kind. ``joined``: "line" or "step" connects them, in their order."""

    name: str
    kind: str
    points: Sequence[PlotPoint]
    joined: str = ""


class PointPlot(NamedTuple):
    """Points on two axes. ``lines`` are values of the x axis, ``levels`` of the y axis, the lowest first; ``ticks``: x
    values without a point, as small lines at the axis, with ``ticks_say`` in the legend."""

    title: str
    about: Sequence[str]
    x: Axis
    y: Axis
    series: Sequence[PlotSeries]
    lines: Sequence[PlotLine] = ()
    levels: Sequence[PlotLine] = ()
    ticks: Sequence[float] = ()
    ticks_say: str = ""


class PlotTile(NamedTuple):
    """A state in a grid. ``kind``: "good", "bad", "open" or "none"; ``says``: its tooltip."""

    kind: str
    name: str
    says: str


class TileRow(NamedTuple):
    """A row of a grid. ``says`` stands below its name."""

    name: str
    says: str
    tiles: Sequence[PlotTile]


class GridPlot(NamedTuple):
    """Rows of states."""

    title: str
    about: Sequence[str]
    rows: Sequence[TileRow]
    legend: Sequence[LegendEntry] = ()


Plot = RowPlot | PointPlot | GridPlot


class DrawnPart(NamedTuple):
    """Elements, and the y below them."""

    body: str
    bottom: float


def plot_style() -> str:
    """Return the style of plots, and the hatchings of bars."""
    return f"<style>\n{asset(__file__, 'drawing.css')}\n{asset(__file__, 'plot.css')}\n</style>"


def draw_plots(plots: Sequence[Plot], width: int = WIDE, alone: bool = True, kind: str = "") -> str:
    """Return a drawing of plots, below each other. ``alone``: with style and hatchings; ``kind``: a class."""
    body, y = [], 0.0
    for number, plot in enumerate(plots):
        drawn = _plot(plot, y + MARGIN * bool(number), width)
        body.append(drawn.body)
        y = drawn.bottom
    high = y + MARGIN
    names = attribute("; ".join(plot.title for plot in plots))
    classes = f"cs {kind}".strip()
    head = (f'<svg class="{classes}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {high:.0f}" '
            f'width="{width}" height="{high:.0f}" role="img" aria-label="{names}">')  # fmt: skip
    style = plot_style() + asset(__file__, "patterns.svg") if alone else ""
    return f'{head}{style}<rect class="paper" width="{width}" height="{high:.0f}"/>{"".join(body)}</svg>\n'


def _plot(plot: Plot, y: float, width: float) -> DrawnPart:
    head = _heading(plot.title, plot.about, y, width)
    if isinstance(plot, RowPlot):
        drawn = _rows(plot, head.bottom, width)
    elif isinstance(plot, PointPlot):
        drawn = _points(plot, head.bottom, width)
    else:
        drawn = _grid(plot, head.bottom, width)
    return DrawnPart(head.body + drawn.body, drawn.bottom)


def _heading(title: str, about: Sequence[str], y: float, width: float) -> DrawnPart:
    """Return the message and the lines below it."""
    out = []
    y += MARGIN
    for line in wrap(title, int((width - 2 * MARGIN) / TITLE_DIGIT)):
        y += TITLE_LINE
        out.append(text(MARGIN, y - 4, line, "big"))
    for one in about:
        for line in wrap(one, _fitting(width - 2 * MARGIN)):
            y += LINE
            out.append(text(MARGIN, y - 4, line, "dim"))
    return DrawnPart("".join(out), y + 6)


def _fitting(width: float) -> int:
    """Return the characters of a text that fit into a width."""
    return max(8, int(width / DIGIT))


# --- Rows -----------------------------------------------------------------------------------------------------


def _rows(plot: RowPlot, y: float, width: float) -> DrawnPart:
    """Return rows, the names beside the axis if there is room, else above their bars."""
    rows = plot.rows[:MOST_ROWS]
    names = DIGIT * max((len(row.name) for row in rows), default=0)
    says = DIGIT * max((len(row.says) for row in rows), default=0)
    is_beside = width - names - says - 4 * MARGIN >= SHORTEST
    start = MARGIN + (names + MARGIN if is_beside else 0)
    stop = width - MARGIN - (says + MARGIN if is_beside else 4)
    ends = [row.start + sum(part.value for part in row.parts) for row in rows if row.parts]
    marks = [mark.value for row in rows for mark in row.marks]
    scale = AxisScale(plot.axis, [*ends, *marks, *(line.value for line in plot.lines)], start, stop)
    labels = _line_labels(plot.lines, scale, y, width)
    top = labels.bottom
    y = top + 4
    out = []
    above = []
    for row in rows:
        for line in () if is_beside else _row_text(row, width):
            y += LINE
            above.append(text(MARGIN, y - 6, line, "bad halo" if row.is_bad else "halo"))
        out.append(_row(row, scale, y, is_beside))
        y += BAR + 8
    if len(plot.rows) > MOST_ROWS:
        y += LINE
        out.append(text(MARGIN, y - 4, f"{len(plot.rows) - MOST_ROWS:,} more rows", "dim"))
    axis = _x_axis(scale, top, y)
    legend = _legend(plot.legend, axis.bottom, width, "bar" if any(row.parts for row in rows) else "mark")
    lines = _vertical(plot.lines, scale, top, y)
    return DrawnPart("".join([axis.body, *out, *lines, *above, labels.body, legend.body]), legend.bottom)


def _row_text(row: PlotRow, width: float) -> list[str]:
    """Return the lines of a row's name and numbers above its bar."""
    return wrap(f"{row.name}: {row.says}" if row.says else row.name, _fitting(width - 2 * MARGIN))


def _row(row: PlotRow, scale: AxisScale, y: float, is_beside: bool) -> str:
    kind = "bad" if row.is_bad else ""
    out = []
    if is_beside:
        out.append(text(scale.start - MARGIN, y + 13, row.name, f"end {kind}".strip()))
        out += [text(scale.stop + MARGIN, y + 13, row.says, kind)] if row.says else []
    at = row.start
    for part in row.parts:
        out.append(_part(part, scale.px(at), scale.px(at + part.value), y))
        at += part.value
    middle = y + BAR / 2
    for one, other in pairwise(sorted(mark.value for mark in row.marks)):
        out.append(f'<path class="leader" d="M{scale.px(one):g} {middle:g}H{scale.px(other):g}"/>')
    out += [shape(mark.kind, scale.px(mark.value), middle, mark.says or f"{row.name}: {scale.axis.says(mark.value)}")
            for mark in row.marks]  # fmt: skip
    return "".join(out)


def _part(part: PlotPart, left: float, right: float, y: float) -> str:
    kind = f"o-{part.kind}" if part.kind in LETTERS else f"m m-{part.kind}"
    width = max(right - left, LEAST if part.value else 0.0)
    letter = LETTERS.get(part.kind, "") if width >= LETTER else ""
    shown = text((left + right) / 2, y + 13, letter, "letter") if letter else ""
    box = f'<rect x="{left:g}" y="{y:g}" width="{width:.7g}" height="{BAR:g}" class="{kind}">'
    return f"{box}<title>{markup(part.says)}</title></rect>{shown}"


def shape(kind: str, x: float, y: float, says: str) -> str:
    """Return a mark at a place: each kind has its own shape. ``says``: its tooltip."""
    m = MARK
    paths = {
        "1": f"M{x - m:g} {y - m:g}h{2 * m:g}v{2 * m:g}h{-2 * m:g}z",
        "2": f"M{x:g} {y - m:g}l{m:g} {2 * m:g}h{-2 * m:g}z",
        "3": f"M{x:g} {y - m - 1:g}l{m + 1:g} {m + 1:g}l{-m - 1:g} {m + 1:g}l{-m - 1:g} {-m - 1:g}z",
        "4": f"M{x:g} {y + m:g}l{m:g} {-2 * m:g}h{-2 * m:g}z",
        "bad": f"M{x - m:g} {y - m + 2:g}l2 -2l{m - 2:g} {m - 2:g}l{m - 2:g} {2 - m:g}l2 2l{2 - m:g} {m - 2:g}"
               f"l{m - 2:g} {m - 2:g}l-2 2l{2 - m:g} {2 - m:g}l{2 - m:g} {m - 2:g}l-2 -2l{m - 2:g} {2 - m:g}z",
    }  # fmt: skip
    title = f"<title>{markup(says)}</title>" if says else ""
    if kind in paths:
        return f'<path class="m m-{kind}" d="{paths[kind]}">{title}</path>'
    radius = 3 if kind == "faint" else m
    return f'<circle class="m m-{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}">{title}</circle>'


# --- Points ---------------------------------------------------------------------------------------------------


class _Box(NamedTuple):
    """A rectangle that a label must not cover."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, box: _Box) -> bool:
        is_beside = box.right <= self.left or self.right <= box.left
        return not is_beside and self.top < box.bottom and box.top < self.bottom

    def holds(self, box: _Box) -> bool:
        is_between = self.left <= box.left and box.right <= self.right
        return is_between and self.top <= box.top and box.bottom <= self.bottom


def _points(plot: PointPlot, y: float, width: float) -> DrawnPart:
    points = [point for one in plot.series for point in one.points]
    out = [text(MARGIN, y + 12, cut(plot.y.name, _fitting(width - 2 * MARGIN)), "dim")]
    y += LINE + 2
    values = [*(point.y for point in points), *(level.value for level in plot.levels)]
    ticks = AxisScale(plot.y, values, 0, 1).ticks()
    left = MARGIN + DIGIT * max((len(tick.says) for tick in ticks), default=1) + 6
    xs = [*(point.x for point in points), *(line.value for line in plot.lines), *plot.ticks]
    across = AxisScale(plot.x, xs, left + 10, width - MARGIN - 14)
    labels = _line_labels(plot.lines, across, y, width)
    top = labels.bottom
    bottom = top + HIGH
    up = AxisScale(plot.y, values, bottom - 24, top + 12)
    for tick in up.ticks():
        out.append(f'<path class="grid" d="M{left:g} {tick.at:g}H{width - MARGIN:g}"/>')
        out.append(text(left - 6, tick.at + 4, tick.says, "end"))
    axis = _x_axis(across, top, bottom)
    out.append(axis.body)
    out.append(f'<path class="axis" d="M{left:g} {top:g}V{bottom:g}"/>')
    taken = [_Box(across.px(one.x) - MARK, up.px(one.y) - MARK, across.px(one.x) + MARK, up.px(one.y) + MARK)
             for one in points]  # fmt: skip
    out += _vertical(plot.lines, across, top, bottom)
    for number, level in enumerate(plot.levels):
        out.append(_level(level, up, left, width, is_below=not number))
        y = up.px(level.value)
        words = width - MARGIN - DIGIT * len(level.says)
        high = y - 16 if number else y
        taken += [_Box(left, y - 1, width, y + 1), _Box(words, high, width, high + 16)]
    out.append(labels.body)
    out += [f'<path class="axis" d="M{across.px(one):g} {bottom:g}v-7"/>' for one in plot.ticks]
    for one in plot.series:
        out += _series(one, across, up)
        taken += _step_boxes(one, across, up)
    field = _Box(left + 2, top + 2, width - 2, bottom - 2)
    for series in plot.series:
        for point in series.points:
            if point.label:
                out.append(_label(point, across, up, field, taken))
    entries = [LegendEntry(one.kind, one.name) for one in plot.series if one.name]
    entries += [LegendEntry("tick", plot.ticks_say)] if plot.ticks else []
    legend = _legend(entries, axis.bottom, width, "mark")
    return DrawnPart("".join([*out, legend.body]), legend.bottom)


def _level(level: PlotLine, up: AxisScale, left: float, width: float, is_below: bool) -> str:
    """Return a horizontal line with its label above or below it."""
    y = up.px(level.value)
    at = y + 14 if is_below else y - 4
    words = text(width - MARGIN, at, cut(level.says, _fitting(width - left - MARGIN)), "dim end halo")
    return f'<path class="level" d="M{left:g} {y:g}H{width - MARGIN:g}"/>{words}'


def _series(series: PlotSeries, across: AxisScale, up: AxisScale) -> Iterator[str]:
    """Yield the line of a series, then its marks."""
    places = [(across.px(point.x), up.px(point.y)) for point in series.points]
    if series.joined and places:
        steps = "".join(f"H{x:g}V{y:g}" if series.joined == "step" else f"L{x:g} {y:g}" for x, y in places[1:])
        yield f'<path class="step s-{series.kind}" d="M{places[0][0]:g} {places[0][1]:g}{steps}"/>'
    for point, (x, y) in zip(series.points, places, strict=True):
        yield shape(series.kind, x, y, point.says)


def _step_boxes(series: PlotSeries, across: AxisScale, up: AxisScale) -> Iterator[_Box]:
    """Yield the places of the lines of a step line."""
    if series.joined == "step":
        for one, other in pairwise(series.points):
            x, y, right, bottom = across.px(one.x), up.px(one.y), across.px(other.x), up.px(other.y)
            yield _Box(x, y - 2, right, y + 2)
            yield _Box(right - 2, min(y, bottom), right + 2, max(y, bottom))


def _label(point: PlotPoint, across: AxisScale, up: AxisScale, field: _Box, taken: list[_Box]) -> str:
    """Return a label at the first free place around its point, "" if there is none; its tooltip has the same words."""
    x = across.px(point.x)
    y = up.px(point.y)
    width = DIGIT * len(point.label)
    for far in (9.0, 24.0, 44.0):
        for left, top in ((x - width / 2, y - far - 14), (x + far, y - far - 8), (x - width - far, y - far - 8),
                          (x + far, y - 8), (x - width - far, y - 8), (x - width / 2, y + far),
                          (x + far, y + far - 8), (x - width - far, y + far - 8)):  # fmt: skip
            box = _Box(left, top, left + width, top + 15)
            if field.holds(box) and not any(box.meets(one) for one in taken):
                taken.append(box)
                end = min(max(x, box.left), box.right)
                line = f'<path class="leader" d="M{x:g} {y:g}L{end:.7g} {top + 8:g}"/>' if far > 9 else ""
                return line + text(left, top + 12, point.label, "halo")
    return ""


# --- Grids ----------------------------------------------------------------------------------------------------

SIGNS = {"good": "✓", "bad": "✗", "open": "?", "none": "·"}


def _grid(plot: GridPlot, y: float, width: float) -> DrawnPart:
    """Return the rows, each with its name above its tiles."""
    out = []
    for row in plot.rows:
        y += LINE
        out.append(text(MARGIN, y - 4, row.name))
        room = width - 2 * MARGIN - DIGIT * (len(row.name) + 2)
        if len(row.says) * DIGIT <= room:
            out.append(text(width - MARGIN, y - 4, row.says, "dim end"))
        else:
            for line in wrap(row.says, _fitting(width - 2 * MARGIN)):
                y += LINE
                out.append(text(MARGIN, y - 4, line, "dim"))
        x = MARGIN
        for tile in row.tiles:
            wide = DIGIT * (len(tile.name) + 3) + 10
            if x > MARGIN and x + wide > width - MARGIN:
                x, y = MARGIN, y + TILE + 4
            out.append(_tile(tile, x, y, min(wide, width - 2 * MARGIN)))
            x += wide + 6
        y += (TILE if row.tiles else 0) + 8
    legend = _legend(plot.legend, y, width, "tile")
    return DrawnPart("".join([*out, legend.body]), legend.bottom)


def _tile(tile: PlotTile, x: float, y: float, width: float) -> str:
    kind = "on-bad" if tile.kind == "bad" else ""
    name = cut(f"{SIGNS[tile.kind]} {tile.name}", _fitting(width - 8))
    box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{TILE:g}" rx="4" class="tile t-{tile.kind}"/>'
    words = text(x + 8, y + 17, name, kind)
    return f"<g><title>{markup(f'{tile.name}: {tile.says}')}</title>{box}{words}</g>"


# --- What plots share -----------------------------------------------------------------------------------------


def _x_axis(scale: AxisScale, top: float, bottom: float) -> DrawnPart:
    """Return the lines and labels of a horizontal axis below a plot, and its name."""
    out = [f'<path class="axis" d="M{scale.start - 4:g} {bottom:g}H{scale.stop + 4:g}"/>']
    end = -inf
    for tick in scale.ticks():
        half = DIGIT * len(tick.says) / 2
        out.append(f'<path class="grid" d="M{tick.at:g} {top:g}V{bottom:g}"/>')
        out.append(f'<path class="axis" d="M{tick.at:g} {bottom:g}v4"/>')
        if tick.at - half > end:
            out.append(text(tick.at, bottom + 17, tick.says, "mid"))
            end = tick.at + half + DIGIT
    out.append(text((scale.start + scale.stop) / 2, bottom + 35, scale.axis.name, "dim mid"))
    return DrawnPart("".join(out), bottom + 40)


def _line_labels(lines: Sequence[PlotLine], scale: AxisScale, y: float, width: float) -> DrawnPart:
    """Return the labels of vertical lines, each in a line of its own, on the side with more room."""
    out = []
    for line in lines:
        y += LINE
        x = scale.px(line.value)
        is_left = x > width / 2
        room = x - MARGIN if is_left else width - MARGIN - x
        words = cut(line.says, _fitting(room + DIGIT))
        out.append(text(x + (-4 if is_left else 4), y - 4, words, "end" if is_left else "start"))
    return DrawnPart("".join(out), y + 2)


def _vertical(lines: Sequence[PlotLine], scale: AxisScale, top: float, bottom: float) -> Iterator[str]:
    """Yield vertical lines, each up to its label."""
    for number, line in enumerate(lines):
        high = top - 2 - LINE * (len(lines) - number - 1) - 12
        kind = "limit" if line.is_limit else "level"
        yield f'<path class="{kind}" d="M{scale.px(line.value):g} {high:g}V{bottom:g}"/>'


def _legend(entries: Iterable[LegendEntry], y: float, width: float, form: str) -> DrawnPart:
    """Return the meaning of colours and shapes, on as many lines as they need. ``form``: "bar", "mark" or "tile"."""
    out = list[str]()
    x = MARGIN
    end = y + 6
    for one in entries:
        lines = wrap(one.says, _fitting(width - 2 * MARGIN - 20))
        wide = 34 + DIGIT * max(map(len, lines), default=0)
        if not out or (x > MARGIN and (x + wide > width - MARGIN or len(lines) > 1)):
            x, y = MARGIN, end
        out.append(_sign(one.kind, x + 7, y + LINE - 8, form))
        out += [text(x + 20, y + LINE * number - 4, line) for number, line in enumerate(lines, 1)]
        x = x + wide if len(lines) == 1 else width
        end = max(end, y + LINE * len(lines))
    return DrawnPart("".join(out), end)


def _sign(kind: str, x: float, y: float, form: str) -> str:
    box = f'x="{x - 7:g}" y="{y - 7:g}" width="14" height="14"'
    if kind in LETTERS:
        return f'<rect {box} class="o-{kind}"/>{text(x, y + 4, LETTERS[kind], "letter")}'
    if kind == "tick":
        return f'<path class="axis" d="M{x:g} {y + 4:g}v-8"/>'
    if form == "mark":
        return shape(kind, x, y, "")
    return f'<rect {box} class="{f"tile t-{kind}" if form == "tile" else f"m m-{kind}"}"/>'


def origin_legend(kinds: Iterable[str]) -> list[LegendEntry]:
    """Return the meaning of these origins of tokens, in the words of the other pictures."""
    return [LegendEntry(kind, WORDS[kind]) for kind in dict.fromkeys(kinds)]
