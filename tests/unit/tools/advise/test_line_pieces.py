"""Tests of the pieces of requests: texts without marks, common prefixes, replaced requests."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import Piece
from cachesim.tools.advise.line_pieces import bare, common, requests, said, with_requests


def words(pieces):
    return [(piece.word, piece.user, piece.start, piece.stop) for piece in pieces]


def step(text):
    [found] = parse(text).steps
    return found


def test_a_request_has_the_pieces_of_its_prompt_and_of_its_answer():
    found = said(step("A5.B3[1:2]>r4.s2"))
    assert words(found.prompt) == [("A", False, None, None), ("B", False, 1, 2)]
    assert words(found.answer) == [("r", False, None, None), ("s", False, None, None)]
    assert said(step("A5>3")).answer == () and said(step("A5")).answer == ()


def test_a_chat_has_the_pieces_of_all_its_messages():
    found = said(step("s:S40+u:A5.B3"))
    assert words(found.prompt) == [(name, False, None, None) for name in "SAB"]


def test_marks_of_user_messages_are_left_out():
    assert bare((Piece("A", user=True), Piece("B", start=1))) == (Piece("A"), Piece("B", start=1))


def test_requests_keep_their_step_numbers():
    line = parse("A5/{restart}/A.B3")
    assert [(number, [piece.word for piece in one.prompt]) for number, one in requests(line)] == [
        (0, ["A"]), (2, ["A", "B"])]  # fmt: skip


A, B, C = (Piece(name) for name in "ABC")


@pytest.mark.parametrize(("lists", "length"), [
    ([], 0), ([(A, B)], 2), ([(A, B), (A, B, C)], 2), ([(A, B, C), (A, C)], 1), ([(B,), (A,)], 0), ([(A,), ()], 0),
    ([(A, B), (A, B), (A, C)], 1),
])  # fmt: skip
def test_the_common_prefix_is_that_of_all_lists(lists, length):
    assert common(lists) == length


def test_requests_are_replaced_by_their_numbers():
    line = parse("A5/{restart}/A")
    assert spell(with_requests(line, {2: step("B3")._replace(n_predict=2)})._replace(words={"A": 5, "B": 3})) == (
        "A5/{restart}/B3>2")  # fmt: skip
    assert with_requests(line, {0: line.steps[0]}) is None and with_requests(line, {}) is None
