"""What all caches have in common: their saved forms, copies, and buffers of keys and values."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import (
    AT_0_32_2,
    AT_D78BF58E,
    AT_M1072,
    ArraysCache,
    CacheList,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)
from cachesim.engines.mlx_lm.caches.base import Cache
from tests.unit.engines.mlx_lm.rows import feed, filled, told


class Plain(Cache):
    """A cache of two numbers."""

    WHOLE = ("a", "b")
    a, b = 1, 2

    def empty(self):
        return True

    @property
    def nbytes(self):
        return 0


def test_a_cache_without_content_saves_nothing_and_takes_nothing_back():
    plain = Plain()
    assert (plain.cut_state(), plain.meta(), plain.size(), plain.is_trimmable()) == ([], "", 0, False)
    assert plain.trimmable_after(5) is False
    plain.set_cut_state([])
    plain.set_meta("")
    with pytest.raises(ValueError, match="this cache holds no state"):
        plain.set_cut_state([1])
    with pytest.raises(ValueError, match="this cache holds no counters that are saved as text"):
        plain.set_meta("1")


def test_the_whole_state_is_that_of_the_named_fields():
    plain = Plain()
    assert plain.whole_state() == (1, 2)
    plain.set_whole_state((3, 4))
    assert (plain.a, plain.b) == (3, 4)
    with pytest.raises(ValueError, match="zip"):
        plain.set_whole_state((3,))


@pytest.mark.parametrize("rules", [AT_D78BF58E, AT_M1072, AT_0_32_2])
def test_a_restored_cache_has_the_rules_that_it_is_given(rules):
    held = filled(KVCache(rules=rules), 1, 3)
    again = KVCache.from_state(held.state, rules=rules)
    assert (again.rules, told(again.keys_and_values()[0])) == (rules, [1, 2, 3])
    if rules is not AT_0_32_2:
        assert KVCache.from_state(held.state, "", rules=rules).offset == 3
        with pytest.raises(ValueError, match="no counters"):
            KVCache.from_state(held.state, "5", rules=rules)


def test_a_restored_ring_has_its_counters():
    held = filled(RotatingKVCache(4, keep=1), 1, 6)
    again = RotatingKVCache.from_state(held.state, held.meta_state)
    assert again.meta_state == held.meta_state and again.rules is AT_D78BF58E


def test_a_copy_shares_buffers_and_has_counters_of_its_own():
    held = filled(KVCache(), 1, 3)
    twin = copy.deepcopy(held)
    assert twin.keys is held.keys and twin.rules is held.rules
    twin.trim(2)
    feed(twin, [9])
    assert (told(held.keys_and_values()[0]), told(twin.keys_and_values()[0])) == ([1, 2, 3], [1, 9])


def test_a_copy_of_a_list_has_copies_of_its_children_once():
    child = filled(KVCache(), 1, 2)
    twin = copy.deepcopy(CacheList(child, child))
    assert twin[0] is twin[1] and twin[0] is not child
    slots = ArraysCache(2)
    slots[0] = np.ones((1, 2))
    other = copy.deepcopy(slots)
    other[0] = np.zeros((1, 2))
    assert (slots[0].tolist(), slots[1], other[0].tolist()) == ([[1.0, 1.0]], None, [[0.0, 0.0]])


def test_buffers_are_cut_to_columns():
    held = filled(KVCache(), 1, 5)
    assert told(held.cut(4, 1)[0]) == [2, 3, 4] and held.pair()[0] is held.keys
    assert (held.empty(), held.nbytes) == (False, held.keys.nbytes + held.values.nbytes)
    with pytest.raises(TypeError):
        KVCache().pair()
    assert (KVCache().empty(), KVCache().nbytes) == (True, 0)


def test_layers_that_a_model_does_not_make_have_the_rules_of_the_version():
    assert [layer.rules for layer in make_prompt_cache(2, rules=AT_0_32_2)] == [AT_0_32_2] * 2
    assert [layer.rules for layer in make_prompt_cache(2, 8, rules=AT_M1072)] == [AT_M1072] * 2
    assert make_prompt_cache(1)[0].rules is AT_D78BF58E
    assert CacheList(rules=AT_0_32_2).rules is AT_0_32_2 and CacheList().rules is AT_D78BF58E
    assert CacheList(KVCache(rules=AT_M1072)).rules is AT_M1072
