"""What colours and signs mean: as far as they are in the drawing, each drawn as it is drawn there."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.tools.picture.lanes import Lanes
from cachesim.tools.picture.scale import Scale, text
from cachesim.tools.picture.scene import Scene

WIDE, HIGH, GAP = 24, 14, 20  # pixels of a sign, and between two entries
LETTER = 7.3                  # pixels of a letter

LETTERS = {"kept": "K", "reused": "U", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g",
           "moved": "M"}  # fmt: skip
WORDS = {
    "kept": "kept in the slot", "reused": "reused, from the slot or elsewhere",
    "restored": "restored from a checkpoint", "loaded": "loaded from the prompt cache",
    "evaluated": "evaluated, new", "moved": "kept, at other positions",
    "again": "evaluated again", "generated": "generated",
}  # fmt: skip


class Sign(NamedTuple):
    """SVG of a sign whose upper left corner is at 0, 0; what it means; classes of that text."""

    drawn: str
    says: str
    kind: str = "dim"


def legend(y: float, one: Scene, lanes: Lanes, scale: Scale, wide: float) -> tuple[str, float]:
    """The signs from ``y`` on in lines that are ``wide`` pixels, and the height of the whole."""
    x, top, out = 12.0, y, list[str]()
    for sign in [*_origins(one), *_wrong(one), *_memory(one), *_cache(lanes), *_rest(one, scale)]:
        long = WIDE + 6 + LETTER * len(sign.says)
        if x > 12 and x + long > wide:
            x, y = 12.0, y + 20
        out.append(f'<g transform="translate({x:g} {y:g})">{sign.drawn}{text(WIDE + 6, 11, sign.says, sign.kind)}</g>')
        x += round(long + GAP, 1)
    return "".join(out), y - top + 28


def _origins(one: Scene) -> Iterator[Sign]:
    seen = {part.origin for row in one.rows for part in row.stretches}
    for origin, word in WORDS.items():
        if origin in seen:
            letter = text(WIDE / 2, 11, LETTERS[origin], "letter")
            yield Sign(f'<rect width="{WIDE}" height="{HIGH}" class="o-{origin}"/>{letter}', word)


def _wrong(one: Scene) -> Iterator[Sign]:
    box = f'width="{WIDE}" height="{HIGH}"'
    if any(row.wrong and row.stretches for row in one.rows):
        yield Sign(f'<rect {box} fill="none" stroke="var(--bad)" stroke-width="2"/>', "wrong answer", "bad")
    if any(row.foreign for row in one.rows):
        yield Sign(f'<rect {box} fill="url(#p-wrong)"/><rect class="wrong" {box}/>', "what it read wrongly", "bad")
    if any(0 <= read.request < row.number for row in one.rows for read in row.foreign):
        yield Sign(f'<path class="wrong" d="M{WIDE} 7H2m6 -4l-6 4l6 4"/>', "whose it is", "bad")


def _memory(one: Scene) -> Iterator[Sign]:
    held = [row.memory for row in one.rows]
    bar = f'd="M0 7H{WIDE}" stroke-dasharray="7 1"/>'
    if any(has.rows is not None for has in held):
        yield Sign(f'<path class="rows" {bar}', "attention rows")
    if any(has.window is not None for has in held):
        yield Sign(f'<path class="win" {bar}', "rows of the window")
    if any(has.state is not None for has in held):
        yield Sign('<circle class="dot" cx="12" cy="7" r="4"/>', "recurrent state")
    if any(has.checkpoints for has in held):
        yield Sign('<path class="mark" d="M8 11h8l-4 -8z"/>', "checkpoint")


def _cache(lanes: Lanes) -> Iterator[Sign]:
    if lanes.lives:
        life = '<path class="life" d="M12 7V14"/><rect class="full" x="8" y="3" width="8" height="8"/>'
        yield Sign(life, "entry of the prompt cache")
    if any(entry.gone is not None and not entry.consumed for entry in lanes.lives):
        yield Sign('<rect class="gone box" x="8" y="3" width="8" height="8"/>', "entry removed")
    if any(entry.consumed for entry in lanes.lives):
        arrow = '<path class="gone" d="M15 7H1m4 -3l-4 3l4 3"/>'
        yield Sign(f'<rect class="gone box" x="15" y="3" width="8" height="8"/>{arrow}', "entry removed on load")


def _rest(one: Scene, scale: Scale) -> Iterator[Sign]:
    lost = (0 <= part.at < row.number for row in one.rows for part in row.stretches if part.origin == "again")
    if any(lost):
        yield Sign(f'<path class="arrow" d="M{WIDE} 7H2m6 -4l-6 4l6 4"/>', "where it was lost")
    if scale.broken:
        yield Sign('<path class="thin" d="M8 3l3 8m3 -8l3 8"/>', "stretch drawn shorter")
