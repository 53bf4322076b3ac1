"""The scheduler's places and pools: who can start, and what a full batch waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cachesim.engines.base import Request
from cachesim.engines.sglang.events import Inserted, SchedulerStep
from cachesim.engines.sglang.managers.scheduler import Scheduler
from cachesim.engines.sglang.mem_cache.allocator import PagedTokenToKVPoolAllocator, SWATokenToKVPoolAllocator
from cachesim.engines.sglang.server import Server
from tests.unit.engines.sglang.conversations import P, Q, server
from tests.unit.engines.sglang.trees import make_req


def test_pools_have_the_sizes_of_the_flags_and_a_request_leaves_two_pages_free() -> None:
    scheduler = server("W8 A", page_size=4, max_total_tokens=64, swa_tokens=30, max_running_requests=3).scheduler
    allocator = scheduler.pools.token_to_kv_pool_allocator
    assert isinstance(allocator, SWATokenToKVPoolAllocator)
    assert (allocator.full_available_size(), allocator.size_swa, allocator.swa_available_size()) == (64, 28, 28)
    assert (allocator.page_size, allocator.full_attn_allocator.page_size) == (4, 4)
    assert (scheduler.pools.req_to_token_pool.size, scheduler.max_req_len) == (3, 64 - 2 * 4)
    plain = server("GA", max_total_tokens=64, max_mamba_cache_size=9).scheduler
    assert isinstance(plain.pools.token_to_kv_pool_allocator, PagedTokenToKVPoolAllocator)
    assert (plain.pools.token_to_kv_pool_allocator.size, plain.max_req_len) == (64, 62)
    assert plain.pools.req_to_token_pool.mamba_allocator.available_size() == 9


def holding(scheduler: Scheduler, rows: int, running: int) -> None:
    """Let requests hold rows, of which some run."""
    for rid in range(rows):
        scheduler.pools.req_to_token_pool.write(rid, 0, np.arange(1))
    scheduler.running_batch.reqs += [make_req(rid, P[:4]) for rid in range(running)]


@pytest.mark.parametrize(("rows", "running", "slots", "places"), [
    (0, 0, (), 4), (1, 1, (), 3), (3, 1, (), 1), (3, 3, (), 1), (4, 2, (), 0), (4, 2, (9, 0), 1), (4, 2, (9, 1), 2),
    (3, 3, (9, 9), 1), (2, 0, (0, 0), 2),
])  # fmt: skip
def test_a_step_has_as_many_requests_as_there_are_places_and_rows(
    rows: int, running: int, slots: tuple[int, ...], places: int
) -> None:
    """Of four places; an admitted request with slots has its row already."""
    scheduler = server(max_running_requests=4).scheduler
    holding(scheduler, rows, running)
    admitted = [make_req(rid, P[:4]) for rid, _ in enumerate(slots)]
    for req, n in zip(admitted, slots, strict=True):
        req.kv.kv_allocated_len = n
    assert scheduler.get_num_allocatable_reqs(admitted) == places


@pytest.mark.parametrize(("model", "running", "tried", "is_full"), [
    ("A", 1, False, True), ("A", 0, True, False), ("W8 A", 1, True, False), ("W8 A", 0, True, False),
])  # fmt: skip
def test_a_full_batch_tries_no_further_request_unless_windows_slide(
    model: str, running: int, tried: bool, is_full: bool
) -> None:
    """An empty batch is not full."""
    srv = server(model)
    srv.submit(Request(P[:9], 2))
    srv.take_tasks()
    scheduler = srv.scheduler
    scheduler.running_batch.batch_is_full = True
    scheduler.running_batch.reqs += [make_req(9, Q, answer=1)] * running
    batch = scheduler.get_new_batch_prefill()
    assert (batch is not None, scheduler.running_batch.batch_is_full) == (tried, is_full)


def test_a_batch_without_a_free_row_is_full() -> None:
    srv = server(max_running_requests=2)
    srv.submit(Request(P[:9], 2))
    srv.take_tasks()
    assert not srv.scheduler.running_batch.batch_is_full
    holding(srv.scheduler, 2, 0)
    assert srv.scheduler.get_new_batch_prefill() is None
    assert srv.scheduler.running_batch.batch_is_full and len(srv.scheduler.waiting_queue) == 1


@pytest.mark.parametrize(("size", "free", "is_full"), [(64, 20, False), (64, 64, False), (20, 20, False)])
def test_a_request_that_finds_no_slots_alone_does_not_fill_the_batch(size: int, free: int, is_full: bool) -> None:
    srv = server(max_total_tokens=64)
    srv.submit(Request(P, 8))
    srv.take_tasks()
    allocator = srv.scheduler.pools.token_to_kv_pool_allocator
    allocator.alloc_full(64 - free)
    batch = srv.scheduler.get_new_batch_prefill()
    assert (batch is None) is (free < 64) or size == 20
    assert srv.scheduler.running_batch.batch_is_full is is_full


def steps(srv: Server) -> list[tuple[str, list[int], list[list[Any]]]]:
    """Return the turns of the log: operation, queue and verdicts."""
    return [(event.op, event.queue, event.verdicts) for event in srv.log.events if isinstance(event, SchedulerStep)]


@pytest.mark.parametrize("overlap", [True, False])
def test_a_turn_works_if_it_launches_a_step_settles_one_or_lets_a_request_leave(overlap: bool) -> None:
    """The third turn processes the last result with overlap, or else only lets the ended request leave."""
    srv = server(disable_overlap_schedule=not overlap)
    srv.submit(Request(P[:9], 2))
    srv.take_tasks()
    worked = [srv.scheduler.run_step() for _ in range(6)]
    assert worked == [True] * 3 + [False] * 3
    assert [op for op, _, _ in steps(srv)] == ["prefill", "decode", *["none"] * overlap]


def test_the_chunk_of_a_prompt_that_waits_enters_the_tree_once() -> None:
    """Seven of the eight window slots that its first chunk gives back take a part of the rest; then none is left."""
    srv = server("W8 A", disable_overlap_schedule=True)
    srv.submit(Request(P, 2))
    srv.iterate()
    allocator = srv.scheduler.pools.swa_allocator.swa_attn_allocator
    allocator.alloc_full(allocator.available_size())
    inserted = []
    for _ in range(4):
        before = len(srv.log.events)
        srv.iterate()
        inserted.append([event.limit for event in srv.log.events[before:] if isinstance(event, Inserted)])
    assert inserted == [[16], [23], [], []] and srv.slots[0].extend_end == 23


def test_waiting_requests_are_matched_without_their_last_token_when_they_start() -> None:
    srv = server()
    srv.complete(Request(P[:12], 1))
    srv.submit(Request(P[:12], 1))
    srv.submit(Request((*P[:12], *Q), 1))
    srv.iterate()
    assert [(req.prefix_len, req.kv.cache_protected_len) for req in srv.slots[1:]] == [(11, 11), (12, 12)]


def test_a_request_without_slots_holds_back_those_after_it() -> None:
    """20 of 64 slots are free: the second prompt would fit."""
    srv = server(max_total_tokens=64)
    for prompt in (P, Q[:5]):
        srv.submit(Request(prompt, 1))
    srv.take_tasks()
    taken = srv.scheduler.pools.token_to_kv_pool_allocator.alloc_full(44)
    assert srv.scheduler.get_new_batch_prefill() is None
    assert steps(srv) == [("prefill", [0, 1], [[0, "NO_TOKEN"]])]
    srv.scheduler.pools.token_to_kv_pool_allocator.free(taken)
    batch = srv.scheduler.get_new_batch_prefill()
    assert batch is not None and [req.rid for req in batch.reqs] == [0]


def test_a_batch_that_waits_for_a_last_token_has_room_then() -> None:
    """The other request finds no slot for its next token while the last token of the first one is on its way."""
    srv = server()
    for prompt, n in ((P[:16], 3), (Q[:16], 9)):
        srv.submit(Request(prompt, n))
    scheduler = srv.scheduler
    while not (scheduler.result_queue and srv.slots and srv.slots[0].num_remaining_tokens == 1):
        srv.iterate()
    allocator = scheduler.pools.token_to_kv_pool_allocator
    allocator.alloc_full(allocator.available_size())
    batch = scheduler.running_batch
    batch.batch_is_full = True
    assert scheduler.update_running_batch(batch) is None
    assert ([req.rid for req in batch.reqs], batch.batch_is_full, batch.retracted) == ([1], False, [])
