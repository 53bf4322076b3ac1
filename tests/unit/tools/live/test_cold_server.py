"""Comparison of an answer with that of a server without a cache."""

from __future__ import annotations

import pytest

from cachesim.tools.live.llama_server.cold_server import compare


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
    (answer([5, 6], {5: 0.0}, {6: -1.0}), answer([5, 7], {5: 0.0}, {7: -1.0}),
     {"equal": False, "first_diff": 1, "max_dlogprob": 0.0, "tokens": [5, 7]}),
])  # fmt: skip
def test_answers_are_compared_up_to_their_first_different_token(warm, cold, found):
    assert compare(warm, cold) == found
