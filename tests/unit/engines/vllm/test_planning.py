"""Longest requests that a pool holds, and blocks whose return waits for a step."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec
from cachesim.engines.vllm.kv_cache_planning import longest


def groups(*kinds):
    """Return groups from pairs of kind and block size."""
    return [KVCacheGroupSpec(at, kind, block, 0, False, (at,)) for at, (kind, block) in enumerate(kinds)]


def pool_of(blocks, drafts):
    """Return the options of a pool, with drafts of an n-gram drafter."""
    method = {"speculative_method": "ngram"} if drafts else {}
    return options({"num_gpu_blocks": blocks, "num_speculative_tokens": drafts, **method})


@pytest.mark.parametrize(("blocks", "drafts", "kinds", "tokens"), [
    (9, 0, [("full", 4)], 32), (2, 0, [("full", 4)], 4), (9, 0, [("full", 4), ("swa", 4)], 16),
    (9, 0, [("full", 4), ("swa", 8)], 20), (10, 0, [("full", 4), ("swa", 8)], 24), (9, 0, [("mamba", 4),
    ("full", 4)], 20),
    (9, 2, [("mamba", 4), ("full", 4)], 12), (5, 0, [("mamba", 4)], 1 << 20), (3, 0, [("full", 4), ("swa", 4)], 4),
])  # fmt: skip
def test_the_longest_request_fills_the_pool_of_all_groups(blocks, drafts, kinds, tokens):
    assert longest(pool_of(blocks, drafts), groups(*kinds)) == tokens


@pytest.mark.parametrize(("blocks", "drafts", "kinds"), [
    (2, 0, [("full", 4), ("swa", 4)]), (4, 0, [("mamba", 4), ("full", 4)]),
    (4, 0, [("mamba", 4)]),
    (6, 2, [("mamba", 4), ("full", 4)]),
])  # fmt: skip
def test_a_pool_without_room_for_a_block_of_each_group_is_refused(blocks, drafts, kinds):
    with pytest.raises(BadInput, match=f"{blocks} blocks do not hold one request"):
        longest(pool_of(blocks, drafts), groups(*kinds))
