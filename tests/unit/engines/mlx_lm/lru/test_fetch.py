"""Tests of queries in every version: exact, longer, shorter or no entry (specification 2, 4.2, 4.5, 5.12)."""

from __future__ import annotations

from collections import deque
from copy import deepcopy

import pytest

from cachesim.engines.mlx_lm.lru import (
    LRU_0_28_3,
    LRU_BASE923,
    LRU_BASE1006,
    LRU_HEAD,
    LRU_M1019,
    LRU_PR999,
    LRU_V911,
    Fetched,
    Removed,
)
from cachesim.engines.mlx_lm.lru.lru_prompt_cache import Queues
from tests.unit.engines.mlx_lm.lru.toys import MODEL, Layer, attention, hybrid, keys, store

S, L = "ML-LRU-SHORTER", "ML-LRU-LONGER.more"


@pytest.mark.parametrize(("held", "layers", "query", "how", "kept", "rule"), [
    ([[1, 2, 3]], attention, [1, 2, 3], "exact", 3, "ML-LRU-EXACT.stored"),
    ([[1, 2, 3]], attention, [1, 2, 3, 4], "shorter", 3, S),
    ([[1, 2, 3, 4]], attention, [1, 2, 9], "longer", 2, L),
    ([[1, 2, 3, 4]], attention, [1, 2], "longer", 1, L),          # one token is left to process
    ([[1, 2, 3, 4]], hybrid, [1, 2, 9], "miss", 0, "ML-LRU-USABLE"),
    ([[1, 2], [1, 2, 3, 4]], hybrid, [1, 2, 3, 9], "shorter", 2, S),
    ([[1]], attention, [1, 2], "longer", 1, L),                   # a key of one token, trimmed by nothing
    ([[1]], hybrid, [1, 2], "miss", 0, "ML-LRU-USABLE"),
    ([[1, 2]], attention, [7], "miss", 0, L),
    ([], attention, [7], "miss", 0, L),
])  # fmt: skip
def test_head(held, layers, query, how, kept, rule):
    cache, told = store(*held, layers=layers)
    fetch = cache.fetch_nearest_cache(MODEL, query)
    assert (fetch.how, fetch.kept, list(fetch.rest)) == (how, kept, query[kept:])
    assert told == [Fetched(MODEL, len(query), how, kept, rule, fetch.key)]
    assert (fetch.cache is None) is (how == "miss")
    if fetch.cache:
        assert fetch.cache[0].held == kept


def test_a_longer_entry_comes_first_since_911():
    for rules, kept in ((LRU_BASE923, 2), (LRU_V911, 4), (LRU_HEAD, 4)):
        cache, _ = store(rules=rules)
        cache.insert_cache(MODEL, [1, 2, 3, 4, 5, 6], attention(range(6)))
        cache.insert_cache(MODEL, [1, 2], attention([1, 2]))
        assert cache.fetch_nearest_cache(MODEL, [1, 2, 3, 4, 9, 9]).kept == kept


def test_a_hit_consumes_in_base923():
    cache, told = store([1, 2, 3], rules=LRU_BASE923)
    assert cache.fetch_nearest_cache(MODEL, [1, 2, 3, 4]).kept == 3
    assert told[1] == Removed(MODEL, (1, 2, 3), "consumed", 3, "normal", "ML-LRU-HAND.consume")
    assert (len(cache), cache.nbytes) == (0, 0)
    assert cache.fetch_nearest_cache(MODEL, [1, 2, 3, 5]).how == "miss"


def test_with_two_owners_the_first_hit_copies_in_base923():
    cache, _ = store([1, 2, 3], [1, 2, 3], rules=LRU_BASE923)
    first = cache.fetch_nearest_cache(MODEL, [1, 2, 3, 4])
    held = next(iter(cache.entries().values()))
    assert (held.owners, held.layers is first.cache) == (1, False)
    second = cache.fetch_nearest_cache(MODEL, [1, 2, 3])
    assert (second.how, second.cache is held.layers, len(cache)) == ("exact", True, 0)


def test_a_hit_copies_and_the_entry_stays_since_911():
    cache, _ = store([1, 2, 3])
    held = next(iter(cache.entries().values())).layers
    first = cache.fetch_nearest_cache(MODEL, [1, 2, 3, 4])
    first.cache[0].trim(3)
    assert held[0].held == 3
    assert cache.fetch_nearest_cache(MODEL, [1, 2, 3, 5]).kept == 3


def test_a_fetch_does_not_make_an_entry_younger():
    cache, _ = store([1, 1], [2, 2], max_size=2)
    cache.fetch_nearest_cache(MODEL, [1, 1, 5])
    cache.insert_cache(MODEL, [3, 3], attention([3, 3]))
    assert keys(cache) == [[2, 2], [3, 3]]


@pytest.mark.parametrize("rules", [LRU_BASE923, LRU_BASE1006, LRU_M1019])
def test_before_1078_an_empty_query_is_a_key_error(rules):
    cache, _ = store([1, 2], rules=rules)
    with pytest.raises(KeyError):
        cache.fetch_nearest_cache(MODEL, [])
    assert cache.fetch_nearest_cache("other", []).how == "miss"


def test_an_empty_key_is_found_by_an_empty_query_only():
    cache, _ = store([], layers=hybrid)
    assert cache.fetch_nearest_cache(MODEL, []).how == "exact"
    assert cache.fetch_nearest_cache(MODEL, [1]).how == "miss"


@pytest.mark.parametrize(("rules", "how", "kept"), [(LRU_BASE1006, "longer", 2), (LRU_PR999, "miss", 0)])
def test_only_pr999_looks_at_what_was_trimmed(rules, how, kept):
    cache, _ = store(rules=rules)
    cache.insert_cache(MODEL, [1, 2, 3, 4, 5, 6], [Layer(3), Layer(6)])       # the first layer holds 3 of 6
    fetch = cache.fetch_nearest_cache(MODEL, [1, 2, 9])
    assert (fetch.how, fetch.kept) == (how, kept)


def test_the_decision_holds_what_was_looked_at():
    cache, _ = store([1, 2], [1, 2, 3, 4], layers=hybrid)
    because = cache.fetch_nearest_cache(MODEL, [1, 2, 3, 9]).decision.because
    assert because == {"query": 4, "common": 3, "shorter": 2, "longer": 4}


@pytest.mark.parametrize(("query", "kept", "key"), [([1, 2, 9, 9], 2, (1, 2)), ([1, 2, 3, 4], 3, (1, 2, 3))])
def test_before_625_the_only_conversation_itself_is_trimmed_and_gets_the_shorter_key(query, kept, key):
    cache, told = store([1, 2, 3, 4], rules=LRU_0_28_3)
    (entry,) = cache.entries().values()
    fetch = cache.fetch_nearest_cache(MODEL, query)
    assert (fetch.how, fetch.kept, fetch.key, fetch.old_key) == ("longer", kept, key, key)
    assert fetch.cache is entry.layers and fetch.cache[0].held == kept
    assert keys(cache) == [[*key]] and cache.entry(MODEL, key).layers is entry.layers
    assert told[0] == Removed(MODEL, (1, 2, 3, 4), "moved", 4, "normal", "ML-LRU-TRIM-IN.place")


def test_a_copy_of_the_queues_has_queues_of_its_own():
    queues = Queues({"normal": deque([(MODEL, (1, 2))]), "system": deque()})
    copied = deepcopy(queues)
    assert copied == queues and type(copied) is Queues
    copied["normal"].clear()
    assert [*queues["normal"]] == [(MODEL, (1, 2))]
