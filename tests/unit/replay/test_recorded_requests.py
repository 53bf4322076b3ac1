"""Tests of the conversion of a recorded request to an equivalent request."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.replay.event_owners import RequestEvents
from cachesim.replay.recorded_requests import make_request

CKPT = {"ev": "spec_ckpt", "pos_min": 14, "pos_max": 14, "n_tokens": 15}
REJECTED = [CKPT, {"ev": "spec_restore"}, {"ev": "spec_step", "accepted": 0, "drafted": 1, "n_tokens": 17}]


def made(events=(), body=(), response=(), **log):
    """The request for a prompt of ten tokens."""
    own = RequestEvents(list(events))
    return make_request("completion", {"prompt": [1] * 10, **dict(body)}, dict(response), own, log=log)


@pytest.mark.parametrize(("said", "drafted"), [([[15, 4], [15, 2]], 4), ([[15, 2], [15, 4]], 2), ([[14, 4]], 1)])
def test_of_drafts_at_one_place_the_first_is_the_one_that_was_logged(said, drafted):
    """The second draft follows the replay, which has no event of its own."""
    assert made(REJECTED, drafts=said).drafts == (Draft(15, drafted, 0),)


@pytest.mark.parametrize(("body", "number"), [({}, -1), ({"n_predict": 3}, 3), ({"n_predict": 3, "max_tokens": 4}, 4)])
def test_how_many_tokens_are_asked_for(body, number):
    assert made(body=body).n_predict == number


def test_what_lies_in_the_slot_is_what_was_generated_rather_than_what_the_client_saw():
    assert made(response={"tokens": [5], "tokens_in_slot": [5, 6]}).forced == (5, 6)
    assert made(response={"tokens": [5]}, generated=[7]).forced == (5,)
    assert made(generated=[7]).forced == (7,)


@pytest.mark.parametrize(("body", "ends", "cancel_at"), [
    ({}, [12], None), ({"cancel_after": 1}, [12, 14], 14), ({"cancel_after": 1}, [], None),
    ({"cancel_after": 1, "cancel_at_n": 13}, [12], 13),
])  # fmt: skip
def test_a_hang_up_takes_effect_where_the_slot_was_released(body, ends, cancel_at):
    assert made([{"ev": "release", "n_tokens": n} for n in ends], body).cancel_at == cancel_at


def test_a_request_that_failed_before_its_disconnect_was_not_cancelled():
    events = RequestEvents(({"ev": "release", "n_tokens": 9},), has_failed=True)
    assert make_request("completion", {"prompt": [1] * 12, "cancel_after": 1}, {}, events).cancel_at is None
