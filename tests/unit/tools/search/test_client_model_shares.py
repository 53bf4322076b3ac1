"""Tests of the client model with given random numbers: the share of each move, and the range of each length."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.scenarios.notation.canonical_text import Lengths
from cachesim.scenarios.notation.tree import PLAIN, Piece
from cachesim.scenarios.notation.word_lengths import ImageSize, canonical
from cachesim.tools.search.client_model import ClientExchange, Clients
from tests.unit.tools.search.given_numbers import Given

WORLD = DrawnServer("llama_cpp", "A", {}, (8, 64), 100)


def clients(world=WORLD, **given):
    """Return clients that have sent A.b, to which the server answered c."""
    found = Clients(Given(**given), world, {"A": 5, "b": 7, "c": 6, "T": 2})
    found.remember(ClientExchange((Piece("A"), Piece("b")), (Piece("c"),)))
    return found


def written(text, of):
    return Lengths().text(canonical(PLAIN._replace(prompt=text), of.words).prompt)


MOVES = [
    (range(30), "A.b.c.T", "A.b.c.T"),                       # the next turn
    (range(30, 48), "A.b[:6].T", "A.b[:6].T"),               # edited at the place that is drawn
    (range(48, 56), "A.b", "A.b"),                           # sent again
    (range(56, 62), "A.b.c", "A.b.c"),                       # sent back with its answer
    (range(62, 70), "A.b[:6]", "A.b[:6]"),                   # a prefix
    (range(70, 77), "A.b.c[1:].T", "A.b.c[4:].T"),           # without the beginning of the answer
    (range(77, 84), "e.A.b", "A[:3].e.A[3:].b"),             # with a word inserted
    (range(84, 90), "A[:1]", "A[:3]"),                       # tiny
    (range(90, 100), "A[:1].T", "A.b.T"),                    # branched anywhere
]


@pytest.mark.parametrize(("moves", "least", "most"), MOVES)
def test_each_move_has_its_share_and_its_text(moves, least, most):
    for move in moves:
        for end, text in ((0, least), (1, most)):
            found, near = clients(move=move, end=end), []
            found._turn = lambda most: (Piece("T"),)
            found._near = lambda n, size, near=near: near.append((n, size)) or 11
            assert written(found.prompt(), found) == text
            assert found.rng.percents == [12, 70] and near in ([], [(12, 18)])


@pytest.mark.parametrize(("answers", "talks", "of"), [((False, True), 5, 3), ((False, False), 5, 5)])
def test_a_client_mostly_goes_on_from_one_of_the_last_three(answers, talks, of):
    found = clients(move=48, answers=answers)
    for _ in range(talks - 1):
        found.remember(found.talks[0])
    found.prompt()
    assert len(found.rng.choices[0]) == of


@pytest.mark.parametrize(("parted", "answers", "percents", "place", "end"), [
    ([9], (True,), [45], 9, 1), ([], (True,), [50], 12 - 7, 1), ([], (True,), [50], 12 + 3, 0),
    ([9], (False, True), [45, 50], 12 - 7, 1), ([9], (False, False, True), [45, 50, 50], 12 - 8 + 2, 1),
    ([9], (False, False, True), [45, 50, 50], 12 - 8 - 2, 0), ([], (), [50, 50], 18, 1), ([], (), [50, 50], 1, 0),
])  # fmt: skip
def test_a_place_to_cut_at_is_drawn_in_turn(parted, answers, percents, place, end):
    found = clients(answers=answers, end=end)
    found.parted += parted
    assert (found._near(12, 18), found.rng.percents, found.parted) == (place, percents, [*parted, place])


@pytest.mark.parametrize(("choice", "place"), [(0, 5), (-1, 9 + 2)])
def test_a_place_near_one_of_the_last_three_is_at_most_two_tokens_off(choice, place):
    found = clients(answers=[True], choice=choice)
    found.parted += [3, 5, 7, 9]
    assert found._place(12, 18) == place
    assert found.rng.choices == [(5, 7, 9), (0, 0, 0, -1, 1, 2)]


@pytest.mark.parametrize(("n", "most", "answers", "end", "place"), [
    (2, 18, (True,), 1, 1), (17, 18, (True,), 0, 18), (2, 18, (False, True), 1, 1), (30, 18, (False, True), 1, 18),
])  # fmt: skip
def test_a_place_lies_in_the_text(n, most, answers, end, place):
    assert clients(answers=answers, end=end)._place(n, most) == place


@pytest.mark.parametrize(("model", "percent"), [("A", 35), ("W8 A", 50)])
def test_lengths_near_an_edge_are_more_frequent_with_a_window(model, percent):
    found = clients(WORLD._replace(model=model), answers=[True, True, False], choice=-1)
    assert [found.length(200), found.length(100), found.length(100)] == [2 * 64 + 2, 100, 100]
    assert found.rng.percents == [percent] * 3 and found.rng.ranges == [(-2, 2), (-2, 2), (1, 100)]
    assert found.rng.choices == [(8, 64), (1, 1, 1, 2)] * 2 + [(4, 12, 40, 120)]
    assert clients(answers=[True], end=0).length(100) == 8 - 2
    short = clients(WORLD._replace(edges=(1,)), answers=[True], end=0)
    assert short.length(100) == 1


@pytest.mark.parametrize(("answers", "percents", "system"), [((True,), [60], "A"), ((False,), [60, 35], "D")])
def test_a_new_conversation_often_begins_with_a_known_text(answers, percents, system):
    found = clients(answers=answers, choice=0)
    del found.words["T"]
    found._turn = lambda most: ()
    (begins,) = found._new(100)
    assert (begins.word.upper(), found.rng.percents) == (system, percents)


@pytest.mark.parametrize(("answers", "length", "user"), [((True, True), 6, True), ((False, False, False), 4, False)])
def test_a_message_is_often_short_and_often_marked(answers, length, user):
    found = clients(answers=answers)
    (piece,) = found._message(100)
    assert (found.words[piece.word], piece.user) == (length, user)
    assert found.rng.percents == ([20, 40] if user else [20, 35, 40])


@pytest.mark.parametrize(("answers", "percents", "image"), [
    ((True, True), [20, 40, 50], None), ((True, True, True, True), [20, 40, 50, 40], "I"),
    ((True, True, True, False), [20, 40, 50, 40], "new"),
])  # fmt: skip
def test_half_of_the_messages_have_an_image_and_it_is_often_an_earlier_one(answers, percents, image):
    found = clients(WORLD._replace(images=("4x2",)), answers=answers)
    found.words["I"] = ImageSize(3, 3)
    *first, text = found._message(100)
    assert (found.rng.percents, found.words[text.word], text.user) == (percents, 6, image is None)
    assert [(one.word == "I", str(found.words[one.word]), one.user) for one in first] == {
        None: [], "I": [(True, "3x3", True)], "new": [(False, "4x2", True)]}[image]  # fmt: skip


def test_a_word_that_options_name_stands_at_an_end_of_a_message():
    world = WORLD._replace(server={"lora": "0@M"})
    for choice, answers, words in ((0, (False,), "x"), (0, (True,), "Mx"), (-1, (True,), "xM"),
                                   (-1, (True, True), "xMx")):  # fmt: skip
        found = clients(world, choice=choice, answers=answers)
        found._message = lambda most: (Piece("x"),)
        found._user = lambda most: Piece("x")
        assert "".join(piece.word for piece in found._turn(100)) == words
        assert found.rng.percents == [60, 50][: len(found.rng.percents)]
        assert found.words["M"] == 3 and found.rng.ranges == [(1, 3)]
    begins = clients(world, answers=(False, False, True))
    begins._turn = lambda most: ()
    assert begins._new(100) == (Piece("M"),) and begins.rng.percents == [60, 35, 15]


def test_a_text_that_several_conversations_may_begin_with_has_a_name_in_capitals():
    found, asked = Clients(Given(), WORLD), []
    assert [found.word(3, capital=True).word, found.word(3).word] == ["A", "b"] and found.shared() == ["A"]
    found._turn, found.length = lambda most: (), lambda most: asked.append(most) or 4
    (begins,) = found._new(101)
    assert (begins.word, found.words["C"], asked) == ("C", 4, [50])
