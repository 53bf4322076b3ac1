"""What a client did before each request of a log, and what the server lost of it."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.log_causes import ADVICE, HOWS, NEAR, summary, turns
from cachesim.tools.server_logs.reconstruction import Rebuilt
from cachesim.tools.server_logs.session import Logged
from cachesim.tools.server_logs.slot_contents import SlotText, WordRange


def request(lcp, n_tokens, evaluated, prompt=100, size=110, **more):
    """A request behind a slot that holds a prompt and its answer, ``size`` tokens."""
    logged = Logged(0, n_tokens=n_tokens, prompt_n=evaluated, **more)
    before = SlotText((WordRange("A", size, size),) if size else (), prompt)
    return Rebuilt(logged, step=0, lcp=lcp, before=before)


@pytest.mark.parametrize("lcp, how", [
    (0, "new"), (110, "extends"), (109, "extends"), (108, "answer"), (101, "answer"), (100, "turn end"),
    (100 - NEAR, "turn end"), (99 - NEAR, "history"), (1, "history"),
])  # fmt: skip
def test_where_a_prompt_leaves_the_slot_says_what_the_client_did(lcp, how):
    """The last token that was generated may not be in the slot: a prompt with all but one of them extends it."""
    [one] = turns([request(lcp, 150, 150 - lcp)])
    assert one.how == how and (one.lcp, one.n_tokens, one.evaluated) == (lcp, 150, 150 - lcp)


def test_a_slot_that_held_nothing_makes_a_new_conversation():
    [one] = turns([request(5, 150, 150, prompt=0, size=0)])
    assert one.how == "new"


@pytest.mark.parametrize("lcp, n_tokens, evaluated, lost", [
    (100, 150, 50, 0), (100, 150, 150, 100), (0, 150, 150, 0), (110, 110, 1, 0), (110, 110, 110, 109),
    (100, 150, 20, 0),
])  # fmt: skip
def test_lost_is_what_was_in_common_and_evaluated_all_the_same(lcp, n_tokens, evaluated, lost):
    """The last token of a prompt is evaluated in any case: a repeated prompt loses nothing by it."""
    [one] = turns([request(lcp, n_tokens, evaluated)])
    assert one.lost == lost


def test_what_the_log_does_not_say_is_what_the_simulator_evaluates():
    one = request(100, 150, None)
    one.got = 90
    assert [(turn.evaluated, turn.lost) for turn in turns([one])] == [(60, 10)]


def test_only_requests_that_are_played_and_have_a_length_count():
    left_out = request(100, 150, 50)
    left_out.step = -1
    found = turns([left_out, request(100, None, 50), request(100, 150, 50)])
    assert [one.number for one in found] == [2]


def test_differing_at_one_token_three_times_is_something_that_changes_each_time():
    at = NEAR * 2
    assert [one.how for one in turns([request(at, 150, 50)] * 2)] == ["history"] * 2
    found = turns([request(at, 150, 50), request(at + 1, 150, 50), request(at + NEAR - 1, 150, 50),
                   request(at + NEAR, 150, 50), request(110, 150, 50)])  # fmt: skip
    assert [one.how for one in found] == ["start", "start", "start", "history", "extends"]


def test_a_forced_evaluation_is_one_whose_prefix_is_not_in_the_log():
    assert [one.forced for one in turns([request(0, 150, 150, full=True), request(9, 150, 150, full=True),
                                         request(0, 150, 150)])] == [True, False, False]  # fmt: skip


def test_the_summary_adds_up_and_names_the_most_expensive_cause_first():
    found = summary(turns([
        request(100, 150, 150), request(110, 200, 200), request(110, 200, 90), request(0, 50, 50, full=True),
    ]))  # fmt: skip
    assert (found["requests"], found["tokens"], found["evaluated"], found["lost"]) == (4, 600, 490, 210)
    assert (found["forced"], found["from_nothing"], found["again"]) == ([3], [0, 1], [0, 1])
    assert [(one["cause"], one["requests"], one["lost"]) for one in found["causes"]] == [
        ("extends", [1, 2], 110), ("turn end", [0], 100), ("new", [3], 0)]  # fmt: skip
    assert [(one["says"], one["advice"]) for one in found["causes"]][1] == (HOWS["turn end"], ADVICE["turn end"])
    assert summary([])["causes"] == [] and summary([])["requests"] == 0
