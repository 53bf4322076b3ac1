"""Caches of a model's layers, and their sizes in bytes, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.mlx_lm.caches import AT_0_32_2, AT_D78BF58E, ArraysCache, CacheList, KVCache
from cachesim.engines.mlx_lm.model_layout import (
    NAMES,
    ROW,
    TokenBytes,
    alive,
    declared,
    make_caches,
    merge_facts,
    model_kind,
    model_weights,
    rows_of,
    states_of,
)
from cachesim.model import parse
from tests.unit.engines.mlx_lm.rows import filled


def slots_of(layer):
    return tuple(4 * n for n in parse(layer).layers[0].recurrence.state_numbers)


@pytest.mark.parametrize(("name", "weights"), [
    ("A", [TokenBytes(256)]), ("W8 A", [TokenBytes(256)] * 2), ("G", [TokenBytes(0, slots_of("G"))]),
    ("H", [TokenBytes(256, slots_of("H"))]), ("C", [TokenBytes(0, slots_of("C"))]), ("A@9/7", [TokenBytes(9)]),
    ("G@9/7", [TokenBytes(0, (0, 7))]), ("C@9/7", [TokenBytes(0, (7,))]), ("H@9/7", [TokenBytes(9, (0, 7))]),
    ("W8 A@9/0/64/5", [TokenBytes(5), TokenBytes(9)]),
])  # fmt: skip
def test_a_layer_weighs_its_rows_and_its_slots(name, weights):
    kind = model_kind(name)
    assert (kind.name, kind.weights) == (name, tuple(weights)) and ROW == 256
    assert model_weights(kind, None) == kind.weights
    assert model_weights(kind, (None, parse("AG"))) == (*weights, TokenBytes(256), TokenBytes(0, slots_of("G")))


@pytest.mark.parametrize(("name", "layers"), NAMES.items())
def test_a_family_is_named_by_its_layers(name, layers):
    assert model_kind(name).spec == parse(layers)


def test_a_model_with_an_mtp_head_is_refused():
    with pytest.raises(BadInput, match=r"^model A\+M: this server has no MTP heads") as bad:
        model_kind("A+M")
    assert bad.value.hint == "leave out +M"


@pytest.mark.parametrize(("layers", "rings", "kinds", "merge"), [
    ("A", True, ["KVCache"], True), ("W8 A", True, ["RotatingKVCache", "KVCache"], True),
    ("W8 A", False, ["KVCache", "KVCache"], True), ("K8 A", True, ["ChunkedKVCache", "KVCache"], False),
    ("GSC", True, ["ArraysCache"] * 3, True), ("HA", True, ["CacheList", "KVCache"], True),
])  # fmt: skip
def test_a_layer_has_its_class_of_cache(layers, rings, kinds, merge):
    caches = make_caches(parse(layers), AT_0_32_2, rings)
    assert [type(one).__name__ for one in caches] == kinds
    assert all(one.rules is AT_0_32_2 for one in caches)
    if rings:
        assert merge_facts(parse(layers), AT_0_32_2) == (kinds, merge)


def test_rings_and_chunks_are_as_long_as_the_window():
    ring, chunk = make_caches(parse("W8 K16"), AT_D78BF58E)
    assert (ring.max_size, ring.keep, chunk.chunk_size) == (8, 0, 16)
    assert [len(one.cache) for one in make_caches(parse("GC"), AT_D78BF58E)] == [2, 1]


def test_a_layer_has_rows_or_states_or_both():
    attention, states, both = make_caches(parse("AGH"), AT_D78BF58E)
    assert (rows_of(attention), states_of(attention)) == (attention, None)
    assert (rows_of(states), states_of(states)) == (None, states)
    assert type(both) is CacheList and (rows_of(both), states_of(both)) == (both[1], both[0])


def test_columns_and_rows_of_slots_are_counted():
    held, slots = filled(KVCache(), 1, 3), ArraysCache(2)
    weights = [TokenBytes(10), TokenBytes(0, (100, 1000))]
    assert declared([KVCache(), slots], weights) == 0
    assert declared([held, slots], weights) == 256 * 10                     # columns of a whole block
    slots[0] = np.ones((2, 3))
    assert declared([held, slots], weights) == 2560 + 2 * 100
    slots[1] = np.ones((3, 1))
    assert declared([held, slots], weights) == 2560 + 200 + 3000
    assert alive([[held, slots], [held, slots]], weights) == 2 * declared([held, slots], weights)


def test_a_list_of_caches_counts_its_parts():
    both = CacheList(ArraysCache(2), filled(KVCache(), 1, 3))
    both[0][0] = np.ones((1, 3))
    assert declared([both], [TokenBytes(10, (100, 1000))]) == 2660
