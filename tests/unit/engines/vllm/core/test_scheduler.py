"""The scheduler: which requests a step has, and what the results of a step change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.encoder_cache_manager import EncoderPlan
from cachesim.engines.vllm.core.scheduler import StepInProgress, draft_step, waiting_queue
from cachesim.engines.vllm.core.scheduler_output import CachedRequestData, NewRequestData, SchedulerOutput
from cachesim.engines.vllm.kv_offload.transfer_jobs import TransferJob
from cachesim.engines.vllm.request import EncoderInput, RequestStatus
from cachesim.engines.vllm.rules.offload import DraftStep, LoadReserve
from cachesim.engines.vllm.rules.schedule import WaitingQueue
from cachesim.events import Release

NEW = "vllm@0.33.0"


def started(*prompts, n=4, fields=({},), model="A", **flags):
    """Return the scheduler of a server that received prompts, and the server."""
    server = ENGINE.start(NEW, model, {"block_size": 4, **flags}, "none")
    for number, prompt in enumerate(prompts):
        extra = fields[number % len(fields)]
        server.submit(Request(tuple(prompt), n, forced=(7,) * n, extra=extra))
    server.take_tasks()
    return server.scheduler, server


def step(server):
    """Run a step to its end; return what was scheduled."""
    output = server.begin_step().scheduler_output
    done = server.batch_queue.popleft()
    server.scheduler.update_from_output(done.scheduler_output, done.model_runner_output)
    return output


def test_a_step_has_new_requests_first_and_then_known_ones():
    scheduler, server = started(range(10), range(20, 26))
    first, second = step(server), step(server)
    assert first.num_scheduled_tokens == {0: 10, 1: 6} and second.num_scheduled_tokens == {0: 1, 1: 1}
    assert all(isinstance(data, NewRequestData) for data in first.scheduled_reqs.values())
    assert second.has_cached_reqs and second.total_num_scheduled_tokens == 2
    assert [request.num_output_tokens for request in scheduler.running] == [2, 2]


def test_a_prompt_is_evaluated_in_chunks_of_the_budget():
    scheduler, server = started(range(20), max_num_batched_tokens=8)
    assert [step(server).num_scheduled_tokens for _ in range(3)] == [{0: 8}, {0: 8}, {0: 4}]
    assert not scheduler.requests[0].is_prefill_chunk and scheduler.requests[0].num_tokens == 21


def test_a_preempted_request_loses_its_blocks_and_waits_first():
    scheduler, server = started(range(12), range(20, 32), n=20, num_gpu_blocks=8, max_model_len=40,
                                scheduler_reserve_full_isl=False)  # fmt: skip
    while not (scheduler.waiting and scheduler.waiting[0].num_preemptions):
        step(server)
    request = scheduler.waiting[0]
    assert (request.status, request.request_id) == (RequestStatus.PREEMPTED, 1) and request.num_computed_tokens == 0
    assert scheduler.kv_cache_manager.get_block_ids(1) == [[]]


def test_the_most_urgent_request_starts_first_with_the_priority_policy():
    _, server = started(range(10), range(20, 30), fields=({"priority": 1}, {"priority": 0}), max_num_seqs=1,
                        scheduling_policy="priority")  # fmt: skip
    assert [*step(server).num_scheduled_tokens] == [1]


def test_a_request_that_ends_leaves_its_list_and_its_blocks():
    scheduler, server = started(range(10), n=1)
    step(server)
    request = scheduler.requests[0]
    assert request.status == RequestStatus.FINISHED_STOPPED and not scheduler.running and server.idle
    assert request.task.answer.done and request.task.answer.tokens == [7]
    server.inspection.check()


def test_a_client_that_leaves_ends_its_request():
    scheduler, server = started(range(10), range(20, 30))
    scheduler.finish_request(scheduler.requests[1])
    assert scheduler.requests[1].status == RequestStatus.FINISHED_ABORTED and len(scheduler.waiting) == 1
    assert [*step(server).num_scheduled_tokens] == [0]


def test_a_reset_restarts_running_requests():
    scheduler, server = started(range(10))
    step(server)
    assert scheduler.reset_prefix_cache(reset_running_requests=True)
    assert [request.request_id for request in scheduler.waiting] == [0] and not scheduler.running
    assert step(server).num_scheduled_tokens == {0: 11}


def test_a_preempted_request_and_one_that_is_refused_give_their_images_back():
    """The image is encoded with the first step, whose chunk ends before its last row."""
    prompt = (*range(4), *image_items("x", 8, 4))
    scheduler, server = started(prompt, multimodal=True, max_num_batched_tokens=8)
    request, images = scheduler.requests[0], scheduler.encoder_cache_manager
    output = server.begin_step().scheduler_output
    assert (output.num_scheduled_tokens, len(images.inputs(request)), images.freeable) == ({0: 8}, 1, {})
    scheduler.reset_prefix_cache(reset_running_requests=True)
    assert images.inputs(request) == [] and len(images.freeable) == 1


def test_a_request_leaves_a_step_with_its_tokens():
    output = SchedulerOutput()
    for number, tokens, drafts in ((3, 5, [8, 9]), (4, 1, [])):
        output.add(CachedRequestData(req_id=number, num_computed_tokens=2, new_block_ids=[[7]]), tokens, drafts)
    assert (output.total_num_scheduled_tokens, output.has_cached_reqs) == (6, True)
    assert (output.remove(3), output.remove(3)) == (5, 0)
    assert (output.num_scheduled_tokens, output.scheduled_spec_decode_tokens, [*output.scheduled_reqs]) == (
        {4: 1}, {4: []}, [4])
    assert output.remove(4) == 1 and not output.has_cached_reqs and output.total_num_scheduled_tokens == 0


@pytest.mark.parametrize(("drafts", "lookahead", "groups", "common", "expected"), [
    (0, 3, "A/4", 4, DraftStep(0, [0], 0)), (2, 0, "A/4", 4, DraftStep(3, [1], 1)),
    (2, 3, "A/4", 4, DraftStep(6, [2], 2)), (3, 5, "A/4 W8/2 S/8", 8, DraftStep(9, [3, 5], 2)),
    (3, 4, "A/4 W8/2 S/8", 8, DraftStep(8, [2, 4], 1)),
])  # fmt: skip
def test_a_step_with_drafts_needs_blocks_of_all_groups_but_states(drafts, lookahead, groups, common, expected):
    model = {"A/4": "A", "A/4 W8/2 S/8": "W8 A S"}[groups]
    config = ENGINE.start(NEW, model, {"kv_groups": groups}, "none").vllm_config.kv_cache_config
    assert config.scheduler_block_size == common
    assert draft_step(drafts, lookahead, config) == expected


@pytest.mark.parametrize(("fields", "said", "held"), [({"eog": (9,)}, [7, 8, 9], 7), ({}, [7, 8, 9, 5], 8)])
@pytest.mark.parametrize("overlap", [False, True])
def test_an_answer_ends_with_its_last_token_which_is_not_computed(fields, said, held, overlap):
    server = ENGINE.start(NEW, "A", {"block_size": 4, "async_scheduling": overlap}, "none")
    answer = server.complete(Request(tuple(range(5)), 4, forced=(7, 8, 9, 5), **fields))
    assert (answer.tokens, answer.slot_tokens, answer.stop_type) == (said, (*range(5), *said)[:held], "limit")


def test_a_client_that_leaves_while_its_chunks_are_loaded_keeps_their_blocks_until_the_load_ends():
    """CPU memory has room for eight of the ten chunks of two prompts: three of the first one are left."""
    server = ENGINE.start(NEW, "A", {"block_size": 4, "num_gpu_blocks": 8, "num_cpu_chunks": 8,
                                     "async_scheduling": False}, "none")  # fmt: skip
    for prompt in (range(20), range(50, 70)):
        server.complete(Request(tuple(prompt), 1))
    server.submit(Request(tuple(range(20)), 1))
    server.take_tasks()
    scheduler, pool = server.scheduler, server.scheduler.kv_cache_manager.block_pool
    step = server.begin_step()
    request = scheduler.requests[2]
    assert (request.status, request.num_computed_tokens) == (RequestStatus.WAITING_FOR_REMOTE_KVS, 12)
    free = pool.get_num_free_blocks()
    scheduler.connector._state_of(request).transfer_jobs.add(99)
    scheduler.finish_request(request)
    assert (scheduler.finished_recving, pool.get_num_free_blocks(), scheduler.waiting) == ([request], free, [])
    assert request.task.answer.slot_tokens == () and scheduler.has_unfinished_transfers()
    scheduler.update_connector_output(step.finished_jobs)
    assert (scheduler.finished_recving, pool.get_num_free_blocks()) == ([request], free), "another transfer is open"
    scheduler.connector.transfers.jobs[99] = TransferJob(99, scheduler.connector._state_of(request), (), (), False)
    scheduler.update_connector_output([99])
    assert (scheduler.finished_recving, pool.get_num_free_blocks()) == ([], 7)
    scheduler.update_connector_output([])
    scheduler.finish_request(request)
    assert request.status == RequestStatus.FINISHED_ABORTED and not scheduler.finished_recving


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("fields", "said", "positions"), [
    ({"eog": (8,)}, [7, 8], [4, 5]), ({"eog": (9,)}, [7, 8, 9], [4, 5, 6]), ({}, [7, 8, 9, 5], [4, 5, 6, 7])])
def test_an_answer_that_ends_within_right_drafts_has_an_output_for_each_of_its_tokens(overlap, fields, said, positions):
    """The step after the prompt has three right drafts, and outputs for all of them."""
    drafts = {"num_speculative_tokens": 3, "speculative_method": "ngram"}
    server = ENGINE.start(NEW, "A", {"block_size": 4, "async_scheduling": overlap, **drafts}, "provenance")
    answer = server.complete(Request(tuple(range(5)), 4, forced=(7, 8, 9, 5), draft_else=3, **fields))
    assert (answer.tokens, [output.pos for output in answer.outputs]) == (said, positions)


def test_a_request_waits_for_a_state_that_the_step_computes():
    """Both prompts are equal. The second one finds 16 tokens, whose state is computed by the step of the first."""
    _, server = started(range(20), range(20), model="GA")
    steps = [step(server) for _ in range(3)]
    assert [output.num_scheduled_tokens for output in steps] == [{0: 16}, {0: 4, 1: 4}, {0: 1, 1: 1}]
    assert [output.new_block_ids_to_zero for output in steps] == [[1, 2, 3, 4], [6, 8], [10, 12]]
    decided = [event for event in server.log.events if event.ev == "decided"]
    assert [event.value for event in decided if event.rule == "VL-STATE-WAIT"] == [True, False]


def test_a_chunk_that_would_end_inside_a_block_waits_for_the_next_step():
    """Blocks have eight tokens, hits end at multiples of four. Blocks that a request shares in part are copied."""
    _, server = started(range(13), (*range(12), 50, 51, 52), model="AS", kv_groups="A/8 S/8", prefix_match_unit=4,
                        max_num_batched_tokens=12)  # fmt: skip
    steps = [step(server) for _ in range(4)]
    assert [output.num_scheduled_tokens for output in steps] == [{0: 8}, {0: 4}, {0: 1}, {0: 1, 1: 3}]
    assert [output.kv_cache_block_copies for output in steps] == [[], [], [(4, 5)], [(3, 6), (5, 7)]]


@pytest.mark.parametrize(("cap", "tokens", "drafts"), [(0, 4, 3), (4, 4, 3), (2, 1, 0)])
def test_a_request_with_a_token_left_has_places_for_all_drafts_or_none(cap, tokens, drafts):
    """The first request has 20 tokens; with a limit it gets as many as that."""
    flags = {"block_size": 8, "speculative_method": "ngram", "num_speculative_tokens": 3, "max_num_batched_tokens": 32,
             "long_prefill_token_threshold": cap, "async_scheduling": False}  # fmt: skip
    server = ENGINE.start(NEW, "A", flags, "none")
    prompt = tuple(range(100, 117))
    server.complete(Request(prompt, 1))
    server.submit(Request(tuple(range(200, 220)), 2))
    server.submit(Request(prompt, 4, draft_else=2))
    server.take_tasks()
    output = step(server)
    assert output.num_scheduled_tokens == {1: cap or 20, 2: tokens}
    assert [len(output.scheduled_spec_decode_tokens[number]) for number in (1, 2)] == [0, drafts]


def test_a_step_loses_a_request_once():
    output = SchedulerOutput()
    output.add(CachedRequestData(req_id=3, num_computed_tokens=0, new_block_ids=[[1]]), 5, [8, 9])
    assert (output.remove(4), output.remove(3), output.remove(3)) == (0, 5, 0)
    assert output == SchedulerOutput()


def test_drafts_are_those_of_the_next_step():
    scheduler, server = started(range(10), num_speculative_tokens=2, speculative_method="ngram", async_scheduling=False)
    step(server)
    for drafts in ([5, 6], [8]):
        scheduler.update_draft_token_ids({0: [*drafts]})
        assert scheduler.requests[0].spec_token_ids == drafts
    assert step(server).scheduled_spec_decode_tokens == {0: [8]}


def test_a_request_that_gets_no_blocks_does_not_use_an_encoded_image():
    """Both have the same image, and there are blocks for one of them."""
    image = image_items("x", 4, 4)
    scheduler, server = started((*range(4), *image, 9), (*range(20, 24), *image, 9), multimodal=True, num_gpu_blocks=5,
                                max_model_len=16)  # fmt: skip
    assert server.begin_step().scheduler_output.num_scheduled_tokens == {0: 9}
    images = scheduler.encoder_cache_manager
    assert images.inputs(scheduler.requests[1]) == [] and [*images.cached.values()] == [{0}]


@pytest.mark.parametrize(("limit", "budget", "most"), [(0, 24, 24), (16, 24, 16), (64, 24, 24)])
def test_a_chunk_of_a_prompt_with_states_knows_the_most_tokens_of_a_step(limit, budget, most):
    scheduler, server = started(range(40), model="GA", long_prefill_token_threshold=limit,
                                max_num_batched_tokens=budget)  # fmt: skip
    asked, split = [], scheduler.rules.split
    scheduler.rules = scheduler.rules.changed({"split": lambda ask: asked.append(ask) or split(ask)})
    step(server)
    assert [(ask.start, ask.prefill, ask.prompt, ask.most, ask.tail) for ask in asked] == [(0, 40, 40, most, 0)]


def test_a_load_leaves_blocks_to_prompts_in_progress_and_to_other_loads():
    scheduler, _ = started(range(10), range(20, 30), range(30, 38), range(40, 60))
    generating, prompt, waiting, loading = (scheduler.requests[number] for number in range(4))
    for request, tokens, is_chunk in ((generating, 10, False), (prompt, 4, True)):
        scheduler.waiting.remove(request)
        scheduler.running.append(request)
        request.status, request.num_computed_tokens, request.is_prefill_chunk = RequestStatus.RUNNING, tokens, is_chunk
    loading.num_computed_tokens, loading.is_prefill_chunk, waiting.is_prefill_chunk = 4, False, True
    asked = []
    scheduler.rules = scheduler.rules.changed({"reserve_for_prompts": lambda missing: asked.append(missing) or 5})
    scheduler.load_reserve = LoadReserve(own=0, each=100, ahead=0)
    in_progress = SimpleNamespace(skipped_waiting=[])
    assert scheduler._inflight_prefill_reserved_blocks(in_progress) == 5
    assert asked == [[103, 105]]


@pytest.mark.parametrize("stale", [False, True])
def test_tokens_of_an_earlier_start_change_no_counts(stale):
    """The answer ends with the second of four tokens; the two after it were computed, too."""
    scheduler, _ = started(range(10), n=2)
    request, tokens = scheduler.requests[0], [7, 7, 5, 6]
    request.num_computed_tokens, request.num_output_placeholders = 13, 4
    assert scheduler._update_request_with_output(request, tokens, stale) and tokens == [7, 7]
    assert (request.num_computed_tokens, request.num_output_placeholders) == ((13, 4) if stale else (11, 0))
    assert request.num_tokens == 12


def test_the_connector_learns_the_blocks_of_a_request_that_starts(monkeypatch):
    scheduler, server = started(range(10), num_cpu_chunks=8)
    asked = []
    monkeypatch.setattr(scheduler.connector, "update_state_after_alloc",
                        lambda request, blocks, num_external_tokens: asked.append(
                            (request.request_id, [[*one] for one in blocks], num_external_tokens)))  # fmt: skip
    server.begin_step()
    assert asked == [(0, [[1, 2, 3]], 0)]


def test_requests_of_a_step_share_what_the_encoder_takes():
    """Each chunk would end within an image of eight tokens, and the encoder takes twelve."""
    prompts = [(*range(first, first + 2), *image_items(name, 8, 8), 9) for first, name in ((0, "x"), (20, "y"))]
    _, server = started(*prompts, multimodal=True, max_num_batched_tokens=12, long_prefill_token_threshold=6)
    assert server.begin_step().scheduler_output.num_scheduled_tokens == {0: 6, 1: 2}


@pytest.mark.parametrize(("before", "stale", "asked", "dropped"), [
    (False, 0, False, False), (False, 0, True, True), (True, 3, False, True), (True, 0, False, False),
    (False, 3, False, False),
])  # fmt: skip
def test_a_preempted_request_starts_again_from_nothing(before, stale, asked, dropped):
    """Tokens in flight that are not delivered stay so if the request is preempted again."""
    scheduler, server = started(range(10), range(20, 30))
    server.begin_step()
    request = scheduler.running.pop(0)
    request.drop_stale_output, request.num_stale_output_tokens, request.spec_token_ids = before, stale, [5]
    in_flight = request.num_in_flight_tokens
    scheduler._preempt_request(request, drop_stale_output=asked)
    assert (request.drop_stale_output, request.num_stale_output_tokens) == (dropped, in_flight)
    assert (request.status, request.num_computed_tokens, request.num_output_placeholders) == (
        RequestStatus.PREEMPTED, 0, 0)
    assert (request.spec_token_ids, request.num_preemptions, scheduler.waiting[0]) == ([], 1, request)


@pytest.mark.parametrize(("local", "external", "found", "asked", "cached"), [
    (8, 4, 4, 8, 12), (8, 0, 0, 8, 8), (8, None, None, 8, 8), (12, 9, 9, 8, 17), (12, 5, 5, 8, 13),
    (12, 4, 0, 8, 12), (12, 3, 0, 8, 12), (12, 0, 0, 8, 12), (12, None, None, 8, 12),
])  # fmt: skip
def test_a_load_replaces_a_part_of_a_block_only_if_it_is_longer(monkeypatch, local, external, found, asked, cached):
    """Blocks have eight tokens, and hits end at multiples of four."""
    scheduler, _ = started(range(30), kv_groups="A/8", prefix_match_unit=4, num_cpu_chunks=8)
    request, seen = scheduler.requests[0], []
    monkeypatch.setattr(scheduler.connector, "get_num_new_matched_tokens",
                        lambda request, tokens: seen.append(tokens) or external)  # fmt: skip
    assert scheduler._get_num_external_tokens(request, local) == found
    assert (seen, request.num_cached_tokens) == ([asked], cached)


@pytest.mark.parametrize(("tokens", "is_chunk"), [(9, True), (10, False)])
def test_a_request_that_starts_has_a_chunk_unless_it_is_its_whole_prompt(tokens, is_chunk):
    scheduler, _ = started(range(10))
    request = scheduler.requests[0]
    request.is_prefill_chunk, request.is_skipped = not is_chunk, True
    scheduler._start_request(request, 0, tokens)
    assert (request.is_prefill_chunk, request.is_skipped, request.status) == (is_chunk, False, RequestStatus.RUNNING)
    assert (scheduler.running, scheduler.waiting, request.launched) == ([request], [], True)


def test_scheduled_drafts_are_scheduled_once():
    scheduler, server = started(range(10), n=8, num_speculative_tokens=2, speculative_method="ngram",
                                async_scheduling=False)  # fmt: skip
    step(server)
    scheduler.update_draft_token_ids({0: [5, 6]})
    output = server.begin_step().scheduler_output
    assert output.scheduled_spec_decode_tokens == {0: [5, 6]} and scheduler.requests[0].spec_token_ids == []


def test_an_image_in_a_later_chunk_is_encoded_with_it():
    """The prompt has two images. The first chunk ends before both of them, the second one after the first."""
    prompt = (*range(8), *image_items("x", 4, 4), *range(20, 26), *image_items("y", 4, 4), 9)
    scheduler, server = started(prompt, multimodal=True, max_num_batched_tokens=8)
    images, request = scheduler.encoder_cache_manager, scheduler.requests[0]
    found = []
    for _ in range(3):
        step(server)
        found.append((request.num_computed_tokens, images.num_free_slots < images.cache_size, len(images.cached)))
    assert found == [(8, False, 0), (16, True, 1), (23, True, 2)]
    images.check()


def test_a_step_that_encodes_images_has_less_room_for_others():
    scheduler, _ = started(range(10))
    in_progress, image = StepInProgress(SchedulerOutput(), 64, 0, 20), EncoderInput(0, 0, 8, 5)
    in_progress.encode(scheduler.requests[0], EncoderPlan(4, 20, [], [image]))
    assert (in_progress.encoder_budget, in_progress.encoded) == (20, {})
    in_progress.encode(scheduler.requests[0], EncoderPlan(4, 12, [image], []))
    assert (in_progress.encoder_budget, in_progress.encoded) == (12, {0: [image]})


def test_a_request_that_ends_uses_no_image():
    scheduler, server = started((*range(4), *image_items("x", 4, 4), 9), n=1, multimodal=True)
    scheduler.finish_request(scheduler.requests[0])
    assert scheduler.encoder_cache_manager.cached == {}
    scheduler, server = started((*range(4), *image_items("x", 8, 4)), multimodal=True, max_num_batched_tokens=8)
    server.begin_step()
    images = scheduler.encoder_cache_manager
    assert [*images.cached.values()] == [{0}]
    scheduler.finish_request(scheduler.requests[0])
    assert [*images.cached.values()] == [set()] and images.inputs(scheduler.requests[0]) == []


def loading(*, free, begins):
    """Return a scheduler, its step, and a request that finds four chunks in CPU memory. ``free``: blocks of the
    pool."""
    server = ENGINE.start(NEW, "A", {"block_size": 4, "num_gpu_blocks": 6, "num_cpu_chunks": 16,
                                     "async_scheduling": False, "max_model_len": 64}, "none")  # fmt: skip
    for prompt in (range(17), range(50, 67)):
        server.complete(Request(tuple(prompt), 1))
    server.submit(Request(tuple(range(17)), 1))
    server.take_tasks()
    scheduler = server.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    pool.get_new_blocks(pool.get_num_free_blocks() - free)
    in_progress = StepInProgress(SchedulerOutput(), 64, 0, 64)
    assert scheduler._schedule_waiting(in_progress) is begins
    return scheduler, in_progress, scheduler.requests[2]


def test_a_load_begins_if_its_blocks_are_free_and_others_may_follow():
    scheduler, in_progress, request = loading(free=5, begins=True)
    assert (request.status, request.num_computed_tokens) == (RequestStatus.WAITING_FOR_REMOTE_KVS, 16)
    assert (in_progress.skipped_waiting, scheduler.waiting, request.is_skipped) == ([request], [], True)
    assert [len(job.copies) for job in scheduler.connector.load_jobs] == [4]


def test_a_load_without_free_blocks_waits_and_lets_none_follow():
    scheduler, in_progress, request = loading(free=3, begins=False)
    assert (request.status, request.num_computed_tokens) == (RequestStatus.WAITING, 0)
    assert (in_progress.skipped_waiting, scheduler.waiting, request.is_skipped) == ([], [request], False)
    assert scheduler.connector.load_jobs == []


@pytest.mark.parametrize("runs", [True, False])
def test_a_load_beside_running_requests_leaves_blocks_free(monkeypatch, runs):
    scheduler, _ = started(range(10), range(20, 30), num_cpu_chunks=8)
    request, asked = scheduler.requests[1], []
    if runs:
        scheduler._start_request(scheduler.requests[0], 0, 10)
    monkeypatch.setattr(scheduler.kv_cache_manager, "allocate_slots",
                        lambda request, tokens, found, **more: asked.append((tokens, more)))  # fmt: skip
    scheduler.load_reserve = LoadReserve(own=5, each=0, ahead=0)
    empty = scheduler.kv_cache_manager.empty_kv_cache_blocks
    assert scheduler._begin_load(SimpleNamespace(skipped_waiting=[]), request, empty, 8) is False
    assert asked == [(0, {"num_external_computed_tokens": 8, "reserved_blocks": 5, "has_scheduled_reqs": runs})]


@pytest.mark.parametrize(("tokens", "room"), [(27, True), (28, False)])
def test_places_for_drafts_end_before_the_longest_sequence(tokens, room):
    """Three drafts behind the last token, and one token more, fit into 32."""
    scheduler, _ = started(range(tokens + 1), num_speculative_tokens=3, speculative_method="ngram", max_model_len=32)
    asked = []
    scheduler.rules = scheduler.rules.changed({"pad_drafts": lambda ask: asked.append(ask) and False})
    scheduler._waiting_chunk(StepInProgress(SchedulerOutput(), 64, 0, 64), scheduler.requests[0], tokens)
    assert [(ask.left, ask.drafts, ask.warm, ask.room) for ask in asked] == [(1, 3, True, room)]


@pytest.mark.parametrize(("policy", "goes_on"), [("fcfs", False), ("priority", True)])
def test_after_a_request_that_preempts_itself_the_step_ends_or_goes_on(policy, goes_on, monkeypatch):
    """The last of two running requests is less urgent, and finds no blocks."""
    scheduler, server = started(range(10), range(20, 30), fields=({"priority": 0}, {"priority": 1}),
                                scheduling_policy=policy)  # fmt: skip
    step(server)
    monkeypatch.setattr(scheduler.kv_cache_manager, "allocate_slots", lambda *args, **more: None)
    in_progress = StepInProgress(SchedulerOutput(), 64, 0, 64)
    assert scheduler._schedule_running(in_progress, 1) == (1 if goes_on else -1)
    assert [request.request_id for request in scheduler.running] == [0] and in_progress.is_preempted


def test_a_reset_that_spares_running_requests_is_not_done():
    scheduler, server = started(range(10))
    step(server)
    assert scheduler.reset_prefix_cache(reset_running_requests=False) is False
    assert [request.request_id for request in scheduler.running] == [0]


@pytest.mark.parametrize(("computed", "placeholders", "rejected", "left"), [
    (12, 3, 2, (10, 1)), (12, 0, 2, (10, 0)), (0, 3, 2, (0, 1)), (0, 0, 2, (0, 0)), (12, 3, 0, (12, 3)),
])  # fmt: skip
def test_rejected_drafts_have_no_places_unless_the_request_starts_again(computed, placeholders, rejected, left):
    scheduler, _ = started(range(10))
    request = scheduler.requests[0]
    request.num_computed_tokens, request.num_output_placeholders = computed, placeholders
    scheduler._take_back_rejected(request, rejected)
    assert (request.num_computed_tokens, request.num_output_placeholders) == left


@pytest.mark.parametrize(("computed", "placeholders", "is_chunk"), [
    (8, 0, True), (9, 0, False), (9, 1, True), (10, 1, False), (9, 2, True), (11, 2, False)])
def test_a_request_has_a_chunk_until_its_known_tokens_and_places_are_computed(computed, placeholders, is_chunk):
    """A token is scheduled; the request has ten."""
    scheduler, _ = started(range(10))
    request = scheduler.requests[0]
    request.num_computed_tokens, request.num_output_placeholders = computed, placeholders
    output = SchedulerOutput()
    output.add(CachedRequestData(req_id=0, num_computed_tokens=computed, new_block_ids=[[]]), 1, [])
    scheduler._update_after_schedule(output)
    assert (request.is_prefill_chunk, output.scheduled_reqs[0].samples_token) == (is_chunk, not is_chunk)
    assert (request.num_computed_tokens, request.num_in_flight_tokens) == (computed + 1, 1)
    assert request.num_output_placeholders == placeholders + (not is_chunk)


def test_a_request_whose_load_ended_waits_like_others():
    scheduler, _, request = loading(free=5, begins=True)
    (job,) = scheduler.connector.load_jobs
    assert scheduler._waits_for_remote_kvs(request) is True
    scheduler.connector.update_connector_output([job.job_id])
    for _ in range(2):
        assert not scheduler._waits_for_remote_kvs(request)
        assert (request.status, request.num_computed_tokens) == (RequestStatus.WAITING, 16)


def test_the_images_of_a_request_that_starts_take_from_the_step():
    scheduler, _ = started((*range(4), *image_items("x", 4, 4), 9), multimodal=True, max_num_batched_tokens=64)
    in_progress = StepInProgress(SchedulerOutput(), 64, 0, 64)
    assert scheduler._schedule_waiting(in_progress)
    assert (in_progress.encoder_budget, [*in_progress.encoded], in_progress.token_budget) == (60, [0], 55)


@pytest.mark.parametrize("is_free", [True, False])
def test_a_preempted_request_leaves_the_step_with_its_tokens_and_images(monkeypatch, is_free):
    """The less urgent of two requests has five tokens and an image in the step. Blocks that a step in flight writes
    are not free now: nothing is preempted."""
    scheduler, server = started(range(10), range(20, 30), fields=({"priority": 1}, {"priority": 0}),
                                scheduling_policy="priority")  # fmt: skip
    step(server)
    monkeypatch.setattr(scheduler.deferred_frees, "can_be_freed", lambda request: is_free)
    first, second = (scheduler.requests[number] for number in (1, 0))
    assert scheduler.running == [first, second]
    image = EncoderInput(0, 0, 8, 5)
    in_progress = StepInProgress(SchedulerOutput(), 10, 0, 4, encoded={0: [image], 1: [image]})
    for number in (1, 0):
        in_progress.output.add(CachedRequestData(req_id=number, num_computed_tokens=0, new_block_ids=[[]]), 5, [])
    assert scheduler._preempt_request_for(in_progress) == (1 if is_free else None)
    assert (in_progress.token_budget, in_progress.encoder_budget) == ((15, 12) if is_free else (10, 4))
    assert in_progress.is_preempted is is_free
    left = {1} if is_free else {0, 1}
    assert {*in_progress.output.num_scheduled_tokens} == {*in_progress.encoded} == left
    assert (scheduler.running, scheduler.waiting) == (([first], [second]) if is_free else ([first, second], []))


def test_the_queue_tells_order_blocks_and_passes_of_each_waiting_request():
    scheduler, _ = started(range(10), range(20, 30), fields=({"priority": 2}, {"priority": 1}))
    first, second = scheduler.waiting
    second.num_computed_tokens, first.is_skipped = 4, True
    assert waiting_queue(scheduler.waiting) == WaitingQueue(
        order=[first.order, second.order], held=[False, True], skipped=[True, False])


@pytest.mark.parametrize(("start", "is_cached", "warm"), [(0, False, False), (1, False, True), (0, True, True)])
def test_a_request_is_warm_behind_found_tokens_or_beside_a_running_one(start, is_cached, warm):
    scheduler, _ = started(range(start + 1), num_speculative_tokens=3, speculative_method="ngram")
    in_progress, asked = StepInProgress(SchedulerOutput(), 64, 0, 64), []
    if is_cached:
        in_progress.output.add(CachedRequestData(req_id=9, num_computed_tokens=4, new_block_ids=[[]]), 1, [])
    scheduler.rules = scheduler.rules.changed({"pad_drafts": lambda ask: asked.append((ask.left, ask.warm)) and False})
    scheduler._waiting_chunk(in_progress, scheduler.requests[0], start)
    assert asked == [(1, warm)]


@pytest.mark.parametrize(("budget", "tokens"), [(5, 4), (4, 4), (3, None)])
def test_a_step_has_room_for_the_last_token_and_all_drafts_or_the_request_waits(budget, tokens):
    scheduler, _ = started(range(10), num_speculative_tokens=3, speculative_method="ngram", async_scheduling=False)
    chunk = scheduler._waiting_chunk(StepInProgress(SchedulerOutput(), budget, 0, 64), scheduler.requests[0], 9)
    assert (chunk and (chunk.num_new_tokens, chunk.padded)) == (tokens and (tokens, True))


def test_a_preempted_request_waits_before_those_that_have_not_started():
    scheduler, server = started(range(10), range(20, 30), range(40, 50), max_num_seqs=1)
    server.begin_step()
    scheduler._preempt_request(scheduler.running.pop(), drop_stale_output=False)
    assert [request.request_id for request in scheduler.waiting] == [0, 1, 2]


@pytest.mark.parametrize("why", ["surely ends", "has no tokens", "is scheduled"])
def test_the_next_running_request_follows_whatever_became_of_one(why):
    scheduler, server = started(range(10), range(20, 30), range(40, 50), async_scheduling=False)
    step(server)
    if why == "surely ends":
        scheduler.rules = scheduler.rules.changed({"surely_ends": lambda *given: True})
    elif why == "has no tokens":
        scheduler.running[1].num_computed_tokens = scheduler.running[1].num_tokens
    in_progress = StepInProgress(SchedulerOutput(), 64, 0, 64)
    assert scheduler._schedule_running(in_progress, 1) == 2
    assert in_progress.output.num_scheduled_tokens == ({1: 1} if why == "is scheduled" else {})


@pytest.mark.parametrize(("longest", "tokens"), [(13, 2), (14, 3), (15, 4), (16, 4)])
def test_drafts_leave_a_place_of_the_longest_sequence(longest, tokens):
    """Ten tokens are computed, one more and three drafts are known."""
    scheduler, server = started(range(10), n=3, num_speculative_tokens=3, speculative_method="ngram",
                                max_model_len=longest, async_scheduling=False)  # fmt: skip
    step(server)
    scheduler.update_draft_token_ids({0: [5, 6, 8]})
    output = server.begin_step().scheduler_output
    assert output.num_scheduled_tokens == {0: tokens}
    assert output.scheduled_spec_decode_tokens == {0: [5, 6, 8][: tokens - 1]}


def test_the_last_token_of_an_answer_is_not_computed_even_if_a_release_counts_drafts_behind_it():
    drafts = {"num_speculative_tokens": 3, "speculative_method": "ngram", "async_scheduling": False}
    for build, held in (("vllm@0.30.0", 9), (NEW, 6)):
        server = ENGINE.start(build, "A", {"block_size": 4, **drafts}, "none")
        answer = server.complete(Request(tuple(range(5)), 4, forced=(7, 8, 9, 5), draft_else=3, eog=(8,)))
        assert (answer.tokens, answer.slot_tokens) == ([7, 8], (0, 1, 2, 3, 4, 7))
        assert server.log.events[-1] == Release(0, 0, held, 0)


@pytest.mark.parametrize("is_reserved", [False, True])
def test_the_worker_learns_all_of_a_request_that_starts(is_reserved):
    scheduler, _ = started(range(10), model="GA")
    request, manager = scheduler.requests[0], scheduler.kv_cache_manager
    manager.allocate_slots(request, 10, manager.empty_kv_cache_blocks)
    if is_reserved:
        manager.coordinator.single_type_managers[1].checkpoints[0] = 4, 1
    request.num_computed_tokens = 3
    assert scheduler._new_request_data(request) == NewRequestData(
        req_id=0, num_computed_tokens=3, new_block_ids=[[1, 2, 3], [0, 0, 4]], has_checkpoint_block=is_reserved,
        request=request.task.request, text=request.text, prefill_token_ids=request.all_token_ids)
