"""Legend of a drawing: the meaning of the colours and signs that occur in it; also the drawing of a slot's memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Container, Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.escaping import markup
from cachesim.tools.picture.block_cells import cell_signs
from cachesim.tools.picture.position_scale import BAR, STEP, STRIP, PositionScale, text
from cachesim.tools.picture.scene import ForeignRead, Scene, SlotMemory, StepRow
from cachesim.tools.picture.slot_lanes import Lanes
from cachesim.tools.picture.tree_cells import tree_signs

# Memory below the tokens of a request: the slot's contents, and the data that a wrong answer read.

CELL = 8.0                   # pixels of a cell of attention, if the rows are wide enough
FURTHER, ROOM = 11.0, 9.0    # y of index rows and compressed rows below the tokens, and pixels for all their lines
EACH = 8                     # maximum number of checkpoints with separate tooltips
STATE = 6.0                  # minimum width in pixels of a wrongly read state or row
NAME = 190.0                 # pixels of a label


def memory(held: SlotMemory, scale: PositionScale, y: float, scene: Scene) -> Iterator[str]:
    """Yield the attention rows as cells, the window's rows, the index rows as dots, the compressed rows as long cells,
    the position of the recurrent state, and checkpoints."""
    if held.rows is not None:
        yield _bar("rows", held.rows, scale, y + 2, "attention rows: any of them can be removed")
    if held.window is not None:
        first, last = held.window[0], held.window[1] - 1
        yield _bar("win", held.window, scale, y + 6.5, f"window: rows {first} to {last}; earlier rows are gone")
    if held.index_rows is not None:
        first, last = held.index_rows[0], held.index_rows[1] - 1
        says = f"index rows {first} to {last}: by them a token chooses the rows that it reads"
        yield _dots(held.index_rows, scale, y + FURTHER, says)
    for number, rows in enumerate(held.compressed):
        span = (0, rows.ratio * rows.rows)
        says = f"{rows.says}: a row is hidden or shown by its number, and cannot be computed again from itself"
        yield _bar("packed", span, scale, y + FURTHER + number * pitch(scene.strips), says, rows.rows, 2)
    y += lowered(scene.strips)
    if held.state is not None:
        x = scale.px(held.state)
        says = f"{scene.state} after {held.state} tokens: cannot be rolled back"
        yield f'<circle class="dot" cx="{x:g}" cy="{y + 13:g}" r="4"><title>{says}</title></circle>'
    if held.checkpoints:
        yield f'<g class="mark">{"".join(_marks(held, scale, y + 26, scene.keeps))}</g>'


def _marks(held: SlotMemory, scale: PositionScale, y: float, keeps: str) -> Iterator[str]:
    """Yield triangles, each with a tooltip; for more than ``EACH`` checkpoints a single path with a common tooltip."""
    if len(held.checkpoints) > EACH:
        spans = [f" [{low}, {high}]" for low, high in held.spans] or [""] * len(held.checkpoints)
        every = ", ".join(f"{mark}{span}" for mark, span in zip(held.checkpoints, spans, strict=True))
        says = f"{keeps}s, length in tokens{' and [pos_min, pos_max]' * bool(held.spans)}: {every}"
        at = [scale.px(mark) for mark in held.checkpoints]
        places = f"M{at[0] - 4:g} {y:g}h8l-4 -8z"
        places += "".join(f"m{round(b - a, 1):g} 0h8l-4 -8z" for a, b in pairwise(at))
        yield f'<path d="{places}"><title>{says}</title></path>'
        return
    for number, mark in enumerate(held.checkpoints):
        span = f", [pos_min {held.spans[number][0]}, pos_max {held.spans[number][1]}]" if held.spans else ""
        says = f"{keeps} of {mark} tokens{span}"
        yield f'<path d="M{scale.px(mark) - 4:g} {y:g}h8l-4 -8z"><title>{says}</title></path>'


def pitch(strips: int) -> float:
    """Return the distance between the lines of index rows and compressed rows in pixels."""
    return min(4.5, ROOM / max(1, strips))


def lowered(strips: int) -> float:
    """Return how far these lines push down the state and the checkpoints, in pixels."""
    return strips * pitch(strips)


def _dots(rows: tuple[int, int], scale: PositionScale, y: float, title: str) -> str:
    """Return a dotted line."""
    line = f'd="M{scale.px(rows[0]):g} {y + 1.5:g}H{scale.px(rows[1]):g}" stroke-dasharray="2 2"'
    return f'<path class="idx" {line}><title>{markup(title)}</title></path>'


def _bar(
    name: str, span: tuple[int, int], scale: PositionScale, y: float, title: str, count: int = 0, gap: int = 1
) -> str:
    """Return a bar of cells over a span of positions: a cell for each of ``count`` rows (0 = one for each position) if
    there is room, else wider cells. ``gap``: pixels between them."""
    a, b = scale.px(span[0]), scale.px(span[1])
    wide = max(1.0, b - a)
    each = wide / max(1, min(count or span[1] - span[0], int(wide / CELL) or 1))
    line = f'd="M{a:g} {y + 1.5:g}H{a + wide:g}" stroke-dasharray="{max(each - gap, 0.5):.2f} {gap}"'
    return f'<path class="{name}" {line}><title>{markup(title)}</title></path>'


def foreign(row: StepRow, scale: PositionScale, y: float, top: float, named: set[tuple[int, int]]) -> Iterator[str]:
    """Draw the data that a wrong answer read: hatched positions, and an arrow to the request they belong to. ``named``:
    sources that have a label already, in this row and above; new labels are added. Labels too close to another are
    omitted."""
    for number, read in enumerate(row.foreign):
        a, b = scale.px(max(0, read.start)), scale.px(max(0, read.stop))
        if b - a < STATE:                                  # a state is drawn at the end of its tokens
            a, b = max(scale.left, b - STATE), max(scale.left + STATE, b)
        box = f'x="{a:.1f}" y="{y:.1f}" width="{b - a:.1f}" height="{BAR}"'
        yield f'<g><title>{markup(read.says)}</title><rect {box} fill="url(#p-wrong)"/>'
        yield f'<rect class="wrong" {box}/>'
        if 0 <= read.request < row.number:
            up = top + read.request * STEP + BAR + STRIP
            yield _source(read, scale, a + 3 + 5 * number, y, up, named)
        yield "</g>"


def _source(read: ForeignRead, scale: PositionScale, x: float, y: float, up: float, named: set[tuple[int, int]]) -> str:
    to = scale.px(max(0, read.theirs))
    near = any(row == read.request and abs(scale.px(other) - to) < NAME for row, other in named)
    label = "" if near else f"request {read.request}, position {read.theirs}"
    if label:
        named.add((read.request, max(0, read.theirs)))
    line = f'M{x:.1f} {y:.1f}V{up + 12:.1f}L{to:.1f} {up:.1f}m-4 6l4 -6l4 6'
    return f'<path class="wrong" d="{line}"/>' + (text(to + 6, up + 8, label, "bad halo") if label else "")


WIDE, HIGH, BETWEEN = 24, 14, 20  # pixels of a sign, and between two signs
LETTER = 7.3                  # pixels of a character

LETTERS = dict(kept="K", reused="U", restored="R", loaded="L", evaluated="E", again="!", generated="g", moved="M")
WORDS = {
    "kept": "kept in the slot", "reused": "reused, source unknown",
    "restored": "restored from a checkpoint", "loaded": "loaded from the prompt cache",
    "evaluated": "evaluated, new", "moved": "kept at other positions",
    "again": "evaluated again", "generated": "generated",
}  # fmt: skip


def origin_text(origin: str, scene: Scene) -> str:
    """Return the meaning of an origin. Requests may share one cache."""
    return "loaded from the shared cache" if origin == "loaded" and scene.has_pool else WORDS[origin]


class LegendSign(NamedTuple):
    """A sign of the legend: its SVG with the upper left corner at 0, 0, its meaning, and classes of that text."""

    drawn: str
    says: str
    kind: str = "dim"


def legend(y: float, scene: Scene, lanes: Lanes, scale: PositionScale, wide: float) -> tuple[str, float]:
    """Return the legend from ``y`` on in lines ``wide`` pixels long, and its height."""
    x = 12.0
    top = y
    out = list[str]()
    for sign in _signs(scene, lanes, scale):
        long = WIDE + 6 + LETTER * len(sign.says)
        if x > 12 and x + long > wide:
            x, y = 12.0, y + 20
        out.append(f'<g transform="translate({x:g} {y:g})">{sign.drawn}{text(WIDE + 6, 11, sign.says, sign.kind)}</g>')
        x += round(long + BETWEEN, 1)
    return "".join(out), y - top + 28


def legend_list(scene: Scene, lanes: Lanes, scale: PositionScale) -> str:
    """Return the legend as a list of HTML, which wraps."""
    return _list(_signs(scene, lanes, scale))


def origins_list(scenes: Sequence[Scene], origins: Container[str]) -> str:
    """Return the legend of these origins of tokens as a list of HTML."""
    return _list(_origin_sign(one, scenes) for one in WORDS if one in origins)


def _list(signs: Iterable[LegendSign]) -> str:
    box = f'<svg class="cs" width="{WIDE}" height="{HIGH}" aria-hidden="true">'
    rows = (f"<li>{box}{sign.drawn}</svg> {markup(sign.says)}</li>" for sign in signs)
    return f'<ul class="legend">{"".join(rows)}</ul>'


def _origin_sign(origin: str, scenes: Sequence[Scene]) -> LegendSign:
    letter = text(WIDE / 2, 11, LETTERS[origin], "letter")
    says = " / ".join(dict.fromkeys(origin_text(origin, scene) for scene in scenes))
    return LegendSign(f'<rect width="{WIDE}" height="{HIGH}" class="o-{origin}"/>{letter}', says)


def _rows_signs(held: Sequence[SlotMemory]) -> Iterator[tuple[bool, str, str, str]]:
    """Yield the signs of rows: True if it occurs, its text, its colour, its drawing."""
    line = f'd="M0 7H{WIDE}" stroke-dasharray'
    yield any(has.rows is not None for has in held), "attention rows", "dim", f'<path class="rows" {line}="7 1"/>'
    yield any(has.window is not None for has in held), "rows of the window", "dim", f'<path class="win" {line}="7 1"/>'
    yield any(has.index_rows is not None for has in held), "index rows", "dim", f'<path class="idx" {line}="2 2"/>'
    yield any(has.compressed for has in held), "compressed rows", "dim", f'<path class="packed" {line}="10 2"/>'


def _signs(scene: Scene, lanes: Lanes, scale: PositionScale) -> Iterator[LegendSign]:
    """Yield the signs that occur: origins of tokens, wrong answers, contents of slots and prompt cache, the rest."""
    parts = [(row, part) for row in scene.rows for part in row.stretches]
    for origin in WORDS:
        if any(part.origin == origin for _, part in parts):
            yield _origin_sign(origin, [scene])
    held, reads = [row.memory for row in scene.rows], [(row, read) for row in scene.rows for read in row.foreign]
    box = f'width="{WIDE}" height="{HIGH}"'
    arrow, entry = f'd="M{WIDE} 7H2m6 -4l-6 4l6 4"/>', 'y="3" width="8" height="8"/>'
    rows = (
        (any(row.is_wrong for row, _ in parts), "wrong answer", "bad",
         f'<rect {box} fill="none" stroke="var(--bad)" stroke-width="2"/>'),
        (reads, "wrong rows or state read", "bad", f'<rect {box} fill="url(#p-wrong)"/><rect class="wrong" {box}/>'),
        (any(0 <= read.request < row.number for row, read in reads), "request it belongs to", "bad",
         f'<path class="wrong" {arrow}'),
        (any(row.batches for row in scene.rows), "a micro-batch begins", "dim",
         f'<path class="split" d="M12 0v{HIGH}"/>'),
        *_rows_signs(held),
        (any(has.state is not None for has in held), scene.state, "dim",
         '<circle class="dot" cx="12" cy="7" r="4"/>'),
        (any(has.checkpoints for has in held), scene.keeps, "dim", '<path class="mark" d="M8 11h8l-4 -8z"/>'),
        (lanes.lives, "entry of the prompt cache", "dim",
         f'<path class="life" d="M12 7V14"/><rect class="full" x="8" {entry}'),
        (any(life.gone is not None and not life.is_consumed for life in lanes.lives), "entry removed", "dim",
         f'<rect class="gone box" x="8" {entry}'),
        (any(life.is_consumed for life in lanes.lives), "entry removed on load", "dim",
         f'<rect class="gone box" x="15" {entry}<path class="gone" d="M15 7H1m4 -3l-4 3l4 3"/>'),
        (any(part.origin == "again" and 0 <= part.at < row.number for row, part in parts), "request where it was lost",
         "dim", f'<path class="arrow" {arrow}'),
        *cell_signs(scene.blocks),
        *tree_signs(scene.nodes),
        (scale.broken, "shortened range", "dim", '<path class="thin" d="M8 4l3 6m3 -6l3 6"/>'),
    )
    yield from (LegendSign(drawn, says, kind) for shown, says, kind, drawn in rows if shown)
