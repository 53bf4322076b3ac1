"""SVG drawing of a scene: lanes of slots and of the prompt cache, rows of tokens with the memory below them, and arrows
from losses to the requests where they occurred. Text is escaped; no external resource is used. ``drawing.css`` is the
style, ``patterns.svg`` has the hatchings.
"""

from __future__ import annotations

from itertools import zip_longest
from textwrap import wrap
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.escaping import attribute, markup
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.verdict_text import answer_text
from cachesim.tools.picture import engine_bars
from cachesim.tools.picture.block_cells import draw_blocks
from cachesim.tools.picture.engine_bars import draw_bars
from cachesim.tools.picture.legend import LETTERS, NAME, foreign, legend, memory, origin_text
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.position_scale import (
    BAR,
    HEAD,
    LINES,
    NARROW,
    PROMPT,
    RIGHT,
    SHOWN,
    STEP,
    STRIP,
    TOP,
    WIDE,
    PositionScale,
    cut,
    inner,
    label,
    text,
)
from cachesim.tools.picture.scene import RuleSource, Scene, StepRow, TokenStretch, Word
from cachesim.tools.picture.slot_lanes import Lanes, bands, block, headings, stored
from cachesim.tools.picture.tree_cells import draw_trees

MANY = 24                    # maximum number of words in a row with a label for each
DIGIT, MARGIN = 7.3, 16      # width of a character, and space at the right of the tokens, in pixels
TITLE_DIGIT = 9.1            # width of a character of a title [pixels]
LINE, TITLE_LINE = 17.0, 20.0          # height of a line of text, and of a title [pixels]


class RunDrawing:
    """Layout of a run: lanes at the left, and the scale of the tokens beside them. ``alone``: not in a timeline.
    ``beside``: the runs that are compared with it, whose tokens have the same places."""

    def __init__(self, scene: Scene, alone: bool = True, beside: Sequence[Scene] = ()) -> None:
        self.scene, self.lanes = scene, Lanes(scene)
        left = max([self.lanes.left, *(Lanes(one).left for one in beside if one is not scene)])
        rows = [row for one in beside or [scene] for row in one.rows]
        edges = [edge for row in rows for part in row.stretches for edge in (part.start, part.stop)]
        words = [edge for row in rows for word in row.words for edge in (word.start, word.stop)]
        marks = [mark for row in rows for mark in row.memory.checkpoints]
        ends = [end for row in rows for end in (row.memory.state, *(row.memory.window or ())) if end is not None]
        reads = [edge for row in rows for read in row.foreign for edge in (read.start, read.stop)]
        length = max(one.length for one in beside or [scene])
        self.scale = PositionScale(
            [*edges, *marks, *ends, *reads, length], left, WIDE if alone else NARROW, minor=words
        )

    @property
    def plain(self) -> float:
        """Width in pixels up to the end of the tokens and labels, at least that of the title."""
        ends = (self.scale.px(max(0, read.theirs)) + NAME for row in self.scene.rows for read in row.foreign)
        return max(self.scale.left + self.scale.width + MARGIN, *ends, min(24 + 9.1 * len(self.scene.title), 900), 560)

    @property
    def width(self) -> float:
        """Width in pixels with the notes beside the tokens."""
        return max(self.scale.left + self.scale.width + RIGHT, self.plain)


def prefix(number: int) -> str:
    """Return the prefix of the anchors of a run's requests; the anchors of run 0 have none: #r4."""
    return f"p{number}-" if number else ""


