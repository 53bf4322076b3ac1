"""The worker: requests that reuse rows, windows and states are computed like cold ones."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.oracle.cold_run import cold
from tests.unit.engines.sglang.conversations import P, Q, server

HOST = {"enable_hierarchical_cache": True, "hicache_ratio": 2.0, "max_total_tokens": 72}
STATES = {"mamba_track_interval": 8, "state_grid": 8}
REQUESTS = (Request(P, 9, draft_else=2), Request((*Q, *P[:20]), 2), Request(P, 5, draft_else=3),
            Request((*P[:30], *Q), 4))  # fmt: skip


def outputs(answer):
    return [(one.pos, one.digest) for one in answer.outputs]


@pytest.mark.parametrize(("model", "flags", "reused"), [
    ("A", {}, [0, 0, 39, 30]), ("W8 A", {}, [0, 0, 39, 16]), ("A", HOST, [0, 0, 39, 30]),
    ("W8 A", HOST, [0, 0, 39, 16]),
    ("GA", {}, [0, 0, 0, 0]), ("GA", {**HOST, **STATES, "max_mamba_cache_size": 5}, [0, 0, 32, 16]),
    ("GA", {**STATES, "mamba_radix_cache_strategy": "extra_buffer"}, [0, 0, 32, 16]),
    ("GA", {**STATES, "mamba_radix_cache_strategy": "extra_buffer_lazy"}, [0, 0, 32, 16]),
    ("W8 A", {"speculative_algorithm": "EAGLE"}, [0, 0, 38, 15]),
    ("GA", {"speculative_algorithm": "NGRAM"}, [0, 0, 0, 0]),
    ("A", {"page_size": 4, "disable_overlap_schedule": True}, [0, 0, 36, 28]),
])  # fmt: skip
def test_a_request_that_reuses_what_others_left_is_computed_like_a_cold_one(model, flags, reused):
    warm, found = server(model, mode="provenance", **flags), []
    for request in REQUESTS:
        answer = warm.complete(request)
        cold = server(model, mode="provenance", **flags).complete(request)
        assert outputs(answer) == outputs(cold) != []
        found.append(answer.cache_n)
    warm.inspection.check()
    assert found == reused


@pytest.mark.parametrize("flags", [{}, {"disable_overlap_schedule": True}, {"schedule_policy": "dfs-weight"},
                                   {"schedule_policy": "lpm"}, {"max_total_tokens": 110}])  # fmt: skip
@pytest.mark.parametrize("model", ["A", "W8 A", "GA"])
def test_requests_that_run_together_are_computed_like_single_ones(model, flags):
    warm = server(model, mode="provenance", **flags)
    requests = Request(P, 5), Request((*P[:30], *Q), 5), Request(Q, 20, cancel_at=24), Request((*Q, *P), 3)
    answers = [warm.submit(request) for request in requests]
    while warm.working:
        warm.iterate()
        warm.inspection.check()
    for request, answer in zip(requests, answers, strict=True):
        cold = server(model, mode="provenance", **flags).complete(request)
        assert outputs(answer) == outputs(cold)[: len(outputs(answer))] != []
    assert [(answer.done, answer.cancelled) for answer in answers] == [(True, number == 2) for number in range(4)]


@pytest.mark.parametrize(("model", "layers", "rows"), [
    ("A", 1, 40 * 40 // 300 + 41 // 300 + 42 // 300), ("AA", 2, 2 * 40 * 40 // 300), ("W8 A", 2, (1600 + 320) // 300),
])  # fmt: skip
def test_a_pass_costs_its_tokens_and_the_rows_that_it_reads(model, layers, rows):
    """A prompt of 40 tokens, and two more passes of a token each: in exact mode a token costs a unit in a layer, a pass
    ten, and 300 rows one."""
    srv = server(model, mode="exact", chunked_prefill_size=64, disable_overlap_schedule=True)
    srv.complete(Request(P, 3))
    assert (srv.log.spent, srv.log.passes) == (42, 3)
    assert srv.log.exact == layers * (42 + 10 * 3) + rows


def test_states_in_a_slot_are_those_of_the_layers_with_states():
    srv = server("GAGA", mode="provenance", mamba_radix_cache_strategy="no_buffer", disable_overlap_schedule=True)
    srv.complete(Request(P, 1))
    worker = srv.scheduler.tp_worker
    node = next(node for node in srv.scheduler.tree_cache.tree_core.nodes() if node.value[MAMBA] is not None)
    found = worker.read_states(node.value[MAMBA])
    assert [*found] == [0, 2] and all(state is not None for state in found.values())
    assert worker.states_by_layer({2: found[2]}) == {0: None, 2: found[2]}


def test_a_chunk_before_the_end_of_its_prompt_has_no_output():
    srv, found = server("A"), []
    srv.submit(Request(P, 2))
    for _ in range(4):
        srv.iterate()
        result = srv.scheduler.last_result
        found.append(([(one.start, one.end) for one in result.ranges],
                      [[output.pos for output in outputs] for outputs in result.outputs.values()]))  # fmt: skip
    assert found == [([(0, 16)], [[]]), ([(16, 32)], [[]]), ([(32, 40)], [[39]]), ([(40, 41)], [[40]])]


def test_a_sampled_token_has_its_number_in_the_answer():
    srv, asked = server("A"), []
    worker = srv.scheduler.tp_worker
    sampler = worker.sampler
    worker.sampler = lambda tokens, request, number: asked.append((len(tokens), number)) or sampler(tokens, request,
                                                                                                     number)
    srv.complete(Request(P, 4, forced=(5, 6, 7, 8)))
    assert asked[:4] == [(40, 0), (41, 1), (42, 2), (43, 3)] and srv.slots[0].task.answer.tokens == [5, 6, 7, 8]


@pytest.mark.parametrize(("part", "start", "first"), [
    ("swa", 20, 13), ("swa", 8, 1), ("swa", 7, 0), ("swa", 3, 0), ("kv", 20, 0),
])  # fmt: skip
def test_a_token_of_a_window_layer_reads_the_last_positions_up_to_its_own(part, start, first):
    assert server("W8 A").scheduler.tp_worker.kv_cache.first_read(part, start) == first


@pytest.mark.parametrize("mode", ["none", "provenance", "exact"])
def test_an_output_is_that_of_the_last_token_with_numbers_only_in_exact_mode(mode):
    srv = server("A", mode=mode)
    first = srv.complete(Request(P[:9], 2)).outputs[0]
    assert first.pos == 8 and (first.logits is None) is (mode != "exact")
    if mode == "none":
        assert first.digest == 0
        return
    run = cold(srv.model, P[:9], logits_at=[8])
    assert first.digest == int(run.digests[8])
    assert mode == "provenance" or (first.logits == run.logits[8]).all()
