"""Splits of a batch into micro-batches."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.llama_cpp.memory.ubatch import (
    BatchSplit,
    BuildTraits,
    DecodeBatch,
    check_stream_order,
    make_ubatch,
    runs_of,
    split_any,
    split_by_run,
    split_equal,
    split_seq,
    split_simple,
)


def batch(*runs):
    """Return a batch of (seq, first position, number of tokens) runs; tokens count up from 100."""
    out = DecodeBatch()
    for seq, pos0, n in runs:
        for k in range(n):
            out.add(100 + len(out), pos0 + k, seq, False)
    return out


def shape(ubatches):
    """Return per ubatch, per run: (sequence, first position, number of tokens)."""
    return [[(run.seq, run.pos0, len(run.tokens)) for run in ubatch.runs] for ubatch in ubatches]


def test_a_run_ends_where_sequence_or_position_breaks():
    assert runs_of(batch((0, 5, 3), (1, 0, 2), (1, 9, 1))) == [(0, 3), (3, 5), (5, 6)]
    assert runs_of(DecodeBatch()) == []
    assert runs_of(batch((0, 5, 3))) == [(0, 3)]


def test_a_first_and_last_position_that_fit_do_not_hide_a_second_sequence():
    assert runs_of(batch((0, 0, 2), (1, 2, 1), (0, 3, 1))) == [(0, 2), (2, 3), (3, 4)]


def test_simple_takes_the_next_tokens_whatever_their_sequence():
    found = split_simple(batch((0, 0, 5), (1, 7, 3)), 4)
    assert shape(found) == [[(0, 0, 4)], [(0, 4, 1), (1, 7, 3)]]
    assert [ubatch.at for ubatch in found] == [(0,), (4, 5)]
    assert [list(run.tokens) for run in found[1].runs] == [[104], [105, 106, 107]]


def test_equal_gives_each_sequence_the_same_number_of_tokens():
    found = split_equal(batch((0, 0, 5), (1, 7, 3)), 4, sequential=True)
    assert shape(found) == [[(0, 0, 2), (1, 7, 2)], [(0, 2, 1), (1, 9, 1)], [(0, 3, 2)]]


@pytest.mark.parametrize("sequential, first", [(True, [(0, 0, 3)]), (False, [(0, 0, 3), (2, 0, 3)])])
def test_sequential_admits_only_neighbouring_sequence_ids(sequential, first):
    assert shape(split_equal(batch((0, 0, 3), (2, 0, 3)), 8, sequential))[0] == first


def test_sequential_means_ascending():
    assert shape(split_equal(batch((1, 0, 2), (0, 0, 2)), 8, sequential=True)) == [[(1, 0, 2)], [(0, 0, 2)]]


def test_one_stretch_of_a_sequence_at_a_time():
    assert shape(split_equal(batch((0, 0, 2), (0, 9, 2)), 8, sequential=True)) == [[(0, 0, 2)], [(0, 9, 2)]]


@pytest.mark.parametrize(("between", "sequential"), [((0, 9, 2), False), ((0, 9, 2), True), ((2, 0, 2), True)])
def test_a_stretch_that_waits_does_not_hold_up_those_after_it(between, sequential):
    found = split_equal(batch((0, 0, 2), between, (1, 0, 2)), 8, sequential)
    assert shape(found) == [[(0, 0, 2), (1, 0, 2)], [between]]


def test_a_ubatch_accepts_n_ubatch_plus_1_sequences():
    """The engine compares after the addition: a ubatch of at most two tokens has three."""
    found = split_equal(batch((0, 0, 2), (1, 0, 1), (2, 0, 1), (3, 0, 1)), 2, sequential=True)
    assert shape(found) == [[(0, 0, 1), (1, 0, 1), (2, 0, 1)], [(0, 1, 1)], [(3, 0, 1)]]


def test_alone_means_one_sequence_in_a_ubatch():
    found = split_seq(batch((0, 0, 5), (1, 7, 3)), 4)
    assert shape(found) == [[(0, 0, 4)], [(0, 4, 1)], [(1, 7, 3)]]
    assert [ubatch.at for ubatch in found] == [(0,), (4,), (5,)]


def test_all_tokens_are_consumed_once():
    for split in (lambda b: split_simple(b, 3), lambda b: split_equal(b, 3, False), lambda b: split_seq(b, 3)):
        found = split(batch((0, 0, 7), (2, 3, 4), (1, 0, 1)))
        assert sorted(t for u in found for run in u.runs for t in run.tokens) == list(range(100, 112))


def test_keep_tail_extends_the_ubatch_to_the_end_if_it_fits():
    assert shape(split_equal(batch((0, 0, 5), (1, 0, 4)), 8, True, n_keep_tail=3)) == [
        [(0, 0, 5)], [(1, 0, 4)],
    ]  # 4 of 5 would leave 1


def test_keep_tail_shortens_the_ubatch_so_that_the_tail_stays_together():
    assert shape(split_equal(batch((0, 0, 9)), 8, True, n_keep_tail=3)) == [[(0, 0, 6)], [(0, 6, 3)]]


def test_keep_tail_drops_another_sequence_whose_tail_would_be_cut():
    assert shape(split_equal(batch((0, 0, 4), (1, 0, 5)), 8, True, n_keep_tail=3)) == [[(0, 0, 4)], [(1, 0, 5)]]


def test_keep_tail_leaves_a_cut_that_spares_the_tail():
    assert shape(split_equal(batch((0, 0, 11)), 8, True, n_keep_tail=3)) == [[(0, 0, 8)], [(0, 8, 3)]]


def test_keep_tail_drops_all_sequences_after_a_dropped_sequence():
    """The ids of a ubatch stay consecutive: sequence 2 would not lose its tail but still waits."""
    found = split_equal(batch((0, 0, 2), (1, 0, 4), (2, 0, 2)), 8, True, n_keep_tail=3)
    assert shape(found) == [[(0, 0, 2)], [(1, 0, 4)], [(2, 0, 2)]]


@pytest.mark.parametrize("n_ubatch", [3, 2])
def test_a_tail_that_does_not_fit_into_a_ubatch_ends_the_process(n_ubatch):
    with pytest.raises(ProcessAborted, match="n_ubatch > n_keep_tail"):
        split_equal(batch((0, 0, 2)), n_ubatch, True, n_keep_tail=3)


def test_the_smallest_ubatch_that_holds_a_tail():
    assert shape(split_equal(batch((0, 0, 6)), 4, True, n_keep_tail=3)) == [[(0, 0, 3)], [(0, 3, 3)]]
    assert shape(split_equal(batch((0, 0, 7)), 4, True, n_keep_tail=3)) == [[(0, 0, 4)], [(0, 4, 3)]]
    assert shape(split_equal(batch((0, 0, 5)), 4, True, n_keep_tail=1)) == [[(0, 0, 4)], [(0, 4, 1)]]


def test_keep_tail_extends_the_ubatch_to_its_last_token():
    """Three tokens of each sequence would leave three of the first, whose last five stay together."""
    assert shape(split_equal(batch((0, 0, 6), (1, 0, 6)), 6, True, n_keep_tail=5)) == [[(0, 0, 6)], [(1, 0, 6)]]
    assert shape(split_equal(batch((0, 0, 7), (1, 0, 1)), 6, True, n_keep_tail=5))[:2] == [
        [(0, 0, 1), (1, 0, 1)], [(0, 1, 6)]]  # fmt: skip


def test_keep_tail_leaves_sequences_whose_ends_fit():
    found = split_equal(batch((0, 0, 3), (1, 5, 3)), 8, True, n_keep_tail=3)
    assert shape(found) == [[(0, 0, 3), (1, 5, 3)]] and [ubatch.at for ubatch in found] == [(0, 3)]
    cut = split_equal(batch((0, 0, 1), (1, 5, 4)), 8, True, n_keep_tail=3)
    assert shape(cut) == [[(0, 0, 1), (1, 5, 1)], [(1, 6, 3)]]
    kept = split_equal(batch((0, 0, 1), (1, 5, 3)), 8, True, n_keep_tail=3)
    assert shape(kept) == [[(0, 0, 1)], [(1, 5, 3)]]


def test_a_ubatch_never_has_less_than_a_token_of_a_sequence():
    assert shape(split_equal(batch((0, 0, 2), (1, 0, 2)), 1, False)) == [[(0, 0, 1), (1, 0, 1)], [(0, 1, 1), (1, 1, 1)]]


@pytest.mark.parametrize("seqs", [[0], [3], [0, 1], [1, 2, 3]])
def test_streams_of_consecutive_sequences_are_a_tensor(seqs):
    check_stream_order(seqs)


@pytest.mark.parametrize("seqs, message", [([1, 0], "seq_id"), ([0, 2], "can_mul_mat"), ([0, 1, 3], "can_mul_mat")])
def test_other_streams_end_the_process(seqs, message):
    with pytest.raises(ProcessAborted, match=message):
        check_stream_order(seqs)


def test_the_cells_of_a_ubatch_are_split_by_run():
    one, three = batch((0, 0, 4)), batch((0, 0, 1), (1, 0, 2), (2, 0, 1))
    assert split_by_run(range(5, 9), make_ubatch(one, [(0, 4)])) == [range(5, 9)]
    whole = make_ubatch(three, [(0, 1), (1, 3), (3, 4)])
    assert split_by_run(range(5, 9), whole) == [range(5, 6), range(6, 8), range(8, 9)]
    assert [cells.tolist() for cells in split_by_run(np.array([7, 3, 1, 9]), whole)] == [[7], [3, 1], [9]]


@pytest.mark.parametrize("attention, unified, sequential", [
    (True, True, False), (True, False, True), (False, True, True),
])  # fmt: skip
def test_a_batch_is_split_equally_unless_the_build_says_otherwise(attention, unified, sequential):
    assert split_any(3, attention, unified) == BatchSplit(False, sequential, 0)
    traits = BuildTraits()
    assert (traits.plane(2, 1, 1, 3), traits.saved_plane(2)) == (2, 2)
