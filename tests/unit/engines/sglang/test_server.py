"""The server: turns, chunks, retraction, cancelled requests, key of a name space, invariants."""

import pytest

from cachesim.base.errors import BadInput, Crash, NotInBuild
from cachesim.engines.base import BEFORE_A_SLOT, Request
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, SWA
from cachesim.engines.sglang.rules.schedule import CLIP
from cachesim.engines.shared.request_queue import key_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line

A, B = tuple(range(100, 120)), tuple(range(200, 220))


def start(engine, model="A", mode="none", profile="sglang@0.5.23", **flags):
    return engine.start(profile, model, flags, mode)


def core_of(server):
    return server.scheduler.tree_cache.tree_core


def sizes(server, kind):
    parts = core_of(server).components.values()
    return [one.protected_size if kind == "protected" else one.evictable_size for one in parts]


def turns(server):
    return [event.record() for event in server.log.events if isinstance(event, SchedulerStep)]


def test_a_prompt_is_evaluated_in_chunks(engine):
    server = start(engine, chunked_prefill_size=8, disable_overlap_schedule=True)
    answer = server.complete(Request(A, 2))
    assert [turn["run"] for turn in turns(server)] == [[[0, 0, 8]], [[0, 8, 16]], [[0, 16, 20]], [[0, 20, 21]]]
    assert (answer.prompt_n, answer.predicted_n, answer.tokens_cached) == (20, 2, 21)


def test_requests_that_do_not_fit_wait_and_are_put_back(engine):
    server = start(engine, max_total_tokens=64, new_token_ratio=0.0)
    answers = [server.submit(Request(prompt, 20)) for prompt in (A, B)]
    while server.working:
        server.iterate()
        server.inspection.check()
    assert [turn["retracted"] for turn in turns(server) if "retracted" in turn] == [[1]]
    assert all(answer.done and answer.predicted_n == 20 for answer in answers)
    assert sizes(server, "protected") == [0]


def test_lof_counts_what_a_retracted_request_has_generated(engine):
    server = start(engine, max_total_tokens=64, new_token_ratio=0.0, schedule_policy="lof", max_running_requests=2)
    for prompt, n in ((A, 20), (B, 20), (A[:5], 15)):
        server.submit(Request(prompt, n))
    while server.working:
        server.iterate()
    queues = [turn["queue"] for turn in turns(server) if turn["op"] == "prefill"]
    assert [1, 2] in queues and [2, 1] not in queues


def test_a_request_beyond_the_pool_is_aborted(engine):
    server = start(engine, max_total_tokens=64)
    assert server.complete(Request(A * 4, 1)).status == 400
    server = start(engine, "W8 A", max_total_tokens=400, swa_tokens=40)
    answer = server.complete(Request(A, 60))
    assert (answer.status, answer.error_kind) == (500, "no-room") and not server.running
    server.inspection.check()


def test_a_request_that_never_fits_is_stuck(engine):
    server = start(engine, max_total_tokens=64)
    answer = server.complete(Request(A, 60))
    assert server.stuck and not server.working and not answer.done


@pytest.mark.parametrize(("at", "kept"), [(22, 22), (8, 0), (16, 8), (BEFORE_A_SLOT, 0)])
def test_a_cancelled_request_leaves_what_it_computed(engine, at, kept):
    server = start(engine, chunked_prefill_size=8, disable_overlap_schedule=True)
    answer = server.complete(Request(A, 9, cancel_at=at))
    assert answer.cancelled and sum(len(node.key) for node in core_of(server).nodes()) == kept
    server.inspection.check()


@pytest.mark.parametrize(("line", "flags", "cause"), [
    ("A30/A.B9", {"disable_radix_cache": True}, "cache off"), ("A30/A!", {}, "unread")])  # fmt: skip
def test_a_request_that_reads_no_prefix_is_charged_to_that(line, flags, cause):
    case = from_line(line, model="A", profiles=("sglang@0.5.23",), server=flags)
    [charge] = run_judged(case, "sglang@0.5.23").requests[1].ledger.charges
    assert (charge.event, charge.rule) == (cause, "") and charge.tokens in (29, 30)


