"""The scheduler side of the offloading connector: loads before a step, stores after it."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.scheduler_output import SchedulerOutput
from cachesim.engines.vllm.kv_offload.chunk_lookup import OffloadedGroup
from cachesim.engines.vllm.kv_offload.transfer_jobs import OffloadConfig
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


OFFLOADING = [name for name, rules in ENGINE.profiles.items() if "num_cpu_chunks" not in rules.absent]


@pytest.mark.parametrize("profile", OFFLOADING)
def test_cpu_memory_follows_the_options_and_the_rules_of_the_release(profile):
    options = {"block_size": 4, "num_gpu_blocks": 12, "num_cpu_chunks": 16, "blocks_per_chunk": 2, "store_threshold": 3,
               "eviction_policy": "arc"}  # fmt: skip
    connector = ENGINE.start(profile, "A", options, "none").scheduler.connector
    manager, rules = connector.manager, connector.rules
    assert (manager.capacity, manager.policy_name, manager.threshold) == (16, "arc", 3)
    assert (manager.order, manager.keeps) == (rules.chunk_order(), rules.keeps_offered)
    assert connector.transfers.config == OffloadConfig(
        [OffloadedGroup(4, 8)], 2, 4, True, rules.stores_chunk, rules.touches, rules.load_end)


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


@pytest.mark.parametrize(("window_chunks", "window", "tokens", "needed"), [
    (0, 0, 9, 0), (1, 0, 9, 1), (2, 8, 8, 2), (2, 8, 7, 2), (2, 8, 6, 3), (2, 9, 8, 2), (2, 9, 7, 3),
])  # fmt: skip
def test_a_load_that_ends_within_a_chunk_may_need_a_chunk_more(window_chunks, window, tokens, needed):
    assert OffloadedGroup(4, 4, window_chunks, window).load_window(tokens) == needed


S, T = tuple(range(300, 330)), tuple(range(400, 436))
CROWD = (
    Request(P, 3), Request((*Q, *P[:20]), 2), Request(P, 2), Request((*P[:30], *Q), 2), Request(S, 6), Request(T, 3),
    Request(P, 3), Request((*Q, *P[:20], *S), 3), Request(T, 2), Request((*P[:30], *Q), 2),
)  # fmt: skip
BLOCKS = {"A": 11, "W8 A": 20, "GA": 16, "K16 A": 20}


@pytest.mark.parametrize(("model", "flags", "reused"), [
    ("A", {"num_cpu_chunks": 10}, [0, 0, 40, 24, 0, 0, 24, 0, 0, 0]),
    ("A", {"num_cpu_chunks": 24}, [0, 0, 40, 24, 0, 0, 40, 40, 32, 48]),
    ("A", {"num_cpu_chunks": 24, "store_threshold": 2}, [0, 0, 32, 24, 0, 0, 40, 0, 0, 24]),
    ("A", {"num_cpu_chunks": 24, "offload_prompt_only": False}, [0, 0, 40, 24, 0, 0, 40, 40, 32, 40]),
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


def test_blocks_of_a_request_that_starts_are_taken_until_the_step_is_built(server):
    connector, request = server.scheduler.connector, received(server)
    for blocks in ([[4, 5]], [[5, 6]]):
        connector.update_state_after_alloc(request, blocks, 0)
    assert connector.allocated_block_ids == {4, 5, 6} and connector.load_jobs == []
    connector.build_connector_meta(SchedulerOutput(), ())
    assert connector.allocated_block_ids == set()
