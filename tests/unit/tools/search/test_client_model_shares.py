"""Tests of the client model with given random numbers: the share of each move, and the range of each length."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.scenarios.notation.tree import Piece
from cachesim.tools.search.client_model import ClientExchange, Clients
from tests.unit.tools.search.given_numbers import Given

WORLD = DrawnServer("llama_cpp", "A", {}, (8, 64), 100)


def clients(world=WORLD, **given):
    """Return clients that have sent A.b, to which the server answered c."""
    found = Clients(Given(**given), world, {"A": 5, "b": 7, "c": 6, "T": 2})
    found.remember(ClientExchange((Piece("A"), Piece("b")), (Piece("c"),)))
    return found


@pytest.mark.parametrize(("answers", "talks", "of"), [((False, True), 5, 3), ((False, False), 5, 5)])
def test_a_client_mostly_goes_on_from_one_of_the_last_three(answers, talks, of):
    found = clients(move=48, answers=answers)
    for _ in range(talks - 1):
        found.remember(found.talks[0])
    found.prompt()
    assert len(found.rng.choices[0]) == of


@pytest.mark.parametrize(("model", "percent"), [("A", 35), ("W8 A", 50)])
def test_lengths_near_an_edge_are_more_frequent_with_a_window(model, percent):
    found = clients(WORLD._replace(model=model), answers=[True, True, False], choice=-1)
    assert [found.length(200), found.length(100), found.length(100)] == [2 * 64 + 2, 100, 100]
    assert found.rng.percents == [percent] * 3 and found.rng.ranges == [(-2, 2), (-2, 2), (1, 100)]
    assert found.rng.choices == [(8, 64), (1, 1, 1, 2)] * 2 + [(4, 12, 40, 120)]
    assert clients(answers=[True], end=0).length(100) == 8 - 2
    short = clients(WORLD._replace(edges=(1,)), answers=[True], end=0)
    assert short.length(100) == 1
