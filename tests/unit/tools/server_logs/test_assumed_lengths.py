"""Lengths that a simulation assumes where a log does not determine them."""

from __future__ import annotations

from cachesim.tools.server_logs.assumed_lengths import ENDS, assumed_lengths, following_requests, has_length
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange


def test_a_known_length_is_not_an_assumption():
    [[length]] = assumed_lengths([LoggedRequest(n_tokens=70)])
    assert (length.n_tokens, length.why, length.is_bounded) == (70, "", True)


def test_a_range_is_tried_from_its_middle():
    one = LoggedRequest(numbers={"n_tokens": ProvenRange(1_986, 2_014)})
    [lengths] = assumed_lengths([one])
    assert [length.n_tokens for length in lengths] == [2_000, 1_986, 2_014] and has_length(one)
    assert lengths[0].why == "prompt length assumed: 2,000, the log shows 1,986 to 2,014"


def test_without_an_upper_end_the_last_position_is_assumed():
    one = LoggedRequest(checked=((0, 9, 50),), numbers={"n_tokens": ProvenRange(20, None)})
    [[length]] = assumed_lengths([one])
    assert (length.n_tokens, length.why, length.is_bounded) == (51, ENDS, False) and not has_length(one)
    assert assumed_lengths([LoggedRequest()]) == [()]


def test_a_prompt_is_at_least_as_long_as_the_next_request_of_its_slot_reused():
    one, other, after = LoggedRequest(whole=True), LoggedRequest(slot=1), LoggedRequest(cache_n=30, n_tokens=40)
    assert following_requests([one, other, after]) == [after, None, None]
    assert assumed_lengths([one, other, after])[0][0].n_tokens == 30


def test_of_a_cancelled_prompt_the_tokens_in_the_slot_are_simulated():
    [[length]] = assumed_lengths([LoggedRequest(n_tokens=7_767, end=5_101, cancelled=True)])
    assert (length.n_tokens, length.is_bounded) == (5_101, False) and length.why.startswith("cancelled: simulated with")
