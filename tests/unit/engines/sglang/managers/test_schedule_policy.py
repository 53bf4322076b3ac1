"""Order of waiting requests, and admission within the budgets of a step."""

from dataclasses import replace

import pytest

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.managers.schedule_policy import PrefillAdder, SchedulePolicy
from cachesim.engines.sglang.mem_cache.common import match_kv_cache
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.rules.schedule import CONTINUE, NO_TOKEN, OTHER, AdmissionCandidate, WaitingRequest
from tests.unit.engines.sglang.trees import insert, make_cache, make_req

TEXT = tuple(range(100, 140))


def adder_of(cache, *running):
    return PrefillAdder(cache.context, cache, running)


def admit(adder, req, has_chunked_req=False):
    match_kv_cache(req, adder.tree_cache, req.seqlen - 1, cow_mamba=True)
    return adder.add_one_req(req, has_chunked_req)


def test_the_longest_hit_is_first_and_twins_wait():
    cache, pools = make_cache(schedule_policy="lpm", in_batch_threshold=8)
    insert(cache, pools, TEXT[:10])
    miss, hit, twin = make_req(0, (1, *TEXT[:20])), make_req(1, TEXT[:12]), make_req(2, (1, *TEXT[:15]))
    queue = [twin, miss, hit]
    SchedulePolicy(cache.context, cache).calc_priority(queue)
    assert queue == [hit, twin, miss] and hit.num_matched_prefix_tokens == 10


def test_many_waiting_requests_are_not_matched():
    cache, pools = make_cache(schedule_policy="lpm")
    insert(cache, pools, TEXT[:10])
    queue = [make_req(rid, TEXT[:12]) for rid in range(cache.rules.many_waiting + 1)]
    SchedulePolicy(cache.context, cache).calc_priority(queue)
    assert [req.rid for req in queue] == list(range(len(queue))) and queue[0].last_node is None


def test_waiting_prefixes_are_made_recent_from_time_to_time():
    cache, pools = make_cache()
    insert(cache, pools, TEXT[:10])
    node = next(cache.tree_core.nodes())
    policy = SchedulePolicy(cache.context, cache)
    times = []
    for _ in range(cache.rules.refresh + 1):
        policy.calc_priority([make_req(0, TEXT[:10])])
        times.append(node.last_access_time)
    assert len({*times[:-1]}) == 1 and times[-1] > times[0]


def test_a_request_is_admitted_while_there_is_room():
    cache, _ = make_cache(size=64)
    adder = adder_of(cache)
    assert admit(adder, make_req(0, TEXT[:30], answer=5)) == CONTINUE
    assert (adder.rem_total_tokens, adder.cur_rem_tokens) == (64 - 30 - 5 - 1, 64 - 30 - 1)
    refused = make_req(1, TEXT[::-1][:30], answer=5)
    assert admit(adder, refused) == NO_TOKEN and refused.lock is None
    assert [req.rid for req in adder.can_run_list] == [0]
    assert [(one.rid, one.result) for one in adder.verdicts] == [(0, CONTINUE), (1, NO_TOKEN)]


def test_a_refused_request_gives_back_its_state_and_copies_none():
    cache, pools = make_cache("GA")
    insert(cache, pools, TEXT[:10])
    adder, req = adder_of(cache), make_req(0, TEXT[:20])
    adder.rem_total_token_offset = 64
    match_kv_cache(req, cache, req.seqlen - 1, cow_mamba=True)
    assert None not in (req.kv.mamba_cow_src_index, req.kv.mamba_pool_idx)
    free = pools.req_to_token_pool.mamba_allocator.available_size()
    assert adder.add_one_req(req, has_chunked_req=False) == NO_TOKEN
    assert (req.kv.mamba_cow_src_index, req.kv.mamba_pool_idx) == (None, None)
    assert pools.req_to_token_pool.mamba_allocator.available_size() == free + 1


def test_running_requests_keep_a_share_of_their_answers():
    cache, _ = make_cache(size=64, new_token_ratio=0.5)
    assert adder_of(cache, make_req(0, TEXT[:10], answer=20)).rem_total_tokens == 64 - 10


