"""Classification of the client's change before each request of a log, and the tokens that the server lost."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.log_causes import ADVICE, CLIENT_CHANGES, NEAR, classify_requests, summary
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.reconstruction import ReconstructedRequest
from cachesim.tools.server_logs.slot_contents import SlotText, WordRange


def request(lcp, n_tokens, evaluated, prompt=100, size=110, step=0, **more):
    """Return a request after a slot that holds a prompt and its answer, ``size`` tokens in all."""
    numbers = more.pop("numbers", {"lcp": ProvenRange(lcp, lcp)})
    logged = LoggedRequest(0, n_tokens=n_tokens, prompt_n=evaluated, numbers=numbers, **more)
    before = SlotText((WordRange("A", size, size),) if size else (), prompt)
    return ReconstructedRequest(logged, step=step, lcp=lcp, before=before)


def classified(*requests):
    """Return the classified requests of a slot whose first prompt, of 100 tokens, is not simulated."""
    return classify_requests([request(0, 100, 100, step=-1), *requests])


@pytest.mark.parametrize("lcp, how", [
    (0, "new"), (110, "extends"), (109, "extends"), (108, "answer"), (101, "answer"), (100, "turn end"),
    (100 - NEAR, "turn end"), (99 - NEAR, "history"), (1, "history"),
])  # fmt: skip
def test_the_position_of_the_difference_gives_the_class(lcp, how):
    """The last generated token may be missing in the slot, so a prompt that contains all other tokens extends the
    slot."""
    [one] = classified(request(lcp, 150, 150 - lcp))
    assert one.how == how and (one.lcp, one.n_tokens, one.evaluated) == (lcp, 150, 150 - lcp)


@pytest.mark.parametrize("lcp, n_tokens", [(100, 100), (110, 110), (60, 60)])
def test_a_prompt_that_the_slot_holds_is_the_same_prompt_again_and_never_reasoning_removed(lcp, n_tokens):
    [one] = classified(request(lcp, n_tokens, 1))
    assert one.how == "again" and "reasoning" not in CLIENT_CHANGES["again"]


def test_a_similarity_of_one_is_the_same_prompt_again_if_all_other_tokens_were_reused():
    """f_sim = 1.000: the common prefix may be shorter than the prompt, but not shorter than the reused tokens."""
    numbers = {"lcp": ProvenRange(97, 100), "cache_n": ProvenRange(99, 99)}
    assert [one.how for one in classified(request(98, 100, 1, numbers=numbers))] == ["again"]
    assert [one.how for one in classified(request(98, 100, 4, numbers={"lcp": ProvenRange(97, 100)}))] == [""]


@pytest.mark.parametrize("numbers", [{}, {"lcp": ProvenRange(80, 90)}, {"lcp": ProvenRange(90, 105)}])
def test_a_change_that_the_numbers_do_not_determine_has_no_class(numbers):
    found = classified(request(90, 150, 60, numbers=numbers))
    assert [one.how for one in found] == [""] and summary(found)["causes"] == []


def test_a_previous_prompt_that_the_log_does_not_show_gives_no_class():
    assert [one.how for one in classify_requests([request(50, 150, 100)])] == [""]
    assert [one.how for one in classify_requests([request(0, 150, 150), request(110, 150, 40)])] == ["new", "extends"]


def test_an_empty_slot_means_a_new_conversation():
    [one] = classify_requests([request(5, 150, 150, prompt=0, size=0)])
    assert one.how == "new"


@pytest.mark.parametrize("lcp, n_tokens, evaluated, lost", [
    (100, 150, 50, 0), (100, 150, 150, 100), (0, 150, 150, 0), (110, 110, 1, 0), (110, 110, 110, 109),
    (100, 150, 20, 0),
])  # fmt: skip
def test_lost_tokens_are_evaluated_tokens_of_the_common_prefix(lcp, n_tokens, evaluated, lost):
    """The last token of a prompt is always evaluated: a repeated prompt does not lose it."""
    [one] = classify_requests([request(lcp, n_tokens, evaluated)])
    assert one.lost == lost


def test_a_request_without_logged_counts_is_in_no_sum():
    one = request(100, 150, None)
    one.simulated_n = 90
    assert classify_requests([one]) == []


def test_only_simulated_requests_with_a_length_count():
    """A request has its number in the scenario, which may begin with what the slots held."""
    left_out = request(100, 150, 50, step=-1)
    found = classify_requests([left_out, request(100, None, 50, step=3), request(100, 150, 50, step=4)])
    assert [one.number for one in found] == [4]


def test_three_differences_at_the_same_token_are_a_changing_start():
    at = NEAR * 2
    assert [one.how for one in classified(*[request(at, 150, 50)] * 2)] == ["history"] * 2
    lengths = (at, at + 1, at + NEAR - 1, at + NEAR, 110)
    found = classified(*(request(lcp, 150, 50) for lcp in lengths))
    assert [one.how for one in found] == ["start", "start", "start", "history", "extends"]


def test_a_full_evaluation_without_a_logged_prefix_is_forced():
    assert [one.forced for one in classify_requests([request(0, 150, 150, full=True), request(9, 150, 150, full=True),
                                         request(0, 150, 150)])] == [True, False, False]  # fmt: skip


def test_the_summary_adds_up_and_names_the_most_expensive_cause_first():
    found = summary(classified(
        request(100, 150, 150), request(110, 200, 200, step=1), request(110, 200, 90, step=2),
        request(0, 50, 50, step=3, full=True),
    ))  # fmt: skip
    assert (found["requests"], found["tokens"], found["evaluated"], found["lost"]) == (4, 600, 490, 210)
    assert (found["forced"], found["from_nothing"], found["again"]) == ([3], [0, 1], [0, 1])
    assert [(one["cause"], one["requests"], one["lost"]) for one in found["causes"]] == [
        ("extends", [1, 2], 110), ("turn end", [0], 100), ("new", [3], 0)]  # fmt: skip
    assert (found["causes"][1]["says"], found["causes"][1]["advice"]) == (
        CLIENT_CHANGES["turn end"], ADVICE["turn end"])  # fmt: skip
    assert summary([])["causes"] == [] and summary([])["requests"] == 0
