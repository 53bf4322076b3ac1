"""Lengths of words, slices and prompts, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from pickle import dumps, loads

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import (
    ImageSize,
    check_word,
    longest,
    normal,
    predicted,
    prompt_size,
    read_image,
    read_length,
    shortened,
    size,
    span,
    user_starts,
)

WORDS = {"S": 40, "A": 6, "I": ImageSize(4, 2)}


@pytest.mark.parametrize(("pieces", "starts"), [
    ((), ()), ((Piece("S"),), ()), ((Piece("S", user=True), Piece("A")), (0,)),
    ((Piece("S"), Piece("A", user=True), Piece("A", start=2), Piece("I", user=True)), (40, 50)),
])  # fmt: skip
def test_user_messages_start_after_the_tokens_before_them(pieces, starts):
    assert user_starts(pieces, WORDS) == starts


@pytest.mark.parametrize(("piece", "found"), [
    (Piece("A"), (0, 6)), (Piece("A", False, 2), (2, 6)), (Piece("A", False, None, 6), (0, 6)),
    (Piece("A", False, 5, 6), (5, 6)),
    (Piece("I"), (0, 8)), (Piece("I", False, 0, 8), (0, 8)),
])  # fmt: skip
def test_a_slice_lies_within_its_word(piece, found):
    assert span(piece, WORDS) == found
    assert size((piece, Piece("S")), WORDS) == found[1] - found[0] + 40


@pytest.mark.parametrize(("piece", "message"), [
    (Piece("A", False, 6), r"slice A\[6:6\] is out of range \(the word has 6 tokens\)"),
    (Piece("A", False, 3, 3), "out of range"),
    (Piece("A", False, 0, 7), r"slice A\[0:7\] is out of range"), (Piece("A", False, -1), "out of range"),
    (Piece("I", False, 1), r"slice I\[1:8\]: an image cannot be cut"), (Piece("B"), "word 'B' has no length"),
    (Piece("a"), "word 'a' has no length"),
])  # fmt: skip
def test_a_slice_outside_its_word_is_refused(piece, message):
    with pytest.raises(BadInput, match=message):
        span(piece, WORDS)


@pytest.mark.parametrize(("name", "length", "message"), [
    ("A1", 3, "expected letters and underscores"), ("THINK", 2, "is the think token: its length is 1, found 2"),
    ("A", 0, "its length is 0, it must be at least 1"),
    ("A", ImageSize(9999, 9999), "99,980,001 tokens, at most 1,000,000 tokens are allowed"),
])  # fmt: skip
def test_a_bad_word_is_refused(name, length, message):
    with pytest.raises(BadInput, match=message):
        check_word(name, length)


def test_good_words_are_taken():
    for name, length in (("A", 1), ("THINK", 1), ("NULL", 1), ("a_B", 5), ("I", ImageSize(4, 2))):
        check_word(name, length)


def test_the_size_of_an_image_is_its_product_and_survives_copies():
    found = read_length("4x2")
    assert (found, str(found), found.columns, found.rows) == (8, "4x2", 4, 2)
    assert (read_length("12"), type(read_length("12"))) == (12, int)
    assert deepcopy(found) is found and str(loads(dumps(found))) == "4x2"
    assert str(read_image("I", "3x5")) == "3x5"
    for text in ("8", "x", "4x"):
        with pytest.raises(BadInput, match="the size of an image"):
            read_image("I", text)


@pytest.mark.parametrize(("length", "tokens", "found"), [
    (9, 4, "4"), (ImageSize(4, 2), 8, "4x2"), (ImageSize(4, 2), 5, "5x1"), (ImageSize(4, 2), 0, "0"),
])  # fmt: skip
def test_an_image_that_is_cut_remains_an_image(length, tokens, found):
    assert str(shortened(length, tokens)) == found


def test_lengths_of_requests():
    line = parse("S40.A6>r4/S[2:8]>3/A/S.A!")
    assert [prompt_size(step, line.words) for step in line.steps] == [46, 6, 6, 46]
    assert [predicted(step, line.words) for step in line.steps] == [4, 3, 1, 1]
    assert longest(line) == 50 and longest(parse("A3")) == 3 and longest(ScenarioLine({}, ())) == 0
    found = normal(parse("B3.A4/A[0:3].B[0:3]"))
    assert dict(found.words) == {"B": 3, "A": 4}
    assert [(piece.start, piece.stop) for piece in found.steps[1].prompt] == [(None, 3), (None, None)]


@pytest.mark.parametrize(("text", "tokens"), [("S40.A6[2:]", 44), ("s:S40+u:A6", 46), ("u:S40[:9]+a:", 9)])
def test_the_messages_of_a_chat_are_its_prompt(text, tokens):
    line = parse(text)
    assert prompt_size(line.steps[0], line.words) == tokens
