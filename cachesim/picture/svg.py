"""A scene as SVG, written by hand: rows of tokens, the memory beneath them, losses as arrows to where they were lost.

Every origin has a colour, a hatching and a letter, so that none of them is the only signal. Colours are Okabe and
Ito's, which people with any colour vision tell apart. Text is escaped; nothing is fetched.
"""

from __future__ import annotations

from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import Iterator, Sequence

from cachesim.picture.beneath import entries, foreign, memory
from cachesim.picture.layout import BAR, LEAST, LEFT, RIGHT, SHOWN, STEP, STRIP, TOP, cut, text
from cachesim.picture.scale import Scale
from cachesim.picture.scene import Row, Scene, Stretch

LETTERS = {"kept": "K", "reused": "U", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g",
           "moved": "M"}  # fmt: skip
WORDS = {
    "kept": "kept in the slot", "reused": "reused, from the slot or elsewhere",
    "restored": "restored from a checkpoint", "loaded": "loaded from the prompt cache",
    "evaluated": "evaluated, new", "moved": "kept, at other positions",
    "again": "evaluated again", "generated": "generated",
}  # fmt: skip
HATCHED = ("moved", "restored", "loaded", "again")

STYLE = """
.cs{font:12px ui-monospace,Menlo,Consolas,monospace;--ink:#1b1b1b;--dim:#5a5a5a;--line:#9a9a9a;--paper:#ffffff;
--kept:#0072b2;--reused:#0072b2;--moved:#cc79a7;--restored:#56b4e9;--loaded:#009e73;--evaluated:#d9d9d9;--again:#e69f00;--generated:#f2f2f2;--bad:#b3001b}
@media (prefers-color-scheme:dark){.cs{--ink:#f0f0f0;--dim:#b4b4b4;--line:#6a6a6a;--paper:#16181c;
--kept:#3aa0e0;--reused:#3aa0e0;--moved:#e09ac0;
--restored:#8fd0f5;--loaded:#35c79a;--evaluated:#4a4d52;--again:#f0b030;--generated:#2b2e33;--bad:#ff7b7b}}
.cs text{fill:var(--ink)}.cs .dim{fill:var(--dim)}.cs .bad{fill:var(--bad);font-weight:bold}
.cs .big{font-size:15px;font-weight:bold}.cs .letter{font-weight:bold;text-anchor:middle}
.cs .mid{text-anchor:middle}.cs .start{text-anchor:start}.cs .paper{fill:var(--paper)}
.cs .frame{fill:none;pointer-events:all}
.cs .thin{stroke:var(--line);fill:none}
.cs .wrong{stroke:var(--bad);fill:none;stroke-width:1.5}.cs .first{stroke:var(--ink);fill:none;stroke-dasharray:7 3}
.cs .full{fill:var(--loaded);stroke:var(--line)}.cs .gone{stroke:var(--bad);fill:none;stroke-dasharray:2 2}
.cs .arrow{stroke:var(--again);fill:none;stroke-width:1.5;stroke-dasharray:4 3}
.cs .mark{fill:var(--ink)}.cs .rows{stroke:var(--kept);stroke-width:3;fill:none}
.cs .win{stroke:var(--restored);stroke-width:3;fill:none}.cs .end{text-anchor:end}.cs .dot{fill:var(--bad)}
"""


def prefix(number: int) -> str:
    """What the anchors of a run's requests begin with; those of the first are plain: #r4."""
    return f"p{number}-" if number else ""


def draw(scenes: Sequence[Scene], first: int = 0, differs: int | None = None) -> str:
    """One drawing of the runs, one below the other; the first of them is number ``first`` of its page. ``differs``: the
    request that is marked as the first difference, -1 = none, None = look for it. Widths and heights in pixels."""
    parts: list[str] = []
    y = width = 0.0
    found = first_difference(scenes) if differs is None else differs
    for number, one in enumerate(scenes, first):
        scale = _scale(one)
        body, height = _scene(one, scale, y, prefix(number), found)
        parts.append(body)
        y += height
        width = max(width, LEFT + scale.width + RIGHT, LEAST)
    names = "; ".join(f"{one.title}, {one.profile}: {one.verdict}" for one in scenes)
    head = f'<svg class="cs" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" '
    head += f'width="{width:.0f}" height="{y:.0f}" role="list" aria-label="{escape(names, quote=True)}">'
    paper = f'<rect class="paper" width="{width:.0f}" height="{y:.0f}"/>'
    return f"{head}<style>{STYLE}</style>{_patterns()}{paper}{''.join(parts)}</svg>\n"


