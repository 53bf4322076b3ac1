"""The scheduler between two turns: requests that hold rows, and chunks that continue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import Request
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.managers.schedule_batch import ForwardMode, ScheduleBatch
from cachesim.engines.sglang.managers.scheduler import OUT_OF_MEMORY, Scheduler
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


def test_only_the_last_of_several_cut_prompts_continues() -> None:
    scheduler = server().scheduler
    first, last = (SimpleNamespace(seqlen=30, extend_end=16, num_unread_tokens=0, inflight_middle_chunks=0)
                   for _ in range(2))  # fmt: skip
    scheduler._keep_chunked_req(SimpleNamespace(new_chunked_reqs=[first, last]))  # type: ignore[arg-type]
    assert scheduler.chunked_req is last
    assert [one.num_unread_tokens for one in (first, last)] == [14, 0]
    assert [one.inflight_middle_chunks for one in (first, last)] == [0, 1]
    scheduler._keep_chunked_req(SimpleNamespace(new_chunked_reqs=[]))  # type: ignore[arg-type]
    assert (scheduler.chunked_req, last.inflight_middle_chunks) == (last, 2)
    with pytest.raises(ProcessAborted, match="chunked_req is None"):
        scheduler._keep_chunked_req(SimpleNamespace(new_chunked_reqs=[first]))  # type: ignore[arg-type]


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


def test_a_running_request_without_room_ends_with_an_error() -> None:
    srv = server("A")
    answers = [srv.submit(Request(prompt, 5)) for prompt in (P[:10], Q)]
    srv.iterate()
    aborted, retracted = srv.slots[:2]
    batch = SimpleNamespace(retract_decode=lambda: None, retracted=[retracted], aborted=[aborted])
    srv.scheduler._retract(batch)  # type: ignore[arg-type]
    assert (answers[0].status, answers[0].done, answers[0].error) == (500, True, OUT_OF_MEMORY)
    assert [*srv.scheduler.tree_cache.tree_core.nodes()] == [], "nothing of it enters the tree"
    assert srv.scheduler.waiting_queue == [retracted] and (answers[1].status, answers[1].done) == (200, False)


@pytest.mark.parametrize(("flags", "drafts"), [({}, [False] * 4), ({"speculative_algorithm": "NGRAM"}, [False, True])])
def test_tokens_are_evaluated_one_by_one_only_in_a_decode_step_with_drafts(
    flags: dict[str, Any], drafts: list[bool], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    srv, asked = server("A", disable_overlap_schedule=True, **flags), list[bool]()
    evaluate = srv.scheduler.tp_worker.forward_batch_generation
    monkeypatch.setattr(srv.scheduler.tp_worker, "forward_batch_generation",
                        lambda ranges, drafts: asked.append(drafts) or evaluate(ranges, drafts))  # fmt: skip
    srv.complete(Request(P[:10], 4, draft_else=3))
    assert asked == drafts


def batch_of(scheduler: Scheduler, *numbers: int, prefill: bool = False) -> ScheduleBatch:
    """Return a batch of requests with these numbers; those from 10 on have ended."""
    batch = ScheduleBatch(scheduler.context, scheduler.tree_cache, [
        SimpleNamespace(rid=number, busy=number < 10) for number in numbers])  # type: ignore[misc]
    if prefill:
        batch.forward_mode = ForwardMode.EXTEND
    return batch


@pytest.mark.parametrize(("running", "last", "chunked", "merged", "is_full"), [
    ([1], None, None, [1], True), ([1], [2], None, [1, 2], True), ([], [2], None, [2], False),
    ([1], [2, 13], None, [1, 2], False), ([1], [2, 3], 3, [1, 2], False), ([1], [3], 3, [1], False),
    ([1, 11], [2], None, [1, 2], False), ([1, 11], None, None, [1], False),
])  # fmt: skip
def test_requests_of_the_last_prefill_step_run_unless_their_prompts_continue(
    running: list[int], last: list[int] | None, chunked: int | None, merged: list[int], is_full: bool,
) -> None:  # fmt: skip
    """A batch that a request left has room again."""
    scheduler = server().scheduler
    scheduler.running_batch = batch_of(scheduler, *running)
    scheduler.running_batch.batch_is_full = True
    if last is not None:
        scheduler.last_batch = batch_of(scheduler, *last, prefill=True)
        scheduler.chunked_req = next((req for req in scheduler.last_batch.reqs if req.rid == chunked), None)
    scheduler._merge_last_batch()
    assert [req.rid for req in scheduler.running_batch.reqs] == merged
    assert scheduler.running_batch.batch_is_full is is_full


def test_requests_of_a_decode_step_are_not_merged_again() -> None:
    scheduler = server().scheduler
    scheduler.running_batch, scheduler.last_batch = batch_of(scheduler, 1), batch_of(scheduler, 1)
    scheduler._merge_last_batch()
    assert [req.rid for req in scheduler.running_batch.reqs] == [1]


def test_a_decode_step_forgets_the_ranges_of_the_step_before() -> None:
    scheduler = server().scheduler
    batch = batch_of(scheduler, 11)
    batch.ranges, batch.retracted, batch.aborted = [None], [None], [None]  # type: ignore[list-item]
    assert scheduler.update_running_batch(batch) is None
    assert (batch.ranges, batch.retracted, batch.aborted, batch.reqs) == ([], [], [], [])


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
