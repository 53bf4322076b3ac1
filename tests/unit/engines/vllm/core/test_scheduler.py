"""The scheduler: which requests a step has, and what the results of a step change."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.scheduler import draft_step
from cachesim.engines.vllm.core.scheduler_output import CachedRequestData, NewRequestData, SchedulerOutput
from cachesim.engines.vllm.request import RequestStatus
from cachesim.engines.vllm.rules.offload import DraftStep
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


def test_requests_of_a_step_share_what_the_encoder_takes():
    """Each chunk would end within an image of eight tokens, and the encoder takes twelve."""
    prompts = [(*range(first, first + 2), *image_items(name, 8, 8), 9) for first, name in ((0, "x"), (20, "y"))]
    _, server = started(*prompts, multimodal=True, max_num_batched_tokens=12, long_prefill_token_threshold=6)
    assert server.begin_step().scheduler_output.num_scheduled_tokens == {0: 6, 1: 2}


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


def test_a_reset_that_spares_running_requests_is_not_done():
    scheduler, server = started(range(10))
    step(server)
    assert scheduler.reset_prefix_cache(reset_running_requests=False) is False
    assert [request.request_id for request in scheduler.running] == [0]


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


def arriving(*requests, **flags):
    """Return a server, and the tokens of its steps: a request arrives before each of the first ones."""
    _, server = started(max_model_len=32, scheduler_reserve_full_isl=False, async_scheduling=False, **flags)
    found = []
    for arrivals in (*requests, ()):
        for prompt, priority in arrivals:
            server.submit(Request(tuple(prompt), 9, extra={"priority": priority}))
        server.take_tasks()
        found.append(step(server).num_scheduled_tokens)
    return found


def test_a_preempted_request_gives_back_its_tokens_of_the_step():
    """In the third step the second request preempts the first, which had one of the 14 tokens; the third request gets
    all tokens but one."""
    found = arriving([(range(14), 2)], [(range(20, 24), 0), (range(40, 64), 1)], num_gpu_blocks=9,
                     max_num_batched_tokens=14, scheduling_policy="priority")  # fmt: skip
    assert found == [{0: 14}, {0: 1, 1: 4, 2: 9}, {1: 1, 2: 13}]


@pytest.mark.parametrize(("policy", "last"), [("priority", {0: 1, 2: 1}), ("fcfs", {0: 1, 1: 1})])
def test_a_request_without_a_block_preempts_the_least_urgent_or_the_last_one(policy, last):
    """The second of three requests lacks a block. With priorities it preempts itself, and the third one goes on."""
    found = arriving([(range(9), 0)], [(range(20, 31), 2)], [(range(40, 49), 1)], num_gpu_blocks=10,
                     scheduling_policy=policy)  # fmt: skip
    assert found == [{0: 9}, {0: 1, 1: 11}, {0: 1, 1: 1, 2: 9}, last]


def test_a_request_of_one_token_has_places_for_drafts_beside_a_running_one():
    _, server = started(range(10), num_speculative_tokens=3, speculative_method="ngram", async_scheduling=False)
    step(server)
    server.submit(Request((5,), 4))
    server.take_tasks()
    assert step(server).num_scheduled_tokens == {0: 1, 1: 4}
