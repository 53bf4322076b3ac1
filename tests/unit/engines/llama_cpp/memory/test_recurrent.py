"""Recurrent memory: refused removals, owners of cells, rows of states."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache
from cachesim.engines.llama_cpp.memory.recurrent_cells import Cell
from cachesim.engines.llama_cpp.memory.saved_state import RecurrentShape, RecurrentState, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, Ubatch
from cachesim.engines.llama_cpp.rules.seq_rm_and_state import rs_rm_3
from cachesim.engines.shared.slot_events import Warn
from cachesim.model import TokenRun


class Recurrent(RecurrentCache):
    """Recurrent cache whose rows are texts: the absorbed tokens."""

    def __init__(self, n_seq=3):
        self.told = []
        super().__init__(
            n_seq, (0,), RecurrentShape(1, 100),
            lambda pos, p0, p1, planes: rs_rm_3(pos, p0, p1, False).value, self.told.append,
        )

    def go(self, *runs):
        """Decode runs (seq, first position, n) in a single ubatch, as the model would."""
        made = tuple(TokenRun(seq, pos0, [0] * n) for seq, pos0, n in runs)
        self.apply(Ubatch(made, tuple(range(len(made))), sum(len(r.tokens) for r in made)))
        for run in made:
            row = self.rows[self.meta.tail[run.seq]]
            row[0] = (row.get(0) or "") + f"{run.seq}" * len(run.tokens)
        self.check()

    def said(self, seq):
        return self.row(seq).get(0)

    def tails(self):
        return self.meta.tail


# Columns: p0, p1, removed?, position afterwards (-1 = state dropped). A single cell at position 9.
TABLE = [
    (0, POS_INF, True, -1),
    (0, -1, True, -1),
    (0, 10, True, -1),
    (0, 9, True, 9),            # strictly inside the past: no effect on the state
    (3, 7, True, 9),
    (1, 9, True, 9),
    (9, 9, True, 9),
    (0, 0, True, 9),
    (1, POS_INF, False, 9),     # would cut off the end but keep a beginning
    (9, 10, False, 9),
    (9, POS_INF, False, 9),
    (10, POS_INF, True, 9),     # after the state: nothing to do
    (-5, POS_INF, True, -1),    # a negative start is 0
]


@pytest.mark.parametrize("p0, p1, ok, pos", TABLE)
def test_what_can_be_removed(p0, p1, ok, pos):
    mine = Recurrent()
    mine.go((0, 0, 10))
    assert mine.seq_rm(0, p0, p1) is ok
    assert mine.pos_max(0) == pos
    assert mine.said(0) == ("0" * 10 if pos >= 0 else None)
    mine.check()


def test_the_state_of_a_first_token_can_be_removed_and_used_again():
    mine = Recurrent()
    mine.go((0, 0, 1))
    assert mine.seq_rm(0, 0, 1) and (mine.pos_max(0), mine.tails()[0]) == (-1, -1)


@pytest.mark.parametrize(
    "p0, p1, ok", [(0, POS_INF, True), (0, -1, True), (4, 4, True), (1, POS_INF, False), (0, 5, False)]
)
def test_for_all_sequences_everything_or_nothing(p0, p1, ok):
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.go((1, 0, 3))
    assert mine.seq_rm(-1, p0, p1) is ok
    gone = ok and p1 in (POS_INF, -1)
    assert [mine.pos_max(seq) for seq in (0, 1)] == ([-1, -1] if gone else [2, 2])
    mine.check()


def test_a_sequence_beyond_the_cells_is_refused_and_an_absent_one_is_not():
    mine = Recurrent(2)
    assert mine.seq_rm(2, 0, POS_INF) is False
    assert mine.seq_rm(1, 5, POS_INF) is True


def test_a_dropped_state_starts_again_from_nothing():
    mine = Recurrent()
    mine.go((0, 0, 4))
    mine.seq_rm(0, 0, POS_INF)
    mine.go((0, 0, 2))
    assert mine.said(0) == "00"


def test_a_copy_shares_the_cell_until_one_is_written_to():
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.seq_cp(0, 1)
    assert mine.tails()[0] == mine.tails()[1]
    assert mine.meta.used == 1
    mine.go((1, 3, 2))
    assert mine.tails()[0] != mine.tails()[1]
    assert (mine.said(0), mine.said(1)) == ("000", "00011")
    assert (mine.pos_max(0), mine.pos_max(1), mine.meta.used) == (2, 4, 2)


def test_writing_to_the_original_leaves_the_copy():
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.seq_cp(0, 1)
    mine.go((0, 3, 1))
    assert (mine.said(0), mine.said(1)) == ("0000", "000")


def test_a_copy_over_an_occupied_sequence_frees_its_cell():
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.go((1, 0, 5))
    mine.seq_cp(0, 1)
    mine.check()
    assert (mine.meta.used, mine.said(1), mine.pos_max(1)) == (1, "000", 2)


def test_a_copy_of_nothing_leaves_nothing():
    mine = Recurrent()
    mine.go((2, 0, 1))
    mine.go((1, 0, 5))
    mine.seq_cp(0, 1)
    mine.check()
    assert mine.tails()[:2] == [-1, -1] and (mine.meta.used, mine.pos_max(1), mine.said(1)) == (1, -1, None)


def test_the_cells_of_one_ubatch_are_contiguous_and_in_order():
    mine = Recurrent(4)
    for seq in (0, 1, 2, 3):
        mine.go((seq, 0, seq + 1))
    mine.go((1, 2, 1), (3, 4, 1))
    assert mine.tails()[3] == mine.tails()[1] + 1


def test_a_swap_of_cells_keeps_every_state():
    mine = Recurrent(4)
    for seq in (0, 1, 2, 3):
        mine.go((seq, 0, seq + 1))
    mine.go((3, 4, 1), (0, 1, 1))
    assert [mine.said(seq) for seq in range(4)] == ["00", "11", "222", "33333"]
    mine.go((2, 3, 1), (1, 2, 1))
    assert [mine.said(seq) for seq in range(4)] == ["00", "111", "2222", "33333"]


def test_two_new_sequences_at_once_get_two_cells():
    mine = Recurrent()
    mine.go((0, 0, 2), (1, 0, 2))
    assert (mine.said(0), mine.said(1), mine.tails()[:2]) == ("00", "11", [0, 1])


def test_a_trial_changes_nothing():
    mine = Recurrent()
    mine.go((0, 0, 3))
    before = mine.meta.copy()
    assert mine.prepare([Ubatch((TokenRun(1, 0, [0]),), (0,), 1), Ubatch((TokenRun(0, 3, [0]),), (0,), 1)])
    assert mine.meta == before


def test_a_jump_in_positions_is_only_a_warning():
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.go((0, 7, 2))
    text = "find_slot: non-consecutive token position 8 after 2 for sequence 0 with 2 new tokens"
    assert mine.told == [Warn(text)]
    assert mine.pos_max(0) == 8


def test_keep_strips_every_other_sequence():
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.go((1, 0, 2))
    mine.seq_cp(1, 2)
    mine.seq_keep(1)
    mine.check()
    assert [mine.pos_max(seq) for seq in range(3)] == [-1, 1, -1]


@pytest.mark.parametrize("p0, p1, pos", [(0, 10, 7), (5, -1, 7), (6, 10, 5), (0, 5, 5), (0, 6, 7), (-1, 0, 5)])
def test_a_shift_moves_the_position_only_if_it_lies_in_the_range(p0, p1, pos):
    mine = Recurrent()
    mine.go((0, 0, 6))
    mine.seq_add(0, p0, p1, 2)
    assert (mine.pos_max(0), mine.said(0)) == (pos, "0" * 6)


def test_a_state_comes_back_as_it_was_saved():
    mine = Recurrent()
    mine.go((0, 0, 3))
    state = mine.state_write(0)
    mine.go((0, 3, 4))
    mine.state_read(0, state)
    mine.check()
    assert (mine.said(0), mine.pos_max(0)) == ("000", 2)
    mine.go((0, 3, 1))
    assert (mine.said(0), dict(state.rows)) == ("0000", {0: "000"})


def test_the_state_of_a_first_token_comes_back():
    mine = Recurrent()
    mine.state_read(1, RecurrentState(0, {0: "x"}))
    assert (mine.pos_max(1), mine.said(1), mine.tails()) == (0, "x", [-1, 0, -1])
    mine.seq_rm(-1, 0, POS_INF)
    assert (mine.tails(), mine.meta.cells) == ([-1, -1, -1], [Cell(-1, -1, set())] * 3)


def test_reading_an_absent_state_empties_the_sequence():
    mine = Recurrent()
    nothing = mine.state_write(0)
    mine.go((0, 0, 3))
    mine.state_read(0, nothing)
    assert mine.pos_max(0) == -1


@pytest.mark.parametrize("present, size", [(True, 12 + 24 + 8 + 100), (False, 36)])
def test_bytes_of_a_state(present, size):
    mine = Recurrent()
    if present:
        mine.go((0, 0, 3))
    assert mine.state_size(0) == size


def spoil_tail(mine):
    mine.meta.tail[0] = 2


def spoil_other_tail(mine):
    mine.meta.tail[1] = 0


def spoil_pos(mine):
    mine.meta.cells[0].pos = -1


def spoil_seqs(mine):
    mine.meta.cells[1].pos = 5


def spoil_used(mine):
    mine.meta.used = 2


def spoil_forgotten_tail(mine):
    mine.meta.tail[0] = -1


SPOILS = {
    spoil_tail: "the tail of sequence 0 is cell 2, which does not hold it",
    spoil_other_tail: "the tail of sequence 1 is cell 0, which does not hold it",
    spoil_pos: r"recurrent cell 0 has position -1 and sequences \[0\]",
    spoil_seqs: r"recurrent cell 1 has position 5 and sequences \[\]",
    spoil_used: "recurrent cells in use are miscounted",
    spoil_forgotten_tail: "recurrent cell 0 holds sequence 0, whose tail is -1",
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), SPOILS.items())
def test_check_finds(spoil, message):
    mine = Recurrent()
    mine.go((0, 0, 3))
    mine.check()
    spoil(mine)
    with pytest.raises(Crash, match=f"^{message}$"):
        mine.check()


def test_an_empty_cache_has_no_plane_to_go_back_to():
    memory = Recurrent()
    assert memory.n_rs_seq == 0
    for _ in range(2):
        assert (memory.rs_idx, memory.since, memory.written) == ([0] * 3, [0] * 3, [0] * 3)
        memory.go((0, 0, 4))
        memory.rs_idx, memory.since, memory.written = [1] * 3, [2] * 3, [3] * 3
        memory.clear()


@pytest.mark.parametrize("seq, p0, p1, rs_idx", [
    (1, 0, POS_INF, [5, 0, 5]), (1, 0, -1, [5, 0, 5]), (-1, 0, POS_INF, [0, 0, 0]), (3, 0, POS_INF, [5, 5, 5]),
    (1, 3, 7, [5, 5, 5]), (1, 0, 7, [5, 5, 5]), (1, 3, POS_INF, [5, 5, 5]),
])  # fmt: skip
def test_only_the_removal_of_all_positions_forgets_a_rollback(seq, p0, p1, rs_idx):
    memory = Recurrent()
    memory.rs_idx = [5] * 3
    memory.seq_rm(seq, p0, p1)
    assert memory.rs_idx == rs_idx


def test_a_sequence_beyond_the_cells_is_absent():
    mine = Recurrent()
    mine.go((0, 0, 2), (1, 0, 3), (2, 0, 4))
    assert [mine.pos_max(seq) for seq in (-1, 0, 1, 2, 3)] == [-1, 1, 2, 3, -1]
    assert mine.cell(3) is None and mine.cell(-1) is None


def test_the_search_begins_at_the_first_cell_that_was_freed():
    mine = Recurrent(4)
    mine.go((0, 0, 2), (1, 0, 3), (2, 0, 4))
    for left, (seq, before, head) in zip((2, 1, 0), ((2, 3, 2), (0, 3, 0), (1, 0, 0)), strict=True):
        mine.meta.head = before
        assert mine.seq_rm(seq, 0, POS_INF)
        assert (mine.meta.head, mine.meta.used) == (head, left)
    mine.check()


@pytest.mark.parametrize(("kept", "head"), [(0, 1), (1, 0), (2, 0)])
def test_a_kept_sequence_leaves_the_first_other_cell_to_the_search(kept, head):
    mine = Recurrent()
    mine.go((0, 0, 2), (1, 0, 3), (2, 0, 4))
    mine.meta.head = 3
    mine.seq_keep(kept)
    assert (mine.meta.head, mine.meta.used) == (head, 1)
    assert [mine.pos_max(seq) for seq in range(3)] == [seq + 1 if seq == kept else -1 for seq in range(3)]
    mine.check()


@pytest.mark.parametrize(("seq", "p0", "p1", "delta", "pos"), [
    (0, 0, -1, 5, 6), (0, 1, 2, 5, 6), (0, 2, -1, 5, 1), (0, -3, 1, 5, 1), (0, -3, 2, -1, 0), (1, 0, -1, 5, 1)])
def test_a_shift_moves_the_position_of_its_sequence(seq, p0, p1, delta, pos):
    mine = Recurrent()
    mine.go((0, 0, 2))
    mine.seq_add(seq, p0, p1, delta)
    assert mine.pos_max(0) == pos


def test_a_shift_also_moves_the_first_position():
    mine = Recurrent()
    mine.go((0, 0, 1))
    mine.seq_add(0, 0, -1, 2)
    assert mine.pos_max(0) == 2


@pytest.mark.parametrize(("p0", "p1", "d", "pos"), [(0, -1, 2, 3), (0, -1, 1, 7), (7, 8, 3, 2), (8, -1, 2, 7),
                                                    (-1, 7, 2, 7), (0, 7, 2, 7), (-1, 0, 2, 7)])  # fmt: skip
def test_a_division_rounds_the_position_down(p0, p1, d, pos):
    mine = Recurrent()
    mine.go((0, 0, 8))
    mine.seq_div(0, p0, p1, d)
    assert mine.pos_max(0) == pos


def test_a_state_of_a_sequence_that_the_memory_does_not_have_is_not_read():
    mine = Recurrent(2)
    with pytest.raises(StateReadError, match="failed to find slot for recurrent state"):
        mine.state_read(2, RecurrentState(4, {}))


def test_a_removal_leaves_the_cells_of_other_sequences():
    mine = Recurrent()
    mine.go((0, 0, 3)), mine.go((1, 0, 3))
    mine.seq_cp(1, 2)
    assert mine.seq_rm(0, 0, POS_INF)
    mine.check()
    assert [mine.pos_max(seq) for seq in range(3)] == [-1, 2, 2] and mine.meta.used == 1


@pytest.mark.parametrize(("seq", "pending", "plane", "ends"), [
    (0, 1, -1, True), (1, 1, -1, True), (0, 0, -1, False), (0, 1, 0, False), (3, 1, -1, False), (-1, 1, -1, False),
])  # fmt: skip
def test_a_state_cannot_be_saved_while_a_rollback_is_pending_that_the_build_does_not_save(seq, pending, plane, ends):
    mine = Recurrent()
    mine.go((0, 0, 3)), mine.go((1, 0, 3))
    mine.traits = BuildTraits(saved_plane=lambda pending: plane)
    mine.rs_idx = [pending] * 3
    if not ends:
        assert mine.save(seq).pos == (2 if seq in (0, 1) else -1)
        return
    with pytest.raises(ProcessAborted, match="a rollback is pending") as end:
        mine.save(seq)
    assert (end.value.kind, end.value.numbers) == ("saved-during-rollback", {"seq": seq})


class Planes(Recurrent):
    """A cache with rollback planes that never refuses. ``asked``: arguments with which the plane of a rollback was
    asked for; ``taken``: the plane, None = as many as tokens go back."""

    def __init__(self, n_rs_seq=2, n_seq=2, taken=None):
        super().__init__(n_seq)
        self.asked, self.n_rs_seq, self.refuses = [], n_rs_seq, lambda *of: False

        def plane(*of):
            self.asked.append(of)
            return of[0] if taken is None else taken

        self.traits = BuildTraits(plane=plane)

    def go(self, seq, pos0, n):
        """Decode n tokens of a sequence; its planes get the states before the last of them."""
        self.apply(Ubatch((TokenRun(seq, pos0, [0] * n),), (0,), n))
        row = self.rows[self.meta.tail[seq]]
        text = row.get(0) or ""
        row[0] = text + f"{seq}" * n
        self.keep_planes(seq, [{0: text + f"{seq}" * (n - back)} for back in range(1, min(n - 1, self.n_rs_seq) + 1)])
        self.check()


@pytest.mark.parametrize(("gone", "left"), [(1, 5), (2, 4)])
def test_a_state_goes_back_to_the_plane_of_the_removed_tokens(gone, left):
    mine = Planes()
    mine.go(1, 0, 3), mine.go(0, 0, 6)
    assert mine.seq_rm(0, 6 - gone, POS_INF) is True
    assert (mine.asked, mine.rs_idx) == ([(gone, 0, 0, 2)], [gone, 0])
    assert (mine.pos_max(0), mine.said(0)) == (left - 1, "0" * left)
    mine.go(0, left, 1)
    assert (mine.rs_idx, mine.pos_max(0), mine.said(0), mine.said(1)) == ([0, 0], left, "0" * (left + 1), "111")


def test_a_plane_that_was_never_written_is_a_zeroed_state():
    mine = Planes()
    mine.go(0, 0, 2)
    assert mine.seq_rm(0, 1, POS_INF) and mine.said(0) == "0"
    alone = Planes()
    alone.go(0, 0, 1), alone.go(0, 1, 1)
    assert alone.seq_rm(0, 1, POS_INF) and (alone.pos_max(0), alone.row(0)) == (0, {})


def test_the_plane_is_asked_for_with_the_pending_one_and_the_tokens_since_it_was_written():
    mine = Planes(n_rs_seq=3)
    for n in (3, 1, 1):
        mine.go(0, mine.pos_max(0) + 1, n)
    assert (mine.since[0], mine.written[0]) == (2, 2)
    assert mine.seq_rm(0, 4, POS_INF) and mine.seq_rm(0, 2, POS_INF)
    assert mine.asked == [(1, 0, 2, 2), (2, 1, 2, 2)]
    assert (mine.rs_idx, mine.pos_max(0)) == ([2, 0], 1)
    mine.go(0, 2, 9)
    assert (mine.rs_idx, mine.since[0], mine.written[0]) == ([0, 0], 0, 3)


def test_a_build_may_have_no_plane_for_a_rollback():
    mine = Planes(taken=0)
    mine.go(0, 0, 4)
    assert mine.seq_rm(0, 3, POS_INF) is False
    assert (mine.rs_idx, mine.pos_max(0), mine.said(0)) == ([0, 0], 3, "0000")


@pytest.mark.parametrize(("p0", "p1", "pos"), [
    (0, POS_INF, -1), (4, POS_INF, 3), (1, 3, 3), (1, 4, 0), (3, 4, 2), (3, 3, 3), (1, POS_INF, 0)])
def test_only_a_removal_of_the_last_tokens_goes_back(p0, p1, pos):
    mine = Planes()
    mine.go(0, 0, 4)
    assert mine.seq_rm(0, p0, p1) is True
    assert (mine.pos_max(0), len(mine.asked)) == (pos, int(pos in (0, 2)))
    mine.check()


def test_a_refused_removal_is_told_the_planes_and_the_sharers():
    mine, asked = Planes(), []
    mine.refuses = lambda *of: asked.append(of) or True
    mine.go(0, 0, 4)
    mine.rs_idx[0] = 1
    mine.seq_cp(0, 1)
    assert mine.seq_rm(0, 2, POS_INF) is False and mine.seq_rm(1, 4, -1) is False
    assert asked == [(3, 2, POS_INF, (2, 1, 2)), (3, 4, POS_INF, (2, 0, 2))]
    assert (mine.pos_max(0), mine.asked) == (3, [])


@pytest.mark.parametrize(("planes", "sharer", "seq", "own"), [
    (0, None, 0, True), (1, None, 0, False), (0, 1, 0, False), (0, None, 1, False), (0, None, 9, False)])
def test_a_state_is_a_sequences_own_without_planes_and_sharers(planes, sharer, seq, own):
    mine = Planes(planes)
    mine.go(0, 0, 3)
    if sharer is not None:
        mine.seq_cp(0, sharer)
    assert mine.has_own_cell(seq) is own


@pytest.mark.parametrize(("src", "dst"), [(0, 0), (0, 3), (3, 0), (4, 4)])
def test_a_copy_onto_itself_or_beyond_the_cells_changes_nothing(src, dst):
    mine = Recurrent()
    mine.go((0, 0, 3)), mine.go((1, 0, 2))
    mine.seq_cp(src, dst)
    mine.check()
    assert (mine.tails(), mine.meta.used, mine.said(0), mine.said(1)) == ([0, 1, -1], 2, "000", "11")


def test_a_copy_over_one_of_two_sharers_leaves_the_cell_to_the_other():
    mine = Recurrent()
    mine.go((0, 0, 3)), mine.go((1, 0, 2))
    mine.seq_cp(1, 2)
    mine.seq_cp(0, 2)
    mine.check()
    assert (mine.tails(), mine.meta.used, mine.said(1), mine.said(2)) == ([0, 1, 0], 2, "11", "000")


def test_a_read_state_has_no_pending_rollback_and_lies_where_it_is_asked_for():
    mine = Planes()
    mine.go(0, 0, 3), mine.go(1, 0, 3)
    saved = mine.state_write(1)
    assert mine.seq_rm(0, 2, POS_INF) and mine.rs_idx == [1, 0]
    mine.state_read(0, saved)
    assert (mine.rs_idx, mine.pos_max(0), mine.said(0)) == ([0, 0], 2, "111")
    mine.go(0, 3, 2)
    mine.state_read(0, saved, home=1)
    assert (mine.rows[1], mine.pos_max(0)) == ({0: "111"}, 2) and mine.said(0) != "111"


def test_a_removed_state_may_leave_its_sequence_pointing_to_the_empty_cell():
    for stays, tail in ((False, -1), (True, 0)):
        mine = Recurrent()
        mine.traits = BuildTraits(tail_stays=stays)
        mine.go((0, 0, 3))
        assert mine.seq_rm(0, 0, POS_INF)
        assert (mine.tails()[0], mine.meta.used, mine.pos_max(0)) == (tail, 0, -1)


def test_a_freed_cell_is_like_a_new_one():
    """Freed by a removal, by a copy over its sequence, and because another sequence is kept."""
    for free in ("seq_rm", 1, 0, POS_INF), ("seq_cp", 0, 1), ("seq_keep", 0):
        mine = Recurrent()
        mine.go((0, 0, 3)), mine.go((1, 0, 2))
        getattr(mine, free[0])(*free[1:])
        assert mine.meta.cells[1:] == [Cell(-1, -1, set())] * 2 and mine.meta.used == 1
        assert mine.tails()[2] == -1


def test_every_ubatch_of_a_batch_needs_a_cell():
    mine = Recurrent()
    mine.go((0, 0, 3))
    own, beyond = (Ubatch((TokenRun(seq, 3, [0]),), (0,), 1) for seq in (0, 3))
    assert [mine.prepare(ubatches) for ubatches in ([own], [beyond], [own, own], [own, beyond])] == [
        True, False, True, False]  # fmt: skip
