"""Classification of the client's change before each request of a log, and the tokens that the server lost."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.client_changes import ADVICE, CLIENT_CHANGES, NEAR
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText, WordRange
from cachesim.tools.server_logs.report.log_causes import (
    SHOWN,
    classify_requests,
    shorten,
    summary,
)
from tests.unit.tools.server_logs.records import logged as request_of


def request(lcp, n_tokens, evaluated, held=110, end=110, step=0, **more):
    """Return a request in a slot that holds ``held`` tokens before it and ``end`` after it."""
    numbers = more.pop("numbers", {"lcp": ProvenRange(lcp, lcp), "held": ProvenRange(held, held)})
    logged = request_of(0, n_tokens=n_tokens, prompt_n=evaluated, numbers=numbers, end=end, **more)
    return ReconstructedRequest(logged, step=step, lcp=lcp, before=SlotText((WordRange("A", held, held),), held))


def classified(*requests):
    """Return the classified requests of a slot whose first prompt, of 100 tokens, is not simulated."""
    return classify_requests([request(0, 100, 100, step=-1), *requests])


def test_a_class_is_that_of_the_slots_contents_and_a_repeated_place_is_named_once():
    turns = classified(*[request(NEAR * 2, 100, 50)] * 3, request(NEAR * 4, 100, 50))
    assert [one.how for one in turns] == ["history"] * 4
    assert [(one["cause"], one["requests"]) for one in summary(turns)["causes"]] == [
        ("history", [0]), ("start", [0, 0, 0])]  # fmt: skip


def test_two_differences_at_the_same_token_are_not_a_changing_start():
    assert [one["cause"] for one in summary(classified(*[request(NEAR * 2, 100, 50)] * 2))["causes"]] == ["history"]


@pytest.mark.parametrize("numbers", [{}, {"lcp": ProvenRange(80, 90)}, {"lcp": ProvenRange(90, 105)}])
def test_a_change_that_the_numbers_do_not_determine_has_no_class(numbers):
    found = classified(request(90, 150, 60, numbers=numbers))
    assert [one.how for one in found] == [""] and summary(found)["causes"] == []


@pytest.mark.parametrize("lcp, n_tokens, evaluated, lost", [
    (100, 150, 50, 0), (100, 150, 150, 100), (0, 150, 150, 0), (110, 110, 1, 0), (110, 110, 110, 109),
    (100, 150, 20, 0),
])  # fmt: skip
def test_lost_tokens_are_evaluated_tokens_of_the_common_prefix(lcp, n_tokens, evaluated, lost):
    """The last token of a prompt is always evaluated: a repeated prompt does not lose it."""
    [one] = classify_requests([request(lcp, n_tokens, evaluated)])
    assert one.lost == lost


def test_numbers_of_the_log_prevail_over_simulated_ones():
    """A cancelled prompt of 150 tokens, simulated with the 60 that its slot held at the end."""
    proven = {"lcp": ProvenRange(90, 95), "lost": ProvenRange(50, 60)}
    cancelled = request(60, 150, None, end=60, cache_n=0, is_cancelled=True, numbers=proven)
    [one] = classify_requests([cancelled])
    assert (cancelled.common, one.lcp, one.evaluated, one.lost) == (90, 90, 60, 50)


def test_a_request_without_logged_counts_is_in_no_sum():
    one = request(100, 150, None)
    one.simulated_n = 90
    assert classify_requests([one]) == []


def test_only_simulated_requests_with_a_length_count():
    """A request has its number in the scenario, which may begin with what the slots held."""
    left_out = request(100, 150, 50, step=-1)
    found = classify_requests([left_out, request(100, None, 50, step=3), request(100, 150, 50, step=4)])
    assert [one.number for one in found] == [4]


def test_a_full_evaluation_without_a_logged_prefix_is_forced():
    assert [one.forced for one in classify_requests([request(0, 150, 150, full=True), request(9, 150, 150, full=True),
                                         request(0, 150, 150)])] == [True, False, False]  # fmt: skip


def test_the_summary_adds_up_and_names_the_most_expensive_cause_first():
    found = summary(classified(
        request(100, 150, 150, end=110), request(110, 200, 200, step=1), request(110, 200, 90, step=2),
        request(0, 50, 50, step=3, full=True),
    ))  # fmt: skip
    assert (found["requests"], found["tokens"], found["evaluated"], found["lost"]) == (4, 600, 490, 210)
    assert (found["forced"], found["from_nothing"], found["again"]) == ([3], [0, 1], [0, 1])
    assert [(one["cause"], one["requests"], one["lost"]) for one in found["causes"]] == [
        ("extends", [1, 2], 110), ("turn end", [0], 100), ("new", [3], 0)]  # fmt: skip
    assert (found["causes"][1]["says"], found["causes"][1]["advice"]) == (
        CLIENT_CHANGES["turn end"], ADVICE["turn end"])  # fmt: skip
    assert (found["causes"][0]["says"], found["causes"][0]["advice"]) == (CLIENT_CHANGES["extends"], "")
    assert summary([])["causes"] == [] and summary([])["requests"] == 0


@pytest.mark.parametrize(("cache_n", "prompt_n", "evaluated"), [
    (100, None, 50), (0, None, 150), (None, 60, 60), (100, 60, 60), (None, 0, 0)])
def test_the_evaluated_tokens_are_the_printed_ones_else_those_that_were_not_reused(cache_n, prompt_n, evaluated):
    [one] = classify_requests([request(100, 150, prompt_n, cache_n=cache_n)])
    assert (one.evaluated, one.n_tokens) == (evaluated, 150)


@pytest.mark.parametrize(("text", "short"), [
    ("a\n  b\tc", "a b c"), ("x" * SHOWN, "x" * SHOWN), ("x" * (SHOWN + 1), "x" * SHOWN + " ..."), ("", ""),
    (" " * 8 * SHOWN + "x", ""), ("\x1b[31mred", "red"),
])  # fmt: skip
def test_a_quoted_text_is_a_short_line(text, short):
    assert shorten(text) == short