def test_a_long_prompt_is_cut_to_the_chunk():
    cache, _ = make_cache(size=64, chunked_prefill_size=8)
    adder = adder_of(cache)
    req = make_req(0, TEXT[:20])
    assert admit(adder, req) == OTHER and (req.extend_end, req.is_chunked) == (8, True)
    assert adder.budget_state() == OTHER
    req.prefix_len = 8
    following = adder_of(cache)
    following.add_chunked_req(req, limit=5)
    assert (req.extend_end, req.is_chunked, following.rem_chunk_tokens) == (13, True, 3)
    following.add_chunked_req(req, limit=None)
    assert req.extend_end == 11


@pytest.mark.parametrize(("policy", "limit"), [("fcfs", None), ("shortest-prefill-first", 8)])
def test_only_one_policy_shares_a_chunk(policy, limit):
    cache, _ = make_cache(schedule_policy=policy)
    made = SchedulePolicy(cache.context, cache)
    made.calc_priority([make_req(0, TEXT[:4]), make_req(1, TEXT[4:8])])
    assert made.shortest_prefill_chunk_limit(make_req(2, TEXT), 16) == limit


def test_whole_prompts_beyond_the_input_budget_start_only_as_the_first():
    cache, _ = make_cache(size=256, chunked_prefill_size=-1, max_prefill_tokens=16)
    adder = adder_of(cache)
    assert admit(adder, make_req(0, TEXT[:10])) == CONTINUE
    assert admit(adder, make_req(1, TEXT[::-1][:10])) == OTHER and len(adder.can_run_list) == 1
    first = adder_of(cache)
    assert admit(first, make_req(2, TEXT[:30])) == OTHER and len(first.can_run_list) == 1, "the first may exceed it"


@pytest.mark.parametrize(("size", "state"), [(31, NO_TOKEN), (32, NO_TOKEN), (33, CONTINUE)])
def test_no_slot_that_is_not_taken_ends_the_step(size, state):
    cache, _ = make_cache(size=size)
    adder = adder_of(cache)
    adder.cur_rem_token_offset = 32
    assert adder.budget_state() == state


@pytest.mark.parametrize(("offset", "fits"), [(61, 0), (60, 0), (59, 1), (55, 5), (40, 16)])
def test_a_chunk_of_a_model_with_windows_waits_without_room_for_a_page_beyond_it(offset, fits):
    """The window has 64 slots, of which other requests reserve ``offset``; a page has four."""
    cache, _ = make_cache("W8 A", size=64, page_size=4, chunked_prefill_size=16)
    adder = adder_of(cache)
    adder.rem_swa_token_offset = offset
    req = make_req(0, TEXT)
    req.extend_end = req.prefix_len = 8
    adder.add_chunked_req(req, None)
    decided = [(event.rule, event.value, event.because) for event in cache.log.events if event.ev == "decided"]
    assert [one.rid for one in adder.can_run_list] == ([0] if fits else [])
    assert req.extend_end == 8 + fits
    assert [value for _, value, _ in decided] == ([] if fits else [0])
    if not fits:
        assert decided[0][2] == {"left": 32, "total": 64, "window": 64 - offset}


def test_admission_knows_what_a_request_needs():
    cache, _ = make_cache("W8 A", size=64, page_size=4, chunked_prefill_size=16)
    adder = adder_of(cache)
    req = make_req(0, TEXT[:20], answer=9)
    req.host_hit_length, req.swa_host_hit_length = 12, 8
    ask = adder._candidate(req, False)
    assert (ask.n, ask.hit, ask.answer, ask.first, ask.chunked) == (20, 0, 9, True, False)
    assert (ask.loads, ask.window_loads) == (12, 8)
    assert (ask.input, ask.chunk, ask.total, ask.window) == (adder.rem_input_tokens, 16, 64, 64)
    assert (ask.size, ask.width, ask.page) == (64, cache.context.swa_retain_window, 4)
    adder.can_run_list.append(req)
    assert not adder._candidate(req, False).first


def test_admission_does_not_ask_for_windows_of_a_model_without_them():
    cache, _ = make_cache(size=64)
    ask = adder_of(cache)._candidate(make_req(0, TEXT[:20]), False)
    assert (ask.window, ask.size, ask.loads, ask.window_loads) == (None, 0, 0, 0)


ADMITTED = AdmissionCandidate(20, 20, 10, True, 64, 16, 100, None, 0, 0, 4, loads=12, window_loads=8)


