"""CPU offload behind vLLM's server: what is stored, loaded, waited for, and refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.base import Request
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.request import RequestStatus
from cachesim.engines.vllm.server import Server
from cachesim.events import Decided
from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line

NEW = "vllm@0.33.0"
SMALL = {"block_size": 4, "num_gpu_blocks": 6, "num_cpu_chunks": 16, "async_scheduling": False}


def judged(line, **server):
    return run_judged(from_line(line, model="A", profiles=(NEW,), server={**SMALL, **server}), NEW)


def sources(run):
    return [one.answer.reused for one in run.requests]


def test_a_prompt_that_the_pool_lost_is_loaded():
    run = judged("A15/B19/A/A")
    assert run.verdict.equal_cold
    assert sources(run) == [{}, {}, {"chunk": 12}, {"block": 12}]
    assert run.requests[2].answer.prompt_n == 3
    assert sources(judged("A15/B19/A", num_cpu_chunks=0))[2] == {}


@pytest.mark.parametrize("release", ["0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def test_a_prompt_that_is_loaded_whole_counts_as_cached_and_its_last_token_is_evaluated(release):
    """As the released scheduler counts: recording vllm_offload/drawn-62, request 3, has 6 cached tokens of 6."""
    profile = f"vllm@{release}"
    run = run_judged(from_line("A16/B19/A", model="A", profiles=(profile,), server=SMALL), profile)
    answer = run.requests[2].answer
    assert (answer.reused, answer.cache_n, answer.prompt_n, answer.first_evaluated) == ({"chunk": 16}, 16, 1, 15)
    assert run_data(run)["requests"][2]["moved"] == 0
    assert run.requests[2].ledger.charges == ()


@pytest.mark.parametrize("server, found", [({}, 4), ({"offload_prompt_only": False}, 8), ({"blocks_per_chunk": 2}, 0)])
def test_complete_chunks_of_prompts_are_stored_and_those_of_answers_if_asked(server, found):
    run = judged("A5>r6/B19/A.r", **server)
    assert run.verdict.equal_cold and run.requests[2].answer.cache_n == found


@pytest.mark.parametrize("policy, kept", [("lru", {}), ("arc", {"chunk": 4})])
def test_chunks_that_came_back_once_stay_longer_with_arc(policy, kept):
    run = judged("A4/B19/A/C16/D16/A", num_cpu_chunks=5, eviction_policy=policy)
    assert run.verdict.equal_cold and sources(run)[-1] == kept


@pytest.mark.parametrize("threshold, found", [(0, 12), (1, 12), (2, 0)])
def test_a_chunk_is_stored_at_the_offer_of_the_threshold(threshold, found):
    assert judged("A15/B19/A", store_threshold=threshold).requests[2].answer.cache_n == found


def test_a_request_waits_for_chunks_that_another_one_loads():
    run = judged("A15/B19/A/A{together}")
    assert run.verdict.equal_cold and sources(run)[2:] == [{"chunk": 12}, {"block": 12}]
    stores = [event.value for event in run.log.events if isinstance(event, Decided) and event.rule == "VL-OFF-STORE"]
    assert stores == [3, 4]
    waits = [event for event in run.log.events if isinstance(event, Decided) and event.rule == "VL-OFF-WAIT"]
    assert [event.value for event in waits if event.slot == 3][:2] == [False, True]


def server(**flags):
    return ENGINE.start(NEW, "A", {**SMALL, **flags}, "provenance")


def finished(served: Server, *prompts: tuple[int, ...]):
    answers = [served.submit(Request(prompt, 1, forced=(7,))) for prompt in prompts]
    while not served.idle:
        served.take_tasks()
        served.update()
    return answers


def test_a_request_without_reading_loads_nothing():
    served = server()
    finished(served, FIRST, SECOND)
    answer = served.submit(Request(FIRST, 1, forced=(7,), cache_prompt=False))
    finished(served)
    assert answer.done and not answer.reused and answer.prompt_n == 15


@pytest.mark.parametrize(("build", "waits"), [("0.33.0", False), ("0.31.0", False), ("0.30.0", True)])
def test_a_request_that_reads_nothing_waits_for_its_own_transfers_in_0_30_0_only(build, waits):
    served = ENGINE.start(f"vllm@{build}", "A", SMALL, "provenance")
    served.submit(Request(FIRST, 4, forced=(7, 7, 7, 7), cache_prompt=False))
    served.take_tasks()
    served.update()
    scheduler = served.scheduler
    [request] = scheduler.running
    assert scheduler.connector.has_transfers(request)
    assert scheduler.reset_prefix_cache(reset_running_requests=True)
    assert scheduler.connector.get_num_new_matched_tokens(request, 0) == (None if waits else 0)


FIRST, SECOND = tuple(range(100, 115)), tuple(range(200, 219))


def test_a_store_ends_with_the_step_after_the_one_that_computed_its_chunks():
    served = server()
    served.submit(Request(FIRST, 4, forced=(7, 7, 7, 7)))
    served.take_tasks()
    served.update()
    assert [len(made.keys) for made in served.scheduler.connector.transfers.jobs.values()] == [3]
    served.update()
    assert not served.scheduler.connector.transfers.jobs and served.running
    assert len(served.scheduler.connector.manager.places) == 3


def test_all_transfers_end_with_the_last_request():
    """The store of the second prompt has no room until its request ended, and begins with no request in progress."""
    served = server(num_gpu_blocks=9, num_cpu_chunks=3)
    for prompt, n in ((tuple(range(100, 112)), 1), (tuple(range(200, 208)), 2)):
        served.submit(Request(prompt, n, forced=(7,) * n))
    finished(served)
    assert not served.scheduler.connector.transfers.jobs and not served.scheduler.connector.finished_reqs
    assert {*served.scheduler.connector.req_status[1].ends} <= {*served.scheduler.connector.manager.places}
    served.inspection.check()


def loading():
    """Return a server whose third request has begun to load."""
    served = server()
    finished(served, FIRST, SECOND)
    served.submit(Request(FIRST, 1, forced=(7,)))
    served.take_tasks()
    return served, served.begin_step().scheduler_output


def test_a_request_that_loads_has_no_tokens_in_a_step_and_holds_its_blocks():
    served, step = loading()
    request, manager = served.slots[2], served.scheduler.kv_cache_manager
    assert request.status == RequestStatus.WAITING_FOR_REMOTE_KVS and request.num_computed_tokens == 12
    assert not step.num_scheduled_tokens and [len(blocks) for blocks in manager.get_block_ids(2)] == [3]
    [job] = step.kv_connector_metadata.load_jobs
    assert len(job.copies) == 3
    assert manager.block_pool.get_cached_block(request.block_hashes[0], (0,)) is None       # published after the load
    served.scheduler.update_connector_output([job.job_id])
    assert served.scheduler.schedule().scheduled_reqs[2].num_computed_tokens == 12
    assert manager.block_pool.get_cached_block(request.block_hashes[0], (0,))


def test_blocks_of_an_aborted_request_stay_until_its_load_ends():
    served, step = loading()
    pool = served.scheduler.kv_cache_manager.block_pool
    free = pool.get_num_free_blocks()
    served.abort(served.slots[2])
    assert pool.get_num_free_blocks() == free and served.scheduler.finished_recving
    assert served.slots[2].task.answer.tokens_cached == 0
    served.inspection.check()
    served.scheduler.update_connector_output([step.kv_connector_metadata.load_jobs[0].job_id])
    assert pool.get_num_free_blocks() == free + 3 and not served.scheduler.finished_recving
    served.inspection.check()


def test_a_load_leaves_the_blocks_that_prompts_in_progress_miss():
    served = server(num_gpu_blocks=9, num_cpu_chunks=64, max_num_batched_tokens=8, scheduler_reserve_full_isl=False)
    finished(served, FIRST, SECOND, tuple(range(300, 320)))
    for prompt in (tuple(range(400, 424)), FIRST):                  # six blocks, four of them missing after a step
        served.submit(Request(prompt, 1, forced=(7,)))
    served.take_tasks()
    served.update()
    assert served.slots[4].status == RequestStatus.WAITING and served.slots[3].num_computed_tokens == 8
    finished(served)
    assert served.slots[4].task.answer.reused == {"chunk": 12}


@pytest.mark.parametrize("model, flags, told", [
    ("A", {"decode_context_parallel_size": 2}, "several devices"),
    ("GA", {"prefix_match_unit": 4}, "last part of a block of states"),
    ("GA", {"prefix_cache_retention_interval": -1}, "all kept"),
    ("GA", {"kv_groups": "A/4 S/4", "prefix_cache_retention_interval": 4, "blocks_per_chunk": 2}, "not a multiple"),
    ("SSA", {"kv_groups": "A/4 S/4 S/8"}, "blocks of different sizes"),
    ("A", {"kv_offloading_size": 4.0}, "num_cpu_chunks"),
])  # fmt: skip
def test_what_is_not_modelled_is_refused(model, flags, told):
    with pytest.raises(BadInput, match=told):
        ENGINE.start(NEW, model, {"num_cpu_chunks": 16, **flags}, "none")


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize("release", ["vllm@0.30.0", "vllm@0.31.0", "vllm@0.32.0"])
def test_a_prompt_comes_back_under_older_releases(release, policy):
    server = {**SMALL, "num_cpu_chunks": 7, "eviction_policy": policy}
    run = run_judged(from_line("A15/B19/A/B19", model="A", profiles=(release,), server=server), release)
    assert run.verdict.equal_cold
    assert sources(run) == [{}, {}, {"chunk": 12}, {"block": 4, "chunk": 12}]


@pytest.mark.parametrize("release, found", [("vllm@0.32.0", {}), (NEW, {"chunk": 4})])
def test_a_request_that_starts_again_offers_its_chunks_again(release, found):
    """The chunks that its first start stored were evicted before the preemption."""
    server = {**SMALL, "num_cpu_chunks": 3, "num_gpu_blocks": 7}
    line = "A8>a9/B8>b12{together}/C23/A"
    run = run_judged(from_line(line, model="A", profiles=(release,), server=server), release)
    assert run.verdict.equal_cold and sources(run)[-1] == found


def test_chunks_of_an_ended_request_are_copied_before_another_one_writes_in_their_blocks():
    """The store of Y has no room until it ended; in that step Z takes all blocks."""
    run = judged("X12/Y8>y2{together}/Z23{together}/Y", num_gpu_blocks=7, num_cpu_chunks=3)
    assert run.verdict.equal_cold and sources(run)[3] == {"chunk": 8}


@rule("TEST-OFF-LOAD", Role.LOAD, "one chunk less")
def load_less(found, local):
    """Load one chunk less than there is."""
    return Decision(max(0, found - 4) or None, {"local": local})


@rule("TEST-OFF-WAIT", Role.CONSULT, "never")
def never_wait(busy):
    """Start although a chunk is in use."""
    return Decision(True, {"busy": busy})


@rule("TEST-OFF-STORE", Role.STORE, "one chunk")
def store_one(missing, free, idle):
    """Store the first chunk alone."""
    return Decision(1, {"missing": missing, "evicted": 0})


@pytest.mark.parametrize("field, made, found", [
    ("load_chunks", load_less, [{"chunk": 8}, {"block": 12}]), ("wait_for_chunks", never_wait, [{"chunk": 12}, {}]),
    ("store_chunks", store_one, [{"chunk": 4}, {"block": 12}]),
])  # fmt: skip
def test_the_server_does_what_a_changed_rule_says(field, made, found):
    case = from_line("A15/B43/A/A{together}", model="A", profiles=(NEW,), server={**SMALL, "num_gpu_blocks": 12})
    run = run_judged(case, NEW, table=replace(ENGINE.profiles[NEW], **{field: made}))
    assert run.verdict.equal_cold and sources(run)[2:] == found


def test_why_states_what_was_loaded(capsys):
    assert main(["why", "vllm-offload-prompt-comes-back", "2", "--provenance"]) == exits.HOLDS
    assert "are loaded from CPU memory" in capsys.readouterr().out


@pytest.mark.parametrize("model, options, found", [
    ("W8 A", {}, {"chunk": 20}), ("W8", {"num_gpu_blocks": 14}, {"chunk": 20}), ("GA", {}, {"chunk": 20}),
    ("CA", {}, {"chunk": 20}),
    ("W8 A", {"async_scheduling": True}, {"chunk": 20}), ("GA", {"async_scheduling": True}, {"chunk": 20}),
    ("A", {"speculative_method": "eagle", "num_speculative_tokens": 2, "num_gpu_blocks": 14}, {"chunk": 16}),
    ("GA", {"speculative_method": "mtp", "num_speculative_tokens": 2, "async_scheduling": True}, {"chunk": 16}),
])  # fmt: skip
def test_windows_states_and_drafts_come_back_from_cpu_memory(model, options, found):
    case = from_line("A21>r6{draft_else=1}/B40/C40/A.r.D4", model=model, profiles=(NEW,), server={
        "block_size": 4, "num_gpu_blocks": 28, "num_cpu_chunks": 64, **options})  # fmt: skip
    run = run_judged(case, NEW)
    assert run.verdict.equal_cold and sources(run)[3] == found


def test_a_step_in_flight_keeps_the_blocks_of_a_request_that_ended():
    served = ENGINE.start(NEW, "A", {**SMALL, "num_gpu_blocks": 40, "async_scheduling": True}, "provenance")
    served.submit(Request(FIRST, 5, forced=(7,) * 5, eog=(8,)))
    served.submit(Request(SECOND, 9, forced=(7, 8, *(7,) * 7), eog=(8,)))
    served.take_tasks()
    kept = 0
    while not served.idle:
        served.update()
        kept = max(kept, len(served.scheduler.deferred_frees.blocks()))
        served.inspection.check()
    assert kept == 6 and not served.scheduler.deferred_frees.queue and served.slots[1].task.answer.tokens == [7, 8]
