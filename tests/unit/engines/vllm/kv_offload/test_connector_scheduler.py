"""The scheduler side of the offloading connector: loads before a step, stores after it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.scheduler_output import CachedRequestData, NewRequestData, SchedulerOutput
from cachesim.engines.vllm.core.single_type_kv_cache_manager import BoundaryState
from cachesim.engines.vllm.kv_offload.chunk_lookup import OffloadedGroup
from cachesim.engines.vllm.kv_offload.connector_scheduler import _alignment_tokens, offloaded_group
from cachesim.engines.vllm.kv_offload.transfer_jobs import OffloadConfig, RequestOffloadState
from cachesim.engines.vllm.request import RequestStatus
from cachesim.events import Decided
from tests.unit.engines.vllm.conversations import P, Q
from tests.unit.engines.vllm.conversations import server as start

PROFILE = "vllm@0.33.0"
PROMPT = tuple(range(100, 115))


@pytest.fixture
def server():
    """A server whose pool lost the chunks of a prompt, which CPU memory has."""
    made = ENGINE.start(PROFILE, "A", {"block_size": 4, "num_gpu_blocks": 6, "num_cpu_chunks": 16}, "provenance")
    for prompt in (PROMPT, tuple(range(200, 219))):
        made.complete(Request(prompt, 1, forced=(7,)))
    return made


@pytest.mark.parametrize("profile", ENGINE.profiles)
def test_cpu_memory_follows_the_options_and_the_rules_of_the_release(profile):
    options = {"block_size": 4, "num_gpu_blocks": 12, "num_cpu_chunks": 16, "blocks_per_chunk": 2, "store_threshold": 3,
               "eviction_policy": "arc"}  # fmt: skip
    connector = ENGINE.start(profile, "A", options, "none").scheduler.connector
    manager, rules = connector.manager, connector.rules
    assert (manager.capacity, manager.policy_name, manager.threshold) == (16, "arc", 3)
    assert (manager.order, manager.keeps) == (rules.chunk_order(), rules.keeps_offered)
    assert connector.transfers.config == OffloadConfig(
        [OffloadedGroup(4, 8)], 2, 4, True, rules.stores_chunk, rules.touches, rules.load_end)


@pytest.mark.parametrize(("chunks", "states"), [(1, 1), (0, 0)])
def test_a_state_is_stored_if_cpu_memory_has_room(chunks, states):
    server = start("GA", num_gpu_blocks=16, num_cpu_chunks=2, mamba_block_size=8)
    server.submit(Request(Q[:20], 9))
    server.iterate()
    connector, request, jobs = server.scheduler.connector, server.slots[0], []
    group = next(group.group_id for group in connector.kv_cache_groups if group.kind == "mamba")
    connector.manager.reset_cache()
    access = connector._state_of(request).access
    connector.manager.prepare_store([(at, 0) for at in range(2 - chunks)], set(), access)
    connector._build_boundary_store_job(BoundaryState(request, group, 5, 8), jobs)
    assert [job.copies[0][0] for job in jobs] == [5] * states


@pytest.mark.parametrize(("chunks", "stored"), [(2, 0), (3, 3)])
def test_chunks_for_which_cpu_memory_has_no_room_are_not_stored_in_part(chunks, stored):
    made = ENGINE.start(PROFILE, "A", {"block_size": 4, "num_gpu_blocks": 12, "num_cpu_chunks": chunks}, "provenance")
    made.complete(Request(PROMPT, 1, forced=(7,)))
    assert len(made.scheduler.connector.manager.places) == stored


def received(server, **fields):
    server.submit(Request(PROMPT, 1, forced=(7,), **fields))
    server.take_tasks()
    return server.slots[-1]


def test_stored_chunks_are_matched_behind_the_tokens_of_the_pool(server):
    connector = server.scheduler.connector
    assert connector.get_num_new_matched_tokens(received(server), 0) == 12
    assert connector.get_num_new_matched_tokens(received(server), 4) == 8


def test_a_request_that_reads_nothing_matches_nothing_and_does_not_wait(server):
    connector, other = server.scheduler.connector, received(server)
    connector.get_num_new_matched_tokens(other, 0)
    connector.update_state_after_alloc(other, [[1, 2, 3]], 12)
    assert connector.get_num_new_matched_tokens(received(server), 0) is None, "the chunks are being loaded"
    assert connector.get_num_new_matched_tokens(received(server, cache_prompt=False), 0) == 0


def test_a_load_belongs_to_the_step_in_which_it_begins(server):
    connector, request = server.scheduler.connector, received(server)
    connector.get_num_new_matched_tokens(request, 0)
    connector.update_state_after_alloc(request, [[1, 2, 3]], 12)
    [job] = connector.build_connector_meta(SchedulerOutput(), ()).load_jobs
    assert [block for block, _ in job.copies] == [1, 2, 3] and connector.has_transfers(request)
    assert [*connector.jobs_of(request)] == [job.job_id] and connector.num_locally_computed_tokens(request) == 0
    assert connector.build_connector_meta(SchedulerOutput(), ()).load_jobs == []
    connector.update_connector_output([job.job_id])
    assert not connector.has_transfers(request) and not connector.has_pending_push_work()


@pytest.mark.parametrize(("kind", "window", "per_chunk", "group"), [
    ("full", 0, 3, OffloadedGroup(4, 12, window_chunks=0, window=0, is_state=False, is_eagle=True)),
    ("mamba", 0, 2, OffloadedGroup(4, 8, window_chunks=1, window=0, is_state=True, is_eagle=True)),
    ("swa", 8, 1, OffloadedGroup(4, 4, window_chunks=2, window=8, is_state=False, is_eagle=True)),
    ("swa", 9, 2, OffloadedGroup(4, 8, window_chunks=2, window=9, is_state=False, is_eagle=True)),
    ("chunked", 8, 2, OffloadedGroup(4, 8, window_chunks=1, window=0, is_state=False, is_eagle=True)),
])  # fmt: skip
def test_a_group_as_cpu_memory_has_it(kind, window, per_chunk, group):
    spec = SimpleNamespace(kind=kind, window=window, block_size=4, is_eagle_group=True)
    assert offloaded_group(spec, per_chunk) == group


@pytest.mark.parametrize(("window_chunks", "window", "tokens", "needed"), [
    (0, 0, 9, 0), (1, 0, 9, 1), (2, 8, 8, 2), (2, 8, 7, 2), (2, 8, 6, 3), (2, 9, 8, 2), (2, 9, 7, 3),
])  # fmt: skip
def test_a_load_that_ends_within_a_chunk_may_need_a_chunk_more(window_chunks, window, tokens, needed):
    assert OffloadedGroup(4, 4, window_chunks, window).load_window(tokens) == needed


@pytest.mark.parametrize(("groups", "tokens"), [
    ([(8, 0)], 8), ([(8, 0), (8, 0), (16, 1)], 8), ([(8, 0), (16, 0)], 0), ([(8, 1), (16, 2)], 16),
])  # fmt: skip
def test_loads_end_at_the_chunks_of_full_attention(groups, tokens):
    assert _alignment_tokens([OffloadedGroup(4, size, chunks) for size, chunks in groups]) == tokens


@pytest.mark.parametrize(("status", "computed", "prompt", "tokens", "found"), [
    (RequestStatus.RUNNING, 9, 10, 12, 9), (RequestStatus.FINISHED_ABORTED, 9, 10, 12, 9),
    (RequestStatus.FINISHED_STOPPED, 9, 10, 12, 11), (RequestStatus.FINISHED_STOPPED, 9, 10, 10, 10),
])  # fmt: skip
def test_tokens_that_are_computed_after_a_step(server, status, computed, prompt, tokens, found):
    request = SimpleNamespace(status=status, is_finished=status != RequestStatus.RUNNING, num_computed_tokens=computed,
                              num_prompt_tokens=prompt, num_tokens=tokens)  # fmt: skip
    assert server.scheduler.connector._num_tokens_after_step(request) == found


def test_the_connector_has_work_while_requests_end_and_transfers_are_open(server):
    connector, request = server.scheduler.connector, received(server)
    assert not connector.has_pending_push_work()
    connector.request_finished(request)
    assert connector.has_pending_push_work()
    connector.get_num_new_matched_tokens(request, 0)
    connector.build_connector_meta(SchedulerOutput(), ())
    assert not connector.has_pending_push_work() and connector._state_of(request).is_ended


S, T = tuple(range(300, 330)), tuple(range(400, 436))
CROWD = (
    Request(P, 3), Request((*Q, *P[:20]), 2), Request(P, 2), Request((*P[:30], *Q), 2), Request(S, 6), Request(T, 3),
    Request(P, 3), Request((*Q, *P[:20], *S), 3), Request(T, 2), Request((*P[:30], *Q), 2),
)  # fmt: skip
BLOCKS = {"A": 11, "W8 A": 20, "GA": 16, "K16 A": 20}


@pytest.mark.parametrize(("model", "flags", "reused"), [
    ("A", {"num_cpu_chunks": 10}, [0, 0, 39, 24, 0, 0, 24, 0, 0, 0]),
    ("A", {"num_cpu_chunks": 24}, [0, 0, 39, 24, 0, 0, 39, 40, 32, 48]),
    ("A", {"num_cpu_chunks": 24, "store_threshold": 2}, [0, 0, 32, 24, 0, 0, 39, 0, 0, 24]),
    ("A", {"num_cpu_chunks": 24, "offload_prompt_only": False}, [0, 0, 39, 24, 0, 0, 39, 40, 32, 40]),
    ("A", {"num_cpu_chunks": 24, "blocks_per_chunk": 2}, [0, 0, 32, 24, 0, 0, 32, 32, 32, 48]),
    ("W8 A", {"num_cpu_chunks": 10, "eviction_policy": "arc"}, [0, 0, 32, 0, 0, 0, 0, 0, 0, 0]),
    ("W8 A", {"num_cpu_chunks": 24}, [0, 0, 32, 0, 0, 0, 32, 0, 32, 0]),
    ("W8 A", {"num_cpu_chunks": 24, "blocks_per_chunk": 2}, [0, 0, 32, 0, 0, 0, 32, 32, 32, 48]),
    ("GA", {"num_cpu_chunks": 10}, [0, 0, 32, 0, 0, 0, 0, 0, 0, 0]),
    ("GA", {"num_cpu_chunks": 24}, [0, 0, 32, 0, 0, 0, 24, 0, 32, 24]),
    ("GA", {"num_cpu_chunks": 24, "blocks_per_chunk": 2}, [0, 0, 32, 0, 0, 0, 32, 32, 32, 48]),
    ("K16 A", {"num_cpu_chunks": 24}, [0, 0, 32, 24, 0, 0, 0, 0, 0, 0]),
    ("K16 A", {"num_cpu_chunks": 24, "async_scheduling": False}, [0, 0, 32, 24, 0, 0, 0, 0, 0, 0]),
])  # fmt: skip
def test_conversations_find_in_cpu_memory_what_the_pool_lost(model, flags, reused):
    flags = {"num_gpu_blocks": BLOCKS[model], **flags}
    crowded, found = start(model, "provenance", **flags), []
    for request in CROWD:
        answer = crowded.complete(request)
        cold = start(model, "provenance", num_gpu_blocks=BLOCKS[model]).complete(request)
        assert [one[:2] for one in answer.outputs] == [one[:2] for one in cold.outputs] != []
        found.append(answer.cache_n)
    assert found == reused


def test_rows_are_stored_as_chunks_of_the_prompt_and_states_where_they_are_published():
    crowded = start("GA", num_gpu_blocks=16, num_cpu_chunks=24)
    for request in CROWD[:2]:
        crowded.complete(request)
    stored = [(event.slot, event.value) for event in crowded.log.events
              if isinstance(event, Decided) and event.rule.startswith("VL-OFF-STORE")]  # fmt: skip
    assert stored == [(0, 1), (0, 4), (0, 1), (1, 1), (1, 4), (1, 1)]          # a state, four chunks of rows, the fifth


@pytest.mark.parametrize(("length", "tokens", "block", "ended", "stored"), [
    (20, 8, 5, False, 1), (20, 16, 5, False, 1), (16, 16, 5, False, 1), (20, 8, 0, False, 0), (20, 12, 5, False, 0),
    (20, 24, 5, False, 0), (20, 8, 5, True, 0),
])  # fmt: skip
def test_a_published_state_is_stored_at_the_end_of_a_chunk_of_the_prompt(length, tokens, block, ended, stored):
    """A chunk has eight tokens; an ended request without transfers stores no further state."""
    server = start("GA", num_gpu_blocks=16, num_cpu_chunks=24, mamba_block_size=8)
    server.submit(Request(Q[:length], 9))
    server.iterate()
    connector, request = server.scheduler.connector, server.slots[0]
    group = next(group.group_id for group in connector.kv_cache_groups if group.kind == "mamba")
    state = connector._state_of(request)
    state.is_ended = ended
    state.transfer_jobs.clear()
    connector.transfers.manager.reset_cache()
    jobs = []
    request.block_hashes.extend(range(900, 910))
    connector._build_boundary_store_job(BoundaryState(request, group, block, tokens), jobs)
    assert [job.copies[0][0] for job in jobs] == [block] * stored


@pytest.mark.parametrize(("stored", "ends", "per_chunk", "left"), [
    (0, None, 1, [0, 3, 0, 5]), (0, [9, 4], 1, [0, 3, 0, 5]),
    (1, None, 1, [2, 3, 0, 5]),                                     # the first block was stored
    (1, None, 2, [2, 3, 0, 5]), (3, None, 1, [2, 3, 4, 5]),
    (0, [9, 2], 1, [0, 3, 4, 5]), (0, [9, 0], 1, [2, 3, 4, 5]),     # the other blocks are the request's own new ones
])  # fmt: skip
def test_blocks_of_windows_that_other_requests_took_are_forgotten(stored, ends, per_chunk, left):
    connector = start("W8 A", num_gpu_blocks=20, num_cpu_chunks=16, blocks_per_chunk=per_chunk).scheduler.connector
    [window] = connector.sliding_window_groups
    full = 1 - window
    state = RequestOffloadState(2)
    state.block_ids = [[2, 3, 4, 5], [2, 3, 4, 5]]
    state.next_stored_chunk_idx[window] = stored
    connector.allocated_block_ids = {2, 4, 7}
    connector._forget_taken_blocks(state, ends if ends is None else ends if window else ends[::-1])
    assert (state.block_ids[window], state.block_ids[full]) == (left, [2, 3, 4, 5])


def test_an_ended_request_ends_its_use_of_the_chunks_once(server, monkeypatch):
    connector, request, ended = server.scheduler.connector, received(server), []
    connector.get_num_new_matched_tokens(request, 0)
    monkeypatch.setattr(connector.manager, "on_request_finished", ended.append)
    connector.request_finished(request)
    for _ in range(2):
        connector.build_connector_meta(SchedulerOutput(), ())
        assert ended == [connector._state_of(request).access]


@pytest.mark.parametrize(("junction", "drop", "kept"), [
    (0, False, [6, 7]), (16, False, [2, 3, 6, 7]), (0, True, [6, 7]), (16, True, [2, 3, 4, 6, 7]),
    (18, False, [2, 3, 6, 7]),
])  # fmt: skip
def test_windows_are_stored_before_the_lengths_at_which_a_prompt_is_found(junction, drop, kept):
    connector = start("W8 A", block_size=4, num_gpu_blocks=20, num_cpu_chunks=16).scheduler.connector
    [window] = connector.sliding_window_groups
    groups = [*connector.kv_cache_groups]
    groups[window] = groups[window]._replace(is_eagle_group=drop)
    connector.kv_cache_groups = groups
    request = SimpleNamespace(num_prompt_tokens=33, shared_prefix_boundary=junction)
    found = connector._reachable_store_block_mask(request, window, 0, 8)
    assert [at for at, is_kept in enumerate(found) if is_kept] == kept
    assert connector._reachable_store_block_mask(request, 1 - window, 0, 8) is None


def test_a_block_of_a_window_that_another_request_takes_in_a_step_is_forgotten():
    connector = start("W8 A", block_size=4, num_gpu_blocks=20, num_cpu_chunks=16).scheduler.connector
    [window] = connector.sliding_window_groups
    first, second, ended = (RequestOffloadState(2) for _ in range(3))
    connector.req_status = {0: first, 1: second, 2: ended}
    for state in (first, ended):
        state.block_ids = [[2, 3], [4, 5]]
    ended.is_ended = True
    output = SchedulerOutput(kv_cache_block_copies=[(9, 5)])
    output.add(CachedRequestData(req_id=1, num_computed_tokens=0, new_block_ids=[[2, 0], [0, 4]]), 5, [])
    connector._update_req_states(output)
    assert connector.allocated_block_ids == {2, 4, 5}
    left = [[2, 3], [4, 5]]
    left[window] = [0, 3] if window == 0 else [0, 0]
    assert (first.block_ids, ended.block_ids, second.block_ids) == (left, [[2, 3], [4, 5]], [[2, 0], [0, 4]])


def test_an_ended_request_gives_back_the_blocks_that_left_its_window():
    server = start("W8 A", block_size=4, num_gpu_blocks=30, num_cpu_chunks=16)
    server.submit(Request(P[:30], 9))
    server.take_tasks()
    server.begin_step()
    request = server.slots[0]
    request.num_computed_tokens, request.num_in_flight_tokens = 30, 0
    connector = server.scheduler.connector
    [window] = connector.sliding_window_groups
    before = server.scheduler.kv_cache_manager.get_block_ids(0)[window]
    assert before.count(0) == 0
    connector.request_finished(request)
    assert server.scheduler.kv_cache_manager.get_block_ids(0)[window][:6] == [0] * 5 + before[5:6]


def test_a_request_that_starts_again_has_the_blocks_of_its_new_start():
    connector = start("W8 A", block_size=4, num_gpu_blocks=20, num_cpu_chunks=16).scheduler.connector
    state = RequestOffloadState(2)
    state.block_ids = [[2, 3], [4, 5]]
    connector.req_status = {0: state}
    fields = {"req_id": 0, "num_computed_tokens": 0, "new_block_ids": [[6], [7]]}
    for data, blocks in ((CachedRequestData(**fields), [[2, 3, 6], [4, 5, 7]]),
                         (NewRequestData(**fields, request=None, text=None, prefill_token_ids=None), [[6], [7]])):
        output = SchedulerOutput()
        output.add(data, 5, [])
        connector.build_connector_meta(output, ())
        assert state.block_ids == blocks and connector.allocated_block_ids == set()


def test_blocks_of_a_request_that_starts_are_taken_until_the_step_is_built(server):
    connector, request = server.scheduler.connector, received(server)
    for blocks in ([[4, 5]], [[5, 6]]):
        connector.update_state_after_alloc(request, blocks, 0)
    assert connector.allocated_block_ids == {4, 5, 6} and connector.load_jobs == []
    connector.build_connector_meta(SchedulerOutput(), ())
    assert connector.allocated_block_ids == set()


def test_a_window_forgets_blocks_that_a_request_takes_as_it_starts():
    made = start("W8 A", num_cpu_chunks=16, num_gpu_blocks=20)
    connector = made.scheduler.connector
    made.submit(Request(P, 1))
    made.submit(Request(Q, 1))
    made.take_tasks()
    first, second = made.slots
    state = connector._state_of(first)
    state.block_ids = [[1, 2, 3], [4, 5, 6]]
    connector.update_state_after_alloc(second, [[1, 2], [5]], 0)
    connector.build_connector_meta(SchedulerOutput(), ())
    (window,) = connector.sliding_window_groups
    kept = [[1, 2, 3], [4, 5, 6]]
    kept[window] = [0, 0, 3] if window == 0 else [4, 0, 6]
    assert state.block_ids == kept


@pytest.mark.parametrize(("prompt_only", "computed", "status", "offered"), [
    (True, 15, RequestStatus.RUNNING, (15, False)), (True, 19, RequestStatus.RUNNING, (15, False)),
    (False, 15, RequestStatus.RUNNING, (15, False)), (False, 16, RequestStatus.RUNNING, (16, True)),
    (False, 99, RequestStatus.RUNNING, (20, True)), (False, 16, RequestStatus.FINISHED_ABORTED, (16, False)),
    (False, 16, RequestStatus.FINISHED_STOPPED, (19, False)),
])  # fmt: skip
def test_a_request_offers_its_computed_tokens_and_decodes_beyond_its_prompt(monkeypatch, prompt_only, computed, status,
                                                                           offered):  # fmt: skip
    """The prompt has 15 of 20 tokens."""
    made = start("A", num_cpu_chunks=8, offload_prompt_only=prompt_only)
    connector, request, asked = made.scheduler.connector, received(made), []
    for token in range(5):
        request.append_output_token_ids(token)
    request.num_computed_tokens, request.status = computed, status
    offer = connector.transfers.offer
    monkeypatch.setattr(connector.transfers, "offer",
                        lambda state, hashes, tokens, reachable: asked.append(tuple(tokens)) or offer(
                            state, hashes, tokens, reachable))  # fmt: skip
    connector._build_store_job(request, [])
    assert asked == [offered]


@pytest.mark.parametrize("again", [True, False])
def test_a_request_that_is_looked_up_again_has_no_blocks_and_may_offer_its_chunks_again(server, again):
    connector, request = server.scheduler.connector, received(server)
    connector.rules = connector.rules.changed({"offers_again": lambda: again})
    connector.get_num_new_matched_tokens(request, 0)
    state = connector._state_of(request)
    state.block_ids, state.next_stored_chunk_idx = [[1, 2]], [2]
    assert connector.get_num_new_matched_tokens(request, 0) == 12
    assert (state.block_ids, state.next_stored_chunk_idx) == ([[]], [0 if again else 2])
