"""Attention cache: rows lost from a window, effects of a trial, contents of a saved state."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.events import RowsPurged
from cachesim.engines.llama_cpp.memory.attention import AttentionCache, BuildTraits, masked_swa
from cachesim.engines.llama_cpp.memory.saved_state import AttentionShape, AttentionState, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, Ubatch, split_simple
from cachesim.engines.llama_cpp.rules.seq_rm_and_state import keep_window
from cachesim.model import TokenRun
from tests.unit.engines.llama_cpp.memory.helpers import World, held

SHAPE = AttentionShape(4, 256)


def keep(pos, last, n):
    return keep_window(pos, last, n).value


def cache(size=16, n_seq=2, unified=True, n_swa=0):
    return AttentionCache(size, n_seq, unified, n_swa, (0,), SHAPE, None, lambda event: None)


def fill(mine, seq, n, n_ubatch=4):
    """Decode n tokens after those of the sequence; False = too few free cells, nothing changed."""
    batch = DecodeBatch()
    for pos in range(mine.pos_max(seq) + 1, mine.pos_max(seq) + 1 + n):
        batch.add(0, pos, seq, False)
    ubatches = split_simple(batch, n_ubatch)
    found = mine.prepare(ubatches)
    if found is None:
        return False
    for ubatch, cells in zip(ubatches, found, strict=True):
        mine.apply(ubatch, cells)
    mine.check()
    return True


@pytest.mark.parametrize("key, masked", [(0, True), (1, True), (2, False), (9, False)])
def test_a_query_sees_exactly_n_swa_keys_itself_included(key, masked):
    assert bool(masked_swa(8, np.array([key]), 9)[0]) is masked


def test_a_ring_loses_whole_beginnings_so_that_no_gap_remains():
    mine = cache(size=16, n_swa=8)
    assert fill(mine, 0, 16)
    assert mine.pos_min(0) == 0
    assert fill(mine, 0, 3)                            # three cells are overwritten: positions 0, 1, 2
    assert held(mine) == list(range(3, 19))


def test_overwriting_the_middle_drops_everything_before_it():
    mine = cache(size=16, n_swa=4)
    fill(mine, 0, 16)
    mine.streams[0].head = 6
    assert fill(mine, 0, 1)                            # cell 6 held position 6
    assert held(mine) == list(range(7, 17))
    assert mine.streams[0].head == 7


def test_a_purge_event_has_the_range():
    told = []
    mine = AttentionCache(16, 1, False, 4, (0,), SHAPE, None, told.append)
    fill(mine, 0, 16)
    mine.streams[0].head = 6
    fill(mine, 0, 1)
    assert told == [RowsPurged(0, 0, 6)]


def test_without_a_window_nothing_is_overwritten():
    mine = cache(size=16)
    assert fill(mine, 0, 16)
    assert not fill(mine, 0, 1)
    assert held(mine) == list(range(16))


def test_a_trial_changes_nothing():
    mine = cache(size=16, n_swa=4)
    fill(mine, 0, 10)
    fill(mine, 1, 5)
    before = [table.save() for table in mine.streams]
    batch = DecodeBatch()
    for pos in range(10, 20):
        batch.add(0, pos, 0, False)
    assert mine.prepare(split_simple(batch, 3)) is not None
    for was, table in zip(before, mine.streams, strict=True):
        assert np.array_equal(was.pos, table.pos) and np.array_equal(was.seqs, table.seqs)
        assert (was.head, was.used) == (table.head, table.used)
    mine.check()


@pytest.mark.parametrize("stays, left", [(True, [6, 7]), (False, [4, 5, 6, 7])])
def test_cells_purged_beside_the_trial_stay_purged(stays, left):
    """The window lies in cells 0 to 3, newest positions first; the last of the micro-batches takes 6 and 7."""
    mine = AttentionCache(16, 1, True, 4, (0,), SHAPE, None, lambda event: None, BuildTraits(purge_stays=stays))
    mine.state_read(0, AttentionState(np.array([6, 7, 4, 5]), {}))
    batch = DecodeBatch()
    for pos in range(8, 22):
        batch.add(0, pos, 0, False)
    found = mine.prepare(split_simple(batch, 2))
    assert [list(cells[0]) for cells in found] == [[k, k + 1] for k in (4, 6, 8, 10, 12, 14, 0)]
    assert held(mine) == left
    assert (mine.streams[0].used, mine.streams[0].head) == (len(left), 4)
    mine.check()


@pytest.mark.parametrize(("stays", "n", "told"), [
    (False, 6, []), (True, 6, [RowsPurged(0, 4, 6)]), (False, 8, []), (True, 8, [RowsPurged(0, 4, 6)]),
])  # fmt: skip
def test_a_trial_tells_of_the_rows_that_stay_purged_only(stays, n, told):
    """The window lies in cells 0 to 3. The trial wraps around: its third micro-batch takes those of 6 and 5."""
    events = []
    mine = AttentionCache(8, 1, True, 4, (0,), SHAPE, None, events.append, BuildTraits(purge_stays=stays))
    mine.state_read(0, AttentionState(np.array([6, 5, 4, 7]), {}))
    batch = DecodeBatch()
    for pos in range(8, 8 + n):
        batch.add(0, pos, 0, False)
    assert mine.prepare(split_simple(batch, 2)) is not None
    assert events == told


def test_a_single_micro_batch_is_tried_without_a_trace():
    """Also by a build in which cells purged beside a trial stay purged."""
    events = []
    mine = AttentionCache(8, 1, True, 4, (0,), SHAPE, None, events.append, BuildTraits(purge_stays=True))
    mine.state_read(0, AttentionState(np.array([6, 5, 4, 7, 8, 9]), {}))
    mine.streams[0].head = 0
    assert mine.prepare([Ubatch((TokenRun(0, 10, [0, 0]),), (0,), 2)]) == [[range(2)]]
    assert (held(mine), mine.streams[0].head, events) == ([4, 5, 6, 7, 8, 9], 0, [])


def test_a_read_state_tells_of_the_rows_that_are_removed_with_those_that_it_overwrites():
    """It takes the cell of position 1, so that position 0 would be left before a gap."""
    events = []
    mine = AttentionCache(8, 2, True, 4, (0,), SHAPE, None, events.append)
    mine.state_read(0, AttentionState(np.array([1, 0, 2, 3, 4, 5, 6, 7]), {}))
    mine.state_read(1, AttentionState(np.arange(1), {}))
    assert events == [RowsPurged(0, 0, 1)] and (held(mine), held(mine, 1)) == ([2, 3, 4, 5, 6, 7], [0])
    mine.check()


def test_a_batch_without_room_purges_for_good_too():
    """The first micro-batch takes the cell of 6 and purges 4 and 5; the second then has no free cells."""
    mine = AttentionCache(16, 4, True, 4, (0,), SHAPE, None, lambda event: None, BuildTraits(purge_stays=True))
    for seq, held_there in ((0, [6, 5, 4, 7, 8, 9]), (2, [0, 1, 2]), (3, [0, 1, 2])):
        mine.state_read(seq, AttentionState(np.array(held_there), {}))
    batch = DecodeBatch()
    for seq, first in ((1, 0), (0, 10)):
        for pos in range(first, first + 5):
            batch.add(0, pos, seq, False)
    assert mine.prepare(split_simple(batch, 5)) is None
    assert (held(mine, 0), held(mine, 1), mine.streams[0].head) == ([6, 7, 8, 9], [], 12)
    mine.check()


def test_a_batch_is_placed_whole_or_not_at_all():
    mine = cache(size=16)
    fill(mine, 0, 12)
    assert not fill(mine, 0, 5)                        # the first ubatch of 4 would have fitted
    assert (held(mine), mine.streams[0].head) == (list(range(12)), 12)


def test_removal_for_one_sequence_leaves_the_other_and_never_refuses():
    mine = cache()
    fill(mine, 0, 4)
    fill(mine, 1, 4)
    assert mine.seq_rm(0, 2, 99) is True
    assert (held(mine, 0), held(mine, 1)) == ([0, 1], [0, 1, 2, 3])
    assert mine.seq_rm(-1, 1, 3) is True
    assert (held(mine, 0), held(mine, 1)) == ([0], [0, 3])


def test_a_copy_within_a_stream_shares_cells_and_between_streams_does_not():
    one, two = cache(), cache(unified=False)
    for mine, used in ((one, [4]), (two, [4, 4])):
        fill(mine, 0, 4)
        mine.seq_cp(0, 1)
        assert held(mine, 1) == [0, 1, 2, 3]
        assert [table.used for table in mine.streams] == used
        mine.check()


@pytest.mark.parametrize("unified", [True, False])
def test_positions_of_all_sequences_are_removed_from_every_stream(unified):
    mine = cache(unified=unified)
    fill(mine, 0, 4), fill(mine, 1, 6)
    assert mine.seq_rm(-1, 2, 5) is True
    assert (held(mine, 0), held(mine, 1)) == ([0, 1], [0, 1, 5])


@pytest.mark.parametrize("n", [0, 4])
def test_a_copy_between_streams_replaces_what_the_other_held(n):
    mine = cache(unified=False)
    fill(mine, 0, n)
    fill(mine, 1, 9)
    mine.seq_cp(0, 1)
    assert held(mine, 1) == [*range(n)] and mine.streams[1].used == n
    mine.check()


def test_a_part_of_a_sequence_cannot_be_copied_between_streams():
    mine = cache(unified=False)
    fill(mine, 0, 4)
    with pytest.raises(Crash):
        mine.seq_cp(0, 1, 0, 2)


def test_a_saved_window_contains_the_last_n_swa_positions():
    mine = cache(n_swa=8)
    fill(mine, 0, 12)
    assert sorted(mine.state_write(0, keep).pos.tolist()) == list(range(4, 12))


def test_a_saved_full_attention_contains_everything():
    mine = cache()
    fill(mine, 0, 12)
    assert sorted(mine.state_write(0, keep).pos.tolist()) == list(range(12))


def test_reading_replaces_the_destination_and_leaves_others_untouched():
    mine = cache()
    fill(mine, 0, 5)
    state = mine.state_write(0, keep)
    fill(mine, 1, 3)
    fill(mine, 0, 4)
    mine.state_read(0, state)
    mine.check()
    assert (held(mine, 0), held(mine, 1)) == (list(range(5)), list(range(3)))


def test_reading_counts_the_room_that_the_destination_gives_up():
    mine = cache(size=16)
    fill(mine, 0, 9)
    state = mine.state_write(0, keep)
    fill(mine, 1, 7)
    mine.state_read(0, state)
    assert held(mine, 0) == list(range(9))


def test_no_room_is_an_error_that_leaves_the_destination_empty():
    mine = cache(size=16)
    fill(mine, 0, 9)
    state = mine.state_write(0, keep)
    mine.seq_rm(0, 3, 99)
    fill(mine, 1, 8)
    with pytest.raises(StateReadError, match="failed to find 9 available cells in kv cache"):
        mine.state_read(0, state)
    mine.check()
    assert (held(mine, 0), held(mine, 1)) == ([], list(range(8)))


def test_a_state_without_cells_changes_nothing():
    mine = cache()
    state = mine.state_write(0, keep)
    fill(mine, 0, 5)
    mine.state_read(0, state)
    assert held(mine) == list(range(5))


def test_a_read_leaves_the_rows_of_the_saved_sequence():
    world = World("A")
    world.go(n=6)
    base = world.memory.parts["base"]
    state = base.state_write(0, keep)
    want = state.rows[0].digest.copy()
    base.seq_rm(0, 2, 99)
    world.go(n=9, base=500)
    base.state_read(0, state)
    got = base.state_write(0, keep)
    assert np.array_equal(got.rows[0].digest[np.argsort(got.pos)], want)


def test_a_saved_state_is_not_changed_by_what_follows():
    world = World("A")
    world.go(n=6)
    state = world.memory.parts["base"].state_write(0, keep)
    was = state.rows[0].digest.copy()
    world.memory.seq_rm(0, 0)
    world.go(pos0=0, n=6, base=500)
    assert np.array_equal(state.rows[0].digest, was)


def test_a_move_is_rotated_once_and_only_at_the_next_decode():
    mine = cache()
    fill(mine, 0, 6)
    mine.seq_rm(0, 0, 2)
    mine.seq_add(0, 2, -1, -2)
    assert mine.streams[0].has_shift
    assert mine.apply_shift() is True
    assert mine.apply_shift() is False
    assert held(mine) == [0, 1, 2, 3]


def test_check_finds_a_gap_in_a_window():
    mine = cache(n_swa=8)
    fill(mine, 0, 6)
    mine.streams[0].remove(0, 2, 3)
    with pytest.raises(Crash, match="window of sequence 0"):
        mine.check()


@pytest.mark.parametrize("n, streams, size", [(0, 1, 8), (0, 3, 16), (1, 1, 1148), (10, 1, 10472), (10, 2, 10476)])
def test_bytes_of_an_attention_part(n, streams, size):
    assert SHAPE.size(n, streams) == size


@pytest.mark.parametrize("n, size", [(0, 8), (1, 596), (10, 5384)])
def test_bytes_with_two_dimensional_positions(n, size):
    assert AttentionShape(2, 256, mrope=True).size(n, 1) == size


@pytest.mark.parametrize(("together", "cells", "head"), [(False, [2, 3, 8], 9), (True, [8, 9, 10], 8)])
def test_a_read_uses_the_first_free_cells_or_adjacent_ones(together, cells, head):
    """Cells 2, 3, and 8 to 15 are free."""
    mine = AttentionCache(16, 2, True, 0, (0,), SHAPE, None, lambda event: None, BuildTraits(together=together))
    fill(mine, 0, 8)
    mine.seq_rm(0, 2, 4)
    mine.state_read(1, AttentionState(np.array([0, 1, 2]), {}))
    table = mine.streams[0]
    assert (list(table.of(1)), table.head) == (cells, head)
    mine.check()


@pytest.mark.parametrize(("seqs", "reason"), [((1, 0), "streams-out-of-order"), ((0, 2), "streams-with-a-gap"),
                                              ((0, 1), ""), ((2,), "")])  # fmt: skip
def test_streams_of_a_micro_batch_must_be_consecutive(seqs, reason):
    mine = cache(n_seq=3, unified=False)
    ubatch = Ubatch(tuple(TokenRun(seq, 0, [0]) for seq in seqs), tuple(range(len(seqs))), len(seqs))
    if not reason:
        assert [list(cells) for cells in mine.find(ubatch)] == [[0]] * len(seqs)
        return
    with pytest.raises(ProcessAborted) as end:
        mine.find(ubatch)
    assert end.value.kind == reason


@pytest.mark.parametrize(("unified", "number"), [(True, 0), (False, 0), (False, 1)])
def test_every_table_is_checked(unified, number):
    mine = cache(unified=unified)
    fill(mine, 0, 3)
    fill(mine, 1, 3)
    mine.check()
    mine.streams[number].used += 1
    with pytest.raises(Crash, match="are recorded as used"):
        mine.check()


def test_a_window_with_a_gap_is_noticed():
    mine = cache(n_swa=4)
    fill(mine, 1, 6)
    mine.streams[0].remove(1, 4, 5)
    with pytest.raises(Crash, match=r"window of sequence 1: 5 cells for positions 0 \.\. 5"):
        mine.check()
    full = cache()
    fill(full, 1, 6)
    full.seq_rm(1, 4, 5)
    full.check()


@pytest.mark.parametrize(("p1", "left"), [(0, [4, 5, 6]), (5, [2, 5, 6]), (-1, [2, 2, 3])])
def test_positions_of_a_range_are_divided(p1, left):
    mine = cache()
    mine.state_read(0, AttentionState(np.array([4, 5, 6]), {}))
    mine.seq_div(0, 0, p1, 2)
    assert held(mine) == left


def test_positions_before_a_range_and_of_an_empty_one_stay():
    mine = cache()
    mine.state_read(0, AttentionState(np.array([4, 5, 6]), {}))
    mine.seq_add(0, 0, 0, 7)
    mine.seq_add(0, 5, -1, 5)
    assert held(mine) == [4, 10, 11]
    mine.seq_div(0, 5, -1, 2)
    assert held(mine) == [4, 5, 5]


@pytest.mark.parametrize(("second", "fits"), [(4, True), (5, False)])
def test_every_stream_of_a_micro_batch_needs_room(second, fits):
    mine = cache(size=8, unified=False)
    fill(mine, 0, 2), fill(mine, 1, 4)
    runs = (TokenRun(0, 2, [0] * 3), TokenRun(1, 4, [0] * second))
    found = mine.find(Ubatch(runs, (0, 3), 3 + second))
    assert (found and [list(cells) for cells in found]) == ([[2, 3, 4], [4, 5, 6, 7]] if fits else None)


def test_a_copy_of_a_sequence_onto_itself_changes_nothing():
    mine = cache(unified=False)
    fill(mine, 1, 4)
    mine.seq_cp(1, 1)
    assert (held(mine, 1), mine.streams[1].used, mine.copies) == ([0, 1, 2, 3], 4, [])


@pytest.mark.parametrize(("p0", "p1"), [(1, POS_INF), (0, 4), (1, 4)])
def test_only_a_whole_sequence_is_copied_between_streams(p0, p1):
    mine = cache(unified=False)
    fill(mine, 0, 4)
    with pytest.raises(Crash, match="only a whole sequence"):
        mine.seq_cp(0, 1, p0, p1)
    one = cache()
    fill(one, 0, 4)
    one.seq_cp(0, 1, p0, p1)
    assert held(one, 1) == [*range(4)][p0:p1]


def test_a_copy_between_streams_also_copies_shifts_and_the_start_of_the_search():
    mine = cache(unified=False)
    fill(mine, 0, 4)
    mine.seq_rm(0, 0, 1)
    mine.seq_add(0, 1, POS_INF, 2)
    mine.streams[0].head = 3
    mine.seq_cp(0, 1)
    source, target = mine.streams
    assert (target.has_shift, target.head, target.shift[:4].tolist()) == (True, 3, [0, 2, 2, 2])
    assert held(mine, 1) == held(mine, 0) == [3, 4, 5] and source.shift[:4].tolist() == [0, 2, 2, 2]


@pytest.mark.parametrize("order", [[3, 0, 1, 2, 4, 5, 6, 7], [0, 3, 1, 2, 4, 5, 6, 7]])
def test_a_window_is_purged_up_to_the_largest_position_that_any_run_overwrites(order):
    told = []
    mine = AttentionCache(8, 3, True, 3, (0,), SHAPE, None, told.append)
    mine.state_read(2, AttentionState(np.array(order), {}))
    mine.streams[0].head = 0
    ubatch = Ubatch((TokenRun(0, 0, [0]), TokenRun(1, 0, [0])), (0, 1), 2)
    mine.apply(ubatch, mine.find(ubatch))
    assert held(mine, 2) == [4, 5, 6, 7] and told == [RowsPurged(2, 1, 3)]
    assert mine.streams[0].head == 2
    mine.check()


def test_a_sequence_that_loses_everything_is_not_purged():
    told = []
    mine = AttentionCache(8, 2, True, 3, (0,), SHAPE, None, told.append)
    fill(mine, 1, 1)
    mine.apply(Ubatch((TokenRun(0, 0, [0]),), (0,), 1), [range(1)])
    assert (held(mine, 0), held(mine, 1), told) == ([0], [], [])
    mine.check()


@pytest.mark.parametrize(("head", "lengths", "starts"), [
    (4, (3, 3), [4, 7]), (3, (3, 3), [4, 7]), (10, (6, 3), [10, 16]), (11, (6, 3), [11, 4]), (13, (6, 3), [13, 4]),
])  # fmt: skip
def test_the_search_begins_again_if_it_is_far_after_all_used_cells(head, lengths, starts):
    """Four cells are used. ``head`` is reset if it exceeds them and twice the tokens of a micro-batch."""
    mine = cache(size=20)
    fill(mine, 0, 4)
    mine.streams[0].head = head
    places = [4 + sum(lengths[:number]) for number in range(len(lengths))]
    ubatches = [Ubatch((TokenRun(0, place, [0] * n),), (0,), n) for place, n in zip(places, lengths, strict=True)]
    assert [min(cells) for [cells] in mine.prepare(ubatches)] == starts