def draw(
    scenes: Sequence[Scene], first: int = 0, differs: int | None = None, alone: bool = True, name: str = "",
    beside: Sequence[Scene] = (),
) -> str:
    """Return a drawing of the runs, stacked vertically. ``first``: number of the first run on its page. ``differs``:
    the request that is marked as the first difference, -1 = none, None = find it. ``alone``: not in a timeline, so that
    the title, the sources of losses, the legend, style and patterns must be part of the drawing. ``name``: prefix of
    the anchors. ``beside``: all runs that are compared, () = these. Widths and heights are in pixels."""
    bars, y = draw_bars(scenes, 0.0) if alone else ("", 0.0)
    parts, width = [bars], engine_bars.WIDTH if bars else 0.0
    found = first_difference(scenes) if differs is None else differs
    for number, one in enumerate(scenes, first):
        drawn = RunDrawing(one, alone, beside or scenes)
        body, height = _scene(drawn, y, name + prefix(number), found, alone)
        parts.append(body)
        y, width = y + height, max(width, drawn.width)
    names = "; ".join(f"{one.title}, {one.name}: {one.answer}" for one in scenes)
    above = 0 if alone else HEAD
    head = f'<svg class="cs" xmlns="http://www.w3.org/2000/svg" viewBox="0 {above} {width:.0f} {y - above:.0f}" '
    head += f'width="{width:.0f}" height="{y - above:.0f}" role="list" aria-label="{attribute(names)}">'
    paper = f'<rect class="paper" width="{width:.0f}" height="{y:.0f}"/>'
    style = f"<style>\n{asset(__file__, 'drawing.css')}\n</style>{asset(__file__, 'patterns.svg')}" * alone
    return f"{head}{style}{paper}{''.join(parts)}</svg>\n"


def first_difference(scenes: Sequence[Scene]) -> int:
    """Return the first request whose reuse, verdict or memory differs from the first run, or -1. Memories of several
    engines are not compared."""
    if engine_bars.of_several_engines(scenes):
        seen = [[(row.number, row.cache_n, row.verdict) for row in one.rows] for one in scenes]
        return _first_unequal(seen)
    return _first_unequal(
        [[(row.number, row.stretches, row.verdict, row.memory, row.entries) for row in one.rows] for one in scenes]
    )


def _first_unequal(seen: Sequence[Sequence[tuple[Any, ...]]]) -> int:
    """Return the number, which stands first, of the first step that is not equal in all runs, or -1."""
    for others in zip_longest(*seen):
        if any(one != others[0] for one in others):
            number: int = next(one[0] for one in others if one)
            return number
    return -1


def _scene(drawn: RunDrawing, top: float, mark: str, differs: int, alone: bool) -> tuple[str, float]:
    """Return the drawing of a run from ``top`` on, and its height. ``mark``: prefix of the requests' anchors.
    ``differs``: first request that differs from another run, -1 = none. ``alone``: not on a page."""
    one = drawn.scene
    out, above = _title(one, top, drawn.width) if alone else ([], 0.0)
    top += above
    out += bands(drawn.lanes, one, top)
    out += ['<g class="head">', *headings(drawn.lanes, top), *_axis(drawn.scale, top + TOP - 18), "</g>"]
    rows = ['<g class="cache">', *stored(drawn.lanes, one, top), "</g>"]
    named: set[tuple[int, int]] = set()
    shown: set[Word] = set()
    for index, row in enumerate(one.rows):
        y = top + TOP + index * STEP
        arrows = [*_arrows(row, drawn, y, top + TOP), *foreign(row, drawn.scale, y, top + TOP, named)]
        words = [*_not_named(row, shown)]
        rows += _row(row, drawn, y, mark, words, arrows, alone)
        if row.number == differs:
            wide = drawn.scale.left + drawn.scale.width + 12
            rows.append(f'<rect class="first" x="4" y="{y - 18:g}" width="{wide:.1f}" height="{STEP - 4}"/>')
            rows.append(text(12, y - 5, "first difference", "letter start"))
    height = TOP + len(one.rows) * STEP
    cells, high = draw_blocks(one.blocks, drawn.lanes.names, top + height, drawn.plain)
    boxes, more = draw_trees(one.nodes, drawn.scale, top + height + high)
    end = height + high + more
    signs, last = legend(top + end, one, drawn.lanes, drawn.scale, drawn.width) if alone else ("", 0.0)
    return "".join([*out, *rows, cells, boxes, signs]), above + end + last


def _title(scene: Scene, top: float, width: float) -> tuple[list[str], float]:
    """Return the title of a run and its answer, whole, and the height of their lines beyond one each."""
    said = f"{scene.name}, model {scene.model}: {', '.join(filter(None, (scene.answer, scene.cost)))}"
    titles = wrap(scene.title, int((width - 24) / TITLE_DIGIT))
    lines = wrap(said, int((width - 24) / DIGIT))
    kind = "dim" if scene.fine else "bad"
    below = top + TITLE_LINE * len(titles)
    out = [text(12, top + 22 + TITLE_LINE * number, line, "big") for number, line in enumerate(titles)]
    out += [text(12, below + 22 + LINE * number, line, kind) for number, line in enumerate(lines)]
    return out, TITLE_LINE * (len(titles) - 1) + LINE * (len(lines) - 1)


