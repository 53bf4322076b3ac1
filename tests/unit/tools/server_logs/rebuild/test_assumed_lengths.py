"""Lengths of prompts that a simulation of a log assumes."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.rebuild.assumed_lengths import (
    MOST_ASSUMED,
    assumed_lengths,
    has_length,
)
from cachesim.tools.server_logs.rebuild.request_order import chain_requests
from tests.unit.tools.server_logs.records import logged as request_of
from tests.unit.tools.server_logs.records import read_line, tied_lines


def lengths_of(requests):
    """Return the possible lengths of the prompts of these requests of a log."""
    return assumed_lengths(chain_requests(requests))


@pytest.mark.parametrize(("reused", "assumed"), [(9, [10]), (MOST_ASSUMED - 1, [MOST_ASSUMED]), (MOST_ASSUMED, [])])
def test_a_length_without_an_upper_bound_is_assumed_up_to_a_limit(reused, assumed):
    request = request_of(0, 1, numbers={"cache_n": ProvenRange(reused, reused)}, cache_n=reused)
    [lengths] = lengths_of([request])
    assert [length.n_tokens for length in lengths] == assumed


def chosen(f_sim, f_keep, similar=(), kind="slot_by_lcp", **more):
    """Return a request whose slot was chosen with these shares."""
    choice = read_line(kind, f_sim=f_sim, f_keep=f_keep)
    return request_of(0, 2, chosen="lcp", tied=tied_lines(choice=choice, similar=[*similar]), **more)


def lengths_after(end, request):
    """Return the assumed lengths of a request after one that left ``end`` tokens in the slot."""
    before = request_of(0, 1, n_tokens=5000, end=end, numbers={"end": ProvenRange(end, end)})
    return [length.n_tokens for length in lengths_of([before, request])[1]]


def test_the_shares_of_a_slot_with_known_contents_bound_the_length():
    middle, low, high = lengths_after(5106, chosen("0.832", "1.000"))
    assert low < middle < high and round(5106 / high, 3) == 0.832 and round(5106 / (high + 1), 3) < 0.832
    assert round(0.9995 * 5106 / low, 3) == 0.832 and round(0.9995 * 5106 / (low - 2), 3) > 0.832


def test_shares_of_a_slot_bound_the_length_by_all_roundings():
    """The slot holds 100 tokens: 49.5 to 50.5 of them are 24.5 % to 25.5 % of 195 to 206 tokens."""
    assert lengths_after(100, chosen("0.25", "0.50")) == [200, 195, 206]
    assert lengths_after(100, chosen("0.25", "1.00")) == [399, 391, 408]      # at most all of the slot is kept
    assert lengths_after(100, chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(206, None)})) == [206]
    assert lengths_after(100, chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(207, None)})) == [207]
    assert lengths_after(100, chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(150, 200)})) == [197, 195, 200]


def without_shares(kind="slot_by_lcp", f_sim="0.25", f_keep="0.50"):
    """Return a request with a least length of 7 tokens whose slot was chosen otherwise."""
    return chosen(f_sim, f_keep, kind=kind, numbers={"n_tokens": ProvenRange(7, None)})


@pytest.mark.parametrize("request_", [
    without_shares("slot_by_lru"), without_shares(f_sim="1.50"), without_shares(f_keep="1.50"),
    without_shares(f_sim="0.00"),
    request_of(0, 2, tied=tied_lines(), numbers={"n_tokens": ProvenRange(7, None)}),
    request_of(0, 2, numbers={"n_tokens": ProvenRange(7, None)}),
])  # fmt: skip
def test_a_length_without_shares_is_the_least_possible(request_):
    assert lengths_after(100, request_) == [7]


def test_a_share_of_nothing_in_an_empty_slot_bounds_nothing():
    """No server selects an empty slot by its prefix; a log that says so shows no length of 0 tokens."""
    assert lengths_after(0, chosen("0.00", "0.50")) == []


def test_the_shares_of_a_slot_with_unknown_contents_bound_nothing():
    [lengths] = lengths_of([chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(7, None)})])
    assert [length.n_tokens for length in lengths] == [7]
    before = request_of(0, 1, n_tokens=5, numbers={"end": ProvenRange(100, None)})
    later = chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(7, None)})
    assert [length.n_tokens for length in lengths_of([before, later])[1]] == [7]


def test_what_another_slot_holds_bounds_nothing():
    before = request_of(1, 1, n_tokens=5, numbers={"end": ProvenRange(100, 100)})
    later = chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(7, None)})
    assert [length.n_tokens for length in lengths_of([before, later])[1]] == [7]


def test_an_entry_that_was_loaded_has_other_shares():
    assert lengths_after(5106, chosen("0.832", "1.000", is_loaded=True)) == []


def test_a_log_that_prints_the_length_itself_is_not_asked_for_its_shares():
    assert lengths_after(5106, chosen("0.832", "1.000", similar=[read_line("slot_sim")])) == []


def counts(**exact):
    """Return a request with these counts."""
    return request_of(0, **exact, numbers={name: ProvenRange(value, value) for name, value in exact.items()})


def test_a_prompt_is_not_assumed_longer_than_what_it_left_in_its_slot():
    [lengths, _] = lengths_of([counts(end=998), counts(n_tokens=21131, cache_n=15127)])
    assert [length.n_tokens for length in lengths] == [998]


def test_the_last_checkpoint_of_a_prompt_shows_its_length():
    later = request_of(0, checked=((1688, 2711, 0), (1126, 2149, 0)))
    [lengths, _] = lengths_of([counts(end=2736), later])
    assert [length.n_tokens for length in lengths] == [2716, 2736] and not any(one.is_bounded for one in lengths)
    unnamed = request_of(0, 3, is_named=False, prompt_n=5)
    assert lengths_of([counts(end=2736), later, unnamed])[2][0].n_tokens == 2721         # the likely one + 5


@pytest.mark.parametrize(("cache_n", "lcp", "lengths"), [
    (9106, 9117, [9110, 9120]), (9117, 9117, [9120]), (8888, 9117, [9120]), (9117, 9118, [9120]), (None, 9117, [9120]),
])  # fmt: skip
def test_a_cancelled_prompt_ends_where_the_next_one_resumes_or_was_cut_off(cache_n, lcp, lengths):
    """A checkpoint lies 4 tokens before the end of a prompt, and within what the slot held: 9,120 tokens."""
    cancelled = request_of(0, 1, cache_n=8888, end=9120, is_cancelled=True)
    found, _ = lengths_of([cancelled, request_of(0, 2, n_tokens=9328, cache_n=cache_n, lcp=lcp)])
    assert [length.n_tokens for length in found] == lengths


def between(low, high):
    return {"numbers": {"n_tokens": ProvenRange(low, high)}}


SURE, ASSUMED = (True, False), (True, True)
"""A length that the log bounds: known, and one of several."""
OPEN = (False, True)


@pytest.mark.parametrize(("more", "lengths", "how"), [
    ({"n_tokens": 7}, [7], SURE), ({"n_tokens": 7, "is_cancelled": True, "end": 1030}, [1030], OPEN),
    ({"n_tokens": 7, "is_cancelled": True, "end": 0}, [7], SURE),
    (between(1000, 1005), [1002, 1000, 1005], ASSUMED), (between(8, 9), [8, 9], ASSUMED), (between(8, None), [8], OPEN),
    ({"is_named": False}, [], None), ({"is_named": False, "prompt_n": 5}, [5], OPEN), ({}, [], None),
    ({"is_whole": True}, [1], OPEN), ({"full": True}, [1], OPEN),
    ({"created": (40, 60), "restored": 50}, [61], OPEN), ({"restored": 50}, [51], OPEN),
    ({"checked": ((1, 2, 70),), "lcp": 20}, [71], OPEN), ({"lcp": 20}, [21], OPEN), ({"cache_n": 9}, [10], OPEN),
    ({"end": 0}, [1], OPEN), ({"end": 44}, [44], OPEN), ({"end": 44, "truncated": True}, [], None),
    ({"end": 44, "predicted_n": 3, "lcp": 20}, [21], OPEN), ({"end": 44, **between(50, None)}, [50], OPEN),
])  # fmt: skip
def test_the_length_of_a_prompt_alone(more, lengths, how):
    """``how``: the log bounds the length, and it is an assumption."""
    [found] = lengths_of([request_of(0, 1, **more)])
    assert [length.n_tokens for length in found] == lengths
    assert {(length.is_bounded, length.why != "") for length in found} == ({how} if how else set())
    cancelled = more.get("is_cancelled") and more["end"]
    assert has_length(request_of(0, 1, **more)) is (how in (SURE, ASSUMED) or bool(cancelled))


def test_a_prompt_goes_on_from_the_longest_before_it():
    unnamed = request_of(0, 3, is_named=False, prompt_n=5)
    found = lengths_of([request_of(0, 1, n_tokens=80), request_of(0, 2, n_tokens=30), unnamed, unnamed])
    assert [lengths[0].n_tokens for lengths in found] == [80, 30, 85, 90]
    assert lengths_of([request_of(0, 1, **between(1000, 1005)), unnamed])[1][0].n_tokens == 1007   # 1,002 + 5


def test_the_next_request_of_the_slot_reused_the_prompt():
    first, other, later = request_of(0, 1, lcp=20), request_of(1, 2, cache_n=99), request_of(0, 3, cache_n=50)
    assert [lengths[0].n_tokens for lengths in lengths_of([first, other, later])] == [50, 100, 51]


@pytest.mark.parametrize(("end", "lengths"), [(103, [103]), (104, [104, 104]), (110, [104, 110])])
def test_a_checkpoint_lies_four_tokens_before_the_end_of_a_prompt(end, lengths):
    [found, _] = lengths_of([counts(end=end), request_of(0, checked=((1, 99, 0),))])
    assert [length.n_tokens for length in found] == lengths


@pytest.mark.parametrize(("least", "is_bounded"), [(205, True), (206, True), (207, False)])
def test_shares_bound_a_length_that_is_at_least_so_long(least, is_bounded):
    before = request_of(0, 1, n_tokens=5000, end=100, numbers={"end": ProvenRange(100, 100)})
    later = chosen("0.25", "0.50", numbers={"n_tokens": ProvenRange(least, None)})
    first = lengths_of([before, later])[1][0]
    assert (first.n_tokens, first.is_bounded) == (min(least, 206) if is_bounded else least, is_bounded)
