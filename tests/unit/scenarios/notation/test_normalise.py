"""Tests of the normalisation of lines: the tokens that texts share are preserved."""

from __future__ import annotations

import pytest
from hypothesis import given

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.normalise import letters, merged, renamed, renamed_apart, split, unmarked
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import ScenarioLine, texts
from cachesim.scenarios.notation.word_lengths import THINK, normal, span
from tests.unit.scenarios.notation.lines import lines


def sequence(line):
    """Every text as its tokens, numbered in the order in which they come."""
    numbers, said = {}, [text for step in line.steps for text in texts(step)]
    return [[numbers.setdefault((piece.word, i), len(numbers)) for piece in text
             for i in range(*span(piece, line.words))] for text in said]  # fmt: skip


def marks(line):
    return [piece.user for step in line.steps for text in texts(step) for piece in text if piece.user]


@given(lines())
def test_the_tokens_stay_what_they_were(line):
    for change in (renamed, renamed_apart, unmarked, merged, split, normal):
        assert sequence(change(line)) == sequence(line)
    assert marks(split(line)) == marks(renamed(line)) == marks(line)
    assert marks(unmarked(line)) == []


@given(lines())
def test_no_slice_is_left_when_words_are_split(line):
    parts = split(line)
    assert all(piece[2:] == (None, None) for step in parts.steps for text in texts(step) for piece in text)
    assert parse(spell(parts)) == normal(parts)


@pytest.mark.parametrize(("text", "left"), [
    ("A4.B3.C2/A.B", "A7.C2/A"),                    # C comes behind B once only
    ("A4.B3.C2/A.B.C", "A9/A"),
    ("A4.|B3/A.|B", "A4.|B3/A.|B"),                 # a mark stands between them
    ("A4.B3/B", "A4.B3/B"),
    ("A4.B3[:2]/A.B", "A4.B3[:2]/A.B"),
    ("A4.A/A", "A4.A/A"),
    ("THINK1.A3", "THINK1.A3"), ("A3.THINK1", "A3.THINK1"),
    ("A4.B3{n_cmpl=2 answers=C1}/A.B", "A7{n_cmpl=2 answers=C1}/A"),
])  # fmt: skip
def test_words_that_only_come_together_are_made_one(text, left):
    assert spell(merged(parse(text))) == left


@pytest.mark.parametrize(("text", "plain", "apart"), [
    ("q3.B5/B.q[:2]", "A3.B5/B.A[:2]", "A3.B5/B.A[:2]"),
    ("X5>y2/X.y.Z3>w1", "A5>B2/A.B.C3>D1", "A5>a2/A.a.B3>b1"),
    ("X5>X/THINK1.X", "A5>A/THINK1.A", "A5>A/THINK1.A"),
])  # fmt: skip
def test_words_are_renamed_in_the_order_of_their_use(text, plain, apart):
    line = parse(text)
    assert (spell(renamed(line)), spell(renamed_apart(line))) == (plain, apart)


def test_a_part_of_a_word_is_called_like_no_other_word():
    line = split(parse("A4[:2].A_A3.A"))
    assert len(line.words) == 3 and sum(line.words.values()) == 7


def test_unused_words_go_and_a_thought_keeps_its_name():
    line = ScenarioLine({"u": 9, "THINK": 1, "x": 2}, parse("THINK1.x2").steps)
    assert dict(renamed(line).words) == {THINK: 1, "A": 2}


def test_there_are_names_for_many_words():
    names = [letters(i) for i in range(20_000)]
    assert (names[0], names[25:28], names[701:703]) == ("A", ["Z", "AA", "AB"], ["ZZ", "AAA"])
    assert len(set(names)) == len(names) and all(name.isalpha() for name in names)