def _axis(scale: PositionScale, y: float) -> Iterator[str]:
    shown = float("-inf")
    for position in scale.at:
        x, wide = scale.px(position), DIGIT * len(f"{position:,}")
        if x - shown > max(34, wide + 4) and x + wide / 2 <= scale.left + scale.width + MARGIN:
            shown = x
            yield text(x, y - 6, f"{position:,}", "dim mid")
    for start, stop in scale.broken:
        x = (scale.px(start) + scale.px(stop)) / 2
        yield f'<path class="thin" d="M{x - 4:.1f} {y - 4:g}l3 6m3 -6l3 6"/>'


def _row(
    row: StepRow, drawn: RunDrawing, y: float, mark: str, words: Sequence[Word], arrows: Sequence[str], alone: bool
) -> Iterator[str]:
    """Yield a request: its block in the slot's lane, its tokens with arrows, the notes, the memory below."""
    scale = drawn.scale
    yield f'<g id="{mark}r{row.number}" tabindex="0" role="listitem"><title>{markup(_said(row))}</title>'
    yield f'<rect class="frame" x="4" y="{y - 18:g}" width="{drawn.width - 8:.0f}" height="{STEP - 4}"/>'
    names = (text(12, y + 15 + 15 * n, line) for n, line in enumerate(label(row.number, row.text)))
    yield f'<g class="name">{"".join(names)}</g>'
    yield from block(drawn.lanes, row, y)
    yield '<g class="bar">'
    yield from (_stretch(part, scale, y, drawn.scene, alone) for part in row.stretches)
    if row.is_wrong and row.stretches:
        box = f'x="{scale.left:g}" y="{y - 2:g}" width="{scale.of(row.stretches[-1].stop):g}" height="{BAR + 4}"'
        yield f'<rect {box} fill="none" stroke="var(--bad)" stroke-width="2"/>'
    yield from _splits(row, scale, y)
    yield from arrows
    yield _letters(row, scale, y) + "</g>"
    yield from _named(words, scale, y)
    yield from ('<g class="notes">', *_notes(row, drawn, y), "</g>")
    yield from ('<g class="mem">', *memory(row.memory, scale, y + BAR, drawn.scene), "</g></g>")


def _notes(row: StepRow, drawn: RunDrawing, y: float) -> Iterator[str]:
    """Yield the notes beside a row: the verdict with its reason or with what was read instead, and losses by rule."""
    x = drawn.scale.left + drawn.scale.width + 24
    said = ": ".join(filter(None, (answer_text(row.verdict), row.reason)))
    yield text(x, y + 12, cut(said, SHOWN), "bad" if row.is_wrong else "dim")
    lines = list(dict.fromkeys([*row.read[:1], *(one for one in row.read if one == PREDICTED)]))
    lines += [lost_line(part, drawn.scene.causes) for part in row.stretches if part.origin == "again"]
    broken = [piece for line in filter(None, lines) for piece in wrap(line, SHOWN, break_on_hyphens=False)]
    red = len(wrap(row.read[0], SHOWN, break_on_hyphens=False)) if row.is_wrong and row.read else 0
    for number, line in enumerate(broken[:LINES]):
        more = " ..." if number == LINES - 1 and len(broken) > LINES else ""
        kind = "bad" if number < red else "dim"
        yield text(x, y + 26 + 14 * number, line[: SHOWN - len(more)] + more, kind)


def lost_line(part: TokenStretch, known: Mapping[str, RuleSource], source: bool = False) -> str:
    """Return a loss as text: tokens, event, rule, and the options that govern the rule; with its ``source``."""
    cause = known.get(part.rule)
    behind = ", ".join([part.rule, *(cause.flags[:1] if cause else ())]) if part.rule else ""
    line = f"{part.stop - part.start} again: {part.why}" + (f" ({behind})" if behind else "")
    if source and cause is not None:
        line += f"; source {cause.source}" + "".join(f"; {flag}" for flag in cause.flags[1:])
    return line


