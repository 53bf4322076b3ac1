"""Reduction of a drawn line by numbers that Hypothesis draws, in the order of our own shrinking.

An integer determines a whole conversation, as in ``cachesim fuzz``. Hypothesis also draws the vector of
``scenarios/notation/shrink_vector.py``: 0 drops a step, a piece, a field or an option, smaller numbers shorten a word.
Most drawn vectors keep nearly everything. Hypothesis prefers small numbers, the first ones most, so that it removes
steps first, then pieces, fields and options, and shortens words last.
"""

from __future__ import annotations

from typing import Iterator

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st

from cachesim.scenarios.notation.normalise import merged, renamed, split, unmarked
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, ShrinkVector, reduced, sound, whole
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal

SEEDS = st.integers(0, (1 << 24) - 1)
"""Integers of conversations. Hypothesis draws from a range of at most 24 bits evenly, and prefers small numbers in a
larger one."""
LONGEST = (1 << 12) - 1
"""Largest drawn length of a word [tokens]. Most words are shorter, and most draws leave them as they are."""
KEEP = st.integers(0, 63).map(bool)
LENGTH = st.integers(0, LONGEST)
LEAST = ScenarioLine({"A": 1}, (LineRequest((Piece("A"),)),))
"""The simplest line, which replaces a line without steps."""


def draw_reduced(draw: st.DrawFn, drawn: ShrinkCase) -> ShrinkCase:
    """Return a line, and the names of its server's options, reduced by a drawn vector; its words are A, B, C in the
    order of first use. Words that options name keep their names."""
    given = drawn._replace(line=split(drawn.line))
    top = whole(given)
    vector = ShrinkVector(*(_numbers(draw, part, "words" in name or "rare" in name)
                            for name, part in top._asdict().items()))  # fmt: skip
    small = reduced(given, vector)
    return small._replace(line=_without_marks(draw, small.line))


def _numbers(draw: st.DrawFn, most: tuple[int, ...], are_lengths: bool) -> tuple[int, ...]:
    """Draw a number from 0 to its maximum for each of ``most``, most often the maximum. Fields that a line does not
    have cost no draw."""
    drawn = draw(st.tuples(*((LENGTH if are_lengths else KEEP) for maximum in most if maximum)))
    left = iter(drawn)
    return tuple(min(maximum, int(next(left))) if maximum else 0 for maximum in most)


def _without_marks(draw: st.DrawFn, line: ScenarioLine) -> ScenarioLine:
    """Draw which marks, further fields and messages of a line stay: the vector cannot drop them."""
    steps = []
    for step in line.steps:
        if isinstance(step, LineRequest):
            stays = draw(st.tuples(*([KEEP] * (len(step.extra) + max(0, len(step.chat) - 1)))))
            extra = tuple(item for item, stay in zip(step.extra, stays, strict=False) if stay)
            dropped = [not stay for stay in stays[len(step.extra) :]]
            chat = tuple(one for i, one in enumerate(step.chat) if i >= len(dropped) or not dropped[i])
            step = step._replace(extra=extra, chat=chat)
        steps.append(step)
    changed = sound(ScenarioLine(line.words, tuple(steps)))
    return changed if draw(KEEP) else unmarked(changed)


def canonical_line(line: ScenarioLine, fixed: bool = False) -> ScenarioLine:
    """Return the line as its text is parsed, with its words merged and renamed A, B, C unless they are ``fixed``.
    Raise BadInput for a line that is not valid."""
    if not line.steps:
        return LEAST
    return normal(line if fixed else renamed(merged(line)))


def note_again(lines: Iterator[str] | list[str]) -> None:
    """Print lines with a failing example; outside a test they are not printed."""
    if currently_in_test_context():
        for line in lines:
            note(line)
