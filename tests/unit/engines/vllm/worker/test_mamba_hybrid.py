"""States of requests while a step is evaluated: the column they come from, and those that are kept."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from tests.unit.engines.vllm.conversations import P, Q, server
from tests.unit.engines.vllm.requests import chunk, worker_request

GRID = {"mamba_block_size": 8, "prefix_match_unit": 4, "mamba_prefill_checkpoint_alignment": 4}
DRAFTS = {"speculative_method": "ngram", "num_speculative_tokens": 3}


@pytest.mark.parametrize(("flags", "part", "lengths"), [
    ({**GRID}, (0, 40, 0), [36]), ({**GRID}, (0, 38, 0), [36]),
    ({**GRID}, (32, 40, 0), []), ({**GRID}, (0, 40, 1), []),
    ({**GRID, "mamba_prefill_checkpoint_alignment": 0}, (0, 40, 0), []),
    ({**GRID, "mamba_prefill_checkpoint_alignment": 8}, (0, 40, 0), []),
    ({**GRID, "enable_prefix_caching": False}, (0, 40, 0), []),
    ({}, (0, 40, 0), []),
])  # fmt: skip
def test_a_state_inside_a_chunk_is_kept_on_the_grid_of_the_kernels(flags, part, lengths):
    start, end, drafts = part
    found = server("GA", **flags).model_runner.mamba
    assert [*found.compute_mamba_prefill_checkpoints(chunk(worker_request(), start, end, [0] * drafts))] == lengths


@pytest.mark.parametrize(("start", "end", "lengths"), [
    (0, 24, [8, 16]), (0, 25, [8, 16, 24]), (8, 24, [16]), (7, 9, [8]), (8, 15, []), (15, 16, []),
])  # fmt: skip
def test_a_state_at_the_end_of_every_block_is_kept_inside_a_chunk(start, end, lengths):
    options = {"block_size": 8, "mamba_cache_mode": "all", "max_num_batched_tokens": 32}
    states = ENGINE.start("vllm@0.31.0", "SA", options, "none").model_runner.mamba
    assert [*states.compute_mamba_prefill_checkpoints(chunk(worker_request(), start, end))] == lengths


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