def test_other_name_spaces_share_nothing(engine):
    server = start(engine, mode="provenance")
    spaces = {}, {"cache_salt": "x"}, {"extra_key": "x"}, {}
    answers = [server.complete(Request(A, 1, extra=extra)) for extra in spaces]
    assert [answer.cache_n for answer in answers] == [0, 0, 0, 19]
    digests = [answer.outputs[0].digest for answer in answers]
    assert digests[0] == digests[3] and len(set(digests)) == 3


def test_a_copy_continues_alone(engine):
    server = start(engine, "W4 A G", max_total_tokens=200, swa_eviction_interval=1,
                   mamba_radix_cache_strategy="no_buffer", disable_overlap_schedule=True)  # fmt: skip
    server.complete(Request(A, 8))
    twin = server.fork()
    assert twin.complete(Request((*A, 1), 1)).cache_n == server.complete(Request((*A, 1), 1)).cache_n
    twin.complete(Request(B, 1))
    assert len(list(core_of(twin).nodes())) > len(list(core_of(server).nodes()))
    server.inspection.check()
    twin.inspection.check()


def test_drafts_take_slots_and_steps(engine):
    server = start(engine, "A", "provenance", speculative_algorithm="NGRAM", speculative_num_steps=3, page_size=4,
                   disable_overlap_schedule=True)  # fmt: skip
    answer = server.complete(Request(A, 9, draft_else=2))
    assert [turn["run"] for turn in turns(server)] == [[[0, 0, 20]], [[0, 20, 23]], [[0, 23, 26]], [[0, 26, 29]]]
    assert (answer.predicted_n, answer.tokens_cached, len(answer.outputs)) == (9, 29, 10)
    alone = start(engine, "A", "provenance").complete(Request(A, 9))
    assert answer.tokens == alone.tokens
    assert server.scheduler.pools.token_to_kv_pool_allocator.available_size() == 4096 - 28
    server.inspection.check()


@pytest.mark.parametrize(("profile", "model", "strategy", "kept"), [
    ("0.5.23", "A", "no_buffer", 27), ("0.5.20", "A", "no_buffer", 28), ("0.5.23", "GA", "no_buffer", 20),
    ("0.5.20", "GA", "no_buffer", 28), ("0.5.23", "GA", "extra_buffer", 24), ("0.5.20", "GA", "extra_buffer", 28),
])  # fmt: skip
def test_an_answer_that_ends_inside_a_draft(engine, profile, model, strategy, kept):
    server = start(engine, model, "provenance", profile=f"sglang@{profile}", speculative_algorithm="NGRAM",
                   state_grid=4, mamba_track_interval=4, mamba_radix_cache_strategy=strategy,
                   disable_overlap_schedule=strategy == "no_buffer")  # fmt: skip
    answer = server.complete(Request(A, 7, draft_else=3))
    assert answer.predicted_n == 7 and sum(len(node.key) for node in core_of(server).nodes()) == kept
    server.inspection.check()


def test_drafts_reserve_two_steps(engine):
    server = start(engine, "A", speculative_algorithm="NGRAM", speculative_num_steps=3, page_size=4,
                   disable_overlap_schedule=True)  # fmt: skip
    server.submit(Request(A[:18], 9, draft_else=3))
    server.take_tasks()
    server.update()
    server.update()
    assert (server.slots[0].kv.kv_committed_len, server.slots[0].kv.kv_allocated_len) == (22, 28)
    assert turns(start_again := start(engine, "A")) == [] and start_again.context.alloc_reserve_per_decode == 1


@pytest.mark.parametrize(("model", "hits"), [("A", [0, 18, 18]), ("W4 A", [0, 18, 18]), ("GA", [0, 0, 20])])
def test_eagle_compares_pairs_of_tokens(engine, model, hits):
    server = start(engine, model, "provenance", speculative_algorithm="EAGLE", mamba_radix_cache_strategy="no_buffer",
                   disable_overlap_schedule=True)  # fmt: skip
    prompts = A, A, (*A[:19], 1) if model != "GA" else (*A, 1)
    answers = [server.complete(Request(prompt, 1)) for prompt in prompts]
    assert [answer.cache_n for answer in answers] == hits
    server.inspection.check()