def first_difference(scenes: Sequence[Scene]) -> int:
    """The first request that came to its tokens, or ended, in another way than in the first run; -1 = there is none."""
    seen = [[(row.number, row.stretches, row.verdict, row.memory, row.entries) for row in one.rows] for one in scenes]
    for others in zip_longest(*seen):
        if any(one != others[0] for one in others):
            return next(one[0] for one in others if one)
    return -1


def _first(scale: Scale, y: float) -> Iterator[str]:
    """A frame around the first request that differs."""
    wide = LEFT + scale.width + RIGHT - 8
    yield f'<rect class="first" x="4" y="{y - 18:.1f}" width="{wide:.1f}" height="{STEP - 4}"/>'
    yield text(12, y - 5, "first difference", "letter start")


def _scale(one: Scene) -> Scale:
    edges = [edge for row in one.rows for part in row.stretches for edge in (part.start, part.stop)]
    edges += [edge for row in one.rows for word in row.words for edge in (word.start, word.stop)]
    marks = [mark for row in one.rows for mark in row.memory.checkpoints]
    ends = [end for row in one.rows for end in (row.memory.state, *(row.memory.window or ())) if end is not None]
    reads = [edge for row in one.rows for read in row.foreign for edge in (read.start, read.stop)]
    return Scale([*edges, *marks, *ends, *reads, one.length])


def _patterns() -> str:
    """Hatchings that lie over the colours."""
    lines = {
        "restored": '<circle cx="4" cy="4" r="1.2" fill="#fff"/>',
        "loaded": '<path d="M0 8L8 0" stroke="#fff" stroke-width="1.2"/>',
        "moved": '<path d="M0 4H8" stroke="#fff" stroke-width="1.2"/>',
        "wrong": '<path d="M0 0L8 8M8 0L0 8" stroke="var(--bad)" stroke-width="1.6"/>',
        "again": '<path d="M0 0L8 8M8 0L0 8" stroke="#fff" stroke-width="1"/>',
    }
    return "<defs>" + "".join(
        f'<pattern id="p-{name}" width="8" height="8" patternUnits="userSpaceOnUse">{body}</pattern>'
        for name, body in lines.items()
    ) + "</defs>"


def _scene(one: Scene, scale: Scale, top: float, mark: str, differs: int) -> tuple[str, float]:
    """One run from ``top`` on, and its height. ``mark``: what the anchors of its requests begin with;
    ``differs``: the first request in which it differs from another run, -1 = none."""
    said = f"{one.profile}   model {one.model}   {one.verdict}"
    out = [text(12, top + 22, one.title, "big"), text(12, top + 42, said, "dim" if one.fine else "bad")]
    out += _axis(scale, top + TOP - 14)
    named: set[tuple[int, int]] = set()
    for number, row in enumerate(one.rows):
        y = top + TOP + number * STEP
        out += _row(row, scale, y, mark)
        out += _arrows(row, scale, y, top + TOP)
        out += foreign(row, scale, y, top + TOP, named)
        if row.number == differs:
            out += _first(scale, y)
    height = TOP + len(one.rows) * STEP
    out += _legend(top + height, one)
    return "".join(out), height + 40


def _axis(scale: Scale, y: float) -> Iterator[str]:
    shown = -99.0
    for position in scale.at:
        x = LEFT + scale.of(position)
        if x - shown > 34:
            shown = x
            yield text(x, y - 6, f"{position:,}", "dim mid")
    for start, stop in scale.broken:
        x = LEFT + (scale.of(start) + scale.of(stop)) / 2
        yield f'<path class="thin" d="M{x - 4:.1f} {y - 14:.1f}l3 8m3 -8l3 8"/>'


def _row(row: Row, scale: Scale, y: float, mark: str) -> Iterator[str]:
    yield f'<g id="{mark}r{row.number}" tabindex="0" role="listitem" aria-label="{escape(_said(row), quote=True)}">'
    yield f"<title>{escape(_said(row))}</title>"
    wide = LEFT + scale.width + RIGHT - 8
    yield f'<rect class="frame" x="4" y="{y - 18:.1f}" width="{wide:.1f}" height="{STEP - 4}"/>'
    slot = f"slot {row.slot}" if row.slot >= 0 else ""
    yield text(12, y + 15, f"#{row.number} {cut(row.text, 20)}")
    yield text(12, y + 30, slot, "dim")
    for part in row.stretches:
        yield from _stretch(part, scale, y)
    yield from _named(row, scale, y)
    yield from _notes(row, LEFT + scale.width + 24, y)
    if row.wrong and row.stretches:
        box = f'x="{LEFT:.1f}" y="{y - 2:.1f}" width="{scale.of(row.stretches[-1].stop):.1f}" height="{BAR + 4}"'
        yield f'<rect {box} fill="none" stroke="var(--bad)" stroke-width="2"/>'
    yield from memory(row.memory, scale, y + BAR)
    yield from entries(row.entries, scale, y)
    yield "</g>"


