"""Cell table: search for free cells, removal, head."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import masked_swa
from cachesim.engines.llama_cpp.memory.cells import Cells


def table(size=16, n_seq=2, **held):
    """Return a table filled from cell 0 on: s0=4 puts positions 0..3 of sequence 0 into the next four cells."""
    cells = Cells(size, n_seq)
    for name, n in held.items():
        put(cells, int(name[1:]), range(n))
    return cells


def put(cells, seq, positions, masked=None):
    found = cells.find(len(positions), masked)
    cells.place(found, positions, seq)
    cells.head = int(found[-1]) + 1
    cells.check()
    return list(found)


def test_the_search_begins_at_head_and_takes_the_first_empty_cells():
    cells = table(s0=8)
    cells.remove(0, 2, 4)
    cells.head = 1
    assert list(cells.find(3, None)) == [2, 3, 8]


def test_the_search_goes_round_the_ring():
    cells = table(size=8, s0=8)
    cells.remove(0, 0, 3)
    cells.remove(0, 6, 8)
    cells.head = 5
    assert list(cells.find(4, None)) == [6, 7, 0, 1]


@pytest.mark.parametrize("head, first", [(9, 9), (10, 10), (11, 0)])
def test_head_is_reset_only_if_it_is_more_than_used_plus_twice_n(head, first):
    cells = table(s0=4)
    cells.head = head                                  # used 4 + 2 * 3 = 10
    assert list(cells.find(3, None)) == [first + i if first else 4 + i for i in range(3)]


def test_the_reset_of_head_does_not_change_the_table():
    cells = table(s0=4)
    cells.head = 12
    cells.find(1, None)
    assert cells.head == 12


def test_too_few_cells_find_nothing():
    assert table(size=8, s0=6).find(3, None) is None
    assert table(size=8).find(9, None) is None
    assert list(table(size=8, s0=6).find(2, None)) == [6, 7]


def window(n):
    return partial(masked_swa, n)


def test_without_a_window_an_occupied_cell_is_never_taken():
    assert table(size=8, s0=8).find(1, None) is None


def test_cells_that_the_next_token_cannot_see_are_free():
    cells = table(size=8, s0=8)                        # next token 8 sees 5, 6, 7 and itself
    cells.head = 0
    assert list(cells.find(5, window(4))) == [0, 1, 2, 3, 4]
    assert cells.find(6, window(4)) is None


def test_the_mask_is_that_of_the_next_token_for_any_number_of_tokens():
    cells = table(size=8, s0=8)
    cells.head = 0
    assert list(cells.find(1, window(8))) == [0]    # 8 - 0 >= 8
    assert cells.find(2, window(8)) is None            # 1 would be invisible to token 9, which is not considered


def test_after_the_loss_of_pos_min_the_next_held_position_is_pos_min():
    """Not the position after it if there is a gap."""
    cells = Cells(8, 1)
    for cell, pos in enumerate((0, 5, 6)):
        cells.place(range(cell, cell + 1), range(pos, pos + 1), 0)
    assert cells.place(range(0, 1), range(7, 8), 0) == {0: 0}
    assert cells.span(0) == (5, 7)
    assert cells.place(range(1, 2), range(8, 9), 0) == {0: 5}
    assert cells.span(0) == (6, 8)


def test_a_shared_cell_is_never_reused_by_a_window():
    """Not even cell 0, whose position is outside the windows of both sequences."""
    cells = table(size=4, s0=4)
    cells.share(0, 1, 0, 2)
    cells.head = 0
    assert list(cells.find(1, window(2))) == [2]


def test_a_window_keeps_the_first_token_for_the_second():
    cells = table(size=2, n_seq=1, s0=1)
    cells.head = 0
    assert list(cells.find(1, window(2))) == [1]
    assert list(cells.find(1, window(1))) == [0]


def test_a_window_may_take_over_the_cells_of_another_sequence():
    cells = table(size=6, s0=6)
    cells.head = 0
    found = cells.find(2, window(3))
    assert cells.place(found, range(2), 1) == {0: 1}
    assert (cells.span(0), cells.span(1), cells.used) == ((2, 5), (0, 1), 6)
    cells.check()


@pytest.mark.parametrize("n_swa, shared, found", [
    (1, (), [*range(6, 13), 0]), (8, (), [6, 7, 8]), (1, (9, 10), [6, 7, 8]),
])  # fmt: skip
def test_the_oldest_rows_are_replaced_as_far_as_one_search_after_the_other_finds_them(n_swa, shared, found):
    """Cells 6 to 15 hold these positions. The search begins at cell 0 where head is more than used + 2."""
    cells = table(s0=16)
    cells.remove(0, 0, 6)
    if shared:
        cells.share(0, 1, *shared)
    cells.head = 6
    count = cells.count_replaceable(0, window(n_swa), 16)
    assert count == sum(cell >= 6 for cell in found)
    assert [put(cells, 0, [16 + step], window(n_swa))[0] for step in range(count)] == found[:count]
    assert list(cells.find(1, window(n_swa))) == found[count:] or len(found) == count


def test_remove_lowers_head_to_the_first_freed_cell_and_never_raises_it():
    cells = table(s0=8)
    cells.remove(0, 5, POS_INF)
    assert (cells.head, cells.used, cells.span(0)) == (5, 5, (0, 4))
    cells.head = 2
    cells.remove(0, 4, POS_INF)
    assert cells.head == 2


def test_remove_takes_the_half_open_range():
    cells = table(s0=6)
    cells.remove(0, 2, 4)
    assert cells.pos[cells.of(0)].tolist() == [0, 1, 4, 5]


def test_a_shared_cell_survives_the_removal_of_one_of_its_sequences():
    cells = table(s0=4)
    cells.share(0, 1, 0, POS_INF)
    cells.remove(0, 0, POS_INF)
    assert (cells.used, cells.span(0), cells.span(1), cells.head) == (4, (-1, -1), (0, 3), 4)
    cells.check()


def test_removal_of_all_sequences_empties_the_cells():
    cells = table(s0=4, s1=4)
    cells.remove(-1, 2, POS_INF)
    assert (cells.used, cells.span(0), cells.span(1), cells.head) == (4, (0, 1), (0, 1), 2)
    cells.check()


def test_keep_empties_the_others_and_lowers_head():
    cells = table(s0=3, s1=3)
    cells.share(0, 1, 0, 1)
    cells.keep(1)
    assert (cells.used, cells.span(0), cells.span(1), cells.head) == (4, (-1, -1), (0, 2), 1)
    assert cells.seqs[1, 0] and not cells.seqs[0].any()


def test_keep_also_empties_the_first_positions_of_the_others():
    cells = table(s0=3, s1=3)
    cells.keep(1)
    assert (cells.used, cells.head, cells.pos[:6].tolist()) == (3, 0, [-1, -1, -1, 0, 1, 2])
    cells.check()


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_keep_takes_shared_cells_from_all_others(kept):
    cells = table(n_seq=3, s0=4)
    cells.share(0, 1, 0, 4)
    cells.share(0, 2, 0, 4)
    cells.keep(kept)
    assert [cells.span(seq) for seq in range(3)] == [(0, 3) if seq == kept else (-1, -1) for seq in range(3)]
    assert cells.seqs[:, :4].any(axis=1).tolist() == [seq == kept for seq in range(3)] and cells.used == 4
    cells.check()


def test_move_shifts_positions_and_sets_head_to_zero():
    cells = table(s0=8)
    cells.remove(0, 2, 4)
    cells.move(0, 4, POS_INF, -2)
    assert cells.pos[cells.of(0)].tolist() == [0, 1, 2, 3, 4, 5]
    assert cells.shift[cells.of(0)].tolist() == [0, 0, -2, -2, -2, -2]
    assert (cells.has_shift, cells.head) == (True, 0)
    cells.check()


def test_a_position_moved_below_zero_empties_its_cell_and_head_goes_there():
    cells = table(s0=6)
    cells.remove(0, 0, 2)
    cells.move(0, 2, POS_INF, -3)
    assert (cells.used, cells.span(0), cells.head) == (3, (0, 2), 2)
    cells.check()


@pytest.mark.parametrize("p0, p1, delta", [(0, POS_INF, 0), (3, 3, -1)])
def test_a_move_of_nothing_changes_nothing(p0, p1, delta):
    cells = table(s0=6)
    cells.move(0, p0, p1, delta)
    assert (cells.has_shift, cells.head) == (False, 6)


def test_divide_rounds_down_and_leaves_head_alone():
    cells = table(s0=6)
    cells.remove(0, 0, 1)
    cells.remove(0, 2, 3)
    cells.remove(0, 4, 5)
    head = cells.head
    cells.divide(0, 0, POS_INF, 2)                     # 1, 3, 5
    assert cells.pos[cells.of(0)].tolist() == [0, 1, 2]
    assert (cells.shift[cells.of(0)].tolist(), cells.head) == ([-1, -2, -3], head)


def test_share_copies_no_cell():
    cells = table(s0=5)
    cells.share(0, 1, 1, 3)
    assert (cells.used, cells.span(1)) == (5, (1, 2))
    cells.check()


def test_restore_brings_everything_back():
    cells = table(s0=5)
    cells.move(0, 0, POS_INF, 2)
    saved = cells.save()
    put(cells, 1, range(3))
    cells.remove(0, 1, POS_INF)
    cells.restore(saved)
    assert (cells.used, cells.head, cells.span(0), cells.span(1)) == (5, 0, (2, 6), (-1, -1))
    assert cells.shift[:5].tolist() == [2] * 5
    cells.check()


def spoil_used(cells):
    cells.used += 1


def spoil_seqs(cells):
    cells.seqs[1, 9] = True


def spoil_pos(cells):
    cells.pos[9] = 3


def spoil_head(cells):
    cells.head = -1


def spoil_twice(cells):
    cells.pos[0] = 3
    cells.extents.span[0] = (1, 3)


def spoil_end(cells):
    cells.end = 3


def spoil_stretch(cells):
    cells.extents.first[0] = 1


def spoil_span(cells):
    cells.extents.span[0] = (0, 2)


SPOILS = {
    spoil_used: "5 KV cells are recorded as used, but 4 hold a token",
    spoil_seqs: "a KV cell has a position but no sequence, or a sequence but no position",
    spoil_pos: "4 KV cells are recorded as used, but 5 hold a token", spoil_head: "head -1 lies outside 16 cells",
    spoil_twice: "sequence 0 holds a position twice", spoil_span: r"sequence 0 spans \(0, 3\), not \(0, 2\)",
    spoil_end: "KV cells from 3 on are recorded as empty, but one holds a token",
    spoil_stretch: r"sequence 0 does not lie in cells 1 \.\. 4 in order",
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), SPOILS.items())
def test_check_finds(spoil, message):
    cells = table(s0=4)
    cells.check()
    spoil(cells)
    with pytest.raises(Crash, match=f"^{message}"):
        cells.check()


@pytest.mark.parametrize("head", [0, 16])
def test_a_head_at_either_end_of_the_table_is_consistent(head):
    cells = table(s0=4)
    cells.head = head
    cells.check()


@pytest.mark.parametrize(("head", "n", "found"), [
    (0, 1, [2]), (0, 2, [2, 3]), (0, 3, [8, 9, 10]), (3, 1, [3]), (3, 2, [8, 9]), (14, 1, [14]), (15, 2, [2, 3]),
    (14, 2, [14, 15]), (0, 8, list(range(8, 16))), (0, 9, None), (15, 9, None),
])  # fmt: skip
def test_adjacent_free_cells_are_searched_from_head_around_the_ring(head, n, found):
    """Cells 2, 3, and 8 to 15 are free, the latter beyond the cells that were ever used."""
    cells = table(s0=8)
    cells.remove(0, 2, 4)
    cells.used, cells.head = 16, head                   # as many as if head were never reset
    got = cells.find_contiguous(n, None)
    assert (got if got is None else list(got)) == found


def test_adjacent_cells_may_be_those_that_a_window_no_longer_reads():
    cells = table(size=8, s0=8)
    cells.head = 0
    assert [cells.find_contiguous(n, window(4)) for n in (1, 5, 6)] == [range(1), range(5), None]


@pytest.mark.parametrize(("head", "first"), [(10, 10), (11, 4)])
def test_the_search_for_adjacent_cells_resets_head_as_the_other_does(head, first):
    cells = table(s0=4)
    cells.head = head
    assert cells.find_contiguous(3, None) == range(first, first + 3)


def test_the_search_begins_again_at_the_first_cell():
    cells = table()
    cells.head = 7
    assert (list(cells.find(3, None)), list(cells.find(4, None))) == ([0, 1, 2], [7, 8, 9, 10])


def test_a_cell_that_was_never_used_has_no_position_and_no_shift():
    cells = table(s0=2)
    assert cells.pos[2:].tolist() == [-1] * 14 and not cells.shift.any() and not cells.seqs[:, 2:].any()


def test_the_last_cells_are_found_as_a_range_and_the_last_position_removed_alone():
    cells = table(size=8, s0=6)
    assert cells.find(2, None) == range(6, 8)
    cells.remove(0, 5, POS_INF)
    assert (cells.used, cells.span(0), cells.head) == (5, (0, 4), 5)


def test_the_span_of_the_second_sequence_follows_its_positions():
    cells = table(s0=4, s1=4)
    cells.move(1, 0, POS_INF, 4)
    assert (cells.span(0), cells.span(1)) == ((0, 3), (4, 7))
    cells.divide(1, 0, POS_INF, 3)
    assert (cells.span(0), cells.span(1)) == ((0, 3), (1, 2))


def test_an_empty_table_is_empty_again_after_a_trial():
    cells = table()
    put_back = cells.save_at(np.array([2, 5]))
    cells.place(np.array([2, 5]), np.arange(2), 0)
    put_back()
    assert (cells.end, cells.used, cells.head, cells.span(0)) == (0, 0, 0, (-1, -1))


def test_the_search_for_adjacent_cells_begins_again_at_the_first_cell():
    cells = table()
    cells.head = 7
    assert (cells.find_contiguous(3, None), cells.find_contiguous(4, None)) == (range(3), range(7, 11))


def test_a_set_of_positions_loses_one_that_the_next_cell_leaves():
    """Until it is removed, or taken again, the span of the sequence is that of the set."""
    cells = Cells(8, 1, pos_set=True)
    cells.place(range(4), range(4), 0)
    cells.move(0, 1, POS_INF, 1)
    assert (cells.span(0), cells.held(0).tolist()) == ((0, 4), [0, 2, 3, 4])
    cells.remove(0, 4, POS_INF)
    assert (cells.span(0), cells.used) == ((0, 0), 3), "the set has lost 2 and 3, and the cells hold them"
    cells.remove(0, 3, POS_INF)
    assert (cells.span(0), cells.used) == ((0, 0), 2)
    cells.place(range(3, 4), range(2, 3), 0)
    assert cells.span(0) == (0, 2)


@pytest.mark.parametrize("stays, found", [(True, [6, 7]), (False, [0, 1])])
def test_the_repaired_rule_reuses_a_shared_cell_outside_the_windows_of_all_its_sequences(stays, found):
    """Positions 0 to 3 of both sequences in four cells, then 4 and 5 of sequence 0."""
    cells = Cells(8, 2, shared_stays=stays)
    put(cells, 0, range(4))
    cells.share(0, 1, 0, 4)
    put(cells, 0, range(4, 6))
    cells.head = 0
    assert list(cells.find(2, window(3))) == found
    if not stays:
        assert cells.place(range(2), range(6, 8), 0) == {0: 1, 1: 1}


@pytest.mark.parametrize("cells", [[2, 3], [1, 9], [40]])
def test_cells_that_were_tried_are_put_back_also_beyond_those_that_were_ever_used(cells):
    """The arrays may end exactly before the cell with the largest number."""
    held = table(size=1 << 16, s0=4)
    held.move(0, 0, POS_INF, 2)
    beyond = len(held.pos)
    for tried in (cells, [beyond]):
        before = (held.pos[:4].tolist(), held.shift[:4].tolist(), held.used, held.head, held.end)
        put_back = held.save_at(np.array(tried))
        held.place(np.array(tried), np.arange(50, 50 + len(tried)), 1)
        held.head = tried[-1] + 1
        put_back()
        assert (held.pos[:4].tolist(), held.shift[:4].tolist(), held.used, held.head, held.end) == before
        held.check()


def test_a_table_that_was_emptied_is_like_a_new_one():
    used = Cells(16, 2, pos_set=True)
    put(used, 1, range(4))
    used.move(1, 1, POS_INF, 1)
    used.clear()
    for cells in (used, Cells(16, 2, pos_set=True)):
        assert (cells.used, cells.head, cells.end, cells.has_shift) == (0, 0, 0, False)
        assert (cells.span(0), cells.span(1), cells.sets.lost) == ((-1, -1), (-1, -1), [set(), set()])
        assert (cells.pos.dtype, cells.shift.dtype, cells.seqs.dtype) == (np.int64, np.int64, bool)
        assert (cells.pos.shape, cells.shift.shape, cells.seqs.shape) == ((0,), (0,), (2, 0))


def test_a_division_by_one_leaves_nothing_to_turn():
    cells = table(s0=4)
    cells.divide(0, 0, POS_INF, 1)
    assert not cells.has_shift and cells.pos[:4].tolist() == [0, 1, 2, 3]


def test_the_table_ends_after_the_last_cell_of_scattered_ones():
    cells = Cells(16, 1)
    cells.place(np.array([6, 2, 4]), range(3), 0)
    assert (cells.end, cells.used, cells.of(0).tolist()) == (7, 3, [2, 4, 6])
    cells.check()


def beyond(head, used=240, size=1000):
    """A table whose arrays end after 256 cells, of which the first are used and all later ones were never used."""
    cells = Cells(size, 1)
    cells.place(range(256), range(256), 0)
    cells.remove(0, used, POS_INF)
    cells.place(range(250, 251), range(used, used + 1), 0)        # a used cell near the end of the arrays
    cells.head = head
    assert len(cells.pos) == 256
    return cells


@pytest.mark.parametrize(("head", "n", "found"), [
    (240, 10, [*range(240, 250)]), (240, 11, [*range(240, 250), 251]), (240, 15, [*range(240, 250), *range(251, 256)]),
    (240, 16, [*range(240, 250), *range(251, 257)]), (245, 200, [*range(245, 250), *range(251, 446)]),
    (250, 6, [*range(251, 257)]), (240, 759, [*range(240, 250), *range(251, 1000)]),
    (245, 759, [*range(245, 250), *range(251, 1000), *range(240, 245)]), (240, 760, None),
])  # fmt: skip
def test_cells_that_were_never_used_are_found_after_those_of_the_arrays(head, n, found):
    got = beyond(head).find(n, None)
    assert (got if got is None else list(got)) == found


@pytest.mark.parametrize(("head", "n", "first"), [
    (240, 10, 240), (240, 11, 251), (240, 749, 251), (240, 750, None), (245, 6, 251), (251, 5, 251), (252, 5, 240),
    (990, 10, 240), (245, 749, 251),
])  # fmt: skip
def test_adjacent_cells_that_were_never_used_are_found_too(head, n, first):
    got = beyond(head).find_contiguous(n, None)
    assert got == (None if first is None else range(first, first + n))


def test_a_search_behind_the_arrays_goes_round_to_their_beginning():
    cells = Cells(1000, 1)
    cells.place(range(8, 990), range(982), 0)
    cells.head = 995
    assert list(cells.find(8, None)) == [*range(995, 1000), 0, 1, 2]
    assert (cells.find_contiguous(8, None), cells.find_contiguous(7, None)) == (range(8), range(7))
    cells.head = 992
    assert (cells.find_contiguous(9, None), cells.find_contiguous(8, None)) == (range(990, 999), range(992, 1000))
