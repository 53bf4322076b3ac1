"""Numbers that Hypothesis draws for a line."""

from __future__ import annotations

from collections import Counter

import pytest

from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.strategies import line_reduction
from cachesim.strategies.line_reduction import (
    ExtraParts,
    NumberSource,
    _extra_parts,
    _without_parts,
    canonical_line,
    draw_reduced,
    note_again,
)


class Drawn:
    """Choices in order; the last bounds and weights are kept."""

    def __init__(self, *numbers):
        self.numbers, self.asked = [*numbers], []

    def draw_integer(self, low, high, weights=None):
        self.asked.append((low, high, weights))
        return self.numbers.pop(0)


def test_an_integer_has_three_bytes_the_first_one_highest():
    assert NumberSource(Drawn(1, 2, 3)).integer() == 0x010203
    assert NumberSource(drawn := Drawn(255, 255, 255)).integer() == 0xFFFFFF
    assert drawn.asked == [(0, 255, None)] * 3


def test_elements_that_are_not_there_cost_no_choice():
    drawn = Drawn(1, 0)
    assert NumberSource(drawn).keeps((1, 0, 1)) == (1, 0, 0)
    assert drawn.asked == [(0, 1, {1: 0.99})] * 2
    drawn = Drawn(7, 3)
    assert NumberSource(drawn).lengths((7, 0, 9)) == (7, 0, 3)
    assert drawn.asked == [(0, 7, {7: 0.99}), (0, 9, {9: 0.99})]
    assert NumberSource(Drawn(1, 0, 1)).names(("a", "b", "c")) == {"a", "c"}


CHAT = "s:S4+u:A5.B6+a:C7/D8{lora=0:1 cache_salt=x}/{erase@0}"
WHOLE = ExtraParts((1, 1), (1, 1, 1), (1,))


def kept(line, fields=(1, 1), messages=(1, 1, 1), marks=(1,), pieces=(0, 1, 2, 3, 4)):
    changed, found = _without_parts(parse(line), pieces, ExtraParts(fields, messages, marks))
    return changed.steps, found


def test_a_line_has_so_many_parts():
    assert _extra_parts(parse(CHAT)) == WHOLE
    assert _extra_parts(parse("A5/{erase@0}")) == ExtraParts((), (), (1,))


@pytest.mark.parametrize("parts, line, pieces", [
    ({}, CHAT, (0, 1, 2, 3, 4)),
    ({"fields": (0, 1)}, CHAT.replace("lora=0:1 ", ""), (0, 1, 2, 3, 4)),
    ({"fields": (1, 0)}, CHAT.replace(" cache_salt=x", ""), (0, 1, 2, 3, 4)),
    ({"messages": (0, 1, 1)}, CHAT.removeprefix("s:S4+"), (1, 2, 3, 4)),
    ({"messages": (1, 0, 1)}, CHAT.replace("u:A5.B6+", ""), (0, 3, 4)),
    ({"messages": (0, 0, 0)}, CHAT.removeprefix("s:S4+u:A5.B6+"), (3, 4)),
])  # fmt: skip
def test_only_what_stays_is_in_the_line(parts, line, pieces):
    """The last message of a chat stays. The numbers are those of the pieces of the messages that stay."""
    assert kept(CHAT, **parts) == (parse(line).steps, pieces)


def test_marks_go_all_together():
    line, parts = parse("S4.|A5/S.|B5"), (1, 1, 1, 1)
    assert _without_parts(line, parts, ExtraParts((), (), (1,))) == (line, parts)
    assert _without_parts(line, parts, ExtraParts((), (), (0,))) == (parse("S4.A5/S.B5"), parts)


class Numbers:
    """Source that keeps everything except the elements with these numbers, in the order of the questions."""

    def __init__(self, **gone):
        self.gone, self.asked = gone, Counter()

    def keeps(self, weights):
        self.asked["keeps"] += 1
        return tuple(weight * (i not in self.gone.get(f"keeps{self.asked['keeps']}", ()))
                     for i, weight in enumerate(weights))  # fmt: skip

    def lengths(self, most):
        return most


@pytest.mark.parametrize("gone, line", [
    ({}, "A4.B5/C6>3"), ({"keeps1": [1]}, "A4.B5"), ({"keeps1": [0]}, "C6>3"), ({"keeps2": [0]}, "B5/C6>3")])
def test_a_vector_reduces_a_line(gone, line):
    assert draw_reduced(Numbers(**gone), ShrinkCase(parse("A4.B5/C6>3"))).line == canonical(line, "A4.B5/C6>3")


def test_words_are_split_at_their_slices_before_a_line_is_reduced():
    """Otherwise a part of a word could not be dropped alone."""
    line, words = parse("A9/A[:4].B2"), parse("A_A4.A_B5/A_A.B2")
    assert draw_reduced(Numbers(), ShrinkCase(line)).line == words
    assert draw_reduced(Numbers(keeps2=[0]), ShrinkCase(line)).line.steps == parse("A_B5/A_A4.B2").steps


def canonical(line, of):
    return parse(line)._replace(words=parse(of).words) if line == of else parse(line)


def test_an_empty_line_is_the_least_and_names_may_be_fixed():
    line = parse("Q4/Q.R5")
    assert canonical_line(line) == parse("A4/A.B5") and canonical_line(line, fixed=True) == line
    assert canonical_line(line._replace(steps=())) == line_reduction.LEAST


@pytest.mark.parametrize("inside", [True, False])
def test_lines_are_noted_inside_a_test_only(monkeypatch, inside):
    seen = []
    monkeypatch.setattr(line_reduction, "currently_in_test_context", lambda: inside)
    monkeypatch.setattr(line_reduction, "note", seen.append)
    note_again(["one", "two"])
    assert seen == ["one", "two"] * inside
