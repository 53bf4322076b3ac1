"""The scheduler side of the offloading connector: loads before a step, stores after it."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.scheduler_output import SchedulerOutput

PROMPT = tuple(range(100, 115))


@pytest.fixture
def server():
    """A server whose pool lost the chunks of a prompt, which CPU memory has."""
    made = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4, "num_gpu_blocks": 6, "num_cpu_chunks": 16}, "provenance")
    for prompt in (PROMPT, tuple(range(200, 219))):
        made.complete(Request(prompt, 1, forced=(7,)))
    return made


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
    assert connector.build_connector_meta(SchedulerOutput(), ()).load_jobs == []
    connector.update_connector_output([job.job_id])
    assert not connector.has_transfers(request) and not connector.has_pending_push_work()
