"""Tests of ChunkedKVCache: cutting the front, and limits of a trim (specification 1.4, 7.8)."""

from __future__ import annotations

from cachesim.engines.mlx_lm.caches import (
    AT_V0_31_3,
    ChunkedKVCache,
    KVCache,
    can_trim_prompt_cache,
    trim_prompt_cache,
)
from tests.unit.engines.mlx_lm.rows import both, feed, filled, told


def test_the_front_is_cut_to_one_chunk():
    cache = filled(ChunkedKVCache(4), 1, 6)
    cache.maybe_trim_front()
    assert (cache.start_position, cache.offset) == (2, 6)
    assert both(cache.keys_and_values()) == [3, 4, 5, 6]
    assert feed(cache, [7]) == [3, 4, 5, 6, 7]


def test_a_chunk_that_is_just_full_stays():
    cache = filled(ChunkedKVCache(4), 1, 4)
    cache.maybe_trim_front()
    assert cache.start_position == 0


def test_before_1673_the_allocation_counts_and_live_tokens_go():
    cache = filled(ChunkedKVCache(4, rules=AT_V0_31_3), 1, 6)
    cache.maybe_trim_front()
    assert cache.start_position == 252                    # 256 allocated - 4
    assert told(cache.keys) == [0, 0, 0, 0]


def test_no_token_comes_back_over_the_front():
    cache = filled(ChunkedKVCache(5), 1, 10)
    cache.maybe_trim_front()
    assert cache.is_trimmable()
    assert cache.trim(8) == 5
    assert cache.offset == 5


def test_layers_part_and_the_first_one_speaks_for_all():
    full, chunk = filled(KVCache(), 1, 10), filled(ChunkedKVCache(5), 1, 10)
    chunk.maybe_trim_front()
    assert can_trim_prompt_cache([full, chunk])
    assert trim_prompt_cache([full, chunk], 8) == 8
    assert (full.offset, chunk.offset) == (2, 5)


def test_each_token_sees_its_own_chunk():
    cache = filled(ChunkedKVCache(4), 1, 6)
    cache.maybe_trim_front()
    mask = cache.chunk_mask(3)                            # tokens 6, 7 and 8; positions 2 .. 8 are columns 0 .. 6
    assert (mask.lo.tolist(), mask.hi.tolist(), mask.width, mask.batch) == ([[2, 2, 6]], [[5, 6, 7]], 7, False)
    fresh = ChunkedKVCache(4).chunk_mask(5)
    assert (fresh.lo.tolist(), fresh.hi.tolist(), fresh.width) == ([[0, 0, 0, 0, 4]], [[1, 2, 3, 4, 5]], 5)


def test_the_front_is_cut_again_after_further_tokens():
    cache = filled(ChunkedKVCache(4), 1, 6)
    for fed, start, held in (([], 2, [3, 4, 5, 6]), ([7, 8, 9], 5, [6, 7, 8, 9]), ([10], 6, [7, 8, 9, 10])):
        if fed:
            feed(cache, fed)
        cache.maybe_trim_front()
        assert (cache.start_position, both(cache.keys_and_values())) == (start, held)


def test_a_cache_without_tokens_has_no_front_to_drop():
    cache = ChunkedKVCache(4)
    cache.maybe_trim_front()
    assert (cache.keys, cache.start_position, cache.offset) == (None, 0, 0)
