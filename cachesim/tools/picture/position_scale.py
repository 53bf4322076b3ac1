"""Scale that maps token positions to x coordinates: short ranges stay visible, long uniform ranges are shortened."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Iterable, NamedTuple, Sequence

from cachesim.base.escaping import markup

# Sizes of a drawing in pixels, and text functions.

HEAD, TOP, RIGHT = 46, 102, 380    # of a run: y of its lanes, y of its first row, width of the notes beside the tokens
LABEL = 18                   # characters of a label at the left edge of a row
BAR = 22
STRIP = 26
GAP = 26
STEP = BAR + STRIP + GAP
SHOWN, LINES = 48, 4          # characters of a note beside a row, and lines below the verdict

PROMPT = 80                  # characters of a prompt in a heading


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return an SVG text at a position, escaped. ``kind``: its classes."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.7g}" y="{y:.7g}"{mark}>{markup(words)}</text>'


def inner(words: str, most: int) -> str:
    """Shorten a text in the middle to at most ``most`` characters: the new part of a prompt is at its end."""
    return words if len(words) <= most else f"{words[:most // 3]}…{words[1 + most // 3 - most:]}"


def label(number: int, words: str) -> list[str]:
    """Return the label of a request at the left edge of its row, in at most two lines."""
    name = f"#{number} {words}"
    return [name] if len(name) <= LABEL else [f"#{number}", inner(words, LABEL)]


def cut(words: str, most: int) -> str:
    """Shorten a text at its end to at most ``most`` characters, with an ellipsis."""
    return words if len(words) <= most else words[: most - 1] + "…"


LEAST, MOST = 16.0, 150.0    # minimum and maximum width of an interval between two boundaries, in pixels
WIDE, NARROW = 1200.0, 430.0          # maximum width of all tokens in a drawing alone, and in a timeline


class ScaleStep(NamedTuple):
    """Width of a token, and the least and the most of an interval, in pixels."""

    token: float
    least: float = LEAST
    most: float = MOST

    def width(self, interval: tuple[int, int]) -> float:
        """Return the width of an interval."""
        return min(self.most, max(self.least, self.tokens(interval)))

    def tokens(self, interval: tuple[int, int]) -> float:
        """Return the width of an interval that is neither shortened nor widened."""
        return (interval[1] - interval[0]) * self.token

    def total(self, every: Sequence[tuple[int, int]]) -> float:
        """Return the width of all intervals."""
        return sum(map(self.width, every))


SIZES = tuple(map(ScaleStep, (4.0, 3.0, 2.0, 1.0, 0.5)))
FOLDED = (ScaleStep(0.5, LEAST, 48.0), ScaleStep(0.5, 12.0, 36.0), ScaleStep(0.5, 8.0, 24.0))   # for many intervals


class PositionScale:
    """Piecewise linear scale: an interval between two boundaries is as wide as its tokens, but not too wide and not too
    narrow. ``broken``: the intervals that are shortened. ``left``: x of position 0 in the drawing. ``wide``: maximum
    width, if that is possible. ``minor``: boundaries that are left out where the drawing would be wider."""

    def __init__(
        self, boundaries: Iterable[int], left: float = 0.0, wide: float = WIDE, minor: Iterable[int] = ()
    ) -> None:
        self.left = left
        major = {0, *boundaries}
        sizes = [*SIZES, *FOLDED]
        choices = [(sorted(edges), size) for edges in (major.union(minor), major) for size in sizes]
        fitting = (one for one in choices if one[1].total([*pairwise(one[0])]) <= wide)
        self.at: Sequence[int]
        self.at, size = next(fitting, choices[-1])
        every = [*pairwise(self.at)]
        self.x = [0.0, *accumulate(map(size.width, every))]
        self.broken = [one for one in every if size.tokens(one) > size.most]

    @property
    def width(self) -> float:
        """Total width in pixels."""
        return self.x[-1]

    def px(self, position: float) -> float:
        """Return the x coordinate of a position in the drawing."""
        return self.left + self.of(position)

    def of(self, position: float) -> float:
        """Return the distance of any position from position 0, in pixels."""
        number = min(bisect_right(self.at, position) - 1, len(self.at) - 2)
        if number < 0:
            return 0.0
        start, stop = self.at[number], self.at[number + 1]
        share = min(1.0, (position - start) / (stop - start))
        return round(self.x[number] + share * (self.x[number + 1] - self.x[number]), 1)