def test_the_tree_keeps_the_window_of_the_drafter(engine):
    for profile, hit in (("sglang@0.5.23", 0), ("sglang@0.5.20", 19)):
        server = start(engine, "W4 A", profile=profile, draft_window=30, speculative_algorithm="NGRAM",
                       chunked_prefill_size=8)  # fmt: skip
        server.complete(Request(A, 1))
        assert server.context.swa_retain_window == (30 if profile.endswith("23") else 4)
        core_of(server).evict_component(next(core_of(server).nodes()), SWA, "test")
        assert server.complete(Request(A, 1)).cache_n == hit


def test_check_finds_lost_slots_and_wrong_sizes(engine):
    server = start(engine)
    server.complete(Request(A, 1))
    server.scheduler.pools.token_to_kv_pool_allocator.free_pages.pop()
    with pytest.raises(Crash, match="pages are free or in use"):
        server.inspection.check()
    core_of(server).full.evictable_size += 1
    with pytest.raises(Crash, match="evictable"):
        server.inspection.check()


def lock_window(server, node):
    """Count a lock of a window only."""
    swa = core_of(server).swa
    swa.count_lock(node, 1)
    assert (swa.evictable_size, swa.protected_size) == (16, 4)
    del core_of(server).evictable_device_leaves[node]


@pytest.mark.parametrize(("damage", "message"), [
    (lambda server, node: setattr(node, "end", node.end + 1), "continue its parent"),
    (lambda server, node: node.value.__setitem__(FULL, node.value[FULL][1:]), "for 4 tokens"),
    (lock_window, "those of full attention are not the most"),
    (lambda server, node: core_of(server).swa.lru_list.remove_node(node), "recency list"),
    (lambda server, node: node.lru_prev.__setitem__(SWA, node), "broken"),
    (lambda server, node: server.scheduler.pools.swa_allocator.swa_attn_allocator.free_pages.pop(),
     "pages are free or in use"),
])  # fmt: skip
def test_check_finds_broken_nodes_and_lists(engine, damage, message):
    server = start(engine, "W4 A")
    server.complete(Request(A, 1))
    server.inspection.check()
    damage(server, next(node for node in core_of(server).nodes() if not node.children))
    with pytest.raises(Crash, match=message):
        server.inspection.check()


@pytest.mark.parametrize("request_", [Request((), 1), Request(A, 1, n_cmpl=2), Request(A, 1, kind="infill")])
def test_unsupported_requests_are_refused(engine, request_):
    with pytest.raises(BadInput):
        start(engine).submit(request_)
    with pytest.raises(BadInput, match="windows only"):
        start(engine, "W8")
    for model, flags, why in (("A", {"disable_radix_cache": True}, "exclude"),
                              ("A", {"hicache_size": 30}, "a size in GB"),
                              ("A", {"hicache_storage_backend": "file"}, "a storage")):  # fmt: skip
        with pytest.raises(BadInput, match=why):
            start(engine, model, enable_hierarchical_cache=True, **flags)
    with pytest.raises(BadInput, match="multiple of page_size"):
        start(engine, "GA", mamba_radix_cache_strategy="extra_buffer", page_size=4, state_grid=6)
    with pytest.raises(BadInput, match="no slots"):
        start(engine).slot("save", 0)


def test_a_wrong_row_is_seen(engine):
    """A request that reads slots of another one gives another answer: the arithmetic is behind the slots."""
    answers = []
    for damage in (False, True):
        server = start(engine, mode="provenance")
        server.complete(Request(A, 1))
        if damage:
            server.scheduler.pools.token_to_kv_pool.kv_buffer[0].digest[3] += 1
        answers.append(server.complete(Request((*A, 1), 1)).outputs[0].digest)
    assert answers[0] != answers[1]


def test_its_nodes_show_parts_locks_and_parents(engine):
    server = start(engine, "W4 A", swa_eviction_interval=1)
    server.complete(Request(tuple(range(20)), n_predict=4))
    cells = server.cache_cells.nodes()
    assert [cell.parent for cell in cells] == [0, *(cell.id for cell in cells[:-1])]
    assert cells[0].lacks == ["window"] and cells[-1].held == ["rows", "window"] and cells[-1].end == 23
    assert not any(cell.locks for cell in cells)


