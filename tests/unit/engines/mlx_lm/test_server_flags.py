"""Tests of a server's flags, and of the constants derived at start-up."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.model_layout import declared, make_caches, model_kind
from cachesim.engines.mlx_lm.server_flags import settings
from cachesim.engines.shared.flags import options_of
from tests.unit.engines.mlx_lm.serving import burst, server, text


def made(**flags):
    return settings(options_of(Options, flags))


def test_the_defaults_of_the_command_line():
    one = made()
    assert (one.max_size, one.limit, one.completion_batch_size, one.prefill_batch_size) == (10, None, 32, 8)
    assert (one.prefill_step_size, one.draft, one.flags) == (2048, None, Options())
    assert one.template == ChatTemplate("plain", False)


def test_the_completion_batch_holds_at_least_the_prompts():
    assert made(decode_concurrency=2, prompt_concurrency=5).completion_batch_size == 5


def test_a_byte_limit_and_a_draft_model():
    one = made(prompt_cache_bytes=100, draft_model="A", template="terse", thinking=True)
    assert one.limit == 100 and len(one.draft.layers) == 1 and one.template == ChatTemplate("terse", True)


@pytest.mark.parametrize("flags, word", [
    ({"prompt_cache_sise": 3}, "unknown"), ({"prompt_cache_size": True}, "expected int"),
    ({"decode_concurrency": 0}, "at least 1, found 0"), ({"template": "jinja"}, "unknown template"),
    ({"thinking": 1}, "expected bool"), ({"prompt_cache_bytes": -1}, "at least 0, found -1"),
])
def test_what_cannot_be_used_is_refused(flags, word):
    with pytest.raises(BadInput, match=word):
        options_of(Options, flags)


def test_a_prompt_cache_of_size_nothing_keeps_nothing():
    one = server(prompt_cache_size=0)
    burst(one, text(1, 2, 3))
    assert len(one.core.cache.lru) == 0


@pytest.mark.parametrize("name, classes", [
    ("llama", ["KVCache"] * 4), ("qwen3_next", ["ArraysCache"] * 3 + ["KVCache"]), ("mamba2", ["ArraysCache"] * 4),
    ("lfm2", ["ArraysCache"] * 2 + ["KVCache"]), ("gemma3", ["RotatingKVCache"] * 2 + ["KVCache"]),
    ("falcon_h1", ["CacheList"] * 2),
])
def test_which_caches_a_model_gets(name, classes):
    caches = make_caches(model_kind(name).spec, server().core.rules.caches)
    assert [type(one).__name__ for one in caches] == classes


def test_what_stored_caches_weigh():
    """A row: K and V of 2 heads of 16 numbers of 4 bytes, 256. A layer G: 3 inputs of 192 numbers and a matrix of
    4 x 16 x 16, 4 bytes each: 2304 + 4096. A text of 3 tokens with 3 answered: entries of 2 and 6 tokens."""
    one = server()
    burst(one, text(1, 2, 3))
    states = 3 * (2304 + 4096)
    assert one.core.cache.lru.nbytes == (states + 2 * 256) + (states + 6 * 256)
    entries = one.core.cache.lru.entries().values()
    assert [declared(entry.layers, one.core.kind.weights) for entry in entries] == [states + 512, states + 1536]


def test_alone_a_buffer_weighs_what_is_allocated():
    """256 columns for 6 tokens."""
    one = server(model="AAAA")
    burst(one, text(1, 2, 3, seed=True))
    assert one.core.cache.lru.nbytes == 4 * 256 * 256


def test_heads_that_predict_further_tokens_are_not_known_here():
    with pytest.raises(BadInput, match="MTP"):
        model_kind("GGGA+M")
