"""Tests of the memory that entries keep alive: views count with all of the memory behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from cachesim.engines.mlx_lm import ENGINE
from cachesim.engines.mlx_lm.caches.rules_arrays import keep_copied
from cachesim.engines.mlx_lm.profiles import PROFILES
from cachesim.events import Log


def extra(rules, words):
    """Return how much more the entries keep alive than the server counts, after a chat of so many tokens."""
    server = ENGINE.serve(rules, "GGGA", {}, "none", Log())
    messages = (ChatMessage("user", tuple(range(1, 1 + words))),)
    server.complete(Request(render(messages, ChatTemplate()), 3, messages=messages))
    return server.sizes.stored_bytes().cache - server.core.cache.lru.nbytes


@pytest.mark.parametrize("words", [10, 500, 1000])
def test_a_view_keeps_the_inputs_of_the_whole_prompt(words):
    """Three recurrent layers; 192 inputs of 4 bytes a token. The checkpoint is a view of the prompt, and the last
    entry of the last step."""
    old = PROFILES["mlx_lm@m1019"]
    prompt = words + 8 - 1
    assert extra(old, words) == 3 * 192 * 4 * (prompt + 1)
    assert extra(replace(old, caches=replace(old.caches, arrays_keep=keep_copied)), words) == 0
