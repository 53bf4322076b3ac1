"""Rules of recurrent states at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.rules import states
from cachesim.engines.vllm.rules.blocks import BlockNeed
from cachesim.engines.vllm.rules.states import StateBoundary, StateExport, StateInside, StateTail

F, T = False, True
NEED = BlockNeed(
    num_tokens=33,
    block_size=8,
    num_req_blocks=0,
    num_new_computed_blocks=0,
    num_evictable_blocks=0,
    num_skipped_blocks=0,
    is_new_request=T,
    has_partial_hit=F,
    max_admission_blocks_per_request=0,
)


@pytest.mark.parametrize(("change", "scratch", "begun", "checkpoint", "now", "fresh", "plain"), [
    ({}, 0, F, F, 1, 1, 1), ({"num_tokens": 8}, 0, F, F, 1, 1, 1), ({}, 0, F, T, 2, 2, 2), ({}, 0, T, T, 2, 2, 5),
    ({}, 2, F, F, 3, 3, 3), ({}, 2, T, F, 1, 1, 1), ({}, 2, T, T, 2, 4, 7), ({}, 2, F, T, 4, 4, 4),
    ({"num_req_blocks": 5}, 0, T, F, 0, 0, 0),
    ({"num_req_blocks": 4}, 0, T, F, 1, 1, 1),
    ({"num_req_blocks": 6}, 0, T, F, -1, -1, -1),
    ({"num_new_computed_blocks": 5}, 0, F, F, 0, 0, 0),
    ({"num_new_computed_blocks": 4}, 0, F, F, 1, 1, 1),
    ({"num_new_computed_blocks": 4, "num_evictable_blocks": 3}, 0, F, F, 4, 4, 4),
    ({"num_new_computed_blocks": 5, "has_partial_hit": T}, 0, F, F, 1, 1, 2),
    ({"num_new_computed_blocks": 9, "has_partial_hit": T}, 0, F, F, 1, 1, 2),
    ({"num_new_computed_blocks": 4, "has_partial_hit": T}, 0, F, F, 2, 2, 2),
    ({"num_new_computed_blocks": 4, "has_partial_hit": T}, 0, T, T, 2, 2, 2),
    ({"num_req_blocks": 5}, 2, T, T, 2, 2, 2), ({"num_req_blocks": 5}, 2, F, F, 2, 2, 3),
])  # fmt: skip
def test_free_blocks_that_states_need(change, scratch, begun, checkpoint, now, fresh, plain):
    ask = NEED._replace(**change)
    found = [rule(ask, scratch, begun, checkpoint)
             for rule in (states.states_needed, states.states_needed_fresh, states.states_needed_set)]  # fmt: skip
    assert found == [now, fresh, plain]


@pytest.mark.parametrize(("kind", "partial", "promised", "state", "copy"), [
    ("mamba", F, F, T, T), ("mamba", F, T, F, F), ("mamba", T, F, T, T), ("full", F, T, T, T), ("full", T, F, T, F),
])  # fmt: skip
def test_a_request_waits_for_what_the_step_computes(kind, partial, promised, state, copy):
    found = states.wait_for_state(kind, partial, promised), states.wait_for_copy(kind, partial, promised)
    assert [one.value for one in found] == [state, copy]
    assert [one.because for one in found] == [{"promised": promised}] * 2


@pytest.mark.parametrize(("tokens", "drop", "lookahead", "last", "whole"), [
    (17, F, 0, 16, 16), (16, F, 0, 8, 16), (18, F, 2, 16, 16), (17, F, 2, 8, 16), (16, T, 0, 8, 8), (15, T, 0, 0, 0),
    (7, T, 0, 0, 0), (8, F, 0, 0, 8), (7, F, 0, 0, 0), (24, T, 9, 16, 16), (9, F, 1, 8, 8),
])  # fmt: skip
def test_the_last_length_at_which_a_prompt_resumes(tokens, drop, lookahead, last, whole):
    assert states.last_boundary(tokens, 8, drop, lookahead) == last
    assert states.last_boundary_whole(tokens, 8, drop, lookahead) == whole


@pytest.mark.parametrize(("num_tokens", "drop", "lookahead", "position", "older"), [
    (33, F, 0, 32, 32), (32, F, 0, 24, 28), (34, F, 3, 24, 32), (33, T, 0, 24, 28), (4, F, 0, 0, 0),
])  # fmt: skip
def test_the_length_of_a_state_inside_a_chunk(num_tokens, drop, lookahead, position, older):
    ask = StateBoundary(
        num_tokens=num_tokens,
        hash_block_size=4,
        cache_hit_alignment_tokens=8,
        drop_eagle_block=drop,
        num_hash_lookahead_tokens=lookahead,
    )
    assert (states.checkpoint(ask), states.checkpoint_unit(ask)) == (position, older)


@pytest.mark.parametrize(("end", "interval", "last", "prompt"), [
    (40, 0, T, T), (39, 0, F, F), (39, 8, T, T), (41, 0, T, F), (41, 8, T, F), (39, -1, T, T),
])  # fmt: skip
def test_chunks_that_keep_a_state_inside(end, interval, last, prompt):
    found = [rule(end, 40, interval) for rule in (states.reserve_last, states.reserve_in_prompt, states.reserve_every)]
    assert found == [last, prompt, T]


def test_until_0_25_1_states_of_as_many_tokens_as_drafts_stay():
    assert [states.settled_without_drafts(settled, drafts=3) for settled in (10, 3, 2)] == [7, 0, 0]
    assert states.settled_states(10, drafts=3) == 10


def test_columns_and_exports_of_the_worker():
    assert [states.start_column(computed, 8, 4) for computed in (8, 9, 16)] == [0, 1, 1]
    assert [states.start_column_smallest(computed, 8, 4) for computed in (4, 5, 8, 9)] == [0, 1, 1, 2]
    assert [states.export_alone(reserved) for reserved in (F, T)] == [T, T]
    assert [states.export_reserved(reserved) for reserved in (F, T)] == [F, T]
    assert [states.counted_blocks(published, 5) for published in (3, 9)] == [3, 9]
    assert [states.counted_with_column(published, 5) for published in (3, 9)] == [6, 9]
    assert (states.keyed_once(), states.keyed_again()) == (F, T)
    assert [states.left_behind(5, inside) for inside in (F, T)] == [5, 4]
    assert [states.left_behind_alone(5, inside) for inside in (F, T)] == [5, 0]


NOWHERE = StateInside(
    is_prompt_checkpoint=F,
    is_junction=F,
    ends_prompt=F,
    retention_interval=0,
    is_retained_checkpoint=F,
)


@pytest.mark.parametrize(("change", "kept"), [
    ({}, (F, F, F)),
    ({"is_prompt_checkpoint": T}, (T, T, F)),
    ({"is_junction": T}, (T, T, T)),
    ({"ends_prompt": T}, (F, T, T)),
    ({"retention_interval": 8}, (F, T, T)),
    ({"retention_interval": -1}, (F, T, T)),
    ({"is_retained_checkpoint": T}, (T, F, F)),
])  # fmt: skip
def test_states_inside_a_chunk_that_can_be_found(change, kept):
    ask = NOWHERE._replace(**change)
    assert (states.keep_inside(ask), states.keep_own(ask), states.keep_end(ask)) == kept


TAIL = StateTail(
    num_tokens=20,
    latest_prompt_hash_boundary=20,
    own_hash_boundary=16,
    hash_block_size=4,
    block_size=8,
    is_junction=F,
)


@pytest.mark.parametrize(("change", "found"), [
    ({}, (T, T, F)),
    ({"latest_prompt_hash_boundary": 16}, (F, F, F)),
    ({"latest_prompt_hash_boundary": 16, "own_hash_boundary": 20}, (F, F, T)),
    ({"latest_prompt_hash_boundary": 16, "is_junction": T}, (T, T, T)),
    ({"num_tokens": 16, "latest_prompt_hash_boundary": 16}, (T, F, F)),
    ({"num_tokens": 16, "latest_prompt_hash_boundary": 16, "is_junction": T}, (T, F, F)),
    ({"hash_block_size": 8}, (T, F, F)),
])  # fmt: skip
def test_states_at_the_end_of_a_chunk_that_can_be_found(change, found):
    ask = TAIL._replace(**change)
    assert (states.state_tail(ask), states.state_tail_end(ask), states.state_tail_own(ask)) == found


EXPORT = StateExport(
    query_start=8,
    query_end=40,
    checkpoint_position=32,
    hash_block_size=4,
    mamba_block_size=8,
    checkpoint_alignment=4,
)


@pytest.mark.parametrize(("change", "fits"), [
    ({}, T),
    ({"checkpoint_alignment": 0}, F),
    ({"checkpoint_alignment": 8}, T),
    ({"checkpoint_alignment": 16}, F),
    ({"query_start": 10}, F),
    ({"checkpoint_position": 12}, T),
    ({"checkpoint_position": 8}, F),
    ({"checkpoint_position": 40}, F),
    ({"checkpoint_position": 39, "checkpoint_alignment": 1}, T),
    ({"checkpoint_position": 11, "checkpoint_alignment": 1}, F),
    ({"query_start": 0}, T),
    ({"query_start": 16}, T),
    ({"query_start": 24}, T),
    ({"query_start": 28}, F),
    ({"query_start": 32, "checkpoint_position": 36}, F),
    ({"query_end": 33}, T),
    ({"query_start": 20, "checkpoint_position": 24, "query_end": 33}, T),
    ({"query_start": 20, "checkpoint_position": 24, "query_end": 32}, F),
])  # fmt: skip
def test_states_that_the_kernels_can_export(change, fits):
    assert states.state_inside(EXPORT._replace(**change)) is fits
