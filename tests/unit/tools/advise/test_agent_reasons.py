"""Reasons of settings for agents, in sentences."""

from __future__ import annotations

import pytest

from cachesim.tools.advise.agent_reasons import reason_text


@pytest.mark.parametrize("found, text", [
    ({"decided": "context", "slot": 4096, "longest_request": 9000},
     "the largest context that fits: 4,096 tokens for a slot; the longest request has 9,000"),
    ({"decided": "context", "slot": 9000, "longest_request": 9000},
     "each slot holds the longest request (9,000 tokens)"),
    ({"decided": "filled"}, "as many as fit into the memory"),
    ({"decided": "untried"}, "no other value ran on all servers"),
])  # fmt: skip
def test_a_reason_is_a_sentence(found, text):
    assert reason_text(found) == text
