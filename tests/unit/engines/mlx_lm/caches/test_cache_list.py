"""Tests of CacheList, lists of layers (specification 1.0, 1.6, 1.11) and the tables of rules."""

from __future__ import annotations

import copy
from dataclasses import fields, replace

import numpy as np
import pytest

from cachesim.engines.mlx_lm import caches
from cachesim.engines.mlx_lm.caches import (
    ArraysCache,
    CacheList,
    KVCache,
    RotatingKVCache,
    can_trim_prompt_cache,
    make_prompt_cache,
    trim_prompt_cache,
)
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E
from cachesim.engines.rule import RULES
from tests.unit.engines.mlx_lm.rows import both, feed, filled

TABLES = [getattr(caches, name) for name in caches.__all__ if name.startswith("AT_")]


def hybrid(first, last):
    """A layer with slots and attention."""
    slots = ArraysCache(1)
    slots[0] = np.full((1, 2), last)
    return CacheList(slots, filled(KVCache(), first, last))


def test_children_answer_for_the_list():
    cache = CacheList(filled(KVCache(), 1, 5), filled(RotatingKVCache(8), 1, 3))
    assert (cache.size(), cache.is_trimmable(), cache.empty()) == (5, True, False)
    assert cache.nbytes == cache[0].nbytes + cache[1].nbytes
    assert cache.trim(4) == 3                             # the last child's word
    assert [child.offset for child in cache.caches] == [1, 0]


def test_one_child_that_cannot_go_back_is_enough():
    cache = hybrid(1, 3)
    assert not cache.is_trimmable()
    with pytest.raises(AttributeError):
        cache.trim(1)


def test_a_list_goes_into_a_batch_child_by_child():
    batch = CacheList.merge([hybrid(1, 2), hybrid(101, 104)])
    assert batch[0][0].tolist() == [[2, 2], [104, 104]]
    batch.prepare(lengths=[1, 2], right_padding=[1, 0])
    feed(batch[1], [3, 0], [105, 106])
    batch.finalize()
    batch.extend(CacheList.merge([hybrid(201, 201)]))
    batch.filter([0, 2])
    row = batch.extract(0)
    assert (both(row[1].pair()), row[0][0].tolist()) == ([1, 2, 3], [[2, 2]])
    assert batch.size() == 3


def test_layers_of_a_plain_model():
    assert [type(layer).__name__ for layer in make_prompt_cache(2)] == ["KVCache", "KVCache"]
    ring = make_prompt_cache(1, 64)[0]
    assert (ring.max_size, ring.keep) == (64, 4)


def test_nothing_is_trimmed_if_one_layer_cannot():
    full, ring = filled(KVCache(), 1, 5), filled(RotatingKVCache(4), 1, 5)
    assert not can_trim_prompt_cache([full, ring])
    assert trim_prompt_cache([full, ring], 2) == 0
    assert full.offset == 5
    assert (trim_prompt_cache([], 3), can_trim_prompt_cache([])) == (0, True)


def test_a_copy_goes_its_own_way():
    cache = hybrid(1, 3)
    twin = copy.deepcopy([cache])[0]
    twin[0][0] = np.zeros((1, 2))
    feed(twin[1], [4])
    assert (cache[1].offset, cache[0][0].tolist()) == (3, [[3, 3]])
    assert twin[1].offset == 4


@pytest.mark.parametrize("table", TABLES)
def test_every_entry_of_a_table_is_a_registered_rule(table):
    rules = [getattr(table, field.name) for field in fields(table) if callable(getattr(table, field.name))]
    assert all(RULES[rule.rule] is rule for rule in rules)


def test_no_rule_is_without_a_table():
    used = {value.rule for table in TABLES for value in vars(table).values() if callable(value)}
    families = ("ML-STATE-", "ML-ARRAYS-", "ML-RING-", "ML-CHUNK-", "ML-KV-")
    here = {name for name, rule in RULES.items() if name.startswith(families) and ".caches." in rule.__module__}
    assert here == used


def test_a_saved_list_is_restored_child_by_child():
    cache = CacheList(filled(KVCache(), 1, 5), filled(RotatingKVCache(8), 1, 3))
    fresh = CacheList(KVCache(), RotatingKVCache(2))
    fresh.state, fresh.meta_state = cache.state, cache.meta_state
    assert [both(child.keys_and_values()) for child in fresh.caches] == [[1, 2, 3, 4, 5], [1, 2, 3]]
    assert (fresh[0].offset, fresh[1].max_size, fresh[1].offset) == (5, 8, 3)
    again = CacheList.from_state(cache.state, cache.meta_state)
    assert [type(child).__name__ for child in again.caches] == ["KVCache", "RotatingKVCache"]
    assert (again[1].max_size, again.size()) == (8, 5)
    rules = replace(AT_D78BF58E)
    ruled = CacheList.from_state(cache.state, cache.meta_state, rules=rules)
    assert all(child.rules is rules for child in (ruled, *ruled.caches))


def test_a_list_can_be_trimmed_later_if_every_child_can():
    cache = CacheList(filled(KVCache(), 1, 5), filled(RotatingKVCache(8), 1, 5))
    assert (cache.trimmable_after(2), cache.trimmable_after(3)) == (True, False)


@pytest.mark.parametrize("rules", TABLES)
def test_a_merged_list_and_its_rows_follow_the_rules_of_the_first(rules):
    layers = [CacheList(filled(KVCache(rules=rules), 1, 3), rules=rules) for _ in range(2)]
    batch = CacheList.merge(layers)
    assert batch.rules is rules and batch.extract(1).rules is rules
