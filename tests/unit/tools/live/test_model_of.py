"""Rows of a comparison with a real server: when both sides are the same, differ, or are undecided."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.tools.live.llama_server.verify.model_of import (
    DISCONNECTED,
    ENDED_EARLY,
    NEVER_ANSWERED,
    RACED,
    SIZES,
    UNKNOWN,
    RequestResult,
    _gaps,
    _said,
    _same,
    _theirs,
    _unknown_end,
)

RIGHT, WRONG, OPEN = (RequestResult(3, 2, 200, equal) for equal in (True, False, None))
NO_COLD = "unknown whether the answer equals a cold run's"


@pytest.mark.parametrize(("ours", "theirs", "race", "far", "found"), [
    (RIGHT, RIGHT, False, None, (True, "")), (WRONG, WRONG, False, None, (True, "")),
    (RIGHT, WRONG, False, None, (False, "")), (WRONG, RIGHT, False, None, (False, "")),
    (WRONG, RIGHT, False, 0.0, (False, "")), (RIGHT, WRONG, False, 0.5, (False, "")),
    (WRONG, RIGHT, False, 0.25,
     (None, "wrong here; the real answer differs from a cold run by 0.25, which counts as rounding")),
    (RIGHT, OPEN, False, None, (None, NO_COLD)), (OPEN, RIGHT, False, None, (None, NO_COLD)),
    (UNKNOWN, RIGHT, False, None, (None, "the simulator gave no answer")),
    (RIGHT, UNKNOWN, False, None, (None, "the client disconnected")),
    (RIGHT, RIGHT._replace(cache_n=4), False, None, (False, "")),
    (RIGHT, RIGHT._replace(prompt_n=1), False, None, (False, "")),
    (RIGHT, RIGHT._replace(status=500), False, None, (False, "")),
    (RIGHT, RIGHT._replace(cache_n=4), True, None, (None, RACED)), (RIGHT, RIGHT, True, None, (True, "")),
    (RIGHT, RIGHT._replace(cache_n=None), False, None, (True, "")),
    (RequestResult(0, 0, 400, None), RequestResult(None, None, 400, None), False, None, (True, "")),
    (RequestResult(0, 0, 400, True), RequestResult(None, None, 400, False), False, None, (True, "")),
])  # fmt: skip
def test_both_sides_agree_in_what_the_real_one_shows(ours, theirs, race, far, found):
    assert _same(ours, theirs, race, far) == found


@pytest.mark.parametrize(("raw", "step", "inexact", "found"), [
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, False, RIGHT),
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, True, WRONG),
    ({"response": {"cache_n": 3, "prompt_n": 2}}, {}, True, OPEN),
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, None, OPEN),
    ({"response": {"status": 400}}, {}, False, RequestResult(None, None, 400, None)),
    ({"response": {"cancelled": True, "tokens": []}}, {}, False, UNKNOWN), ({}, {}, False, UNKNOWN),
    ({}, {"died": True}, False, RequestResult(None, None, 0, False)),
    ({"response": {"cache_n": 3, "prompt_n": 2}}, {"died": True}, False, OPEN),
    ({}, {"stuck": True}, False, UNKNOWN._replace(status=NEVER_ANSWERED)), ({}, {"stuck": False}, False, UNKNOWN),
])  # fmt: skip
def test_the_outcome_on_the_real_side(raw, step, inexact, found):
    assert _theirs(SimpleNamespace(inexact=inexact), raw, step) == found


@pytest.mark.parametrize(("first", "sized", "text"), [
    ({"field": "cache_n", "recorded": 3, "ours": 4}, True, "cache_n: 3 there, 4 here"),
    ({"recorded": {"ev": "save", "n": 3, "m": 1}, "ours": {"ev": "save", "n": 4, "m": 1}}, True,
     "save: n 3 there, 4 here"),
    ({"recorded": {"ev": "save", "n": 3, "m": 1}, "ours": {"ev": "save", "n": 4}}, True,
     "save: n 3 there, 4 here, m 1 there, None here"),
    ({"recorded": {"ev": "save", SIZES[0]: 3}, "ours": {"ev": "save", SIZES[0]: 4}}, True,
     f"save: {SIZES[0]} 3 there, 4 here"),
    ({"recorded": {"ev": "save", SIZES[0]: 3}, "ours": {"ev": "save", SIZES[0]: 4}}, False, ""),
    ({"recorded": {"ev": "save", SIZES[0]: 3, "n": 1}, "ours": {"ev": "save", SIZES[0]: 4, "n": 2}}, False,
     f"save: {SIZES[0]} 3 there, 4 here, n 1 there, 2 here"),
    ({"event": 5, "recorded": {"ev": "save"}, "ours": {"ev": "load"}}, True, "decision 5: save there, load here"),
    ({"event": 5, "recorded": {"ev": "save"}, "ours": None}, True, "decision 5: save there, nothing here"),
])  # fmt: skip
def test_the_first_difference_in_words(first, sized, text):
    """Sizes count only if the states of the real model have those that the simulator counts."""
    assert _said(first, sized) == text


@pytest.mark.parametrize(("members", "first", "why"), [
    ([{"response": {"stop_type": "eos"}}], "", ENDED_EARLY), ([{"response": {"stop_type": "limit"}}], "", ""),
    ([{"request": {"cancel_after": 0}}], "decision 3: x", DISCONNECTED),
    ([{"request": {"cancel_after": 0}}], "n: 3", ""),
    ([{"request": {}}, {}], "decision 3: x", ""),
    ([{}, {"response": {"stop_type": "eos"}}], "decision 3", ENDED_EARLY),
    ([{"request": {"cancel_after": 3}}, {"request": {}}], "decision 3: x", DISCONNECTED),
    ([{}, {"request": None}, {"request": {"cancel_after": 3}}], "decision 3: x", DISCONNECTED),
])  # fmt: skip
def test_from_where_differences_say_nothing(members, first, why):
    assert _unknown_end(members, first) == why


def test_the_differences_of_all_completions_from_their_cold_runs():
    completions = [{"cold": {"max_dlogprob": 0.5}}, {}]
    assert [*_gaps({"cold": {"max_dlogprob": 1}, "response": {"completions": completions}})] == [1.0, 0.5]
    assert [*_gaps({})] == [*_gaps({"cold": None, "response": None})] == [*_gaps({"cold": {}})] == []
