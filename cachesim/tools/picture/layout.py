"""Sizes of a drawing in pixels, and text in it."""

from __future__ import annotations

from html import escape

HEAD, TOP, RIGHT = 46, 102, 380    # of a run: where its lanes begin, its first row, and what stands beside its tokens
LABEL = 18                   # characters of a line at the left edge of a row
BAR, STRIP, GAP = 22, 26, 26
STEP = BAR + STRIP + GAP
SHOWN, LINES = 48, 4          # characters of a line beside a row, and lines beneath the verdict

PROMPT = 80                  # characters of a prompt in a heading


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A text at a place, escaped; ``kind``: classes."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.7g}" y="{y:.7g}"{mark}>{escape(words)}</text>'


def inner(words: str, most: int) -> str:
    """A text whose middle is left out where it is longer: what is new in a prompt is at its end."""
    return words if len(words) <= most else f"{words[:most // 3]}…{words[1 + most // 3 - most:]}"


def label(number: int, words: str) -> list[str]:
    """The name of a request at the left edge of its row, in one line or two."""
    name = f"#{number} {words}"
    return [name] if len(name) <= LABEL else [f"#{number}", inner(words, LABEL)]


def cut(words: str, most: int) -> str:
    """The first characters of a text, with an ellipsis for the rest."""
    return words if len(words) <= most else words[: most - 1] + "…"