def _notes(row: Row, x: float, y: float) -> Iterator[str]:
    """Beside a row: the verdict, how it came to its tokens or what it read instead, and what was lost by which rule."""
    said = ": ".join(filter(None, (row.verdict, row.reason)))
    yield text(x, y + 12, cut(said, SHOWN), "bad" if row.wrong else "dim")
    lines = [row.read[0] if row.read else ""]
    lines += [f"{part.stop - part.start} again: {part.why}" for part in row.stretches if part.origin == "again"]
    broken = [piece for line in filter(None, lines) for piece in wrap(line, SHOWN, break_on_hyphens=False)]
    red = len(wrap(row.read[0], SHOWN, break_on_hyphens=False)) if row.wrong and row.read else 0
    for number, line in enumerate(broken[:3]):
        more = " ..." if number == 2 and len(broken) > 3 else ""
        kind = "bad" if number < red else "dim"
        yield text(x, y + 26 + 14 * number, line[: SHOWN - len(more)] + more, kind)


def _stretch(part: Stretch, scale: Scale, y: float) -> Iterator[str]:
    a, b = LEFT + scale.of(part.start), LEFT + scale.of(part.stop)
    box = f'x="{a:.1f}" y="{y:.1f}" width="{b - a:.1f}" height="{BAR}"'
    title = f"{part.start} to {part.stop - 1}: {WORDS[part.origin]}. {part.why}"
    title += f" (request {part.at})" if part.at >= 0 else ""
    yield f'<g><title>{escape(title)}</title><rect {box} fill="var(--{part.origin})" stroke="var(--paper)"/>'
    if part.origin in HATCHED:
        yield f'<rect {box} fill="url(#p-{part.origin})"/>'
    if b - a >= 12:
        at = f'x="{(a + b) / 2 - 6:.1f}" y="{y + 4:.1f}" width="12" height="14"'
        yield f'<rect {at} rx="2" class="paper" opacity=".75"/>'
        yield text((a + b) / 2, y + 15, LETTERS[part.origin], "letter")
    yield "</g>"


def _named(row: Row, scale: Scale, y: float) -> Iterator[str]:
    """Words stand above their tokens, with a tick where each begins."""
    for word in row.words:
        a, b = LEFT + scale.of(word.start), LEFT + scale.of(word.stop)
        yield f'<path class="thin" d="M{a:.1f} {y:.1f}v-4"/>'
        if b - a > 7 * len(word.name):
            yield text((a + b) / 2, y - 5, word.name, "dim mid")


def _arrows(row: Row, scale: Scale, y: float, top: float) -> Iterator[str]:
    """From what was evaluated again to the request at which it was lost."""
    for part in row.stretches:
        if part.origin == "again" and 0 <= part.at < row.number:
            x = LEFT + scale.of(part.start) + 3
            up = top + part.at * STEP + BAR + STRIP
            yield f"<g><title>{escape(part.why)} (request {part.at})</title>"
            yield f'<path class="arrow" d="M{x:.1f} {y:.1f}V{up:.1f}m-4 6l4 -6l4 6"/></g>'


def _legend(y: float, one: Scene) -> Iterator[str]:
    x = 12.0
    seen = {part.origin for row in one.rows for part in row.stretches}
    for origin, word in WORDS.items():
        if origin in seen:
            yield f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" fill="var(--{origin})"/>'
            if origin in HATCHED:
                yield f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" fill="url(#p-{origin})"/>'
            yield text(x + 7, y + 11, LETTERS[origin], "letter") + text(x + 20, y + 11, word, "dim")
            x += 40 + 7.3 * len(word)
    if any(row.foreign for row in one.rows):
        yield f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" fill="url(#p-wrong)"/>'
        yield text(x + 20, y + 11, "read by a wrong answer; #request:position", "bad")
        x += 340
    yield text(x + 8, y + 11, "▲ checkpoint  ● recurrent state  ▬ attention rows", "dim")


def _said(row: Row) -> str:
    """A row in words, for a tooltip and for a screen reader."""
    tokens = f"{row.cache_n} reused, {row.prompt_n} evaluated"
    parts = [f"request {row.number}: {row.text}", tokens, row.reason, row.rule]
    return "; ".join(filter(None, [*parts, row.verdict, *row.read, row.why]))