def _stretch(part: TokenStretch, scale: PositionScale, y: float, of: Scene, source: bool) -> str:
    a, b = scale.px(part.start), scale.px(part.stop)
    box = f'x="{a:g}" y="{y:g}" width="{round(b - a, 1):g}" height="{BAR}"'
    again = lost_line(part, of.causes, source) if part.origin == "again" else ""
    said = again or ", ".join(filter(None, (origin_text(part.origin, of), part.why)))
    title = f"{part.start} to {part.stop - 1}: {said}"
    title += f" (request {part.at})" if part.at >= 0 else ""
    return f'<rect {box} class="o-{part.origin}"><title>{markup(title)}</title></rect>'


def _splits(row: StepRow, scale: PositionScale, y: float) -> Iterator[str]:
    """Yield a line where a micro-batch of the prompt begins, without the first."""
    if row.batches:
        places = "".join(f"M{x:g} {y:g}v{BAR}" for x in dict.fromkeys(map(scale.px, row.batches)))
        says = f"micro-batches begin at {', '.join(f'{at:,}' for at in row.batches)}"
        yield f'<path class="split" d="{places}"><title>{says}</title></path>'


def _letters(row: StepRow, scale: PositionScale, y: float) -> str:
    """Return a letter for every range wide enough, drawn above colours and hatchings."""
    ends = [(scale.px(part.start), scale.px(part.stop), part.origin) for part in row.stretches]
    each = "".join(text((a + b) / 2, y + 15, LETTERS[origin]) for a, b, origin in ends if b - a >= 12)
    return f'<g class="letter">{each}</g>' if each else ""


def _not_named(row: StepRow, shown: set[Word]) -> Iterator[Word]:
    """Yield the words to label: all words; of a long row only those not labelled above. Add them to ``shown``."""
    many = len(row.words) > MANY
    for word in row.words:
        if not many or word not in shown:
            yield word
        shown.add(word)


def _named(words: Sequence[Word], scale: PositionScale, y: float) -> Iterator[str]:
    """Yield the words above their tokens, with a tick at the beginning of each."""
    if words:
        ticks = "".join(f"M{scale.px(word.start):g} {y:g}v-4" for word in words)
        yield f'<path class="thin" d="{ticks}"/>'
    ends = [(scale.px(word.start), scale.px(word.stop), word) for word in words]
    each = "".join(text((a + b) / 2, y - 5, name) for a, b, word in ends if (name := _fitting(word, b - a)))
    yield f'<g class="dim mid">{each}</g>' if each else ""


def _fitting(word: Word, wide: float) -> str:
    """Return the title of a word if it fits into ``wide`` pixels, else its name if that fits, else nothing."""
    both = f"{word.name} {word.title}" if word.title else ""
    return next((name for name in (both, word.name) if name and wide > 7 * len(name) + 4), "")


def _arrows(row: StepRow, drawn: RunDrawing, y: float, top: float) -> Iterator[str]:
    """Yield arrows from tokens evaluated again to the loss: the removed entry of the prompt cache, or the request."""
    for part in row.stretches:
        if part.origin == "again" and 0 <= part.at < row.number:
            x, up = drawn.scale.px(part.start) + 3, top + part.at * STEP
            entry = drawn.lanes.gone_at(part.at) if part.lost[1].startswith("entry") else None
            line = f"M{x:g} {y:g}V{up + BAR + STRIP:g}"
            if entry is not None:
                line = f"M{x:g} {y:g}V{y - 16:g}H{entry:g}V{up + 16:g}"
            yield f"<g><title>{part.stop - part.start} lost at request {part.at}</title>"
            yield f'<path class="arrow" d="{line}m-4 6l4 -6l4 6"/></g>'


def _said(row: StepRow) -> str:
    """Return a row as text, for a tooltip and for screen readers."""
    tokens = f"{row.cache_n} reused, {row.prompt_n} evaluated"
    slot = f"slot {row.slot}" if row.slot >= 0 else ""
    parts = [f"request {row.number}: {inner(row.text, PROMPT)}", slot, tokens, row.reason, row.rule]
    return "; ".join(filter(None, [*parts, row.verdict, *row.read, row.why]))
