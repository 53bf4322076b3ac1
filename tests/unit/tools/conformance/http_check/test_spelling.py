"""Tests of tokens as pieces of text: single-token pieces, and answers that are sent back."""

from __future__ import annotations

from cachesim.tools.conformance.http_check.openai_client import (
    ENOUGH,
    OWN,
    PIECES_NEEDED,
    Arrays,
    Pieces,
    find_pieces,
)


def test_pieces_are_those_of_one_token_each():
    def length(pieces):
        return 3 + sum(1 if len(one) < 4 or one == " with" else 2 for one in pieces)

    pieces, base = find_pieces(lambda pieces: length(pieces) + pieces.count(" the"))
    assert base == 3 and len(pieces) >= PIECES_NEEDED and all(len(one) < 4 or one == " with" for one in pieces)
    assert " the" not in pieces and " with" in pieces


def test_as_many_pieces_as_are_wanted_are_looked_for_with_few_requests():
    asked = []
    pieces, base = find_pieces(lambda pieces: (asked.append(pieces), len(pieces))[1])
    assert (len(pieces), len({*pieces}), base) == (ENOUGH, ENOUGH, 0) and len(asked) <= 10


def test_letters_stand_in_where_no_word_is_one_token():
    pieces, base = find_pieces(lambda pieces: sum(1 if len(one) == 1 else 2 for one in pieces))
    assert base == 0 and len(pieces) == 62 and all(len(one) == 1 and one != " " for one in pieces)


def test_syllables_stand_in_where_neither_words_nor_letters_suffice():
    pieces, base = find_pieces(lambda pieces: 5 + sum(2 if one.startswith(" ") else 1 for one in pieces))
    assert base == 5 and len(pieces) == len({*pieces}) == 100 and pieces[0] == "Ba"


def test_answers_are_sent_back_word_by_word():
    pieces = Pieces([" a", " b"])
    pieces.lead = " "
    assert pieces.prompt((0, *pieces.encode("x yy", 2), 1)) == " a x yy b"
    assert pieces.encode("x yy", 3)[0] >= OWN and pieces.prompt(pieces.encode("x yy", 3)) == " x yy"


def test_the_same_word_of_two_answers_is_the_same_token():
    pieces = Pieces([" a"])
    assert pieces.encode(" x y", 2) == (OWN, OWN + 1) and pieces.encode(" y x y", 3) == (OWN + 1, OWN, OWN + 1)
    assert pieces.encode("o w ", 2) == pieces.encode("o w ", 2) and pieces.prompt(pieces.encode("o w ", 2)) == "o w "


def test_arrays_are_sent_as_they_are_and_never_back():
    arrays = Arrays(range(3))
    assert arrays.prompt((2, 1)) == [2, 1] and arrays.base == 0 and arrays.encode("x", 1) is None


def test_an_answer_of_white_space_takes_linear_time():
    assert Pieces([" a"]).encode(" " * 10**6, 2)[1:] == Pieces([" a"]).encode(" " * 10, 2)[1:]
