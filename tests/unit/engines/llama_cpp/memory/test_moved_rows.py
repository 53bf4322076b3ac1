"""Rows whose positions move: K-shifts of each stream, of the first stream only, of several moves at once."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache, spoilt_keys
from cachesim.engines.llama_cpp.memory.saved_state import AttentionShape, AttentionState
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.model import KVRows
from tests.unit.engines.llama_cpp.memory.helpers import World, held
from tests.unit.engines.llama_cpp.memory.test_newest_memories import NewestWorld


def rows_of(world, stream, layer=0, cells=slice(0, 8)):
    return world.memory.parts["base"].rows[stream][layer].digest[cells].tolist()


def turned(world, before, old, new, layer=0):
    """Return the digests of rows that are turned from old positions to new ones."""
    rows = KVRows(np.array(before, np.uint64), None, None)
    return world.net.shift_rows(layer, rows, np.array(old), np.array(new)).digest.tolist()


def moved(traits, first=6):
    """Sequence 1 of two streams loses its first two positions and moves by two; sequence 0 has ``first`` tokens."""
    world = NewestWorld("AA", traits, n_seq=2)
    world.go(0, n=first)
    world.go(1, n=6, base=300)
    world.memory.seq_rm(1, 0, 2)
    world.memory.seq_add(1, 2, POS_INF, -2)
    return world


def test_the_rows_of_a_stream_are_turned_by_its_own_shifts():
    world = moved(BuildTraits())
    before = [rows_of(world, stream) for stream in (0, 1)]
    world.memory.init_update()
    assert rows_of(world, 0) == before[0]
    assert rows_of(world, 1)[2:6] == turned(world, before[1][2:6], range(2, 6), range(4))
    assert not world.memory.parts["base"].streams[1].has_shift and held(world.memory.parts["base"], 1) == [*range(4)]
    world.memory.init_update()
    assert rows_of(world, 1)[2:6] == turned(world, before[1][2:6], range(2, 6), range(4)), "once"


@pytest.mark.parametrize(("first", "gone", "cells"), [(6, None, [2, 3, 4, 5]), (4, None, [2, 3]), (6, 3, [2, 4, 5])])
def test_a_build_turns_the_first_stream_by_the_shifts_of_the_last(first, gone, cells):
    world = moved(BuildTraits(turn_first=True), first)
    if gone is not None:
        world.memory.seq_rm(0, gone, gone + 1)
    before = [rows_of(world, stream) for stream in (0, 1)]
    assert world.memory.parts["base"].apply_shift() is True
    for layer in (0, 1):
        now = rows_of(world, 0, layer)
        assert [at for at in range(8) if layer == 0 and now[at] != before[0][at]] == (cells if layer == 0 else [])
    mine = [rows_of(world, 0)[at] for at in cells]
    assert mine == turned(world, [before[0][at] for at in cells], cells, [at - 2 for at in cells])
    assert rows_of(world, 1) == before[1]
    assert not any(table.has_shift or table.shift.any() for table in world.memory.parts["base"].streams)


def test_a_build_also_turns_the_row_of_the_first_position_by_the_shifts_of_the_last_stream():
    world = NewestWorld("AA", BuildTraits(turn_first=True), n_seq=2)
    world.go(0, n=6)
    world.go(1, n=6, base=300)
    world.memory.seq_add(1, 0, POS_INF, 2)
    before = rows_of(world, 0)
    assert world.memory.parts["base"].apply_shift() is True
    assert rows_of(world, 0)[:6] == turned(world, before[:6], range(6), range(2, 8))


def test_a_build_turns_no_row_of_the_first_stream_by_the_shifts_of_a_stream_between():
    world = NewestWorld("AA", BuildTraits(turn_first=True), n_seq=3)
    for seq in range(3):
        world.go(seq, n=6, base=100 * seq)
    world.memory.seq_add(1, 0, POS_INF, 2)
    before = [rows_of(world, stream) for stream in range(3)]
    assert world.memory.parts["base"].apply_shift() is True
    assert [rows_of(world, stream) for stream in range(3)] == before
    assert world.memory.parts["base"].apply_shift() is False and held(world.memory.parts["base"], 1) == [*range(2, 8)]


def test_a_move_of_the_first_stream_alone_is_done_as_usual():
    world = NewestWorld("AA", BuildTraits(turn_first=True), n_seq=2)
    world.go(0, n=6)
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, 6, -2)
    before = rows_of(world, 0)
    world.memory.init_update()
    assert rows_of(world, 0)[2:6] == turned(world, before[2:6], range(2, 6), range(4))


def test_moves_add_up_until_the_next_decode():
    world = NewestWorld("AA")
    world.go(n=6)
    before = rows_of(world, 0)
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, 6, -2)
    world.memory.seq_add(0, 2, 4, 5)
    base = world.memory.parts["base"]
    assert held(base) == [0, 1, 7, 8] and base.streams[0].shift[:6].tolist() == [0, 0, -2, -2, 3, 3]
    world.memory.init_update()
    assert rows_of(world, 0)[2:6] == turned(world, before[2:6], range(2, 6), [0, 1, 7, 8])


def test_a_cache_without_layers_may_end_the_process():
    world = NewestWorld("W8 W8", BuildTraits(shift_dies=True), swa_full=True)
    world.go(n=6)
    world.memory.seq_add(0, 2, 6, -1)
    with pytest.raises(ProcessAborted, match="this cache has no layers"):
        world.memory.init_update()
    spared = NewestWorld("W8 W8", BuildTraits(shift_dies=False), swa_full=True)
    spared.go(n=6)
    spared.memory.seq_rm(0, 0, 1)
    spared.memory.seq_add(0, 1, 6, -1)
    spared.memory.init_update()
    assert held(spared.memory.parts["base"]) == held(spared.memory.parts["swa"]) == [*range(5)]


def test_spoilt_keys_are_other_keys_with_the_same_values():
    k, v = np.arange(6.0).reshape(1, 2, 3), np.ones((1, 2, 3))
    rows = KVRows(np.array([5], np.uint64), k, v)
    found = spoilt_keys(rows)
    assert found.digest.tolist() != [5] and found.v is v and found.k.tolist() == [[[2, 1, 0], [5, 4, 3]]]
    assert spoilt_keys(KVRows(rows.digest, None, None)).k is None


@pytest.mark.parametrize(("waits", "done"), [(True, False), (False, True)])
def test_rows_of_a_copied_stream_come_at_once_or_with_the_next_decode(waits, done):
    world = NewestWorld("AA", BuildTraits(copy_waits=waits), n_seq=2)
    world.go(0, n=6)
    world.go(1, n=2, base=300)
    world.memory.seq_cp(0, 1)
    assert (rows_of(world, 1)[:6] == rows_of(world, 0)[:6]) is done
    assert world.memory.parts["base"].copies == ([(0, 1)] if waits else [])
    world.memory.init_update()
    assert rows_of(world, 1)[:6] == rows_of(world, 0)[:6] and world.memory.parts["base"].copies == []
    world.memory.seq_cp(0, 0)
    assert world.memory.parts["base"].copies == []


def test_a_copy_takes_moves_and_the_place_of_the_search_with_it():
    world = NewestWorld("AA", n_seq=2)
    world.go(0, n=6)
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, 6, -2)
    world.memory.seq_cp(0, 1)
    tables = world.memory.parts["base"].streams
    assert tables[1].shift[:6].tolist() == [0, 0, -2, -2, -2, -2] and tables[1].has_shift
    assert (tables[1].head, tables[1].used, tables[1].span(1)) == (tables[0].head, 4, (0, 3))
    world.memory.init_update()
    assert rows_of(world, 1)[2:6] == rows_of(world, 0)[2:6]


@pytest.mark.parametrize("unified", [True, False])
def test_counts_and_keeps_of_an_attention_cache(unified):
    world = World("A", n_seq=2, unified=unified)
    world.go(0, n=5)
    world.go(1, n=3)
    base = world.memory.parts["base"]
    assert (base.n_cells(0), base.n_cells(1), base.stream(1), base.cells(1)) == (
        5, 3, 0 if unified else 1, base.streams[0 if unified else 1])  # fmt: skip
    base.seq_div(0, 0, -1, 2)
    base.seq_add(1, -3, -1, 2)
    assert (base.cells(0).pos[base.cells(0).of(0)].tolist(), held(base, 1)) == ([0, 0, 1, 1, 2], [2, 3, 4])
    base.seq_keep(1)
    assert (base.pos_max(0), base.pos_max(1)) == (-1 if unified else 2, 4)
    base.clear()
    assert (base.pos_min(1), base.pos_max(1), base.n_cells(1)) == (-1, -1, 0)


def test_rows_that_were_never_written_are_read_as_zero():
    world = World("A")
    world.go(n=3)
    rows = world.memory.parts["base"].rows[0][0]
    assert read_rows(rows, slice(2, 300)).digest.tolist()[1:] == [0] * 297


@pytest.mark.parametrize("ends", [True, False])
def test_a_build_may_end_the_process_where_quantized_rows_move(ends):
    """A cache without layers has none."""
    world = World("AA")
    world.go(n=6)
    world.memory.seq_rm(0, 0, 2)
    base = world.memory.parts["base"]
    base.traits = BuildTraits(shift_ends=True, shift_dies=False)
    if not ends:
        base.layers = ()
    assert base.apply_shift() is False, "nothing moved yet"
    world.memory.seq_add(0, 2, 6, -2)
    if ends:
        with pytest.raises(ProcessAborted, match="K-shift of quantized rows") as end:
            base.apply_shift()
        assert end.value.kind == "shift-of-quantized-rows"
    else:
        assert base.apply_shift() is True


@pytest.mark.parametrize("turn_first", [False, True])
def test_positions_move_without_a_model(turn_first):
    mine = AttentionCache(16, 2, False, 0, (0,), AttentionShape(1, 64), None, print, BuildTraits(turn_first=turn_first))
    mine.state_read(1, AttentionState(np.arange(4), {}))
    mine.seq_add(1, 0, POS_INF, 3)
    assert (mine.apply_shift(), mine.apply_shift(), held(mine, 1)) == (True, False, [3, 4, 5, 6])
    assert not mine.streams[1].shift.any()
