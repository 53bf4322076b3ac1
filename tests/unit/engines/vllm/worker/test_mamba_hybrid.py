"""States of requests while a step is evaluated: the column they come from, and those that are kept."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from tests.unit.engines.vllm.conversations import P, Q, server

GRID = {"mamba_block_size": 8, "prefix_match_unit": 4, "mamba_prefill_checkpoint_alignment": 4}
DRAFTS = {"speculative_method": "ngram", "num_speculative_tokens": 3}


def worker(**flags):
    """The states of a model with rows and states, and the copies that it makes: (from, to, shift)."""
    found = server("GA", **flags).model_runner.mamba
    copies = []
    found.kv_caches = SimpleNamespace(copy_state=lambda state, group, source, target, shift: copies.append(
        (source, target, shift)))  # fmt: skip
    return found, copies, found.groups[0].group_id


def chunk(start, end, drafts=0, sampled=1, column=None, accepted=1, has_block=False):
    """A chunk with a request; ``column`` = (group, column in which its last chunk ended)."""
    state = SimpleNamespace(running_column=dict([column] if column else []), num_accepted_tokens=accepted)
    return SimpleNamespace(start=start, end=end, draft_token_ids=[0] * drafts, sampled_token_ids=[0] * sampled,
                           has_checkpoint_block=has_block, state=state)  # fmt: skip


@pytest.mark.parametrize(("start", "end", "before", "accepted", "copies", "column", "left"), [
    (0, 8, None, 1, [], 0, 1), (0, 9, None, 1, [], 1, 1),                     # nothing before the first chunk
    (8, 16, None, 1, [(0, 1, 0)], 1, 1), (9, 16, None, 1, [], 1, 1),          # a prefix that was found
    (8, 16, 0, 1, [(0, 1, 0)], 1, 1), (8, 24, 0, 3, [(0, 2, 2)], 2, 1), (17, 20, 2, 3, [], 2, 3),
])  # fmt: skip
def test_a_chunk_starts_from_the_column_in_which_the_last_one_ended(start, end, before, accepted, copies, column, left):
    states, made, group = worker()
    part = chunk(start, end, column=None if before is None else (group, before), accepted=accepted)
    states.preprocess_state(part)
    assert (made, part.state.running_column, part.state.num_accepted_tokens) == (copies, {group: column}, left)


@pytest.mark.parametrize(("flags", "part", "lengths"), [
    ({**GRID}, {"start": 0, "end": 40}, [36]), ({**GRID}, {"start": 0, "end": 38}, [36]),
    ({**GRID}, {"start": 32, "end": 40}, []), ({**GRID}, {"start": 0, "end": 40, "drafts": 1}, []),
    ({**GRID, "mamba_prefill_checkpoint_alignment": 0}, {"start": 0, "end": 40}, []),
    ({**GRID, "mamba_prefill_checkpoint_alignment": 8}, {"start": 0, "end": 40}, []),
    ({**GRID, "enable_prefix_caching": False}, {"start": 0, "end": 40}, []),
    ({}, {"start": 0, "end": 40}, []),
])  # fmt: skip
def test_a_state_inside_a_chunk_is_kept_on_the_grid_of_the_kernels(flags, part, lengths):
    states, _, _ = worker(**flags)
    assert [*states.compute_mamba_prefill_checkpoints(chunk(**part))] == lengths


@pytest.mark.parametrize(("start", "end", "lengths"), [
    (0, 24, [8, 16]), (0, 25, [8, 16, 24]), (8, 24, [16]), (7, 9, [8]), (8, 15, []), (15, 16, []),
])  # fmt: skip
def test_a_state_at_the_end_of_every_block_is_kept_inside_a_chunk(start, end, lengths):
    options = {"block_size": 8, "mamba_cache_mode": "all", "max_num_batched_tokens": 32}
    states = ENGINE.start("vllm@0.31.0", "GA", options, "none").model_runner.mamba
    assert [*states.compute_mamba_prefill_checkpoints(chunk(start, end))] == lengths


def test_a_model_without_states_keeps_none():
    states = server("A", mamba_prefill_checkpoint_alignment=4).model_runner.mamba
    assert [*states.compute_mamba_prefill_checkpoints(chunk(0, 40))] == []


@pytest.mark.parametrize(("end", "sampled", "column", "copies", "left"), [
    (12, 1, 1, [], 1), (12, 4, 1, [], 4),                             # 9 tokens, no boundary is passed
    (11, 1, 0, [], 1), (11, 3, 0, [], 1),                             # 8 tokens: the state at 8 is in its column
    (11, 1, 1, [(1, 0, 0)], 1), (11, 3, 1, [(1, 0, 0)], 3),           # or it is copied there
    (10, 1, 1, [], 1), (10, 2, 1, [(1, 0, 1)], 2), (10, 4, 1, [(1, 0, 1)], 4),        # 7 tokens, and up to 3 drafts
    (17, 2, 2, [], 2), (17, 3, 2, [(2, 1, 2)], 3), (17, 3, 1, [(1, 1, 2)], 1), (18, 2, 1, [(1, 1, 1)], 1),
])  # fmt: skip
def test_accepted_drafts_that_pass_the_end_of_a_block_leave_a_state_there(end, sampled, column, copies, left):
    states, made, group = worker(**DRAFTS)
    part = chunk(end - 4, end, drafts=3, sampled=sampled, column=(group, column))
    states.postprocess_state(part)
    assert (made, part.state.num_accepted_tokens) == (copies, left)


@pytest.mark.parametrize(("sampled", "left"), [(0, 1), (1, 1), (3, 3)])
def test_without_drafts_only_the_sampled_tokens_are_counted(sampled, left):
    states, made, group = worker()
    part = chunk(8, 16, sampled=sampled, column=(group, 1))
    states.postprocess_state(part)
    assert (made, part.state.num_accepted_tokens) == ([], left)


def outputs(answer):
    return [(one.pos, one.digest) for one in answer.outputs]


@pytest.mark.parametrize(("model", "flags", "reused"), [
    ("GA", {}, [0, 32, 0]),
    ("GA", {**GRID, "mamba_block_size": 16, "enable_mamba_shared_prefix_checkpoint": True}, [0, 36, 0]),
    ("GA", DRAFTS, [0, 32, 0]), ("GA", {"speculative_method": "eagle", "num_speculative_tokens": 3}, [0, 32, 0]),
    ("W8 A", {}, [0, 32, 0]), ("W8 A", DRAFTS, [0, 32, 0]), ("A", {"num_gpu_blocks": 10}, [0, 40, 24]),
    ("A", {"num_gpu_blocks": 10, "num_cpu_chunks": 16}, [0, 40, 24]), ("K16", {}, [32, 48, 48]),
])  # fmt: skip
def test_a_request_that_reuses_states_and_rows_is_computed_like_a_cold_one(model, flags, reused):
    warm, found = server(model, "provenance", **flags), []
    for request in (Request(P, 12, draft_else=2), Request((*P, *Q), 9, draft_else=3), Request((*P[:30], *Q), 9)):
        answer = warm.complete(request)
        assert outputs(answer) == outputs(server(model, "provenance", **flags).complete(request)) != []
        found.append(answer.cache_n)
    assert found == reused
