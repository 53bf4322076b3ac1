"""The scheduler between two turns: requests that hold rows, and chunks that continue."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.engines.base import Request
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.mem_cache.allocator import PagedTokenToKVPoolAllocator, SWATokenToKVPoolAllocator
from cachesim.events import Declined, Release
from tests.unit.engines.sglang.conversations import P, Q, server


def test_requests_that_started_hold_a_row_until_they_end() -> None:
    srv = server(max_running_requests=2)
    for prompt in (P[:10], Q, P[20:30]):
        srv.submit(Request(prompt, 3))
    seen = [srv.scheduler.num_running_reqs]
    while srv.working:
        srv.iterate()
        seen.append(srv.scheduler.num_running_reqs)
    assert seen[0] == 0 and max(seen) == 2 and seen[-1] == 0


def test_a_model_with_windows_has_slots_of_its_own_for_them() -> None:
    for model, kind in (("A", PagedTokenToKVPoolAllocator), ("W8 A", SWATokenToKVPoolAllocator)):
        assert type(server(model).scheduler.pools.token_to_kv_pool_allocator) is kind


@pytest.mark.parametrize(("overlap", "held"), [(True, 0), (False, 0)])
def test_a_server_without_requests_launches_no_step(overlap: bool, held: int) -> None:
    scheduler = server(disable_overlap_schedule=not overlap).scheduler
    assert scheduler.run_step() is False and scheduler.last_batch is None
    assert scheduler.num_running_reqs == held
    assert scheduler.get_num_allocatable_reqs() == min(scheduler.max_running_requests,
                                                       scheduler.pools.req_to_token_pool.size)  # fmt: skip


@pytest.mark.parametrize(("flags", "declined"), [
    ({"mamba_radix_cache_strategy": "no_buffer"}, [(1, "SG-STATE-GIVE.CHUNK"), (17, "SG-STATE-GIVE.CHUNK")]),
    ({"mamba_radix_cache_strategy": "extra_buffer", "mamba_track_interval": 8, "state_grid": 8},
     [(1, "SG-STATE-TRACK.PREFILL"), (17, "SG-STATE-TRACK.PREFILL"), (25, "SG-STATE-TRACK.PREFILL")]),
])  # fmt: skip
def test_a_chunk_logs_the_rule_by_which_it_kept_no_state(flags: dict[str, Any], declined: list[object]) -> None:
    srv = server("GA", disable_overlap_schedule=True, **flags)
    srv.complete(Request(P[:28], 2))
    found = [(event.n_tokens, event.rule) for event in srv.log.events if isinstance(event, Declined)]
    assert found == declined


@pytest.mark.parametrize(("n", "declined"), [(17, [1]), (18, [1, 17]), (19, [1, 17])])
def test_a_single_token_makes_no_state_before_its_own(n: int, declined: list[int]) -> None:
    """The first chunk has 16 tokens; the states after a chunk itself are kept."""
    srv = server("GA", mamba_radix_cache_strategy="no_buffer", disable_overlap_schedule=True)
    srv.complete(Request(P[:n], 2))
    assert [event.n_tokens for event in srv.log.events if isinstance(event, Declined)] == declined


@pytest.mark.parametrize("enters", [True, False])
def test_an_answered_request_leaves_its_tokens_if_its_state_can_enter_the_tree(enters: bool) -> None:
    srv = server("A")
    srv.submit(Request(P[:10], 1))
    srv.take_tasks()
    srv.slots[0].mamba_lazy_checkpoint = enters
    while srv.working:
        srv.iterate()
    assert [node.end for node in srv.scheduler.tree_cache.tree_core.nodes()] == [10] * enters


@pytest.mark.parametrize(("n", "oom"), [(60, [[0]]), (2, [])])
def test_a_turn_that_ends_a_request_without_room_names_it(n: int, oom: list[list[int]]) -> None:
    srv = server("W8 A", max_total_tokens=400, swa_tokens=40)
    srv.complete(Request(Q, n))
    events = [event for event in srv.log.events if isinstance(event, SchedulerStep)]
    assert [event.oom for event in events if event.oom] == oom
    assert [event.op for event in events if event.oom] == ["decode"] * len(oom)


def test_an_answer_dies_with_the_process_that_its_release_ends() -> None:
    """Reasoning is stripped, although a retraction has published more than the prompt."""
    srv = server("A", max_total_tokens=80, new_token_ratio=0.1, strip_thinking_cache=True, chunked_prefill_size=64,
                 disable_overlap_schedule=True)  # fmt: skip
    first, second = (srv.submit(Request(prompt, 30)) for prompt in (P[:20], Q))
    while srv.working:
        srv.iterate()
    assert (first.died, first.done, second.died, srv.dead) == (False, True, True, True)
    assert second.error == "AssertionError: cache_protected_len=41, page_aligned_len=20"
    assert srv.slots[1].text() != (), "the text of the ended request is not forgotten"


@pytest.mark.parametrize(("launched", "released"), [(True, 1), (False, 0)])
def test_only_a_request_that_started_is_released_in_the_log(launched: bool, released: int) -> None:
    srv = server("A")
    srv.submit(Request(P[:10], 5))
    srv.take_tasks()
    if launched:
        srv.scheduler.run_step()
    [req] = srv.slots
    srv.scheduler.abort_request(req)
    assert sum(isinstance(event, Release) for event in srv.log.events) == released
    assert (req.busy, req.task.answer.cancelled, req.task.answer.done, req.known) == (False, True, True, ())
    assert srv.scheduler.waiting_queue == [] and srv.scheduler.num_running_reqs == 0


@pytest.mark.parametrize(("continues", "ends"), [(True, []), (False, [10])])
def test_an_aborted_prompt_that_continues_leaves_nothing(continues: bool, ends: list[int]) -> None:
    srv = server("A")
    srv.submit(Request(P[:10], 5))
    srv.take_tasks()
    srv.scheduler.run_step()
    [req] = srv.slots
    srv.scheduler.chunked_req = req if continues else None
    srv.scheduler.abort_request(req)
    assert [node.end for node in srv.scheduler.tree_cache.tree_core.nodes()] == ends
    assert srv.scheduler.chunked_req is None
