"""Assignment of recurrent cells: the cells, tails and sources after each ubatch."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.llama_cpp.memory.recurrent_cells import (
    Cell,
    CellMetadata,
    as_index,
    continues_own_cell,
    find_slot,
    gap_before,
)
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.engines.shared.slot_events import Warn
from cachesim.model import TokenRun


def empty(n=4, head=0):
    return CellMetadata([Cell() for _ in range(n)], [-1] * n, head)


def filled(*cells, head=0):
    """Cells as (position, sequences); each state is in its own row."""
    made = [Cell(pos, -1 if pos < 0 else i, set(seqs)) for i, (pos, seqs) in enumerate(cells)]
    tail = [next((i for i, (_, seqs) in enumerate(cells) if seq in seqs), -1) for seq in range(len(cells))]
    return CellMetadata(made, tail, head, sum(bool(seqs) for _, seqs in cells))


def ubatch(*runs):
    made = tuple(TokenRun(seq, pos0, [0] * n) for seq, pos0, n in runs)
    return Ubatch(made, tuple(range(len(made))), sum(n for _, _, n in runs))


def cells(meta):
    return [(cell.pos, cell.src, sorted(cell.seqs)) for cell in meta.cells]


def found(meta, *runs, position=as_index):
    said = []
    sources = find_slot(meta, ubatch(*runs), said.append, position)
    return sources, said


def test_new_sequences_get_zeroed_states_in_the_next_empty_cells():
    meta = empty()
    assert found(meta, (2, 0, 3), (0, 0, 1)) == ([(0, -1), (1, -1)], [])
    assert cells(meta) == [(2, 0, [2]), (0, 1, [0]), (-1, -1, []), (-1, -1, [])]
    assert (meta.tail, meta.head, meta.used) == ([1, -1, 0, -1], 0, 2)


def test_a_single_sequence_continues_in_its_cell():
    meta = filled((4, [1]), (6, [0]))
    assert found(meta, (0, 7, 3)) == ([(1, 1)], [])
    assert cells(meta) == [(4, 0, [1]), (9, 1, [0])] and (meta.tail, meta.head, meta.used) == ([1, 0], 1, 2)


@pytest.mark.parametrize(("head", "runs", "cell"), [(2, 1, 2), (3, 1, 0), (3, 2, 3), (1, 1, 1)])
def test_the_search_begins_at_the_first_cell_if_head_is_far_ahead(head, runs, cell):
    meta = empty(5, head)
    sources, _ = found(meta, *[(seq, 0, 1) for seq in range(runs)])
    assert meta.tail[0] == cell and sources[0][0] == min(meta.tail[:runs]) == meta.head


def test_the_search_goes_round():
    meta = filled((3, [0]), (-1, []), (5, [1]), head=2)
    assert found(meta, (2, 0, 2)) == ([(1, -1)], []) and meta.tail == [0, 2, 1]


@pytest.mark.parametrize("seq", [-1, 4, 9])
def test_a_sequence_beyond_the_cells_has_no_room(seq):
    meta = empty()
    assert found(meta, (0, 0, 1), (seq, 0, 1)) == (None, []) and meta == empty()


def test_a_shared_state_is_copied_for_the_sequence_that_writes():
    meta = filled((4, [0, 1]), (-1, []), (-1, []))
    assert found(meta, (1, 5, 2)) == ([(1, 0)], [])
    assert cells(meta) == [(4, 0, [0]), (6, 1, [1]), (-1, -1, [])] and (meta.tail, meta.used) == ([0, 1, -1], 2)


def test_both_sharers_of_a_state_can_write_at_once():
    meta = filled((4, [0, 1]), (-1, []), (-1, []))
    assert found(meta, (0, 5, 1), (1, 5, 1)) == ([(0, 0), (1, 0)], [])
    assert cells(meta) == [(5, 0, [0]), (5, 1, [1]), (-1, -1, [])] and meta.tail == [0, 1, -1]


def test_cells_are_swapped_until_they_are_in_the_order_of_the_ubatch():
    meta = filled((4, [0]), (5, [1]), (6, [2]))
    assert found(meta, (2, 7, 1), (0, 5, 1)) == ([(0, 2), (1, 0), (2, 1)], [])
    assert cells(meta) == [(7, 0, [2]), (5, 1, [0]), (5, 2, [1])]
    assert (meta.tail, meta.head, meta.used) == ([1, 2, 0], 0, 3)


def test_cells_outside_the_stretch_stay():
    meta = filled((4, [0]), (5, [1]), (6, [2]), (7, [3]))
    assert found(meta, (1, 6, 1), (2, 7, 1)) == ([(1, 1), (2, 2)], [])
    assert cells(meta) == [(4, 0, [0]), (6, 1, [1]), (7, 2, [2]), (7, 3, [3])] and meta.head == 1


def warned(last, before, n):
    return Warn(f"find_slot: non-consecutive token position {last} after {before} for sequence 0 with {n} new tokens")


def test_a_gap_before_a_run_is_a_warning():
    meta = filled((4, [0]), (5, [1]))
    assert found(meta, (0, 7, 2), (1, 6, 1)) == ([(0, 0), (1, 1)], [warned(8, 4, 2)])
    assert [cell.pos for cell in meta.cells] == [8, 6]


def test_a_gap_after_a_single_token_is_a_warning_too():
    assert found(filled((0, [0]), (-1, [])), (0, 5, 2)) == ([(0, 0)], [warned(6, 0, 2)])
    assert found(filled((0, [0]), (-1, [])), (0, 1, 2)) == ([(0, 0)], [])


def test_positions_are_those_of_the_server():
    """An image: indices from 5 on have positions smaller by 3."""
    position = lambda seq, index: index if index < 5 else index - 3  # noqa: E731
    meta = filled((4, [0]), (-1, []))
    assert found(meta, (0, 5, 2), position=position) == ([(0, 0)], [warned(3, 4, 2)])
    assert found(meta, (0, 7, 2), position=position) == ([(0, 0)], []) and cells(meta)[0] == (8, 0, [0])


@pytest.mark.parametrize(("run", "gap"), [((0, 5, 2), False), ((0, 6, 2), True), ((0, 4, 2), True), ((1, 9, 1), False)])
def test_a_run_continues_at_the_next_position_or_in_an_empty_cell(run, gap):
    meta = filled((4, [0]), (-1, [1]))
    found = gap_before(meta, TokenRun(run[0], run[1], [0] * run[2]), as_index)
    assert found.startswith("non-consecutive token position") if gap else found == ""


@pytest.mark.parametrize(("runs", "own"), [
    ([(0, 5, 2)], True), ([(0, 6, 2)], False), ([(0, 4, 2)], False), ([(1, 8, 1)], False), ([(3, 0, 1)], False),
    ([(0, 5, 2), (1, 8, 1)], False), ([(9, 0, 1)], False), ([(-1, 0, 1)], False), ([(4, 0, 1)], False),
])  # fmt: skip
def test_the_common_case_is_a_sequence_alone_in_its_cell(runs, own):
    assert continues_own_cell(filled((4, [0]), (7, [1, 2]), (-1, []), (-1, [])), ubatch(*runs)) is own


@pytest.mark.parametrize("owners", [[], [2]])
def test_a_stale_tail_ends_the_process(owners):
    """Also if its cell is that of another sequence now, even at the position before."""
    meta = filled((4, [0]), (-1, owners))
    meta.tail[1] = 1
    with pytest.raises(ProcessAborted, match="has_seq_id"):
        found(meta, (1, 0, 2))
    first = filled((-1, []), (4, [1]))
    first.tail[0] = 0
    with pytest.raises(ProcessAborted, match="has_seq_id"):
        found(first, (0, 0, 2))


def test_a_lack_of_cells_is_a_fault_of_the_simulator():
    meta = filled((4, [0]), (5, [2]))
    with pytest.raises(Crash, match="every recurrent cell is used"):
        found(meta, (1, 0, 2))


def test_a_ubatch_with_a_sequence_twice_has_no_room():
    assert found(empty(), (1, 0, 1), (1, 9, 1))[0] is None


def test_a_copy_of_the_cells_is_independent():
    meta = filled((4, [0, 1]), (-1, []), head=1)
    twin = meta.copy()
    assert twin == meta
    found(twin, (1, 5, 1))
    assert cells(meta) == [(4, 0, [0, 1]), (-1, -1, [])] and (meta.tail, meta.head, meta.used) == ([0, 0], 1, 1)
