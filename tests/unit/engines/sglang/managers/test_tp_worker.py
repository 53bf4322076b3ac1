"""The worker: requests that reuse rows, windows and states are computed like cold ones."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.sglang.managers.schedule_batch import ForwardRange
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.rules.reported import TrackedState
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


@pytest.mark.parametrize(("length", "slot", "held"), [
    (4, 3, {2: {0: "now"}, 3: {0: "now"}}), (None, 3, {2: {0: "now"}}), (4, None, {2: {0: "now"}}),
])  # fmt: skip
def test_a_state_is_tracked_if_a_length_and_a_slot_are_planned(length, slot, held):
    worker = server("GA").scheduler.tp_worker
    worker.mamba_pool.write(2, {0: "now"})
    req = SimpleNamespace(kv=SimpleNamespace(mamba_pool_idx=2))
    worker._track_mamba_state(ForwardRange(req, 0, 4, mamba_track_seqlen=length, mamba_track_slot=slot))
    assert worker.mamba_pool.mamba_cache == held


def test_states_of_mamba_2_are_tracked_in_the_whole_batch():
    """A grid of eight tokens; the second range has no tracked state, and the last one a single token."""
    worker, asked = server("SA", state_grid=8, mamba_track_interval=8).scheduler.tp_worker, []
    rules = worker.context.rules.changed({"taken_after": lambda ask: asked.append(ask) or 5})
    worker.context = replace(worker.context, rules=rules)
    ranges = [ForwardRange(None, 8, 28, 24), ForwardRange(None, 0, 9), ForwardRange(None, 16, 40, 32),
              ForwardRange(None, 7, 8, 8), ForwardRange(None, 6, 8, 8)]  # fmt: skip
    assert worker._taken_after(ranges) == [13, None, 21, 8, 11]
    assert asked == [TrackedState(16, 20, flat=0, chunks=0, grid=8), TrackedState(16, 24, flat=29, chunks=3, grid=8),
                     TrackedState(2, 2, flat=54, chunks=6, grid=8)]


def test_a_sampled_token_has_its_number_in_the_answer():
    srv, asked = server("A"), []
    worker = srv.scheduler.tp_worker
    sampler = worker.sampler
    worker.sampler = lambda tokens, request, number: asked.append((len(tokens), number)) or sampler(tokens, request,
                                                                                                     number)
    srv.complete(Request(P, 4, forced=(5, 6, 7, 8)))
    assert asked[:4] == [(40, 0), (41, 1), (42, 2), (43, 3)] and srv.slots[0].task.answer.tokens == [5, 6, 7, 8]


@pytest.mark.parametrize(("source", "clear", "held"), [(3, False, "old"), (3, True, "old"), (None, True, ""),
                                                       (None, False, "own")])  # fmt: skip
def test_a_running_state_is_copied_or_cleared_once_before_its_request_starts(source, clear, held):
    worker = server("GA").scheduler.tp_worker
    for _ in range(2):
        worker.mamba_pool.write(2, {0: "own"})
        worker.mamba_pool.write(3, {0: "old"})
        kv = SimpleNamespace(mamba_pool_idx=2, mamba_cow_src_index=source, mamba_needs_clear=clear)
        worker._prepare_mamba_state(ForwardRange(SimpleNamespace(kv=kv), 0, 4))
        assert worker.mamba_pool.read(2) == ({0: held} if held else {})
        assert (kv.mamba_cow_src_index, kv.mamba_needs_clear) == (None, False)
        source, clear, held = None, False, "own"                # what the next step finds


def test_a_request_without_a_running_state_is_left_alone():
    worker = server("A").scheduler.tp_worker
    kv = SimpleNamespace(mamba_pool_idx=None, mamba_cow_src_index=3, mamba_needs_clear=True)
    worker._prepare_mamba_state(ForwardRange(SimpleNamespace(kv=kv), 0, 4))
    assert (kv.mamba_cow_src_index, kv.mamba_needs_clear, worker.mamba_pool.mamba_cache) == (3, True, {})


@pytest.mark.parametrize(("part", "start", "first"), [
    ("swa", 20, 13), ("swa", 8, 1), ("swa", 7, 0), ("swa", 3, 0), ("kv", 20, 0),
])  # fmt: skip
def test_a_token_of_a_window_layer_reads_the_last_positions_up_to_its_own(part, start, first):
    assert server("W8 A").scheduler.tp_worker.kv_cache.first_read(part, start) == first


def test_a_draft_is_evaluated_token_by_token_and_its_state_is_kept_after_its_own_token():
    worker, whole = server("GA").scheduler.tp_worker, ForwardRange(None, 4, 9, 7, 2)
    assert [worker._token_of(whole, start) for start in (4, 5, 6, 7)] == [
        ForwardRange(None, 4, 5, None, 2), ForwardRange(None, 5, 6, None, 2), ForwardRange(None, 6, 7, 7, 2),
        ForwardRange(None, 7, 8, None, 2)]  # fmt: skip


@pytest.mark.parametrize(("ranges", "cost"), [
    ([(10, 23)], (13, 1, 23)), ([(0, 10), (9, 10)], (11, 1, 21)), ([(0, 17), (10, 11)], (18, 1, 29)),
])  # fmt: skip
def test_a_pass_costs_a_unit_for_300_rows(ranges, cost):
    """13 tokens up to the 23rd read 299 rows; 10 and 1 up to the 10th read 110; 17 and 1 read 300."""
    srv = server("A", mode="exact")
    srv.scheduler.tp_worker._spend([ForwardRange(None, start, end) for start, end in ranges])
    assert (srv.log.spent, srv.log.passes, srv.log.exact) == cost


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


@pytest.mark.parametrize(("model", "packed"), [("SA", True), ("H", True), ("GA", False), ("GS", True)])
def test_only_states_of_mamba_2_are_tracked_in_the_whole_batch(model, packed):
    worker = server(model, state_grid=8, mamba_track_interval=8).scheduler.tp_worker
    rules = worker.context.rules.changed({"taken_after": lambda ask: 5})
    worker.context = replace(worker.context, rules=rules)
    assert worker._taken_after([ForwardRange(None, 8, 28, 24)]) == [13 if packed else 24]
