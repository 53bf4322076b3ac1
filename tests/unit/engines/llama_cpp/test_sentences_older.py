"""Sentences of older builds: prompts that do not fit, and lists of tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.llama_cpp.rules.server_of_2023 import LIST_SAMPLED
from cachesim.engines.llama_cpp.sentences_older import OLDER
from cachesim.engines.shared.sentences import NoEffect

SIZES = {"n_tokens": 90, "n_ctx": 64}


@pytest.mark.parametrize(("value", "text"), [
    ("too long", "prompt refused: too long"),
    (SimpleNamespace(keep=8, lose=30), "input truncated: 8 tokens kept, the next 30 dropped (n_ctx 64)"),
    (None, "90 tokens fit into n_ctx 64"),
])  # fmt: skip
def test_a_prompt_fits_or_is_refused_or_cut(value, text):
    said = OLDER["LC-PROMPT-FIT"](value, SIZES)
    assert said == text and isinstance(said, NoEffect) is (value is None)


@pytest.mark.parametrize(("value", "text"), [
    (None, "the tokens of the slot are listed"),
    (LIST_SAMPLED, "the slot lists the last sampled token, which was not evaluated"),
    (-1, "cache_prompt is false: the list is empty, but 7 tokens were evaluated"),
    (0, "cache_prompt is false: the slot lists no token"),
    (1, "cache_prompt is false: the slot lists 1 token with number 0"),
    (3, "cache_prompt is false: the slot lists 3 tokens with number 0"),
])  # fmt: skip
def test_what_a_slot_lists_after_a_request(value, text):
    assert OLDER["LC-LIST"](value, {"before": 7}) == text
