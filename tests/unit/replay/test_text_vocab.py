"""The vocabulary of the recorded models."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.replay.recorded_requests import PIECES, starts_of, token_at_byte, tokenize


def test_320_pieces_all_different():
    assert len(PIECES) == len(set(PIECES)) == 320


@pytest.mark.parametrize(
    "token, text",
    [(0, " "), (94, "~"), (95, "\n"), (96, "<|endoftext|>"), (97, "<|im_start|>"), (100, "</think>"), (101, "Ba")],
)
def test_fixed_places(token, text):
    assert PIECES[token] == text


def test_marks_and_letters():
    assert tokenize("<|im_start|>user\n") == (97, 85, 83, 69, 82, 95)
    with pytest.raises(BadInput, match="'é'"):
        tokenize("é")


def test_the_first_delimiter_that_matches_wins():
    marks = [("user", (97, 85)), ("other", (97,))]
    assert starts_of((97, 85, 1, 97, 1), marks) == (0,)
    assert starts_of((97, 85, 1, 97, 1), marks[::-1]) == ()
    assert starts_of((97, 85, 1, 97, 1), marks, role="other") == (3,)


@pytest.mark.parametrize("byte, token", [(0, 0), (1, 1), (3, 2), (2, 2), (99, 3)])
def test_tokens_before_a_byte(byte, token):
    assert token_at_byte((1, 101, 1), byte) == token


def test_a_delimiter_cut_off_by_the_end_does_not_match():
    assert starts_of((1, 97), [("user", (97, 85))]) == ()
