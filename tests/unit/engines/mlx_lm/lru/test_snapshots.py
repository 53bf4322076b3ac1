"""Tests of PR #923 and #929: keys that move, and copies at message boundaries (specification 4.3, 5.1 to 5.4)."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.lru import LRU_PR923, LRU_PR929, Inserted, Removed
from tests.unit.engines.mlx_lm.lru.toys import MODEL, Layer, attention, hybrid, keys, store


@pytest.mark.parametrize(("rules", "offset"), [(LRU_PR923, 25), (LRU_PR929, 17)])
def test_a_hybrid_snapshot_keeps_what_cannot_go_back(rules, offset):
    cache, told = store(rules=rules, checkpoint_interval=8)
    final = [Layer(25), Layer(25, trimmable=False)]               # 19 of the key, 3 of a suffix, 3 generated
    cache.insert_cache(MODEL, range(19), final, boundaries=[11])
    copy = cache.entries()[MODEL, tuple(range(11))]
    assert [layer.held for layer in copy.layers] == [offset, 25]
    assert (copy.snapshot, final[0].held) == (True, 25)
    assert told[1] == Inserted(MODEL, tuple(range(11)), "normal", 50, snapshot=True)


def test_an_attention_snapshot_is_trimmed_by_key_lengths_in_923():
    cache, _ = store(rules=LRU_PR923, checkpoint_interval=8)
    cache.insert_cache(MODEL, range(19), [Layer(25)], boundaries=[11])
    assert cache.entries()[MODEL, tuple(range(11))].layers[0].held == 17


def test_no_snapshot_where_an_entry_is():
    cache, _ = store(range(11), rules=LRU_PR929, layers=hybrid)
    cache.insert_cache(MODEL, range(19), hybrid(range(19)), boundaries=[11])
    assert not cache.entries()[MODEL, tuple(range(11))].snapshot


def test_a_hit_deletes_the_snapshot():
    cache, told = store(rules=LRU_PR929, layers=hybrid)
    cache.insert_cache(MODEL, range(19), hybrid(range(19)), boundaries=[11])
    told.clear()
    # the copy was cut to 11 tokens, which freed nothing: 2 * 19 bytes
    fetch = cache.fetch_nearest_cache(MODEL, [*range(11), 77, 78])
    assert (fetch.how, fetch.kept, fetch.old_key) == ("shorter", 11, None)
    assert told[1] == Removed(MODEL, tuple(range(11)), "consumed", 38, "normal", "ML-LRU-HAND.move")
    assert keys(cache) == [[*range(19)]]


def test_a_plain_prefix_is_lent_and_moved():
    cache, told = store([1, 2], rules=LRU_PR923)
    held = cache.entries()[MODEL, (1, 2)].layers
    fetch = cache.fetch_nearest_cache(MODEL, [1, 2, 3])
    assert (fetch.cache is held, fetch.old_key, len(cache)) == (True, (1, 2), 1)
    told.clear()
    cache.insert_cache(MODEL, [1, 2, 3], fetch.cache, old_key=fetch.old_key)
    assert keys(cache) == [[1, 2, 3]]
    assert told[0] == Removed(MODEL, (1, 2), "moved", 2, "normal", "ML-LRU-MOVE.old")


def test_an_exact_hit_leaves_and_comes_back_under_its_key():
    cache, _ = store([1, 2], rules=LRU_PR923)
    fetch = cache.fetch_nearest_cache(MODEL, [1, 2])
    assert (fetch.old_key, len(cache)) == ((1, 2), 0)
    cache.insert_cache(MODEL, [1, 2], fetch.cache, old_key=fetch.old_key)
    assert keys(cache) == [[1, 2]]


def test_two_followers_of_one_key_end_in_a_key_error():
    cache, _ = store([1, 2], rules=LRU_PR923)
    first, second = (cache.fetch_nearest_cache(MODEL, [1, 2, n]) for n in (3, 4))
    cache.insert_cache(MODEL, [1, 2, 3], first.cache, old_key=first.old_key)
    with pytest.raises(KeyError):
        cache.insert_cache(MODEL, [1, 2, 4], second.cache, old_key=second.old_key)


def test_a_new_object_takes_the_bytes_and_one_owner_more():
    cache, _ = store([1, 2], rules=LRU_PR923)
    cache.insert_cache(MODEL, [1, 2], attention([1, 2], nbytes=9))
    entry = cache.entries()[MODEL, (1, 2)]
    assert (entry.nbytes, entry.owners, cache.nbytes) == (9, 2, 9)


def test_snapshots_count_and_all_that_are_too_many_go():
    cache, _ = store([7, 7], [8, 8], rules=LRU_PR929, max_size=2, layers=hybrid)
    cache.insert_cache(MODEL, range(19), hybrid(range(19)), boundaries=[11])
    assert keys(cache) == [[*range(19)], [*range(11)]]
