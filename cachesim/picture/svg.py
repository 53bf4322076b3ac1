"""A scene as SVG, written by hand: rows of tokens, the memory beneath them, losses as arrows to where they were lost.

Every origin has a colour, a hatching and a letter, so that none of them is the only signal. Colours are Okabe and
Ito's, which people with any colour vision tell apart. Text is escaped; nothing is fetched.
"""

from __future__ import annotations

from html import escape
from typing import Iterator, Sequence

from cachesim.picture.scale import Scale
from cachesim.picture.scene import Row, Scene, Stretch

LEFT, TOP, RIGHT, LEAST = 190, 84, 460, 1040
BAR, STRIP, GAP = 22, 26, 26
STEP = BAR + STRIP + GAP
LETTERS = {"kept": "K", "reused": "U", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g"}
WORDS = {
    "kept": "kept in the slot", "reused": "reused, from the slot or elsewhere",
    "restored": "restored from a checkpoint", "loaded": "loaded from the prompt cache",
    "evaluated": "evaluated, new", "again": "evaluated again", "generated": "generated",
}  # fmt: skip
SHOWN = 58                   # characters of a line beside a row

STYLE = """
.cs{font:12px ui-monospace,Menlo,Consolas,monospace;--ink:#1b1b1b;--dim:#5a5a5a;--line:#9a9a9a;--paper:#ffffff;
--kept:#0072b2;--reused:#0072b2;--restored:#56b4e9;--loaded:#009e73;--evaluated:#d9d9d9;--again:#e69f00;--generated:#f2f2f2;--bad:#b3001b}
@media (prefers-color-scheme:dark){.cs{--ink:#f0f0f0;--dim:#b4b4b4;--line:#6a6a6a;--paper:#16181c;
--kept:#3aa0e0;--reused:#3aa0e0;
--restored:#8fd0f5;--loaded:#35c79a;--evaluated:#4a4d52;--again:#f0b030;--generated:#2b2e33;--bad:#ff7b7b}}
.cs text{fill:var(--ink)}.cs .dim{fill:var(--dim)}.cs .bad{fill:var(--bad);font-weight:bold}
.cs .big{font-size:15px;font-weight:bold}.cs .letter{font-weight:bold;text-anchor:middle}
.cs .mid{text-anchor:middle}.cs .paper{fill:var(--paper)}.cs .frame{fill:none;pointer-events:all}
.cs .thin{stroke:var(--line);fill:none}
.cs .arrow{stroke:var(--again);fill:none;stroke-width:1.5;stroke-dasharray:4 3}
.cs .mark{fill:var(--ink)}.cs .rows{fill:var(--kept)}.cs .win{fill:var(--restored)}.cs .dot{fill:var(--bad)}
"""


def prefix(number: int) -> str:
    """What the anchors of a run's requests begin with; those of the first are plain: #r4."""
    return f"p{number}-" if number else ""


def draw(scenes: Sequence[Scene], first: int = 0) -> str:
    """One drawing of the runs, one below the other; the first of them is number ``first`` of its page. Widths and
    heights in pixels."""
    parts: list[str] = []
    y = width = 0.0
    for number, one in enumerate(scenes, first):
        scale = _scale(one)
        body, height = _scene(one, scale, y, prefix(number))
        parts.append(body)
        y += height
        width = max(width, LEFT + scale.width + RIGHT, LEAST)
    names = "; ".join(f"{one.title}, {one.profile}: {one.verdict}" for one in scenes)
    head = f'<svg class="cs" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" '
    head += f'width="{width:.0f}" height="{y:.0f}" role="list" aria-label="{escape(names, quote=True)}">'
    paper = f'<rect class="paper" width="{width:.0f}" height="{y:.0f}"/>'
    return f"{head}<style>{STYLE}</style>{_patterns()}{paper}{''.join(parts)}</svg>\n"


def _scale(one: Scene) -> Scale:
    edges = [edge for row in one.rows for part in row.stretches for edge in (part.start, part.stop)]
    edges += [edge for row in one.rows for word in row.words for edge in (word.start, word.stop)]
    marks = [mark for row in one.rows for mark in row.memory.checkpoints]
    ends = [end for row in one.rows for end in (row.memory.state, *(row.memory.window or ())) if end is not None]
    return Scale([*edges, *marks, *ends, one.length])


def _patterns() -> str:
    """Hatchings that lie over the colours."""
    lines = {
        "restored": '<circle cx="4" cy="4" r="1.2" fill="#fff"/>',
        "loaded": '<path d="M0 8L8 0" stroke="#fff" stroke-width="1.2"/>',
        "again": '<path d="M0 0L8 8M8 0L0 8" stroke="#fff" stroke-width="1"/>',
    }
    return "<defs>" + "".join(
        f'<pattern id="p-{name}" width="8" height="8" patternUnits="userSpaceOnUse">{body}</pattern>'
        for name, body in lines.items()
    ) + "</defs>"


def _scene(one: Scene, scale: Scale, top: float, mark: str) -> tuple[str, float]:
    """One run from ``top`` on, and its height. ``mark``: what the anchors of its requests begin with."""
    said = f"{one.profile}   model {one.model}   {one.verdict}"
    out = [_text(12, top + 22, one.title, "big"), _text(12, top + 42, said, "dim" if one.fine else "bad")]
    out += _axis(scale, top + TOP - 14)
    for number, row in enumerate(one.rows):
        y = top + TOP + number * STEP
        out += _row(row, scale, y, mark)
        out += _arrows(row, scale, y, top + TOP)
    height = TOP + len(one.rows) * STEP
    out += _legend(top + height, one)
    return "".join(out), height + 40


def _axis(scale: Scale, y: float) -> Iterator[str]:
    shown = -99.0
    for position in scale.at:
        x = LEFT + scale.of(position)
        if x - shown > 34:
            shown = x
            yield _text(x, y - 6, f"{position:,}", "dim mid")
    for start, stop in scale.broken:
        x = LEFT + (scale.of(start) + scale.of(stop)) / 2
        yield f'<path class="thin" d="M{x - 4:.1f} {y - 14:.1f}l3 8m3 -8l3 8"/>'


def _row(row: Row, scale: Scale, y: float, mark: str) -> Iterator[str]:
    yield f'<g id="{mark}r{row.number}" tabindex="0" role="listitem" aria-label="{escape(_said(row), quote=True)}">'
    yield f"<title>{escape(_said(row))}</title>"
    wide = LEFT + scale.width + RIGHT - 8
    yield f'<rect class="frame" x="4" y="{y - 18:.1f}" width="{wide:.1f}" height="{STEP - 4}"/>'
    slot = f"slot {row.slot}" if row.slot >= 0 else ""
    yield _text(12, y + 15, f"#{row.number} {_cut(row.text, 20)}")
    yield _text(12, y + 30, slot, "dim")
    for part in row.stretches:
        yield from _stretch(part, scale, y)
    yield from _named(row, scale, y)
    yield from _notes(row, LEFT + scale.width + 24, y)
    if row.wrong and row.stretches:
        box = f'x="{LEFT:.1f}" y="{y - 2:.1f}" width="{scale.of(row.stretches[-1].stop):.1f}" height="{BAR + 4}"'
        yield f'<rect {box} fill="none" stroke="var(--bad)" stroke-width="2"/>'
    yield from _memory(row, scale, y + BAR)
    yield from _entries(row, y)
    yield "</g>"


def _notes(row: Row, x: float, y: float) -> Iterator[str]:
    """Beside a row: the verdict, how it came to its tokens or what it read instead, and what was lost by which rule."""
    yield _text(x, y + 12, row.verdict, "bad" if row.wrong else "dim")
    lines = [row.read[0] if row.read else row.reason]
    lines += [f"{part.stop - part.start} again: {part.why}" for part in row.stretches if part.origin == "again"]
    for number, line in enumerate(filter(None, lines[:3])):
        yield _text(x, y + 27 + 15 * number, _cut(line, SHOWN), "bad" if row.wrong and not number else "dim")


def _stretch(part: Stretch, scale: Scale, y: float) -> Iterator[str]:
    a, b = LEFT + scale.of(part.start), LEFT + scale.of(part.stop)
    box = f'x="{a:.1f}" y="{y:.1f}" width="{b - a:.1f}" height="{BAR}"'
    title = f"{part.start} to {part.stop - 1}: {WORDS[part.origin]}. {part.why}"
    title += f" (request {part.at})" if part.at >= 0 else ""
    yield f'<g><title>{escape(title)}</title><rect {box} fill="var(--{part.origin})" stroke="var(--paper)"/>'
    if part.origin in ("restored", "loaded", "again"):
        yield f'<rect {box} fill="url(#p-{part.origin})"/>'
    if b - a >= 12:
        at = f'x="{(a + b) / 2 - 6:.1f}" y="{y + 4:.1f}" width="12" height="14"'
        yield f'<rect {at} rx="2" class="paper" opacity=".75"/>'
        yield _text((a + b) / 2, y + 15, LETTERS[part.origin], "letter")
    yield "</g>"


def _named(row: Row, scale: Scale, y: float) -> Iterator[str]:
    """Words stand above their tokens, with a tick where each begins."""
    for word in row.words:
        a, b = LEFT + scale.of(word.start), LEFT + scale.of(word.stop)
        yield f'<path class="thin" d="M{a:.1f} {y:.1f}v-4"/>'
        if b - a > 7 * len(word.name):
            yield _text((a + b) / 2, y - 5, word.name, "dim mid")


def _memory(row: Row, scale: Scale, y: float) -> Iterator[str]:
    """Beneath: rows of attention, the window's, the one position of a recurrent state, and checkpoints."""
    held = row.memory
    if held.rows is not None:
        yield _bar("rows", held.rows, scale, y + 3, "attention: a row for each position, any of them can be removed")
    if held.window is not None:
        yield _bar("win", held.window, scale, y + 8, f"window: rows {held.window[0]} to {held.window[1] - 1}")
    if held.state is not None:
        x = LEFT + scale.of(held.state)
        yield f'<g><title>recurrent state: one value, after {held.state} tokens; it cannot go back</title>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y + 15:.1f}" r="4"/></g>'
    for mark in held.checkpoints:
        x = LEFT + scale.of(mark)
        yield f"<g><title>checkpoint of {mark} tokens</title>"
        yield f'<path class="mark" d="M{x - 4:.1f} {y + 24:.1f}h8l-4 -8z"/></g>'


def _bar(name: str, rows: tuple[int, int], scale: Scale, y: float, title: str) -> str:
    a, b = LEFT + scale.of(rows[0]), LEFT + scale.of(rows[1])
    box = f'x="{a:.1f}" y="{y:.1f}" width="{max(1.0, b - a):.1f}" height="3"'
    return f'<g><title>{escape(title)}</title><rect class="{name}" {box}/></g>'


def _entries(row: Row, y: float) -> Iterator[str]:
    """The lane of the prompt cache: a box for each stored conversation."""
    for number in range(min(row.entries, 8)):
        yield f'<rect class="thin" x="{LEFT - 16 - 10 * number}" y="{y + 22:.1f}" width="8" height="8"/>'
    if row.entries:
        text = _text(LEFT - 88, y + 44, f"cache {row.entries}", "dim")
        yield f"<g><title>{row.entries} in the prompt cache</title>{text}</g>"


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
            yield f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" fill="url(#p-{origin})"/>' if origin in (
                "restored", "loaded", "again") else ""  # fmt: skip
            yield _text(x + 7, y + 11, LETTERS[origin], "letter") + _text(x + 20, y + 11, word, "dim")
            x += 40 + 7.3 * len(word)
    yield _text(x + 8, y + 11, "▲ checkpoint  ● recurrent state  ▬ attention rows", "dim")


def _said(row: Row) -> str:
    """A row in words, for a tooltip and for a screen reader."""
    tokens = f"{row.cache_n} reused, {row.prompt_n} evaluated"
    parts = [f"request {row.number}: {row.text}", tokens, row.reason, row.rule]
    return "; ".join(filter(None, [*parts, row.verdict, *row.read, row.why]))


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{mark}>{escape(text)}</text>'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
