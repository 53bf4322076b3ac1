"""Beneath the tokens of a request: what the slot holds, and what a wrong answer read."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import Iterator

from cachesim.tools.picture.scale import BAR, STEP, STRIP, Scale, text
from cachesim.tools.picture.scene import ForeignRead, SlotMemory, StepRow

CELL = 8.0                   # pixels of a cell of attention, where that many fit
EACH = 8                     # checkpoints that have a tooltip each
STATE = 6.0                  # pixels of a state that was read, or of a single row at least
NAME = 190.0                 # pixels of a label


def memory(held: SlotMemory, scale: Scale, y: float) -> Iterator[str]:
    """Rows of attention as cells, those of the window, the one position of a recurrent state, and checkpoints."""
    if held.rows is not None:
        yield _bar("rows", held.rows, scale, y + 2, "attention rows: any of them can be removed")
    if held.window is not None:
        first, last = held.window[0], held.window[1] - 1
        yield _bar("win", held.window, scale, y + 6.5, f"window: rows {first} to {last}; what lies before is gone")
    if held.state is not None:
        x = scale.px(held.state)
        says = f"recurrent state after {held.state} tokens: it cannot go back"
        yield f'<circle class="dot" cx="{x:g}" cy="{y + 13:g}" r="4"><title>{says}</title></circle>'
    if held.checkpoints:
        yield f'<g class="mark">{"".join(_marks(held, scale, y + 26))}</g>'


def _marks(held: SlotMemory, scale: Scale, y: float) -> Iterator[str]:
    """Triangles: each with its numbers, or of many all with those of all."""
    if len(held.checkpoints) > EACH:
        spans = [f" [{low}, {high}]" for low, high in held.spans] or [""] * len(held.checkpoints)
        every = ", ".join(f"{mark}{span}" for mark, span in zip(held.checkpoints, spans, strict=True))
        says = f"checkpoints of so many tokens{', with [pos_min, pos_max]' * bool(held.spans)}: {every}"
        at = [scale.px(mark) for mark in held.checkpoints]
        places = f"M{at[0] - 4:g} {y:g}h8l-4 -8z"
        places += "".join(f"m{round(b - a, 1):g} 0h8l-4 -8z" for a, b in pairwise(at))
        yield f'<path d="{places}"><title>{says}</title></path>'
        return
    for number, mark in enumerate(held.checkpoints):
        x = scale.px(mark)
        span = f", [pos_min {held.spans[number][0]}, pos_max {held.spans[number][1]}]" if held.spans else ""
        says = f"checkpoint of {mark} tokens{span}"
        yield f'<path d="M{x - 4:g} {y:g}h8l-4 -8z"><title>{says}</title></path>'


def _bar(name: str, rows: tuple[int, int], scale: Scale, y: float, title: str) -> str:
    """Cells; as many as there are rows, or as fit."""
    a, b = scale.px(rows[0]), scale.px(rows[1])
    wide = max(1.0, b - a)
    each = wide / max(1, min(rows[1] - rows[0], int(wide / CELL) or 1))
    line = f'M{a:g} {y + 1.5:g}H{a + wide:g}'
    dashes = f'stroke-dasharray="{max(each - 1, 0.5):.2f} 1"'
    return f'<path class="{name}" d="{line}" {dashes}><title>{escape(title)}</title></path>'


def foreign(row: StepRow, scale: Scale, y: float, top: float, named: set[tuple[int, int]]) -> Iterator[str]:
    """What a wrong answer read: the positions are hatched, and an arrow leads to the request they belong to. ``named``:
    sources that are labelled already, of this row and those above; it takes what is labelled here. One that stands too
    near to another has no label."""
    for number, read in enumerate(row.foreign):
        a, b = scale.px(max(0, read.start)), scale.px(max(0, read.stop))
        if b - a < STATE:                                  # a state: it stands at the end of its tokens
            a, b = max(scale.left, b - STATE), max(scale.left + STATE, b)
        box = f'x="{a:.1f}" y="{y:.1f}" width="{b - a:.1f}" height="{BAR}"'
        yield f'<g><title>{escape(read.says)}</title><rect {box} fill="url(#p-wrong)"/>'
        yield f'<rect class="wrong" {box}/>'
        if 0 <= read.request < row.number:
            up = top + read.request * STEP + BAR + STRIP
            yield _source(read, scale, a + 3 + 5 * number, y, up, named)
        yield "</g>"


def _source(read: ForeignRead, scale: Scale, x: float, y: float, up: float, named: set[tuple[int, int]]) -> str:
    to = scale.px(max(0, read.theirs))
    near = any(row == read.request and abs(scale.px(other) - to) < NAME for row, other in named)
    label = "" if near else f"request {read.request}, position {read.theirs}"
    if label:
        named.add((read.request, max(0, read.theirs)))
    line = f'M{x:.1f} {y:.1f}V{up + 12:.1f}L{to:.1f} {up:.1f}m-4 6l4 -6l4 6'
    return f'<path class="wrong" d="{line}"/>' + (text(to + 6, up + 8, label, "bad halo") if label else "")
