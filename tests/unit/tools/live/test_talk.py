"""Log-probabilities in the replies of servers, as the exported programs read them."""

from __future__ import annotations

import math

import pytest

from cachesim.tools.live.llama_server.export.talk import places


@pytest.mark.parametrize(("body", "found"), [
    ({}, []), ({"completion_probabilities": []}, []),
    ({"completion_probabilities": [{"probs": [{"tok_str": "a", "prob": 1.0}, {"tok_str": "b", "prob": 0}]}]},
     [{"a": 0.0, "b": -math.inf}]),
    ({"completion_probabilities": [{"top_logprobs": [{"id": 5, "logprob": -0.5}, {"id": 6}]},
                                   {"top_probs": [{"id": 7, "logprob": -1.0}]}, {}]}, [{5: -0.5}, {7: -1.0}, {}]),
])  # fmt: skip
def test_the_likeliest_tokens_of_each_generated_token(body, found):
    assert places(body) == found
