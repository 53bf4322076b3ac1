"""Sizes of a drawing in pixels, and text in it."""

from __future__ import annotations

from html import escape

TOP, RIGHT, LEAST = 102, 460, 1040
LABEL = 18                   # characters of a line at the left edge of a row
BAR, STRIP, GAP = 22, 26, 26
STEP = BAR + STRIP + GAP
SHOWN = 58                   # characters of a line beside a row


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A text at a place, escaped; ``kind``: classes."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.7g}" y="{y:.7g}"{mark}>{escape(words)}</text>'


def cut(words: str, most: int) -> str:
    """The first characters of a text, with an ellipsis for the rest."""
    return words if len(words) <= most else words[: most - 1] + "…"
