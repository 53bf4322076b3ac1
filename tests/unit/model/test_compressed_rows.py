"""Tests of compressed rows: the ring of inputs, the blocks that a run completes, and the choice of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import grid, make_model
from cachesim.model.attention import SCORE
from cachesim.model.compressed_rows import (
    CHANNELS,
    best_compressed,
    block_digests,
    block_rows,
    compressed_sums,
    index_queries,
    inputs_after,
    new_blocks,
    numbers_after,
    ring_after,
    ring_length,
    visible_blocks,
)
from cachesim.model.hash_mixing import layer_keys, mix_int
from cachesim.model.rope import turns
from cachesim.model.store import LayerState

MASK = 2**64 - 1
F, T = False, True


def ints(*values):
    return np.array(values, np.uint64)


def test_a_ring_holds_a_block_and_with_ratio_4_also_the_one_before():
    assert [ring_length(ratio) for ratio in (2, 3, 4, 5, 128)] == [2, 3, 8, 5, 128]


def test_inputs_follow_the_ring_which_begins_with_zeros():
    assert inputs_after(None, ints(5, 6), 3).tolist() == [0, 0, 0, 5, 6]
    state = LayerState(ints(1, 2, 3), 0, np.full((3, CHANNELS), 7.0), None)
    assert inputs_after(state, ints(5, 6), 3).tolist() == [1, 2, 3, 5, 6]
    x = np.full((2, CHANNELS), 9.0)
    assert numbers_after(None, x, 3)[:, 0].tolist() == [0, 0, 0, 9, 9]
    assert numbers_after(state, x, 3)[:, 0].tolist() == [7, 7, 7, 9, 9]
    assert numbers_after(state._replace(conv_x=None), x, 3).tolist() == numbers_after(None, x, 3).tolist()


def test_the_ring_after_a_run_holds_its_last_inputs():
    digests, numbers = ints(1, 2, 3, 4, 5), np.arange(5.0 * CHANNELS).reshape(5, CHANNELS)
    state = ring_after(digests, numbers, 3)
    assert (state.conv.tolist(), state.hash, state.conv_x.tolist()) == ([3, 4, 5], 0, numbers[2:].tolist())
    assert state.h.shape == (0, 0, 0) and state.conv.base is None and state.conv_x.base is None
    assert not any(part.flags.writeable for part in (state.conv, state.conv_x, state.h))
    bare = ring_after(digests, None, 3)
    assert (bare.conv.tolist(), bare.hash, bare.conv_x, bare.h) == ([3, 4, 5], 0, None, None)


@pytest.mark.parametrize(("pos0", "n", "ratio", "first", "starts"), [
    (0, 2, 3, 0, []), (0, 3, 3, 0, [3]), (0, 7, 3, 0, [3, 6]), (2, 1, 3, 0, [1]), (2, 5, 3, 0, [1, 4]),
    (3, 2, 3, 1, []), (5, 1, 3, 1, [1]), (0, 4, 4, 0, [8]), (3, 5, 4, 0, [5, 9]), (7, 1, 4, 1, [5]),
])  # fmt: skip
def test_a_run_completes_the_blocks_that_end_in_it(pos0, n, ratio, first, starts):
    """The inputs begin with the ring, so a block that began before the run starts in it."""
    found = new_blocks(pos0, n, ratio)
    assert (found.first, found.starts.tolist()) == (first, starts)


def test_the_digest_of_a_row_depends_on_the_inputs_in_their_order_and_on_its_number():
    key, inputs = layer_keys(3, 1), ints(0, 11, 12, 13, 14)
    blocks = new_blocks(5, 2, 3)                            # block 1 is complete; it starts at input 1
    mixed = [mix_int(value ^ key.ints[0]) for value in (11, 12, 13)]
    total = sum(value * odd for value, odd in zip(mixed, (1, 3, 5), strict=True))
    assert block_digests(inputs, blocks, key, 3).tolist() == [mix_int(total) * 3 & MASK]
    assert block_digests(inputs, new_blocks(3, 2, 3), key, 3).tolist() == []


def test_with_ratio_4_the_digest_depends_on_the_block_before_too():
    key, inputs = layer_keys(3, 1), ints(*range(20, 32))
    mixed = [mix_int(value ^ key.ints[0]) for value in range(24, 32)]
    total = sum(value * odd for value, odd in zip(mixed, range(1, 16, 2), strict=True))
    assert block_digests(inputs, new_blocks(4, 4, 4), key, 4).tolist() == [mix_int(total) * 3 & MASK]


def inputs_of(*firsts):
    """Inputs whose first number (of the index key and the K heads) and last number (of V) are given."""
    found = np.zeros((len(firsts), CHANNELS))
    found[:, 0] = found[:, -1] = np.array(firsts, float) * 2**12
    return found


def test_the_row_of_a_block_is_the_mean_of_its_inputs():
    k, v = block_rows(inputs_of(9, 9, 9, 1, 2, 6), new_blocks(0, 3, 3), 3)
    assert (k.shape, v.shape) == ((1, 3, 16), (1, 2, 16))
    assert k[0, 0, 0] == 3 * 4 and v[0, 1, 15] == 3 * 2**12           # K in ROPE_UNIT: 2**-10 of the grid's units


def test_with_ratio_4_the_block_before_counts_a_third():
    _, v = block_rows(inputs_of(9, 9, 9, 9, 1, 2, 3, 2, 4, 4, 4, 4), new_blocks(4, 4, 4), 4)
    assert v[:, 1, 15].tolist() == [(3 * 16 + 8) * 2**12 / 16]


def test_the_key_of_a_block_is_rotated_to_its_first_position():
    values = np.zeros((4, CHANNELS))
    values[:, 0] = 2.0**30
    k, _ = block_rows(values, new_blocks(2, 2, 2), 2)
    assert abs(k[0, 0, 0] / 2**20 - np.cos(2.0)) < 1e-5 and abs(k[0, 0, 8] / 2**20 - np.sin(2.0)) < 1e-5


def test_blocks_that_are_not_complete_have_no_rows():
    for ratio in (3, 4):
        k, v = block_rows(np.ones((9, CHANNELS)), new_blocks(0, 1, ratio), ratio)
        assert (k.shape, v.shape) == ((0, 3, 16), (0, 2, 16))


def test_a_token_sees_the_blocks_that_end_at_or_before_it():
    visible = visible_blocks(np.arange(7), 3)
    assert visible.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert compressed_sums(ints(5, 2**64 - 2), visible).tolist() == [0, 0, 5, 5, 5, 3, 3]


@pytest.mark.parametrize(("ratio", "count", "rows"), [
    (4, 1, [[F, F, F], [T, F, F], [F, F, T]]), (4, 2, [[F, F, F], [T, F, F], [T, F, T]]),
    (4, 0, [[F, F, F], [T, F, F], [T, T, T]]), (3, 1, [[F, F, F], [T, F, F], [T, T, T]]),
])  # fmt: skip
def test_the_best_rows_are_chosen_with_ratio_4_alone(ratio, count, rows):
    q, k = np.zeros((3, 2, 16)), np.zeros((3, 3, 16))
    q[:, 0, 0], k[:, 2, 0] = 1.0, (2, 1, 3)                 # the last head is the index key
    assert best_compressed(q, k, np.array([0, 1, 3]), ratio, count).tolist() == rows


def test_index_queries_are_in_steps_of_the_softmax_table():
    """At position 0 nothing is rotated: the projections are only rounded to the grid of rotated numbers."""
    weights = make_model("D4.1.1", True).weights.layers[0].attention
    u = np.rint(np.random.default_rng(1).normal(size=(3, 32)) / 4 / grid.UNIT)
    found = index_queries(u, weights, turns(np.zeros(3, np.int64)))
    plain = np.rint(np.rint(u @ weights.lookup) * (grid.UNIT / grid.ROPE_UNIT)).reshape(3, 2, 16)
    assert np.array_equal(found, plain * SCORE) and found.any(axis=2).all()
