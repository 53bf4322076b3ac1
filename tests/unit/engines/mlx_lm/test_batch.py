"""Tests of batches: joining, leaving and padding of rows, and the contents of the caches' arrays."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from cachesim.engines.base import FixedTokens
from cachesim.engines.mlx_lm import PROFILES
from cachesim.engines.mlx_lm.batch import Batch, Row, left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.caches import BatchRotatingKVCache
from cachesim.engines.mlx_lm.element_codec import pack_rows, pack_states, unpack_rows, unpack_state
from cachesim.engines.mlx_lm.events import Died
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.model_layout import make_caches
from cachesim.model import KVRows, LayerState, make_model, parse

MODEL = make_model(parse("GGGA"), exact=False)


def rows(n):
    return [Row(i, task=None) for i in range(n)]


def caches(profile="0.32.2"):
    return make_caches(MODEL.spec, PROFILES[f"mlx_lm@{profile}"].caches)


def batch(*prompts):
    """Return a batch of rows of equal length, fed."""
    out = Batch(rows(len(prompts)), merged([caches() for _ in prompts]))
    forward(MODEL, MODEL.spec, out.caches, prompts)
    return out


def test_padding_is_the_token_0():
    assert right_padded([(1, 2), (3,)], 3) == [(1, 2, 0), (3, 0, 0)]
    assert left_padded([(1, 2), (3,)], 3) == [(0, 1, 2), (0, 0, 3)]


def test_a_batch_that_is_joined_keeps_the_order_of_both():
    one, other = batch((1, 2, 3)), batch((4, 5), (6, 7))
    names = [*one.rows, *other.rows]
    one.extend(other)
    assert one.rows == names and one.caches[3].offset.tolist() == [3, 2, 2]
    assert [len(slot) for slot in one.caches[0].cache] == [3, 3]


def test_an_empty_batch_takes_the_caches_of_the_other():
    one, other = Batch(), batch((1, 2))
    one.extend(other)
    assert one.caches is other.caches and one.rows == other.rows


def test_rows_that_go_leave_the_others_as_they_were():
    one = batch((1, 2, 3), (4, 5, 6), (7, 8, 9))
    first, gone, last = one.rows
    kept = [cache.extract(2) for cache in one.caches]
    one.drop([gone])
    assert one.rows == [first, last]
    assert np.array_equal(one.extract(1)[3].keys, kept[3].keys)
    one.drop([first, last])
    assert (one.rows, one.caches) == ([], [])


def test_rows_that_a_state_does_not_have_end_the_thread():
    one = batch((1, 2, 3))
    one.rows = rows(2)
    with pytest.raises(Died, match="does not have"):
        one.filter([1])


def test_what_the_classes_refuse_ends_the_thread():
    small = make_caches(parse("W4"), PROFILES["mlx_lm@0.32.2"].caches)
    large = make_caches(parse("W8"), PROFILES["mlx_lm@0.32.2"].caches)
    with pytest.raises(Died, match="ValueError"):
        merged([small, large])


@pytest.mark.parametrize("name, kinds", [
    ("GA", ["ArraysCache", "BatchKVCache"]), ("W8 A", ["BatchRotatingKVCache", "BatchKVCache"]), ("H", ["CacheList"]),
])
def test_a_fresh_cache_as_one_of_many_rows(name, kinds):
    fresh = make_caches(parse(name), PROFILES["mlx_lm@0.31.1"].caches)
    made = [to_batch(cache, [3, 0]) for cache in fresh]
    assert [type(one).__name__ for one in made] == kinds
    assert all(one.left_padding.tolist() == [3, 0] for one in made if hasattr(one, "left_padding"))


def test_rows_go_into_a_buffer_and_come_back():
    numbers = np.arange(12.0).reshape(3, 2, 2)
    found = unpack_rows(*pack_rows([KVRows(np.array([7, 8, 9], np.uint64), numbers, -numbers)]))
    assert found.digest.tolist() == [7, 8, 9]
    assert np.array_equal(found.k, numbers) and np.array_equal(found.v, -numbers)
    found = unpack_rows(*pack_rows([KVRows(np.array([7], np.uint64), None, None)]))
    assert found.digest.tolist() == [7] and found.k is None


def test_states_go_into_slots_and_come_back():
    states = [LayerState(np.array([n, n + 1], np.uint64), 50 + n, np.full((2, 3), 1.0 * n), np.full((1, 2, 2), 3.0 * n))
              for n in (1, 2)]
    slots = pack_states(states, 2)
    assert [len(slot) for slot in slots] == [2, 2]
    back = unpack_state(slots, 1, exact=True)
    assert back.conv.tolist() == [2, 3] and back.hash == 52
    assert np.array_equal(back.conv_x, states[1].conv_x) and np.array_equal(back.h, states[1].h)
    assert len(pack_states(states, 1)) == 1 and unpack_state([None, None], 0, True) is None


def test_a_finished_row_is_shared_by_copies_and_another_one_is_not():
    done, busy = Row(0, task=None, tokens=[1], busy=False), Row(1, task=None, tokens=[1, 2], caches=[[3]])
    twins = deepcopy([done, busy, busy])
    assert twins[0] is done and twins[1] is twins[2] is not busy
    assert (twins[1].tokens, twins[1].caches) == ([1, 2], [[3]])
    twins[1].tokens.append(9), twins[1].caches[0].append(9)
    assert (busy.tokens, busy.caches) == ([1, 2], [[3]])
    for more in ({"busy": True}, {"busy": False, "left": [1]}, {"busy": False, "caches": [1]}):
        row = Row(2, task=None, **more)
        assert deepcopy(row) is not row


def test_joining_what_the_classes_refuse_ends_the_thread():
    """Before #1072 a row without states cannot join one with states."""
    one, fresh = (Batch(rows(1), merged([caches("0.31.0")])) for _ in range(2))
    forward(MODEL, MODEL.spec, one.caches, [(1, 2)])
    with pytest.raises(Died, match="TypeError"):
        one.extend(fresh)
    assert len(one.rows) == 1


