"""Reduction of a drawn line by numbers that Hypothesis draws, in the order of our own shrinking.

An integer determines a whole conversation, as in ``cachesim fuzz``. Hypothesis also draws the vector of
``scenarios/notation/shrink_vector.py``: 0 drops a step, a piece, a field or an option, smaller numbers shorten a word.
Nearly all drawn vectors keep everything. Hypothesis prefers small numbers, the first ones most, so that it removes
steps first, then pieces, fields and options, and shortens words last.

The numbers are drawn without spans. Hypothesis would copy equal spans over each other, and five examples of six would
repeat the conversation before them.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.control import should_note
from hypothesis.internal.conjecture.data import ConjectureData

from cachesim.scenarios.notation.normalise import merged, renamed, split, unmarked
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, ShrinkVector, reduced, whole
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal

LEAST = ScenarioLine({"A": 1}, (LineRequest((Piece("A"),)),))
"""The simplest line, which replaces a line without steps."""
KEPT = 0.99
"""Probability that a drawn vector keeps an element."""


class NumberSource:
    """Source of numbers that Hypothesis draws, each a choice of its own without a span. ``data``: the choices of the
    example, an object of Hypothesis."""

    def __init__(self, data: ConjectureData) -> None:
        self.data = data

    def integer(self) -> int:
        """Draw an integer of 24 bits, all equally often."""
        high, middle, low = (self.data.draw_integer(0, 255) for _ in range(3))
        return high << 16 | middle << 8 | low

    def keeps(self, elements: Sequence[int]) -> tuple[int, ...]:
        """Draw 1 for each element that stays. An element 0 is not there, and costs no draw. Integers, because the
        search of ``target()`` takes minutes with as many booleans."""
        return tuple(self.data.draw_integer(0, 1, weights={1: KEPT}) if one else 0 for one in elements)

    def lengths(self, most: Sequence[int]) -> tuple[int, ...]:
        """Draw numbers up to these, most often these themselves."""
        return tuple(self.data.draw_integer(0, int(one), weights={int(one): KEPT}) if one else 0 for one in most)

    def names(self, names: Sequence[str]) -> frozenset[str]:
        """Draw which of these names stay."""
        stays = self.keeps([1] * len(names))
        return frozenset(name for name, stay in zip(names, stays, strict=True) if stay)


class _NumberSources(st.SearchStrategy[NumberSource]):
    """Strategy of the source of an example."""

    def do_draw(self, data: ConjectureData) -> NumberSource:
        return NumberSource(data)


NUMBERS = _NumberSources()


class ExtraParts(NamedTuple):
    """Parts of a line that the vector cannot drop: further fields and messages, 1 for each, and 1 for its marks."""

    fields: tuple[int, ...]
    messages: tuple[int, ...]
    marks: tuple[int, ...]


def draw_reduced(numbers: NumberSource, drawn: ShrinkCase) -> ShrinkCase:
    """Return a line, and the names of its server's options, reduced by a drawn vector."""
    given = drawn._replace(line=split(drawn.line))
    top, parts = whole(given), _extra_parts(given.line)
    kept = (top.steps, top.pieces, top.flags, top.options, *parts)
    steps, pieces, flags, options, *stays = map(numbers.keeps, kept)
    rare, words = map(numbers.lengths, (top.rare, top.words))
    line, pieces = _without_parts(given.line, pieces, ExtraParts(*stays))
    return reduced(given._replace(line=line), ShrinkVector(steps, pieces, flags, options, words, rare))


def _extra_parts(line: ScenarioLine) -> ExtraParts:
    asked = [step for step in line.steps if isinstance(step, LineRequest)]
    return ExtraParts((1,) * sum(len(step.extra) for step in asked), (1,) * sum(len(step.chat) for step in asked), (1,))


def _without_parts(
    line: ScenarioLine, pieces: Sequence[int], stays: ExtraParts
) -> tuple[ScenarioLine, tuple[int, ...]]:
    """Return the line with only the fields, messages and marks that stay, and the numbers of its remaining pieces. A
    chat keeps its last message."""
    fields = iter(stays.fields)
    messages = iter(stays.messages)
    left = iter(pieces)
    steps, found = [], list[int]()
    for step in line.steps:
        if isinstance(step, LineRequest):
            extra = tuple(item for item in step.extra if next(fields))
            found += [next(left) for _ in step.prompt]
            chat = []
            for number, (role, text) in enumerate(step.chat, 1):
                numbers = [next(left) for _ in text]
                if next(messages) or number == len(step.chat):
                    chat.append((role, text))
                    found += numbers
            step = step._replace(extra=extra, chat=tuple(chat))
        steps.append(step)
    changed = ScenarioLine(line.words, tuple(steps))
    return changed if stays.marks[0] else unmarked(changed), tuple(found)


def canonical_line(line: ScenarioLine, fixed: bool = False) -> ScenarioLine:
    """Return the line as its text is parsed, with its words merged and renamed A, B, C unless they are ``fixed``.
    Raise BadInput for a line that is not valid."""
    if not line.steps:
        return LEAST
    return normal(line if fixed else renamed(merged(line)))


def note_again(line: Callable[[], str]) -> None:
    """Print a line with a failing example; outside a test it is not printed. The line is made only where it is printed:
    the search for the variable of a rule set takes longer than a run."""
    if currently_in_test_context() and should_note():
        note(line())
