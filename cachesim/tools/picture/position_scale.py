"""Which x belongs to a token position? A scale on which short stretches stay visible and long equal ones are broken."""

from __future__ import annotations

from bisect import bisect_right
from html import escape
from itertools import accumulate, pairwise
from typing import Iterable, Sequence

# Sizes of a drawing in pixels, and text in it.

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


LEAST, MOST = 16.0, 150.0    # pixels of an interval between two boundaries
UNITS = (4.0, 3.0, 2.0, 1.0, 0.5)     # pixels of a token: the first with which the whole is not wider than WIDE
WIDE = 1200.0


class Scale:
    """Positions are cut at all boundaries; every interval has a width between LEAST and MOST. ``broken``: intervals
    that are shorter than their tokens would be; ``left``: the x of position 0 in the drawing."""

    def __init__(self, boundaries: Iterable[int], left: float = 0.0) -> None:
        self.left = left
        self.at: Sequence[int] = sorted({0, *boundaries})
        every = [*pairwise(self.at)]
        fits = (unit for unit in UNITS if sum(_width(one, unit) for one in every) <= WIDE)
        unit = next(fits, UNITS[-1])
        self.x = [0.0, *accumulate(_width(one, unit) for one in every)]
        self.broken = [(start, stop) for start, stop in every if (stop - start) * unit > MOST]

    @property
    def width(self) -> float:
        """Pixels of the whole."""
        return self.x[-1]

    def px(self, position: float) -> float:
        """The x of a position in the drawing."""
        return self.left + self.of(position)

    def of(self, position: float) -> float:
        """How far right of position 0 a position is; it need be no boundary."""
        number = min(bisect_right(self.at, position) - 1, len(self.at) - 2)
        if number < 0:
            return 0.0
        start, stop = self.at[number], self.at[number + 1]
        share = min(1.0, (position - start) / (stop - start))
        return round(self.x[number] + share * (self.x[number + 1] - self.x[number]), 1)


def _width(interval: tuple[int, int], unit: float) -> float:
    """Pixels of an interval in which a token is so many pixels wide."""
    return min(MOST, max(LEAST, (interval[1] - interval[0]) * unit))