def test_taking_a_row_without_a_buffer_ends_the_thread():
    """A ring of a still empty batch refuses it; #999 makes a new ring."""
    batch = Batch(rows(1), [BatchRotatingKVCache(8, [0], rules=PROFILES["mlx_lm@0.32.2"].caches)])
    with pytest.raises(Died, match="TypeError: the batch holds no buffer"):
        batch.extract(0)
    repaired = BatchRotatingKVCache(8, [0], rules=PROFILES["mlx_lm@pr999"].caches)
    [ring] = Batch(rows(1), [repaired]).extract(0)
    assert (ring.max_size, ring.offset) == (8, 0)


def test_ending_a_pass_of_another_number_of_rows_ends_the_thread():
    cache = to_batch(caches()[-1], [0, 0])
    cache.keys = cache.values = np.zeros((3, 1, 2, 1))
    cache.prepare(lengths=[1, 2], right_padding=[1, 0])
    with pytest.raises(Died, match="ValueError: 2 shifts for 3 rows"):
        Batch(rows(2), [cache]).finalize()


def test_rows_that_are_dropped_leave_the_batch_and_unknown_ones_change_nothing():
    one = batch((1, 2), (4, 5))
    first, second = one.rows
    one.drop(["third"])
    assert one.rows == [first, second] and len(one.caches[3].offset) == 2
    one.drop([first, "third"])
    assert one.rows == [second] and len(one.caches[3].offset) == 1
    one.drop([second])
    assert (one.rows, one.caches) == ([], [])


def test_segments_are_fed_piece_by_piece():
    row = Row(0, task=None, segments=[(1, 2, 3, 4, 5), (6,)])
    assert row.take(2) == (1, 2) and row.lengths_left() == [3, 1]
    assert row.take(9) == (3, 4, 5) and row.lengths_left() == [1]
    assert row.take(9) == (6,) and row.lengths_left() == []


def test_a_row_is_a_prefix_of_the_same_tokens_until_its_answer_begins():
    row = Row(0, task=None, prefilled=FixedTokens((1, 2, 3)))
    row.tokens += (1, 2)
    first = row.prefix()
    row.tokens += (3,)
    whole = row.prefix()
    assert first == ((1, 2, 3), 2) and whole == ((1, 2, 3), 3) and whole.tokens is first.tokens
    row.tokens += (9,)
    assert row.prefix() == ((1, 2, 3, 9), 4)
