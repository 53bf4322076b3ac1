"""Lengths of common prefixes, from the values that a log prints."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.before_the_log import SHORT_PROMPT, listed_checkpoints
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.slot_contents import (
    MAX_EARLIER,
    SlotText,
    WordRange,
    earlier_prompts,
    held_by_shares,
    held_by_window,
    prefix_by_shares,
    prefixes_by_threshold,
)


def text(size, prompt=0):
    return SlotText((WordRange("A", size, size),), prompt)


def lengths(f_sim, f_keep, held, n_tokens, **more):
    mine = text(held, more.pop("prompt", 0))
    return [lcp for lcp, _ in prefix_by_shares(LoggedRequest(0, f_sim=f_sim, f_keep=f_keep, **more), mine, n_tokens)]


def test_exactly_the_lengths_that_print_as_these_shares_are_offered():
    held, n_tokens = 10_000, 4_000
    for lcp in (0, 1, 1_234, 3_999):
        f_sim, f_keep = round(lcp / n_tokens, 3), round(lcp / held, 3)
        found = lengths(f_sim, f_keep, held, n_tokens)
        assert lcp in found and len(found) == len({*found})
        assert all(abs(one / n_tokens - f_sim) < 0.00051 and abs(one / held - f_keep) < 0.00051 for one in found)


def test_a_unique_length_is_not_an_assumption():
    assert list(prefix_by_shares(LoggedRequest(0, f_sim=0.5, f_keep=0.25), text(40), 20)) == [(10, "")]
    assert list(prefix_by_shares(LoggedRequest(0, f_sim=None, f_keep=0.25), text(40), 20)) == [(10, "")]
    [(_, why), *_] = prefix_by_shares(LoggedRequest(0, f_sim=0.5, f_keep=0.25), text(4_000), 2_000)
    assert why == "a common prefix of 1000 tokens (999 to 1001 print the same shares)"


def test_likely_lengths_come_first():
    first, *_ = lengths(0.5, 0.25, 40_000, 20_000, cache_n=10_003)
    assert first == 10_003
    assert lengths(0.5, 0.25, 40_000, 20_000, prompt=9_995)[0] == 9_995
    assert lengths(0.5, 0.25, 40_000, 20_000, checked=[(0, 1, 9_992)])[:2] == [9_992, 9_993]
    assert lengths(0.5, 0.25, 40_000, 20_000)[0] == 10_000


def test_shares_give_the_length_of_the_slot():
    assert held_by_shares(LoggedRequest(0, f_sim=0.5, f_keep=0.25, n_tokens=100)) == 200
    assert held_by_shares(LoggedRequest(0, f_sim=0.5, f_keep=0.0, n_tokens=100)) is None
    assert held_by_shares(LoggedRequest(0, f_keep=0.5, n_tokens=100)) is None
    bounded = LoggedRequest(0, f_sim=0.5, f_keep=0.25, n_tokens=100, numbers={"held": ProvenRange(10, 13)})
    assert held_by_shares(bounded) == 11


@pytest.mark.parametrize(("checked", "held"), [
    ([], 0), ([(5, 9, 20)], 25), ([(5, 5, 20)], 0), ([(5, 9, 20), (0, 9, 50)], 25),
])  # fmt: skip
def test_a_window_gives_the_least_length_of_the_slot(checked, held):
    assert held_by_window(LoggedRequest(0, checked=checked)) == held


BIG = 2 * SHORT_PROMPT + 1


@pytest.mark.parametrize(("requests", "listed"), [
    ([{}], []), ([{"erased": [7]}], [7]), ([{"checked": [(0, 6, 3)], "erased": [9]}], [7, 9]),
    ([{"checked": [(0, 6, 3)], "cache_n": 4}], [7]),
    ([{"cache_n": 6}, {"checked": [(0, 6, 3), (0, 7, 3)]}], [7]),
    ([{"cache_n": 5}, {"checked": [(0, 5, 3), (0, 6, 3)]}], [6]),
    ([{"cache_n": 9}, {"cache_n": 5}, {"erased": [6, 7]}], [6]),
    ([{"cache_n": 5}, {"cache_n": 9}, {"erased": [6, 7]}], [6]),
    ([{"created": [7]}, {"erased": [7, 9]}], [9]), ([{}, {"is_loaded": True, "erased": [7]}], []),
    ([{"is_loaded": True, "erased": [7]}], [7]),
    ([{"erased": [BIG]}], [SHORT_PROMPT, BIG]), ([{"erased": [BIG - 1]}], [BIG - 1]),
    ([{"checked": [(0, BIG - 1, 3)]}], [BIG]), ([{"checked": [(0, BIG - 1, 3)], "erased": [BIG + 5]}], [BIG, BIG + 5]),
])  # fmt: skip
def test_checkpoints_from_before_the_log_are_those_that_it_checks_or_erases(requests, listed):
    made = [LoggedRequest(0, **values) for values in requests]
    following = {id(one): then for one, then in zip(made, [*made[1:], None], strict=True)}
    assert listed_checkpoints(made[0], following) == listed


def test_a_threshold_gives_two_prefixes_shifted_by_the_window():
    one = LoggedRequest(0, checked=[(0, 1, 50), (0, 1, 60)])
    assert prefixes_by_threshold(one) == (50, 51) and prefixes_by_threshold(one, 128) == (178, 179)
    assert prefixes_by_threshold(LoggedRequest(0)) == ()


def test_logged_checkpoints_give_the_earlier_prompts():
    assert earlier_prompts(LoggedRequest(0), 300) == ([300], 1)
    one = LoggedRequest(0, checked=[(0, 95, 0), (0, 195, 0)])
    assert earlier_prompts(one, 300) == ([100, 200], 101) and earlier_prompts(one, 300, end=1) == ([97, 197], 104)
    assert earlier_prompts(LoggedRequest(0, restored_end=96), 100) == ([100], 1)
    assert earlier_prompts(one, 5_000) == ([100, 200, 5_000], 1)               # too long for an answer
    a_micro_batch_apart = LoggedRequest(0, checked=[(0, 95, 0), (0, 95 + 64, 0)])
    assert earlier_prompts(a_micro_batch_apart, 300) == ([164], 137)
    many = LoggedRequest(0, checked=[(0, 10 * number, 0) for number in range(30)])
    assert len(earlier_prompts(many, 400)[0]) == MAX_EARLIER
