"""Removals, rollbacks, splits and saved states: every variant beside the others."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.rules import cell_faults, newest_memories, slot_file
from cachesim.engines.llama_cpp.rules import seq_rm_and_state as rules

END = 2**31 - 1


@pytest.mark.parametrize(("p0", "p1", "refused"), [
    # the four variants, newest first, for a state at position 9
    (0, END, (False, False, False, False)), (1, END, (True, True, True, True)), (8, END, (True, True, True, True)),
    (9, END, (True, True, False, True)), (10, END, (False, False, False, False)), (1, 9, (False, False, True, True)),
    (9, 10, (True, True, False, True)), (10, 12, (False, False, False, False)), (0, 9, (False, False, True, True)),
    (0, 10, (False, False, False, False)), (1, 10, (True, True, True, True)), (0, 1, (False, False, True, True)),
    (1, 8, (False, False, True, True)), (0, 0, (False, False, False, False)),
])  # fmt: skip
def test_a_removal_that_a_recurrent_state_refuses(p0, p1, refused):
    found = [rm(9, p0, p1, False).value for rm in (rules.rs_rm_3, rules.rs_rm_2, rules.rs_rm_1, rules.rs_rm_0)]
    assert tuple(found) == refused
    assert rules.rs_rm_3(9, p0, p1, True).value is False, "it can be rolled back"
    assert rules.rs_rm_2(9, p0, p1, True).value is refused[1]


@pytest.mark.parametrize(("back", "pending", "sharers", "any_time", "once", "alone"), [
    (1, 0, 1, True, True, True), (3, 0, 1, True, True, True), (4, 0, 1, False, False, False),
    (0, 0, 1, False, False, False), (1, 2, 1, True, False, False), (1, 0, 2, True, True, False),
    (1, 0, 0, True, True, False),
])  # fmt: skip
def test_a_state_is_rolled_back_up_to_its_planes(back, pending, sharers, any_time, once, alone):
    found = [rule(back, 3, pending, sharers).value for rule in (rules.back_any, rules.back_once, rules.back_alone)]
    assert found == [any_time, once, alone]


@pytest.mark.parametrize(("spec_type", "can", "planes"), [
    ("draft-mtp", True, 5), ("draft-mtp", False, 0), ("draft-simple", True, 0), ("none", True, 0),
])  # fmt: skip
def test_planes_are_kept_for_an_mtp_head(spec_type, can, planes):
    assert rules.planes_for_mtp(spec_type, 5, can).value == planes
    assert rules.planes_none(spec_type, 5, can).value == 0


@pytest.mark.parametrize(("back", "pending", "since", "counted"), [
    (2, 0, 0, 2), (2, 1, 0, 3), (2, 0, 1, 1), (1, 0, 1, 0), (3, 0, 0, 3), (4, 0, 0, 0), (1, 0, 0, 1), (2, 2, 1, 3),
    (3, 2, 1, 0),
])  # fmt: skip
def test_a_plane_is_that_of_the_number_or_that_of_the_position(back, pending, since, counted):
    assert rules.plane_of_depth(back, pending, since, 3).value == back
    assert rules.plane_of_position(back, pending, since, 3).value == counted
    assert rules.saved_of_pending(pending).value == pending and rules.saved_aborts(pending).value == -1


@pytest.mark.parametrize(("n_rs_seq", "attention", "unified", "ids"), [
    (0, True, True, False), (0, True, False, True), (0, False, True, True), (3, True, True, False),
    (3, False, False, True),
])  # fmt: skip
def test_a_batch_is_split_as_the_build_does(n_rs_seq, attention, unified, ids):
    """``ids``: the sequences of a micro-batch have consecutive ids."""
    facts = n_rs_seq, attention, unified
    assert rules.split_keeps_tail(*facts).value == BatchSplit(False, ids, 4 if n_rs_seq else 0)
    assert rules.split_alone(*facts).value == BatchSplit(n_rs_seq > 0, ids, 0)
    assert rules.split_equally(*facts).value == BatchSplit(False, ids, 0)
    assert rules.split_neighbours(*facts).value == BatchSplit(False, True, 0)
    assert rules.split_any_ids(*facts).value == BatchSplit(False, False, 0)


def test_a_saved_window_has_what_a_query_at_its_end_sees_or_every_cell():
    pos = np.array([3, 1, 2, 0, 4])
    assert rules.keep_window(pos, 4, 3).value.tolist() == [True, False, True, False, True]
    assert rules.keep_ring(pos, 4, 3).value.tolist() == [True] * 5


@pytest.mark.parametrize(("rule", "value"), [
    (rules.copy_waits, True), (rules.read_anywhere, False), (rules.read_together, True), (rules.fail_keeps, False),
    (rules.fail_undoes, True), (rules.undo_used, True), (rules.full_forgets, True), (rules.shared_stays, True),
    (rules.shift_dies, True), (rules.mrope_fixed, "fixed"), (rules.mrope_ends, "ends"), (rules.mrope_moves, "moves"),
    (cell_faults.tail_cleared, False), (cell_faults.tail_stale, True), (cell_faults.turn_own, False),
    (cell_faults.turn_first, True), (cell_faults.mask_own, False), (cell_faults.mask_model, True),
    (cell_faults.count_positions, False), (cell_faults.set_of_positions, True), (cell_faults.check_next, False),
    (cell_faults.check_nothing, True), (newest_memories.index_spoilt, True), (newest_memories.index_turned, False),
], ids=lambda one: getattr(one, "rule", ""))  # fmt: skip
def test_a_fault_of_the_memory_belongs_to_its_builds(rule, value):
    decision = rule()
    assert (decision.value, decision.because, decision.rule) == (value, {}, rule.rule)


@pytest.mark.parametrize(("decision", "value"), [
    (newest_memories.window_told(8, "dsv4"), 0), (newest_memories.window_told(8, "dsa"), 8),
    (newest_memories.streams_shared(True, "dsv4"), False), (newest_memories.streams_shared(True, "msa"), True),
    (newest_memories.streams_shared(False, "msa"), False), (newest_memories.reads_all(2, True), True),
    (newest_memories.reads_all(1, True), False), (newest_memories.reads_all(2, False), False),
    (newest_memories.quantized_shift_dies(64, True), False), (newest_memories.quantized_shift_dies(80, True), True),
    (newest_memories.quantized_shift_dies(65, True), True), (newest_memories.quantized_shift_dies(80, False), False),
    (newest_memories.quantized_shift_dies(0, True), False), (newest_memories.quantized_shift_lives(80, True), False),
    (slot_file.no_checkpoints(3, 8), ()), (slot_file.newest_checkpoints(3, 8), (0, 1, 2)),
    (slot_file.newest_checkpoints(3, 2), (1, 2)), (slot_file.newest_checkpoints(3, 3), (0, 1, 2)),
    (slot_file.newest_checkpoints(0, 3), ()), (slot_file.empty_stays(3), False), (slot_file.empty_clears(3), True),
    (slot_file.torn_ends("base", True), "ends"), (slot_file.torn_ends("base", False), "stays"),
    (slot_file.torn_stays("base", True), "stays"), (slot_file.torn_freed("base", True), "freed"),
    (slot_file.torn_buffer("base", False), "ends"),
])  # fmt: skip
def test_newest_memories_and_slot_files(decision, value):
    assert decision.value == value
