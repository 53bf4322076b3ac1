"""SVG charts of many lines: losses by cause as bars.

Every colour has a letter as a second signal. Text is escaped; no external resource is used.
"""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.escaping import attribute, markup
from cachesim.tools.picture.page_assets import asset

WIDTH, LEFT, RIGHT, TOP = 860, 170, 90, 64
BAR, STEP = 20, 32
COLOURS = 8                  # number of colours in charts.css: --c0 to --c7


class Bar(NamedTuple):
    """A bar: its parts by name, in per cent of the prompt tokens."""

    name: str
    parts: Mapping[str, float]


def bars(title: str, said: str, rows: Sequence[Bar], line: float, told: str) -> str:
    """Return stacked bars, below each other. ``line``: a bound common to all, with the label ``told``. Parts are in
    order of first occurrence."""
    names = list(dict.fromkeys(name for row in rows for name in row.parts))
    most = max([line, *(sum(row.parts.values()) for row in rows)]) or 1.0
    scale, height = (WIDTH - LEFT - RIGHT) / most, TOP + STEP * len(rows) + 50
    body = [_text(12, 24, title, "big"), _text(12, 44, said, "dim")]
    for number, row in enumerate(rows):
        y, x = TOP + number * STEP, float(LEFT)
        body.append(_text(LEFT - 8, y + 14, row.name, "end"))
        for name, value in row.parts.items():
            body.append(_part(x, y, value * scale, names.index(name), f"{row.name}: {name} {value:.2f} %"))
            x += value * scale
        body.append(_text(x + 6, y + 14, f"{sum(row.parts.values()):.2f} %"))
    x = LEFT + line * scale
    bottom = TOP + STEP * len(rows)
    body.append(f'<path class="dash" d="M{x:.1f} {TOP - 8}V{bottom}"/>')
    body.append(_text(x + 4, TOP - 10, told, "dim"))
    return _drawing(title, [*body, *_legend(names, bottom + 18)], height)


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _part(x: float, y: float, width: float, colour: int, said: str) -> str:
    box = f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0):.1f}" height="{BAR}" fill="var(--c{colour % COLOURS})" '
    letter = _text(x + width / 2, y + 14, _letter(colour), "mid") if width > 14 else ""
    return f'<g role="listitem"><title>{markup(said)}</title>{box}stroke="var(--paper)"/>{letter}</g>'


def _legend(names: Sequence[str], y: float) -> Iterator[str]:
    x = 12.0
    for number, name in enumerate(names):
        yield f'<rect x="{x:.1f}" y="{y}" width="14" height="14" fill="var(--c{number % COLOURS})"/>'
        yield _text(x + 7, y + 11, _letter(number), "mid")
        yield _text(x + 19, y + 11, name)
        x += 34 + 7.3 * len(name)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of_kind}>{markup(text)}</text>'


def _drawing(title: str, body: Sequence[str], height: float) -> str:
    head = (f'<svg class="ch" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" role="img" aria-label="{attribute(title)}">')  # fmt: skip
    paper = f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>'
    return f"{head}<style>{asset(__file__, 'charts.css')}</style>{paper}{''.join(body)}</svg>\n"
