"""Comparison of an answer with that of a server without a cache."""

from __future__ import annotations

import pytest

from cachesim.base.http_client import HttpReply
from cachesim.tools.live.llama_server.cold_server import (
    DRAFTING,
    ask_cold,
    cold_flags,
    cold_request,
    compare,
    inexact,
    probabilities,
)


def answer(tokens, *places):
    probable = [{"top_logprobs": [{"id": key, "logprob": value} for key, value in place.items()]} for place in places]
    return {"tokens": tokens, "completion_probabilities": probable}


@pytest.mark.parametrize("warm, cold, found", [
    (answer([5, 6]), answer([5, 6]), {"equal": True}),
    (answer([5, 6], {5: -0.5}, {6: -1.0}), answer([5, 6], {5: -0.25}, {6: -1.5}), {"equal": True, "max_dlogprob": 0.5}),
    (answer([5, 6]), answer([5, 7]), {"equal": False, "first_diff": 1, "tokens": [5, 7]}),
    (answer([5]), answer([5, 7]), {"equal": False, "first_diff": 1, "tokens": [5, 7]}),
    (answer([5, 6], {5: 0.0}, {6: -1.0, 7: -2.0}), answer([5, 7], {5: 0.0}, {7: -1.0, 6: -1.25}),
     {"equal": False, "first_diff": 1, "max_dlogprob": 1.0, "cold_margin": 0.25, "tokens": [5, 7]}),
    (answer([5, 6], {5: 0.0}, {6: -1.0}), answer([5, 7], {5: 0.0}),
     {"equal": False, "first_diff": 1, "max_dlogprob": 0.0, "tokens": [5, 7]}),
    (answer([5, 6], {5: 0.0}, {6: -1.0}), answer([5, 7], {5: 0.0}, {7: -1.0}),
     {"equal": False, "first_diff": 1, "max_dlogprob": 0.0, "tokens": [5, 7]}),
])  # fmt: skip
def test_answers_are_compared_up_to_their_first_different_token(warm, cold, found):
    assert compare(warm, cold) == found


UNCACHED = ("--cache-ram", "0", "--ctx-checkpoints", "0", "-lv", "1")


@pytest.mark.parametrize(("flags", "kept"), [
    ((), ()), (("-c", "512", "--swa-full"), ("-c", "512", "--swa-full")), (("-c", "512", "-md"), ("-c", "512")),
    *((("-c", "512", word, "-np", "-np", "2"), ("-c", "512", "-np", "2")) for word in DRAFTING),
])  # fmt: skip
def test_the_cold_server_has_the_flags_without_those_of_drafts(flags, kept):
    assert cold_flags(flags) == (*kept, *UNCACHED)


def test_the_cold_request_has_the_fields_that_determine_the_computation():
    fields = {"prompt": [5], "n_predict": 4, "n_keep": 3, "n_discard": 2, "max_tokens": 1, "lora": []}
    found = cold_request({**fields, "id_slot": 3, "cache_prompt": True, "stream": True})
    assert found == {**fields, "cache_prompt": False, "id_slot": 0}
    assert cold_request({}) == {"cache_prompt": False, "id_slot": 0}


@pytest.mark.parametrize(("status", "body"), [(200, {"tokens": [5]}), (201, None), (400, None)])
def test_a_refusing_cold_server_has_no_answer(status, body):
    class GivenClient:
        def complete(self, request):
            assert request == {"prompt": [5], "cache_prompt": False, "id_slot": 0}
            return HttpReply(status, {"tokens": [5]})

    assert ask_cold(GivenClient(), {"prompt": [5], "stream": True}) == body


def test_probabilities_are_those_that_the_server_lists():
    listed = [{"top_logprobs": [{"id": 5, "logprob": -0.5}, {"id": 6, "logprob": -1}]},
              {"top_probs": [{"id": "7", "logprob": -2}, {"id": 8, "prob": 0.1}]}, {}]  # fmt: skip
    assert probabilities({"completion_probabilities": listed}) == [{5: -0.5, 6: -1.0}, {7: -2.0}, {}]
    assert probabilities({}) == probabilities({"completion_probabilities": None}) == []


@pytest.mark.parametrize(("cold", "is_inexact"), [
    ({"equal": True}, False), ({"equal": True, "max_dlogprob": 0.5}, False),
    ({"equal": True, "max_dlogprob": 0.6}, True),
    ({"equal": False}, True), ({"equal": False, "max_dlogprob": 0.1}, True),
])  # fmt: skip
def test_other_tokens_and_large_differences_are_more_than_rounding(cold, is_inexact):
    assert inexact(cold, 0.5) is is_inexact
    assert inexact({"equal": True}, 0.0) is False
