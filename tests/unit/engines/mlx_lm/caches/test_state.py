"""Tests of saved and restored state (specification 1.1, 1.5, 1.10)."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import (
    AT_0_32_2,
    AT_D78BF58E,
    AT_M1072,
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)
from tests.unit.engines.mlx_lm.rows import feed, filled, numbers, told


def back(cache):
    """Return the cache after saving and loading."""
    meta = cache.meta_state if hasattr(cache, "meta_state") else None
    return type(cache).from_state(cache.state, meta, rules=cache.rules)


def test_head_cuts_the_buffer_and_keeps_no_counter():
    cache = filled(KVCache(), 1, 3)
    assert told(cache.state[0]) == [1, 2, 3]
    assert cache.meta_state == ""
    assert (back(cache).offset, back(cache).keys.shape[2]) == (3, 3)


def test_the_wheel_keeps_slack_and_counters():
    cache = filled(KVCache(rules=AT_0_32_2), 1, 3)
    assert (cache.state[0].shape[2], cache.state[2]) == (256, 3)
    assert not hasattr(cache, "meta_state")
    assert (back(cache).offset, back(cache).nbytes) == (3, cache.nbytes)


def test_a_ring_keeps_its_counters_as_text():
    cache = filled(RotatingKVCache(4, keep=1), 1, 4)
    feed(cache, [5])
    assert cache.meta_state == ("1", "4", "5", "2")
    assert feed(back(cache), [6]) == feed(cache, [6])


def test_a_chunked_cache_is_cut_at_the_number_of_its_last_token():
    cache = filled(ChunkedKVCache(4), 1, 6)
    cache.maybe_trim_front()
    assert cache.meta_state == ("4", "2")
    assert cache.state[0].shape[2] == 4                   # 6 is asked for, 4 are there
    assert back(cache).offset == 4                        # and so two tokens are forgotten


def test_a_concatenated_cache_is_never_cut():
    cache = ConcatenateKVCache()
    feed(cache, [1, 2, 3])
    cache.trim(2)
    assert told(cache.state[0]) == [1, 2, 3]
    assert back(cache).offset == 3


def test_packed_numbers_keep_their_counters_as_text():
    cache = QuantizedKVCache(32, 4)
    cache.update_and_fetch(numbers(1, 1, 3, 32), numbers(1, 1, 3, 32))
    assert cache.meta_state == ("3", "32", "4")
    assert cache.state[0][0].shape[2] == 3
    assert (back(cache).offset, back(cache).bits) == (3, 4)


@pytest.mark.parametrize(("rules", "parts"), [(AT_M1072, 1), (AT_D78BF58E, 3), (AT_0_32_2, 3)])
def test_slots_are_saved_with_their_padding_since_1632(rules, parts):
    cache = ArraysCache(1, left_padding=[2, 1], rules=rules)
    cache[0] = np.ones((2, 3))
    assert len(cache.state) == parts
    again = back(cache)
    assert again[0].tolist() == cache[0].tolist()
    assert (again.left_padding is None) is (parts == 1)
    assert again.lengths is None


@pytest.mark.parametrize("rules", [AT_D78BF58E, AT_0_32_2])
def test_a_list_remembers_the_classes_of_its_children(rules):
    cache = CacheList(filled(KVCache(rules=rules), 1, 3), filled(RotatingKVCache(4, rules=rules), 1, 2))
    again = back(cache)
    assert [type(child).__name__ for child in again.caches] == ["KVCache", "RotatingKVCache"]
    assert [child.offset for child in again.caches] == [3, 2]


def test_a_loaded_batch_lacks_what_was_not_saved():
    cache = KVCache.merge([filled(KVCache(), 1, 3)])
    with pytest.raises(AttributeError):
        back(cache).finalize()