def test_a_dead_server_answers_nothing(engine):
    server = start(engine, max_total_tokens=80, new_token_ratio=0.1, strip_thinking_cache=True,
                   disable_overlap_schedule=True)  # fmt: skip
    first = server.submit(Request(tuple(range(20)), n_predict=30))
    second = server.submit(Request(tuple(range(30, 50)), n_predict=30))
    while server.working:
        server.take_tasks()
        server.update()
    assert first.done and not first.died and second.died and server.dead
    assert second.error == "AssertionError: cache_protected_len=41, page_aligned_len=20"
    third = server.submit(Request((1, 2, 3)))
    assert not server.working and not third.done


def test_no_more_requests_run_than_allowed(engine):
    server = start(engine, max_running_requests=2, disable_overlap_schedule=True)
    answers = [server.submit(Request(tuple(range(100 * n, 100 * n + 10)), 3)) for n in (1, 2, 3)]
    excesses = []
    while server.working:
        server.iterate()
        excesses += server.inspection.exceeded_limits()
    assert all(answer.done for answer in answers) and excesses == []
    assert [[run[0] for run in turn["run"]] for turn in turns(server)] == [[0, 1], [0, 1], [0, 1], [2], [2], [2]]
    assert all(turn["op"] == "decode" or turn["run"] for turn in turns(server)), "a full server tries no prefill step"


def test_more_requests_than_allowed_are_an_excess(engine):
    server = start(engine)
    server.submit(Request(A, 4))
    server.submit(Request(B, 4))
    server.iterate()
    server.scheduler.max_running_requests = 1
    assert [(one.held, one.most) for one in server.inspection.exceeded_limits()] == [(2, 1)]


def test_an_answer_ends_at_the_longest_length(engine):
    """Admission counts at most ``CLIP`` tokens of an answer, so that a longer one can reach the end of the pool."""
    server = start(engine, max_total_tokens=CLIP + 100)
    assert server.scheduler.max_req_len == CLIP + 98
    answer = server.complete(Request(A, 2 * CLIP))
    assert (answer.status, answer.predicted_n) == (200, CLIP + 98 - len(A))


def test_a_slot_has_the_window_before_its_next_token(engine):
    server = start(engine, "W4 A", "provenance")
    server.submit(Request(A, 4))
    server.iterate()
    full, window = server.inspection.stored(("slot", 0, 0)).rows
    assert full.pos.tolist() == list(range(20)) and window.pos.tolist() == [16, 17, 18, 19]


@pytest.mark.parametrize(("profile", "policy", "reused"), [
    ("sglang@0.5.23", "lru", 0), ("sglang@0.5.23", "lfu", 39), ("sglang@0.5.9", "lru", 0), ("sglang@0.5.9", "lfu", 0),
])  # fmt: skip
def test_lfu_of_0_5_9_evicts_by_time_alone(profile, policy, reused):
    server = {"max_total_tokens": 110, "radix_eviction_policy": policy}
    case = from_line("A40>1/A.a1/A.b1/B40>1/C40>1/A", model="A", profiles=(profile,), server=server)
    run = run_judged(case, profile, "provenance")
    assert [one.answer.cache_n for one in run.requests] == [0, 40, 40, 0, 0, reused]


def test_slru_does_not_exist_in_0_5_9():
    case = from_line("A5", profiles=("sglang@0.5.9",), server={"radix_eviction_policy": "slru"})
    with pytest.raises(NotInBuild, match=r"slru does not exist in sglang@0\.5\.9"):
        run_judged(case, "sglang@0.5.9", "provenance")


@pytest.mark.parametrize(("extra", "names", "priority"), [
    ({}, ("", ""), 0), ({"extra_key": "x"}, ("x", ""), 0), ({"cache_salt": "y"}, ("", "y"), 0),
    ({"extra_key": "x", "cache_salt": "y", "priority": 3}, ("x", "y"), 3),
])  # fmt: skip
def test_a_received_request_has_its_name_space_and_its_priority(engine, extra, names, priority):
    server = start(engine)
    server.submit(Request((1, 2, 3), 1, extra=extra))
    server.take_tasks()
    [req] = server.slots
    assert (req.rid, req.extra_key, req.key, req.priority) == (0, names, key_of(*names), priority)
