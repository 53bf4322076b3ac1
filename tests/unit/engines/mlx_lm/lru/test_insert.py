"""Tests of removals on insert: replaced entries, prefixes, victims, limits (specification 2, 4.2, 4.4, 4.7)."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.lru import (
    LRU_BASE923,
    LRU_BASE1006,
    LRU_HEAD,
    LRU_M1019,
    LRU_PR999,
    Inserted,
    LRUPromptCache,
    Removed,
    Requeued,
)
from tests.unit.engines.mlx_lm.lru.toys import MODEL, attention, hybrid, keys, store, stored


def fill(rules, kinds, **options):
    cache = LRUPromptCache(rules=rules, **options)
    for i, kind in enumerate(kinds):
        cache.insert_cache(MODEL, [i, i], hybrid([i, i]), cache_type=kind)
    return cache


def test_m1019_dies_when_only_system_entries_are_there():
    cache = fill(LRU_M1019, ["system", "system"], max_size=2)
    with pytest.raises(IndexError):
        cache.insert_cache(MODEL, [9], hybrid([9]), cache_type="system")
    cache = fill(LRU_HEAD, ["system", "system"], max_size=2)
    cache.insert_cache(MODEL, [9], hybrid([9]), cache_type="system")
    assert keys(cache) == [[1, 1], [9]]


def test_a_new_object_replaces_the_old_one():
    cache, told = store([1, 2])
    cache.insert_cache(MODEL, [1, 2], attention([1, 2], nbytes=7), cache_type="user")
    assert stored(cache) == {"user": [[1, 2]]}
    assert cache.nbytes == 7
    assert told == [
        Removed(MODEL, (1, 2), "replaced", 2, "assistant", "ML-LRU-PRESENT.replace"),
        Inserted(MODEL, (1, 2), "user", 7),
    ]


@pytest.mark.parametrize(("rules", "owners"), [(LRU_BASE1006, 1), (LRU_BASE923, 2)])
def test_before_1019_the_old_object_stays(rules, owners):
    cache, told = store([1, 2], [3, 4], rules=rules)
    old = cache.entries()[MODEL, (1, 2)].layers
    cache.insert_cache(MODEL, [1, 2], attention([1, 2], nbytes=7))
    entry = cache.entries()[MODEL, (1, 2)]
    assert (entry.layers is old, entry.nbytes, entry.owners) == (True, 2, owners)
    assert keys(cache) == [[3, 4], [1, 2]]
    assert told == [Requeued(MODEL, (1, 2), "normal", 2)]


def test_a_key_may_change_its_queue():
    cache, _ = store([1, 2], rules=LRU_BASE1006)
    cache.insert_cache(MODEL, [1, 2], attention([1, 2]), cache_type="checkpoint")
    assert stored(cache) == {"checkpoint": [[1, 2]]}


PREFIXES = ([], [1], [1, 2], [1, 2, 3])


@pytest.mark.parametrize(("rules", "left"), [
    (LRU_HEAD, []), (LRU_M1019, [[1, 2, 3]]), (LRU_BASE1006, []), (LRU_BASE923, list(PREFIXES)),
])  # fmt: skip
def test_prefixes_go_when_a_trimmable_entry_comes(rules, left):
    cache, told = store(*PREFIXES, rules=rules, layers=hybrid)
    cache.insert_cache(MODEL, [1, 2, 3, 4], attention([1, 2, 3, 4]))
    assert keys(cache) == [*left, [1, 2, 3, 4]]
    gone = [event for event in told if isinstance(event, Removed)]
    assert {event.reason for event in gone} <= {"prefix"}
    assert len(gone) == 4 - len(left)


def test_prefixes_stay_when_the_new_entry_cannot_go_back():
    cache, _ = store(*PREFIXES, layers=hybrid)
    cache.insert_cache(MODEL, [1, 2, 3, 4], hybrid([1, 2, 3, 4]))
    assert len(cache) == 5


def test_pr999_drops_prefixes_within_the_reach_of_the_shortest_layer():
    cache, _ = store(*PREFIXES, rules=LRU_PR999, layers=hybrid)
    cache.insert_cache(MODEL, [1, 2, 3, 4], [*attention([1, 2]), *attention([1, 2, 3])])
    assert keys(cache) == [[], [1], [1, 2, 3, 4]]


def test_one_goes_for_the_count():
    cache, told = store([1], [2], [3], max_size=2)
    assert keys(cache) == [[2], [3]]
    cache.max_size = 0
    cache.insert_cache(MODEL, [4], attention([4]))
    assert keys(cache) == [[3], [4]]
    assert told[-1] == Removed(MODEL, (2,), "count", 1, "assistant", "ML-LRU-VICTIM.three")


@pytest.mark.parametrize(("rules", "left"), [(LRU_HEAD, []), (LRU_M1019, []), (LRU_BASE1006, [[9, 9]])])
def test_bytes_may_cost_the_new_entry_too(rules, left):
    cache, _ = store([1, 1], [2, 2], rules=rules, max_bytes=5)
    cache.insert_cache(MODEL, [9, 9], attention([9, 9], nbytes=6))
    assert keys(cache) == left


def test_the_size_of_an_entry_is_that_of_its_coming():
    cache, _ = store(nbytes_of=lambda layers: 100 * len(layers))
    layers = hybrid([1, 2])
    cache.insert_cache(MODEL, [1, 2], layers)
    layers[0].nbytes = 5
    assert (cache.nbytes, cache.entries()[MODEL, (1, 2)].layers is layers) == (200, True)


@pytest.mark.parametrize(("limits", "left"), [
    ({"n_sequences": 2}, [[2], [3]]), ({"n_sequences": -1}, []), ({"n_bytes": 1}, [[3]]),
    ({"n_bytes": -5}, []), ({}, [[1], [2], [3]]),
])  # fmt: skip
def test_trim_to(limits, left):
    cache, _ = store([1], [2], [3])
    cache.trim_to(**limits)
    assert keys(cache) == left


def test_kinds_and_their_bytes():
    cache = fill(LRU_HEAD, ["assistant", "user", "user", "system"])
    assert {kind: len(queue) for kind, queue in cache.queues().items()} == {"assistant": 1, "user": 2, "system": 1}
    assert cache.nbytes == 16
    with pytest.raises(KeyError):
        cache.insert_cache(MODEL, [7], attention([7]), cache_type="checkpoint")
