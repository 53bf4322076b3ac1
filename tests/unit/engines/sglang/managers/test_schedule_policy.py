"""Order of waiting requests, and admission within the budgets of a step."""


import pytest

from cachesim.engines.sglang.managers.schedule_policy import PrefillAdder, SchedulePolicy
from cachesim.engines.sglang.mem_cache.common import match_kv_cache
from cachesim.engines.sglang.rules.schedule import CONTINUE, NO_TOKEN, OTHER, WaitingRequest
from cachesim.engines.shared.step_notes import StepNotes
from tests.unit.engines.sglang.trees import insert, make_cache, make_req

TEXT = tuple(range(100, 140))


def adder_of(cache, *running):
    return PrefillAdder(cache.context, cache, running, StepNotes(cache.context.log, "retracted"))


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


@pytest.mark.parametrize("more", [0, 1])
def test_many_waiting_requests_are_not_matched(more):
    cache, pools = make_cache(schedule_policy="lpm")
    insert(cache, pools, TEXT[:10])
    queue = [make_req(rid, TEXT[:12]) for rid in range(cache.rules.many_waiting + more)]
    SchedulePolicy(cache.context, cache).calc_priority(queue)
    assert [req.rid for req in queue] == list(range(len(queue)))
    assert (queue[0].last_node is None) is (more == 1)


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


def test_of_waiting_requests_the_prefix_of_the_first_is_the_most_recent():
    cache, pools = make_cache()
    texts = TEXT[:10], TEXT[20:30]
    for text in texts:
        insert(cache, pools, text)
    first, second = cache.tree_core.nodes()                       # in the order of their insertion
    before = first.last_access_time, second.last_access_time
    SchedulePolicy(cache.context, cache).calc_priority([make_req(rid, text) for rid, text in enumerate(texts)])
    assert first.last_access_time > second.last_access_time > max(before)


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



@pytest.mark.parametrize(("chunk", "tokens", "state"), [(2, 9, CONTINUE), (1, 9, CONTINUE), (0, 9, OTHER),
                                                        (None, 9, CONTINUE), (None, 0, OTHER), (4, 0, OTHER),
                                                        (4, 1, CONTINUE), (None, 1, CONTINUE)])  # fmt: skip
def test_a_step_ends_when_its_chunk_or_its_input_is_used_up(chunk, tokens, state):
    adder = adder_of(make_cache(size=64)[0])
    adder.rem_chunk_tokens, adder.rem_input_tokens = chunk, tokens
    assert adder.budget_state() == state


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


@pytest.mark.parametrize(("size", "chunk"), [(-1, None), (0, None), (1, 1), (8, 8)])
def test_prompts_are_evaluated_whole_without_a_size_of_chunks(size, chunk):
    assert adder_of(make_cache(chunked_prefill_size=size)[0]).rem_chunk_tokens == chunk


@pytest.mark.parametrize(("offset", "state"), [(65, NO_TOKEN), (64, NO_TOKEN), (63, CONTINUE)])
def test_no_window_slot_that_is_not_promised_ends_the_step(offset, state):
    adder = adder_of(make_cache("W8 A", size=64)[0])
    adder.rem_swa_token_offset = offset
    assert adder.budget_state() == state


@pytest.mark.parametrize(("in_tree", "threshold", "order"), [
    (0, 3, [0, 2, 1]), (0, 4, [0, 1, 2]), (8, 7, [0, 1, 2]), (8, 8, [0, 2, 1]), (8, 12, [0, 2, 1]), (8, 13, [0, 1, 2]),
])  # fmt: skip
def test_a_request_waits_for_a_twin_with_which_it_has_more_tokens_in_common_than_with_the_tree(
        in_tree, threshold, order):
    """The first two requests have three tokens in common, or twelve of which the tree has eight."""
    cache, pools = make_cache(schedule_policy="lpm", in_batch_threshold=threshold)
    prompts = ((1, 2, 3, 4), (1, 2, 3, 9), (7, 8))
    if in_tree:
        insert(cache, pools, TEXT[:in_tree])
        prompts = (TEXT[:12], TEXT[:12], (7, 8))
    queue = [make_req(rid, prompt) for rid, prompt in enumerate(prompts)]
    SchedulePolicy(cache.context, cache).calc_priority(queue)
    assert [req.rid for req in queue] == order


def test_the_branch_of_the_tree_with_most_waiting_requests_is_first():
    cache, pools = make_cache(schedule_policy="dfs-weight")
    insert(cache, pools, TEXT[:10])
    insert(cache, pools, (1, 2, 3))
    queue = [make_req(rid, prompt) for rid, prompt in enumerate(((1, 2, 3, 4), TEXT[:12], (*TEXT[:10], 7)))]
    SchedulePolicy(cache.context, cache).calc_priority(queue)
    assert [req.rid for req in queue] == [1, 2, 0]


def test_a_chunk_is_shared_by_what_is_left_of_its_prompt():
    cache, _ = make_cache(schedule_policy="shortest-prefill-first")
    made = SchedulePolicy(cache.context, cache)
    made.calc_priority([make_req(0, TEXT[:4]), make_req(1, TEXT[4:14])])
    req, limits = make_req(2, TEXT), []
    for req.prefix_len in (0, 24, 36):
        limits.append(made.shortest_prefill_chunk_limit(req, 16))
    assert limits == [2, 2, 16]
