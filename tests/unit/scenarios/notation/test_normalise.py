"""Tests of the normalisation of lines: the tokens that texts share are preserved."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.normalise import (
    check_asked,
    clipped,
    letters,
    merged,
    renamed,
    renamed_apart,
    split,
    unmarked,
)
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine, texts
from cachesim.scenarios.notation.word_lengths import THINK, ImageSize, normal, span
from tests.unit.scenarios.notation.lines import lines


def sequence(line):
    """Every text as its tokens, numbered in the order in which they come."""
    numbers, said = {}, [text for step in line.steps for text in texts(step)]
    return [[numbers.setdefault((piece.word, i), len(numbers)) for piece in text
             for i in range(*span(piece, line.words))] for text in said]  # fmt: skip


def marks(line):
    return [piece.user for step in line.steps for text in texts(step) for piece in text if piece.user]


@settings(max_examples=40)
@given(lines())
def test_the_tokens_stay_what_they_were(line):
    for change in (renamed, renamed_apart, unmarked, merged, split, normal):
        assert sequence(change(line)) == sequence(line)
    assert marks(split(line)) == marks(renamed(line)) == marks(line)
    assert marks(unmarked(line)) == []


@settings(max_examples=40)
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


WORDS = {"A": 5, "b": 2, "I": ImageSize(4, 2), "none": 0}


def asked(**fields):
    return LineRequest((Piece("A"),), **fields)


@pytest.mark.parametrize("step", [
    asked(), asked(answer=(Piece("b"),), n_predict=2), asked(n_predict=0), asked(n_predict=3, cancel_after=2),
    asked(answer=(Piece("b"),), n_cmpl=3, answers=((Piece("b"),), (Piece("A", start=1, stop=3),))),
    asked(n_cmpl=2, answers=((Piece("b", stop=1),),)), asked(answer=(Piece("b"),), cancel_after=0),
    LineRequest((Piece("I"), Piece("A", user=True))),
])  # fmt: skip
def test_a_request_whose_numbers_fit_is_valid(step):
    assert check_asked(step, WORDS) is None


@pytest.mark.parametrize(("step", "message"), [
    (asked(answer=(Piece("b"),), n_predict=3), "n_predict is 3, but the answer has 2 tokens"),
    (asked(answer=(Piece("b", user=True),)), "a user message cannot start in an answer"),
    (asked(answer=(Piece("I"),)), "'I' is an image, which no answer has"),
    (asked(n_cmpl=2, answers=((Piece("I"),),)), "'I' is an image, which no answer has"),
    (asked(answer=(Piece("I", stop=1),)), "slice I[0:1]: an image cannot be cut"),
    (asked(answer=(Piece("Z"),)), "word 'Z' has no length"),
    (asked(n_cmpl=2, answers=((Piece("Z"),),)), "word 'Z' has no length"),
    (asked(answer=(Piece("b", stop=3),)), "slice b[0:3] is out of range (the word has 2 tokens)"),
    (asked(n_cmpl=1, answers=((Piece("b"),),)), "answers has 1 entry, expected at most 0: one for each completion "
                                                "after the first (n_cmpl is 1)"),
    (asked(n_predict=2, n_cmpl=2, answers=((Piece("b"),),) * 2), "answers has 2 entries, expected at most 1: "),
    (asked(n_predict=2, n_cmpl=3, answers=((Piece("b"),), (Piece("A"),))),
     "every completion has 2 tokens, so every entry of answers must have 2"),
    (asked(n_predict=2, cancel_after=2), "cancel_after is 2, but the answer ends after 2 tokens"),
    (asked(n_predict=0, cancel_after=0), "cancel_after is 0, but the answer ends after 0 tokens"),
    (LineRequest((Piece("A", start=5),)), "slice A[5:5] is out of range (the word has 5 tokens)"),
])  # fmt: skip
def test_a_request_whose_numbers_do_not_fit_is_refused(step, message):
    with pytest.raises(BadInput) as caught:
        check_asked(step, WORDS)
    assert message in str(caught.value)


@pytest.mark.parametrize(("piece", "left"), [
    (Piece("A"), [Piece("A")]), (Piece("none"), []), (Piece("A", True, 2, 9), [Piece("A", True, 2)]),
    (Piece("A", start=0, stop=5), [Piece("A")]), (Piece("A", start=1, stop=4), [Piece("A", start=1, stop=4)]),
    (Piece("A", start=4), [Piece("A", start=4)]), (Piece("A", start=5), []), (Piece("A", start=2, stop=2), []),
    (Piece("A", stop=1), [Piece("A", stop=1)]), (Piece("A", start=9, stop=12), []),
])  # fmt: skip
def test_a_slice_is_cut_to_the_length_of_its_word(piece, left):
    assert clipped((Piece("b"), piece), WORDS) == (Piece("b"), *left)


@pytest.mark.parametrize(("text", "lengths"), [
    ("A5/A.B3", [[5], [5, 3]]), ("A5[:2]/A", [[2], [2, 3]]), ("A5/A[1:3]", [[1, 2, 2], [2]]),
    ("A5>r4/A.r[:1]", [[5], [5, 1]]),
])  # fmt: skip
def test_parts_of_sliced_words_become_words(text, lengths):
    found = split(parse(text))
    assert [[found.words[piece.word] for piece in step.prompt] for step in found.steps] == lengths
    assert (found == parse(text)) == ("[" not in text)