def loading(monkeypatch, loaded):
    """Return admission, and a request of 40 tokens that matched 8 on the device, for which so many are loaded."""
    cache, pools = make_cache(enable_hierarchical_cache=True)
    insert(cache, pools, TEXT[:8])
    insert(cache, pools, TEXT[:20])
    req = make_req(0, TEXT)
    req.prefix_len = 8
    req.last_node, req.best_match_node = cache.tree_core.nodes()
    monkeypatch.setattr(cache.load_back, "init_load_back", lambda req: loaded)
    return adder_of(cache), req


@pytest.mark.parametrize(("n", "end", "loaded", "left"), [(9, 25, 17, 9), (9, 33, 25, 7), (9, 40, 32, 0)])
def test_after_a_load_a_request_evaluates_what_is_left_of_its_prompt(monkeypatch, n, end, loaded, left):
    adder, req = loading(monkeypatch, loaded)
    req.best_match_node.end = end
    assert adder._load_back(req, ADMITTED, n) == left
    assert req.last_node is req.best_match_node
    assert (req.prefix_len, req.kv.cache_protected_len) == ((8 + loaded, 8 + loaded) if left else (8, 0))


@pytest.mark.parametrize("left", [5, 0, None])
def test_a_request_whose_load_is_declined_is_admitted_again_with_all_its_tokens(monkeypatch, left):
    adder, req = loading(monkeypatch, 0)
    asked = []

    @rule("T-ADMIT", Role.ADMIT, "a test")
    def admission(ask) -> Decision:
        asked.append(ask)
        return Decision(left, {})

    adder.rules = replace(adder.rules, admission=admission)
    node = req.last_node
    assert adder._load_back(req, ADMITTED, 9) == left and req.last_node is node
    assert asked == [ADMITTED._replace(n=20 + 12, hit=8, loads=0, window_loads=0)]
    assert adder._load_back(req, ADMITTED._replace(loads=0), 9) == 9 and len(asked) == 1


@pytest.mark.parametrize(("threshold", "late"), [(1, {1, 2}), (2, {2}), (3, {2}), (4, set())])
def test_a_request_waits_for_a_twin_with_enough_common_tokens(threshold, late):
    """The second has one token in common with the first, the third three."""
    cache, _ = make_cache(schedule_policy="lpm", in_batch_threshold=threshold)
    queue = [make_req(0, (1, 2, 3, 4)), make_req(1, (1, 9, 9, 9)), make_req(2, (1, 2, 3, 9))]
    assert SchedulePolicy(cache.context, cache)._compute_prefix_matches(queue) == late


@pytest.mark.parametrize(("policy", "more", "active"), [
    ("lpm", 0, "lpm"), ("lpm", 1, "fcfs"), ("dfs-weight", 1, "dfs-weight"), ("lof", 1, "lof"),
])  # fmt: skip
def test_the_longest_hit_is_sought_among_few_waiting_requests(policy, more, active):
    cache, _ = make_cache(schedule_policy=policy)
    waiting = [None] * (cache.rules.many_waiting + more)
    assert SchedulePolicy(cache.context, cache)._determine_active_policy(waiting) == active


@pytest.mark.parametrize(("chunk", "tokens", "state"), [(2, 9, CONTINUE), (1, 9, CONTINUE), (0, 9, OTHER),
                                                        (None, 9, CONTINUE), (None, 0, OTHER), (4, 0, OTHER),
                                                        (4, 1, CONTINUE), (None, 1, CONTINUE)])  # fmt: skip
def test_a_step_ends_when_its_chunk_or_its_input_is_used_up(chunk, tokens, state):
    adder = adder_of(make_cache(size=64)[0])
    adder.rem_chunk_tokens, adder.rem_input_tokens = chunk, tokens
    assert adder.budget_state() == state


def test_waiting_requests_have_the_places_of_a_walk_through_the_tree():
    cache, pools = make_cache(schedule_policy="dfs-weight")
    insert(cache, pools, TEXT[:10])
    deep, other, unmatched = make_req(4, TEXT[:12]), make_req(5, (1, 2, 3)), make_req(6, TEXT)
    policy = SchedulePolicy(cache.context, cache)
    policy._compute_prefix_matches([deep, other])
    assert policy._dfs_weight_places([deep, other, unmatched]) == {4: 0, 5: 1}


