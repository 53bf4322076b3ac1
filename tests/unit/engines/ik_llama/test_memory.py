"""The cell table, its refusals, and the effect of restoring a partial state."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.context import NO_ROOM, OK, Context, DecodeRules
from cachesim.engines.ik_llama.memory.kv_cache import KvCache, Window, capacity
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.engines.ik_llama.rules.trim import rm_refused
from cachesim.engines.shared.batch import DecodeBatch


def refuses(*facts):
    return rm_refused(*facts).value


RULES = DecodeRules(
    split=len, seen=lambda pos: 10**6, window_from=lambda n_kv, n, missed: 0, blind=bool,
    zeroes=lambda pos, sequences: pos == 0, keeps=lambda n: "",
    reuses=lambda last, now, first: False,
)


def cache(model="GGGA", size=32, n_seq=1):
    return KvCache(model_kind(model), size, n_seq, None, refuses, lambda event: None)


def test_a_cache_without_a_model_has_no_rows():
    kv = cache()
    fill(kv, 3)
    kv.clear()
    assert kv.rows == {} and kv.get(0, partial=False).rows == {}


def fill(kv, n, seq=0, start=0, n_ubatch=8):
    batch = DecodeBatch()
    for pos in range(start, start + n):
        batch.add(pos, pos, seq, False)
    return Context(kv, None, n_ubatch, RULES, lambda event: None).decode(batch)


def test_cells_are_neighbours_or_there_is_no_room():
    cells = Cells(10, 1)
    for first in (0, 4, 8):
        cells.place(first, np.arange(2) + first, np.arange(2) + first, 0)
    cells.head = 2
    assert cells.find(2) == 2
    cells.head = 5
    assert cells.find(2) == 6
    assert cells.find(3) is None
    cells.check()


def test_freed_cells_before_the_head_pull_it_back():
    kv = cache()
    assert fill(kv, 20) == OK
    assert kv.cells.head == 20
    kv.seq_rm(0, 12)
    assert (kv.cells.head, kv.cells.used, kv.pos_max(0)) == (12, 12, 11)


@pytest.mark.parametrize("n", [1, 3])
def test_a_sequence_of_states_only_is_empty_once_all_of_it_is_removed(n):
    kv = cache("SS")
    fill(kv, n)
    assert (kv.tail, kv.empty(0)) == ([n - 1], False)
    assert kv.seq_rm(0, n) and not kv.empty(0)
    assert kv.seq_rm(0, 0) and kv.tail == [-1] and kv.empty(0)


def test_an_empty_sequence_ends_at_0_not_at_minus_1():
    assert cache("AAAA").pos_max(0) == 0
    assert cache("AAAA").pos_min(0) == -1
    assert cache("GGGA").pos_min(0) == 0


def test_a_hybrid_says_its_last_position_is_its_first():
    kv = cache()
    fill(kv, 20)
    assert (kv.pos_min(0), kv.pos_max(0)) == (19, 19)
    assert cache("AAAA").kind.hybrid is False


def test_a_hybrid_never_refuses_and_its_row_stays():
    kv = cache()
    fill(kv, 20)
    assert kv.seq_rm(0, 5)
    assert (kv.pos_max(0), kv.state_pos[0]) == (4, 19)


@pytest.mark.parametrize(("p0", "p1", "ok"), [(0, POS_INF, True), (10, POS_INF, False), (20, POS_INF, True),
                                              (0, 10, False), (19, 25, False)])  # fmt: skip
def test_recurrent_layers_alone_refuse_what_begins_or_ends_inside(p0, p1, ok):
    kv = cache("SSSS")
    fill(kv, 20)
    assert kv.seq_rm(0, p0, p1) is ok
    assert (kv.tail[0] == -1) is (ok and p0 == 0)


def test_what_was_computed_before_there_was_no_room_stays():
    kv = cache(size=20)
    assert fill(kv, 24) == NO_ROOM
    assert kv.cells.used == 16


def test_a_partial_state_claims_neighbours_and_brings_no_rows():
    kv = cache(size=40, n_seq=2)
    fill(kv, 8, seq=0)
    fill(kv, 8, seq=1)
    fill(kv, 8, seq=0, start=8)
    blob = kv.get(0, partial=True)
    assert (blob.rows, blob.size) == (None, model_kind("GGGA").state_bytes(16, partial=True))
    assert kv.set(0, blob)
    assert kv.cells.of(0).tolist() == list(range(16, 32))     # it lay in 0..7 and 16..23
    kv.check()


def test_a_relabelled_cell_still_stands_for_its_own_position():
    kv = cache()
    fill(kv, 10)
    kv.cells.relabel(0, 9)
    assert (kv.cells.pos[0], kv.cells.own[0]) == (9, 0)
    kv.seq_rm(0, 9)
    assert kv.cells.of(0).tolist() == list(range(1, 9))


def test_the_compacted_window_of_the_specification():
    window = Window(128, capacity(128, 512))
    assert window.cap == 768
    for n in (512, 183, 5, *([1] * 100)):
        window.advance(n)
    assert (window.base, window.live, window.end) == (640, 160, 800)
    assert not window.cut(695, POS_INF)
    assert window.cut(768, POS_INF) and window.end == 768
    assert window.cut(0, POS_INF) and (window.base, window.live) == (0, 0)


def test_a_copy_of_a_model_without_attention_brings_no_states_back():
    kv = cache("GGGG")
    fill(kv, 10)
    blob = kv.get(0, partial=False)
    fill(kv, 10, start=10)
    kv.states[0] = {0: "later"}
    assert kv.set(0, blob) and blob.states == {}
    assert (kv.states[0], kv.state_pos[0]) == ({0: "later"}, 19)


@pytest.mark.parametrize(("p0", "p1", "removed", "after"), [
    (20, 30, True, (8, 12)), (4, 8, True, (8, 12)), (16, 19, False, (8, 12)), (16, 20, True, (8, 8)),
    (13, 20, True, (8, 5)), (12, 20, True, (8, 4)), (11, 20, False, (8, 12)), (0, 20, True, (0, 0)),
    (0, 19, False, (8, 12)), (19, 99, True, (8, 11)), (4, 9, False, (8, 12)),
])  # fmt: skip
def test_a_compacted_window_is_cut_only_at_its_end_and_where_a_whole_window_stays(p0, p1, removed, after):
    window = Window(4, 16, base=8, live=12)
    assert window.cut(p0, p1) is removed
    assert (window.base, window.live) == after


@pytest.mark.parametrize(("n", "after"), [(4, (8, 16)), (5, (16, 9)), (12, (16, 16))])
def test_a_full_block_keeps_the_last_window_before_new_rows(n, after):
    window = Window(4, 16, base=8, live=12)
    window.advance(n)
    assert ((window.base, window.live), window.end) == (after, 20 + n)
    whole = Window(4, 16)
    assert whole.cut(0, 5) and (whole.advance(7), whole.cut(3, 7), whole.live) == (None, True, 3)


@pytest.mark.parametrize(("held", "restored", "left"), [(16, True, [*range(8)]), (8, True, [*range(8)]),
                                                        (7, False, [*range(7)])])  # fmt: skip
def test_a_copy_without_rows_may_leave_the_cells_up_to_its_end(held, restored, left):
    """With fewer cells than tokens that its states have absorbed it is not restored."""
    kv = KvCache(model_kind("GGGA"), 32, 2, None, refuses, print, claims=lambda lacks_rows: not lacks_rows)
    fill(kv, 3, seq=1), fill(kv, 8)
    blob = kv.get(0, partial=True)
    fill(kv, 8, start=8)
    kv.seq_rm(0, held)
    kv.states[0] = {0: "later"}
    assert kv.set(0, blob) is restored
    assert kv.cells.pos[kv.cells.of(0)].tolist() == left and kv.cells.of(0).tolist() == [*range(3, 3 + len(left))]
    assert (kv.states[0], kv.state_pos[0]) == ((blob.states, 7) if restored else ({0: "later"}, 15))
    kv.check()


def test_a_copy_that_finds_no_neighbouring_cells_leaves_the_sequence_empty():
    kv = cache("AA", size=16, n_seq=2)
    fill(kv, 6)
    blob = kv.get(0, partial=False)
    kv.seq_rm(0, 0)
    for at, pos in ((3, 0), (8, 1), (13, 2)):
        kv.cells.place(at, np.array([pos]), np.array([pos]), 1)
    assert kv.set(0, blob) is False and kv.empty(0)
    kv.seq_rm(1, 1)
    assert kv.set(0, blob) is True and kv.cells.of(0).tolist() == [*range(4, 10)]
    kv.check()


def test_the_search_begins_anew_when_it_has_reached_the_end():
    kv = cache(size=16)
    assert fill(kv, 8) == OK and kv.cells.head == 8
    assert fill(kv, 8, start=8) == OK and kv.cells.head == 0


def test_a_context_counts_the_tokens_of_its_last_batch():
    kv = cache(size=20)
    context = Context(kv, None, 8, RULES, lambda event: None)
    counts = [context.evaluated]
    for start, n in ((0, 10), (10, 3), (13, 9)):
        batch = DecodeBatch()
        batch.extend([1] * n, start, 0)
        context.decode(batch)
        counts.append(context.evaluated)
    assert counts == [0, 10, 3, 0], "the last batch found no cells"


@pytest.mark.parametrize(("head", "first"), [(4, 4), (7, 7), (8, 8), (9, 4), (20, 4)])
def test_the_search_begins_anew_if_few_cells_before_it_are_used(head, first):
    """Four cells are used, and two tokens need two: beyond cell 8 the search begins with the first cell."""
    kv = cache("AA")
    fill(kv, 4)
    kv.cells.head = head
    fill(kv, 2, start=4)
    assert kv.cells.of(0).tolist() == [*range(4), first, first + 1]
