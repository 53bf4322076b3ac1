"""vLLM's server on small conversations: hits, charges, refusals, and the known defects of its classes."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.shared.request_queue import key_of
from cachesim.engines.vllm import ENGINE
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line

NEW = "vllm@0.33.0"
INSIDE = {"block_size": 2, "mamba_block_size": 8, "mamba_prefill_checkpoint_alignment": 1}
MODULES = {"speculative_method": "mtp", "num_speculative_tokens": 3, "multi_module_mtp": True}


def judged(line, model="A", profile=NEW, **server):
    return run_judged(from_line(line, model=model, profiles=(profile,), server=server), profile)


def reused(run):
    return [one.answer.cache_n for one in run.requests]


def charges(run, number):
    return [(one.tokens, one.event, one.rule) for one in run.requests[number].ledger.charges]


@pytest.mark.parametrize("model, found", [
    ("A", 32), ("W8 A", 32), ("K8 A", 32), ("W8", 32), ("GA", 32), ("GGGA", 32), ("CA", 32), ("H", 32), ("S", 32),
])
def test_every_kind_of_model_finds_its_complete_blocks_again(model, found):
    run = judged("A40/A/A.B9", model, block_size=16, enable_prefix_caching=True)
    assert run.verdict.equal_cold and reused(run) == [0, found, found]


def test_a_reply_of_the_drafter_s_group_is_found_a_block_earlier_with_the_drop():
    options = {"block_size": 4, "speculative_method": "eagle", "num_speculative_tokens": 1}
    assert reused(judged("A17/A", **options)) == [0, 16]
    assert reused(judged("A17/A", **options, disable_lookahead_block_hashes=True)) == [0, 12]


def test_blocks_are_shared_only_under_the_same_salt_and_adapter():
    run = judged("A40/A{cache_salt=x}/A{cache_salt=x}/A{lora=a}/A{lora=a}/A")
    assert run.verdict.equal_cold and reused(run) == [0, 0, 32, 0, 32, 32]


@pytest.mark.parametrize("model, found", [("A", [0, 28, 20]), ("GA", [0, 24, 0])])
def test_the_rows_of_an_image_are_found_only_for_the_same_image(model, found):
    run = judged("S20.I4x2/S.I.B5/S.J4x2.B", model, block_size=4, multimodal=True, prefix_cache_retention_interval=0)
    assert run.verdict.equal_cold and reused(run) == found


@pytest.mark.parametrize("line, server, told", [
    ("S20.I4x2", {}, "has an image"),
    ("S20.I4x2", {"multimodal": True, "max_num_batched_tokens": 7}, "an image of 8 tokens: the encoder takes 7"),
])  # fmt: skip
def test_images_need_a_model_that_takes_them_and_room_in_its_encoder(line, server, told):
    with pytest.raises(BadInput, match=told):
        judged(line, **server)


def test_the_encoder_takes_an_image_of_all_its_tokens():
    server = ENGINE.start(NEW, "A", {"multimodal": True, "max_num_batched_tokens": 8}, "none")
    answer = server.complete(Request((*range(3), *image_items("x", 8, 4), 9), 2))
    assert (answer.status, len(answer.tokens)) == (200, 2)


def allocated(line, model, **options):
    """Return request and tokens of each chunk of a model with images, and whether all answers are correct."""
    run = judged(line, model, multimodal=True, max_num_batched_tokens=12, block_size=4, **options)
    return [(event.request, event.new) for event in run.log.events if event.ev == "alloc"], run.verdict.equal_cold


@pytest.mark.parametrize("model", ["A", "GA"])
def test_a_chunk_ends_before_an_image_that_the_encoder_cannot_take_in_this_step(model):
    assert allocated("S3.I4x2.J4x2.A3", model)[0][0] == (0, 11)
    assert allocated("S3.I4x2.J4x2.A3", model, max_tokens_per_mm_item=16)[0][0] == (0, 12)
    assert allocated("S3.I4x2.J4x2.A3", model)[1]


def test_a_request_waits_for_the_encoder_unless_another_one_has_its_image():
    """The encoder has room for one image of 8 tokens."""
    assert allocated("A3.I4x2>r2/I4x2{together}", "A") == ([(0, 11), (1, 1), (0, 1), (1, 7)], True)
    assert allocated("A3.J4x2>r2/I4x2{together}", "A") == ([(0, 11), (0, 1), (1, 8)], True)


@pytest.mark.parametrize("right", [0, 1, 2])
def test_drafts_of_a_step_in_flight_are_rejected_like_others(right):
    drafts = {"block_size": 4, "speculative_method": "ngram", "num_speculative_tokens": 2}
    line = f"A9>r12{{draft_else={right}}}/A.r.u3"
    now, late = judged(line, **drafts), judged(line, **drafts, async_scheduling=True)
    assert late.verdict.equal_cold and reused(late) == reused(now)
    assert late.requests[0].answer.tokens == now.requests[0].answer.tokens


def test_the_token_in_flight_of_an_answer_that_ends_early_is_not_counted_as_evaluated():
    server = ENGINE.start(NEW, "A", {"async_scheduling": True}, "provenance")
    answer = server.complete(Request(tuple(range(9)), 8, forced=tuple(range(90, 98)), eog=(92,)))
    assert answer.tokens == [90, 91, 92] and answer.slot_tokens == (*range(9), 90, 91)
    assert [output.pos for output in answer.outputs] == [8, 9, 10]


def test_an_evicted_block_is_charged_to_the_eviction():
    run = judged("A30/B40/A", block_size=4, num_gpu_blocks=16)
    assert run.verdict.equal_cold and reused(run) == [0, 0, 20]
    assert charges(run, 2) == [(1, "too few", ""), (8, "evicted", "VL-POOL-EVICT")]


@pytest.mark.parametrize(("line", "flags", "cause"), [
    ("A30/A.B9", {"enable_prefix_caching": False}, "cache off"), ("A30/B40/A!", {}, "unread"),
    ("A30/B40/A!", {"num_gpu_blocks": 16}, "unread")])  # fmt: skip
def test_a_request_that_reads_no_prefix_is_charged_to_that_alone(line, flags, cause):
    run = judged(line, block_size=4, **flags)
    [charge] = charges(run, len(run.requests) - 1)
    assert charge[1:] == (cause, "") and run.requests[-1].ledger.is_balanced


def test_cpu_memory_without_a_prefix_cache_is_no_cache_that_is_off():
    run = judged("A30/A.B9", block_size=4, enable_prefix_caching=False, num_cpu_chunks=64)
    assert reused(run)[1] > 0 and all(charge[1] != "cache off" for charge in charges(run, 1))


def test_a_state_that_a_chunk_passed_is_charged_to_the_split():
    run = judged("A40.B9/A.C9", "GA", block_size=4)
    assert charges(run, 1) == [(40, "never captured", "VL-SPLIT-CHUNK")]


def test_a_window_that_is_left_out_is_charged_to_the_mask():
    run = judged("A40.B9/A.C9", "W8 A", block_size=4)
    assert charges(run, 1) == [(40, "never captured", "VL-PUB-MASK.WINDOW")]


def test_a_preempted_request_says_what_a_cold_run_says():
    run = judged("A20>r12/B22>s16{together}", block_size=4, num_gpu_blocks=16)
    assert run.verdict.equal_cold and any(event.ev == "preempt" for event in run.log.events)


def test_a_reset_empties_the_cache():
    server = ENGINE.start(NEW, "A", {}, "none")
    request = Request(tuple(range(40)), 2)
    assert [server.complete(request).cache_n for _ in range(2)] == [0, 32]
    before = len(server.log.events)
    assert server.slot("erase", 0) == {"status": 200, "success": True}
    answer = server.complete(request)
    assert (answer.cache_n, answer.request) == (0, 3), "a reset is a step of its own"
    assert server.log.marks[2] == before < server.log.marks[3]


@pytest.mark.parametrize("profile, fails", [(NEW, True), ("vllm@0.32.0", False), ("vllm@0.31.0", False)])
def test_a_window_beside_several_modules_ends_the_process(profile, fails):
    run = judged("A17", "W8", profile, **MODULES)
    assert run.requests[0].answer.died is fails


def test_a_state_inside_a_chunk_gets_the_key_of_a_longer_prefix():
    run = judged("A5/A.B4/A.B", "GGGA", **INSIDE)
    assert [one.judged.equal_cold for one in run.requests] == [True, True, False]


@pytest.mark.parametrize("release, prompt, max_tokens, refusal", [
    ("0.33.0", 31, 0, ""), ("0.33.0", 32, 0, "max_tokens must be at least 1, got 0"),
    ("0.33.0", 40, 0, "your prompt contains at least 33 input tokens, which exceeds"), ("0.33.0", 20, 32, ""),
    ("0.33.0", 20, 33, "max_tokens=33 cannot be greater than max_model_len=32"), ("0.32.0", 20, 13, ""),
    ("0.31.0", 20, 12, ""), ("0.31.0", 32, 0, "max_tokens must be at least 1, got 0"),
    ("0.31.0", 20, 13, "you requested 13 output tokens and your prompt contains at least 20 input tokens"),
    ("0.29.0", 40, 0, "you requested 0 output tokens and your prompt contains at least 33 input tokens"),
])  # fmt: skip
def test_a_request_that_does_not_fit_is_refused_as_by_the_release(release, prompt, max_tokens, refusal):
    server = ENGINE.start(f"vllm@{release}", "A", {"max_model_len": 32}, "none")
    answer = server.submit(Request(tuple(range(prompt)), 99, extra={"max_tokens": max_tokens}))
    assert (refusal in answer.error) if refusal else answer.error == ""


@pytest.mark.parametrize("model, server, told", [
    ("A", {"kv_groups": "B/4"}, "is not a group"), ("GA", {"kv_groups": "A/4"}, "does not fit the layers"),
    ("A", {"kv_groups": "R6/4"}, "reference windows"), ("AW8", {"num_gpu_blocks": 2}, "do not hold one request"),
    ("GA", {"prefix_cache_retention_interval": 7}, "not a multiple of 16"),
    ("A", {"prefix_cache_retention_interval": 16}, "needs a layer"),
    ("A", {"speculative_method": "eagle"}, "given together"),
    ("GA", {"prefix_match_unit": 3}, "does not divide"), ("A", {"kv_transfer_config": "{}"}, "kv_transfer_config"),
])  # fmt: skip
def test_options_with_which_the_server_does_not_start(model, server, told):
    with pytest.raises(BadInput, match=told):
        ENGINE.start(NEW, model, server, "provenance")


def test_tokens_are_computed_under_their_adapter_and_salt():
    server = ENGINE.start(NEW, "A", {}, "provenance")
    fields = [{}, {"lora": "a"}, {"cache_salt": "a"}, {"lora": "a", "cache_salt": "s"}, {"priority": "3"}]
    answers = [server.complete(Request(tuple(range(9)), 1, extra=extra)) for extra in fields]
    keys = [request.key for request in server.slots]
    assert keys == [key_of(), key_of("a", ""), key_of("", "a"), key_of("a", "s"), 0] and len({*keys}) == 4
    assert [answer.under for answer in answers] == ["", "a", "", "a", ""]
    assert [answer.keys for answer in answers] == [((0, key),) if key else () for key in keys]
    assert len({answer.outputs[0].digest for answer in answers}) == 4
    named = [(request.lora_request, request.cache_salt, request.priority) for request in server.slots]
    assert named == [("", "", 0), ("a", "", 0), ("", "a", 0), ("a", "s", 0), ("", "", 3)]


def test_a_reset_fails_while_requests_use_blocks_and_slots_are_not_saved():
    server = ENGINE.start(NEW, "A", {}, "none")
    server.submit(Request(tuple(range(40)), 9))
    server.iterate()
    assert server.slot("erase", 0) == {"status": 200, "success": False}
    with pytest.raises(BadInput):
        server.slot("save", 0)


def test_a_server_has_work_until_its_transfers_end():
    server = ENGINE.start(NEW, "A", {"block_size": 4, "num_cpu_chunks": 8}, "none")
    server.submit(Request(tuple(range(9)), 2))
    assert not server.idle and not server.has_requests
    rounds = 0
    while server.working:
        server.iterate()
        rounds += 1
    assert server.idle and not server.has_requests and not server.batch_queue and rounds == 3
    assert not server.scheduler.has_unfinished_transfers()


@pytest.mark.parametrize(("groups", "mode", "told"), [
    ("A", {"kv_groups": "R6/4"}, "reference windows"),
    ("SA", {"mamba_cache_mode": "all", "speculative_method": "ngram", "num_speculative_tokens": 1,
            "async_scheduling": False}, "states of drafts with mamba_cache_mode all"),
])  # fmt: skip
def test_what_the_model_does_not_compute_starts_without_it_only(groups, mode, told):
    profile = "vllm@0.31.0" if "mamba_cache_mode" in mode else NEW
    ENGINE.start(profile, groups, mode, "none")
    with pytest.raises(BadInput, match=told):
        ENGINE.start(profile, groups, mode, "provenance")


@pytest.mark.parametrize("groups", ["R6/4", "R6/4 A/8", "A/8 R6/4"])
def test_reference_windows_are_not_computed(groups):
    model = "A" * len(groups.split())
    with pytest.raises(BadInput, match="reference windows"):
        ENGINE.start("vllm@0.33.0", model, {"kv_groups": groups}, "provenance")
    assert ENGINE.start("vllm@0.33.0", model, {"kv_groups": groups}, "none").model is None


@pytest.mark.parametrize(("model", "mode", "drafts", "refused"), [
    ("SA", "all", 2, True), ("SA", "align", 2, False), ("SA", "all", 0, False), ("A", "all", 2, False),
    ("GA", "all", 2, False)])
def test_drafts_with_a_state_for_every_block_are_not_computed(model, mode, drafts, refused):
    options = {"mamba_cache_mode": mode, "num_speculative_tokens": drafts,
               "speculative_method": "ngram" if drafts else ""}  # fmt: skip
    if not refused:
        assert ENGINE.start("vllm@0.31.0", model, options, "provenance").model is not None
        return
    with pytest.raises(BadInput, match="states of drafts with mamba_cache_mode all"):
        ENGINE.start("vllm@0.31.0", model, options, "provenance")


@pytest.mark.parametrize(("overlaps", "in_flight"), [(True, 1), (False, 0)])
def test_a_step_without_tokens_stays_in_flight_while_a_load_is_under_way(overlaps, in_flight):
    server = ENGINE.start(NEW, "A", {"block_size": 4, "num_gpu_blocks": 6, "num_cpu_chunks": 16,
                                     "async_scheduling": overlaps}, "none")  # fmt: skip
    prompts = tuple(range(100, 115)), tuple(range(200, 219))
    for prompt in prompts:
        server.complete(Request(prompt, 1, forced=(7,)))
    assert not server.batch_queue and not server.has_requests
    server.submit(Request(prompts[0], 1, forced=(7,)))
    server.iterate()
    assert len(server.batch_queue) == in_flight and server.has_requests
    while server.working:
        server.iterate()
    assert not server.batch_queue and server.slots[-1].task.answer.cache_n == 12


@pytest.mark.parametrize("chunks", [0, 8])
def test_a_step_without_tokens_is_in_flight_only_beside_cpu_memory(chunks):
    server = ENGINE.start(NEW, "A", {"block_size": 4, "num_cpu_chunks": chunks}, "none")
    step = server.begin_step()
    assert step.scheduler_output.num_scheduled_tokens == step.model_runner_output == {} and [*step.finished_jobs] == []
    assert [*server.batch_queue] == ([step] if chunks else [])


def test_keys_of_blocks_are_restore_points_once_their_step_is_evaluated():
    server = ENGINE.start(NEW, "A", {"block_size": 4}, "none")
    server.submit(Request(tuple(range(9)), 1))
    server.take_tasks()
    step = server.begin_step()
    assert [*server.batch_queue] == [step] and step.scheduler_output.num_scheduled_tokens == {0: 9}
    assert [server.points.prefix(key).end for key in server.points.kept()] == [4, 8] and server.points.entered == []


@pytest.mark.parametrize(("given", "accepted"), [(None, 2), ({0: 1}, 1), ({0: 3}, 3), ({}, 0)])
def test_a_step_accepts_as_many_drafts_as_its_caller_or_the_request_says(given, accepted):
    drafts = {"speculative_method": "ngram", "num_speculative_tokens": 3}
    server = ENGINE.start(NEW, "A", {"block_size": 4, "async_scheduling": False, **drafts}, "none")
    server.submit(Request(tuple(range(9)), 8, draft_else=2))
    server.take_tasks()
    server.iterate()
    server.iterate()
    found = server.begin_step(given).model_runner_output[0]
    assert (found.num_accepted_drafts, len(found.sampled_token_ids)) == (accepted, accepted + 1)


def test_a_request_is_drafted_for_while_it_generates():
    """The prompt takes two steps; the third one has the rest of the answer."""
    server = ENGINE.start(NEW, "A", {"block_size": 4, "async_scheduling": False, "max_num_batched_tokens": 8,
                                     "speculative_method": "ngram", "num_speculative_tokens": 3}, "none")  # fmt: skip
    server.submit(Request(tuple(range(12)), 3, draft_else=1))
    server.take_tasks()
    drafts = []
    while server.has_requests:
        server.update()
        drafts.append(len(server.slots[0].spec_token_ids))
    assert drafts == [0, 3, 0]