@pytest.mark.parametrize(("policy", "refreshed"), [
    ("lpm", False), ("dfs-weight", False), ("fcfs", True), ("lof", True),
])  # fmt: skip
def test_prefixes_are_refreshed_only_if_the_policy_does_not_match_them(policy, refreshed, monkeypatch):
    cache, _ = make_cache(schedule_policy=policy)
    made, asked = SchedulePolicy(cache.context, cache), []
    monkeypatch.setattr(made, "_touch_waiting_prefixes", asked.append)
    made.calc_priority([])
    queue = [make_req(0, TEXT[:4])]
    made.calc_priority(queue)
    assert asked == [queue] * refreshed


@pytest.mark.parametrize(("policy", "order", "hits"), [
    ("lpm", [1, 0, 2], [10, 9, 0]), ("fcfs", [0, 1, 2], [0, 0, 0]), ("shortest-prefill-first", [0, 1, 2], [9, 10, 0]),
])  # fmt: skip
def test_the_facts_of_waiting_requests_are_in_the_order_of_the_queue(policy, order, hits):
    """A request whose whole prompt is in the tree evaluates its last token."""
    cache, pools = make_cache(schedule_policy=policy)
    insert(cache, pools, TEXT[:10])
    queue = [make_req(0, TEXT[:10], 3), make_req(1, TEXT[:12], 4), make_req(2, TEXT[20:28], 5)]
    lengths, answers = [req.seqlen for req in queue], [3, 4, 5]
    made = SchedulePolicy(cache.context, cache)
    made.calc_priority(queue)
    assert [req.rid for req in queue] == order
    assert made.waiting_facts == [WaitingRequest(lengths[rid], hit, answers[rid], False, 0)
                                  for rid, hit in zip(order, hits, strict=True)]  # fmt: skip


@pytest.mark.parametrize(("threshold", "late"), [(7, set()), (8, {1}), (9, {1}), (12, {1}), (13, set())])
def test_a_request_with_a_longer_hit_than_the_threshold_waits_for_no_twin(threshold, late):
    """Both have the same twelve tokens, of which the tree has eight."""
    cache, pools = make_cache(schedule_policy="lpm", in_batch_threshold=threshold)
    insert(cache, pools, TEXT[:8])
    queue = [make_req(rid, TEXT[:12]) for rid in (0, 1)]
    assert SchedulePolicy(cache.context, cache)._compute_prefix_matches(queue) == late
    assert [req.prefix_len for req in queue] == [8, 8]


@pytest.mark.parametrize(("size", "chunk"), [(-1, None), (0, None), (1, 1), (8, 8)])
def test_prompts_are_evaluated_whole_without_a_size_of_chunks(size, chunk):
    assert adder_of(make_cache(chunked_prefill_size=size)[0]).rem_chunk_tokens == chunk


@pytest.mark.parametrize(("offset", "state"), [(65, NO_TOKEN), (64, NO_TOKEN), (63, CONTINUE)])
def test_no_window_slot_that_is_not_promised_ends_the_step(offset, state):
    adder = adder_of(make_cache("W8 A", size=64)[0])
    adder.rem_swa_token_offset = offset
    assert adder.budget_state() == state


@pytest.mark.parametrize(("policy", "continuing", "waits"), [
    ("fcfs", True, False), ("lpm", True, False), ("shortest-prefill-first", True, True),
    ("shortest-prefill-first", False, False),
])  # fmt: skip
def test_a_prompt_that_would_be_cut_waits_for_one_that_continues_if_the_shortest_is_first(policy, continuing, waits):
    cache, _ = make_cache(schedule_policy=policy)
    assert adder_of(cache)._candidate(make_req(0, TEXT), continuing).chunked is waits


def test_a_repaired_server_cuts_one_prompt_in_a_step():
    cache, _ = make_cache(rules=PROFILES["sglang@0.5.23-repaired"])
    adder = adder_of(cache)
    assert adder._candidate(make_req(0, TEXT), False).chunked is False
    adder.new_chunked_reqs.append(make_req(1, TEXT))
    assert adder._candidate(make_req(0, TEXT), False).chunked is True
