"""A batch: chunks of a prefill step, tokens of a decode step, and retraction."""

import pytest

from cachesim.engines.base import Request
from cachesim.engines.rule import rule_id
from cachesim.engines.sglang.managers.schedule_batch import (
    ForwardMode,
    ForwardRange,
    PrefillStats,
    ScheduleBatch,
    TrackPlan,
)
from cachesim.events import Declined
from tests.unit.engines.sglang.conversations import server
from tests.unit.engines.sglang.trees import NEW, insert, make_cache, make_req

TEXT = tuple(range(100, 140))


def prefill(cache, *reqs):
    """Return a batch after a prefill step that evaluated whole prompts."""
    batch = ScheduleBatch(cache.context, cache, list(reqs), PrefillStats([], []))
    for req in reqs:
        req.extend_end = req.seqlen
    batch.prepare_for_extend()
    for req in reqs:
        req.seq_len = req.extend_end
    return batch


def test_a_prefill_step_allocates_its_chunks():
    cache, pools = make_cache(size=64, page_size=4)
    batch = prefill(cache, make_req(0, TEXT[:6]), make_req(1, TEXT[:3]))
    assert batch.ranges == [ForwardRange(batch.reqs[0], 0, 6), ForwardRange(batch.reqs[1], 0, 3)]
    assert pools.token_to_kv_pool_allocator.available_size() == 64 - 8 - 4
    assert pools.req_to_token_pool.read(1, 0, 3).tolist() == [12, 13, 14]


def test_a_chunk_tracks_a_state():
    cache, _ = make_cache("GA", mamba_radix_cache_strategy="extra_buffer", state_grid=4)
    batch = prefill(cache, make_req(0, TEXT[:10]))
    kv = batch.reqs[0].kv
    assert batch.ranges[0].mamba_track_seqlen == kv.mamba_last_track_seqlen == 8
    assert (kv.mamba_pool_idx, kv.mamba_ping_pong_track_buffer, kv.mamba_last_track_idx) == (1, [2, 3], 0)


def test_a_decode_step_evaluates_right_draft_tokens():
    cache, _ = make_cache(speculative_algorithm="NGRAM", speculative_num_steps=3)
    req = prefill(cache, make_req(0, TEXT[:10], draft_else=2)).reqs[0]
    batch = ScheduleBatch(cache.context, cache, [req])
    batch.prepare_for_decode()
    assert batch.ranges == [ForwardRange(req, 10, 13)] and req.kv.kv_allocated_len == 18
    assert req.kv.kv_committed_len == 10, "drafts count when their results are processed"


def buffered(grid=4, prompt=7, **flags):
    """Return a batch of a request that tracks states every ``grid`` tokens, after its prefill step."""
    cache, pools = make_cache("GA", mamba_track_interval=grid, state_grid=grid, **flags)
    req = prefill(cache, make_req(0, TEXT[:prompt])).reqs[0]
    return ScheduleBatch(cache.context, cache, [req]), req, pools.req_to_token_pool.mamba_allocator


def test_a_decode_step_plans_the_state_that_it_tracks():
    batch, req, _ = buffered()
    batch.prepare_for_decode()
    assert batch.plans[req] == TrackPlan(track_idx=1, decode_batch_idx=1, is_boundary=True, is_next_boundary=False)
    assert batch.ranges == [ForwardRange(req, 7, 8, 8, req.kv.mamba_ping_pong_track_buffer[1])]


@pytest.mark.parametrize(("overlaps", "places"), [(True, 2), (False, 1)])
def test_a_request_has_two_places_for_states_if_steps_overlap(overlaps, places):
    _, req, _ = buffered(mamba_radix_cache_strategy="extra_buffer", disable_overlap_schedule=not overlaps)
    assert len(req.kv.mamba_ping_pong_track_buffer) == places


def test_a_lazy_request_takes_the_second_slot_at_a_boundary():
    batch, req, _ = buffered(mamba_radix_cache_strategy="extra_buffer_lazy")
    assert req.kv.mamba_ping_pong_track_buffer == [2, None] and req.kv.mamba_last_track_seqlen == 4
    batch.prepare_for_decode()
    assert req.kv.mamba_ping_pong_track_buffer == [2, 3] and batch.plans[req].track_idx == 1


def test_a_lazy_request_without_a_free_slot_overwrites_its_last_state():
    batch, req, states = buffered(mamba_radix_cache_strategy="extra_buffer_lazy")
    states.free_slots.clear()
    batch.prepare_for_decode()
    assert req.kv.mamba_ping_pong_track_buffer == [2, None] and batch.plans[req].track_idx == 0
    assert req.kv.mamba_last_track_seqlen is None


@pytest.mark.parametrize(("prompt", "taken"), [(4, 5), (7, 3)])
def test_a_lazy_request_with_drafts_takes_the_second_slot_if_two_drafts_reach_a_boundary(prompt, taken):
    batch, req, _ = buffered(8, prompt, mamba_radix_cache_strategy="extra_buffer_lazy",
                             speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    req.kv.kv_committed_len = taken
    batch.prepare_drafts()
    assert (batch.plans[req].track_idx, req.kv.mamba_next_track_idx) == (int(taken == 5), 0)


def test_a_lazy_request_with_drafts_loses_its_last_state_without_a_free_slot():
    batch, req, states = buffered(8, 9, mamba_radix_cache_strategy="extra_buffer_lazy",
                                  speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    assert req.kv.mamba_last_track_seqlen == 8
    req.kv.kv_committed_len = 13
    states.free_slots.clear()
    batch.prepare_drafts()
    assert req.kv.mamba_last_track_seqlen is None and req.kv.mamba_ping_pong_track_buffer == [2, None]
    assert batch.plans[req].track_idx == 0


def test_the_request_with_the_shorter_answer_is_retracted():
    cache, _ = make_cache(size=20)
    long, short = make_req(0, TEXT[:10]), make_req(1, TEXT[10:20])
    prefill(cache, long, short)
    long.fill_ids.append(7)
    long.append_output_id()
    batch = ScheduleBatch(cache.context, cache, [long, short])
    assert not batch.check_decode_mem(batch.reqs)
    batch.retract_decode()
    assert (batch.reqs, batch.retracted, batch.aborted) == ([long], [short], [])
    assert short.kv.kv_allocated_len == short.kv.kv_committed_len == short.prefix_len == 0


def test_the_last_request_is_aborted_if_it_does_not_fit():
    cache, _ = make_cache(size=10)
    req = make_req(0, TEXT[:10])
    prefill(cache, req)
    batch = ScheduleBatch(cache.context, cache, [req])
    batch.retract_decode()
    assert (batch.reqs, batch.retracted, batch.aborted) == ([], [], [req])


def test_running_requests_free_windows_that_they_no_longer_read():
    cache, pools = make_cache("W4 A", swa_eviction_interval=1)
    req = make_req(0, TEXT[:20])
    prefill(cache, req)
    batch = ScheduleBatch(cache.context, cache, [req])
    batch.maybe_evict_swa()
    assert req.kv.swa_evicted_seqlen == 0
    req.decode_batch_idx = 1
    batch.maybe_evict_swa()
    assert req.kv.swa_evicted_seqlen == 15 and pools.swa_allocator.swa_available_size() == 64 - 5


def test_tokens_of_a_prompt_that_no_step_evaluated_count_as_held():
    """S-DEF-9: two prompts are cut in one step, and the first one is answered after 23 of its 60 tokens."""
    srv = server("W8 A", max_total_tokens=200, swa_tokens=32, swa_eviction_interval=1, chunked_prefill_size=64)
    first, second = tuple(range(500, 560)), tuple(range(600, 640))
    answers = [srv.submit(Request(prompt, n)) for prompt, n in ((first, 8), (second, 1))]
    while srv.working:
        srv.iterate()
    assert [req.num_unread_tokens for req in srv.slots] == [37, 0]
    assert [req.kv.kv_committed_len for req in srv.slots] == [30, 40]
    assert answers[0].slot_tokens == (*first, *answers[0].tokens[:7]) and answers[1].slot_tokens == second
    assert [[one.pos for one in answer.outputs] for answer in answers] == [[*range(59, 67)], [39]]


def test_a_new_batch_has_room():
    cache, _ = make_cache()
    batch = ScheduleBatch(cache.context, cache, [])
    assert batch.is_empty() and not batch.batch_is_full
    assert (batch.ranges, batch.plans, batch.retracted, batch.aborted) == ([], {}, [], [])


@pytest.mark.parametrize(("stats", "mode"), [(None, ForwardMode.DECODE), (PrefillStats([], []), ForwardMode.EXTEND)])
def test_a_batch_with_verdicts_of_admission_is_a_prefill_step(stats, mode):
    cache, _ = make_cache()
    assert ScheduleBatch(cache.context, cache, [], stats).forward_mode == mode


def test_a_decode_step_has_no_verdicts_of_admission():
    cache, _ = make_cache()
    batch = prefill(cache, make_req(0, TEXT[:10]))
    assert (batch.prefill_stats, batch.forward_mode) == (PrefillStats([], []), ForwardMode.EXTEND)
    batch.prepare_for_decode()
    assert (batch.prefill_stats, batch.forward_mode) == (None, ForwardMode.DECODE)


def test_a_retracted_request_declines_what_lies_behind_its_part_of_the_tree():
    cache, _ = make_cache()
    req = make_req(0, TEXT[:10])
    batch = prefill(cache, req)
    req.kv.cache_protected_len = 4
    batch.release_req(req, 0)
    declined = [(event.slot, event.n_tokens, event.rule) for event in cache.context.log.events
                if isinstance(event, Declined)]  # fmt: skip
    assert declined == [(0, 5, rule_id(cache.rules.retract_order))]
    assert req.kv.kv_allocated_len == 0 and not list(cache.tree_core.nodes())


def test_a_request_that_is_prefilled_again_is_no_longer_retracted():
    cache, _ = make_cache()
    req = make_req(0, TEXT[:10])
    req.is_retracted = True
    prefill(cache, req)
    assert not req.is_retracted


@pytest.mark.parametrize(("ended", "excluded", "kept"), [
    ([], [], [0, 1, 2]), ([1], [], [0, 2]), ([], [2], [0, 1]), ([0], [1], [2]), ([0, 1], [2], []),
])  # fmt: skip
def test_a_batch_says_whether_requests_left(ended, excluded, kept):
    cache, _ = make_cache()
    reqs = [make_req(n, TEXT) for n in range(3)]
    for n in ended:
        reqs[n].finish()
    batch = ScheduleBatch(cache.context, cache, [*reqs])
    assert batch.filter_batch([reqs[n] for n in excluded]) is (len(kept) < 3)
    assert [req.rid for req in batch.reqs] == kept


def test_a_merged_batch_has_the_requests_of_both_in_order():
    cache, _ = make_cache()
    reqs = [make_req(n, TEXT) for n in range(3)]
    batch = ScheduleBatch(cache.context, cache, reqs[:1])
    batch.merge_batch(ScheduleBatch(cache.context, cache, reqs[1:]))
    assert batch.reqs == reqs


def test_a_copied_batch_keeps_its_requests():
    cache, _ = make_cache()
    batch = ScheduleBatch(cache.context, cache, [make_req(0, TEXT)])
    twin = batch.copy()
    batch.reqs.clear()
    assert [req.rid for req in twin.reqs] == [0] and twin.context is batch.context


@pytest.mark.parametrize(("page", "flags", "held", "needed"), [
    (1, {}, [(10, 10)], 1), (1, {}, [(10, 10), (5, 5)], 2), (1, {}, [(10, 11), (5, 5)], 1), (1, {}, [(10, 14)], 0),
    (4, {}, [(10, 10)], 0), (4, {}, [(12, 12)], 4), (4, {}, [(12, 12), (8, 8), (9, 9)], 8),
    (4, {"speculative_algorithm": "NGRAM", "speculative_num_steps": 3}, [(10, 10)], 8),
])  # fmt: skip
def test_a_decode_step_lacks_the_slots_that_requests_do_not_have(page, flags, held, needed):
    """``held``: the computed tokens of each request, and its slots."""
    cache, _ = make_cache(page_size=page, **flags)
    reqs = [make_req(n, TEXT) for n in range(len(held))]
    for req, (computed, slots) in zip(reqs, held, strict=True):
        req.kv.kv_committed_len, req.kv.kv_allocated_len = computed, slots
    assert ScheduleBatch(cache.context, cache, []).new_tokens_required_next_decode(reqs) == needed


@pytest.mark.parametrize(("steps", "left", "leaves"), [(4, 0, 8), (4, 1, 8), (4, 2, 4), (4, 3, 0), (0, 3, 8)])
def test_a_retraction_evicts_for_the_next_steps_of_the_requests_that_stay(steps, left, leaves):
    """The tree has eight leaves of a token; the retracted request frees four slots."""
    cache, pools = make_cache(rules=NEW.changed({"retract_steps": steps}), size=12)
    for n in range(8):
        insert(cache, pools, (1000 + n,))
    req = make_req(0, TEXT[:4])
    prefill(cache, req).release_req(req, left)
    assert len(list(cache.tree_core.nodes())) == leaves


def test_the_plans_of_the_step_before_are_forgotten():
    batch, req, _ = buffered(8, 4, mamba_radix_cache_strategy="extra_buffer_lazy",
                             speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    batch.prepare_drafts()
    assert batch.plans == {req: TrackPlan(1, 0, is_boundary=False, is_next_boundary=False)}
    batch.reqs.clear()
    batch.prepare_drafts()
    assert batch.plans == {}


def test_a_step_without_drafts_plans_none():
    batch, _, _ = buffered()
    batch.prepare_drafts()
    assert batch.plans == {}


@pytest.mark.parametrize(("strategy", "track_idx", "buffer"), [
    ("extra_buffer", 0, [2, 3]), ("extra_buffer", 1, [2, 3]),
    ("extra_buffer_lazy", 0, [2, 3]), ("extra_buffer_lazy", 1, [3, 2]),
])  # fmt: skip
def test_a_draft_that_reaches_a_boundary_is_tracked_in_the_other_slot_of_a_lazy_request(strategy, track_idx, buffer):
    batch, req, _ = buffered(8, 5, mamba_radix_cache_strategy=strategy,
                             speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    kv = req.kv
    kv.mamba_next_track_idx = track_idx
    if "lazy" in strategy:
        kv.mamba_ping_pong_track_buffer = [None, None]
        kv.mamba_ping_pong_track_buffer[track_idx] = 2
    batch.prepare_drafts()
    is_other = "lazy" in strategy
    assert batch.plans[req].track_idx == (1 - track_idx if is_other else track_idx)
    assert (kv.mamba_ping_pong_track_buffer, kv.mamba_next_track_idx) == (buffer, track_idx)


def test_a_draft_is_tracked_in_the_second_slot_that_a_lazy_request_has():
    batch, req, states = buffered(8, 5, mamba_radix_cache_strategy="extra_buffer_lazy",
                                  speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    req.kv.mamba_ping_pong_track_buffer, req.kv.mamba_last_track_seqlen = [2, 7], 4
    free = states.available_size()
    batch.prepare_drafts()
    assert batch.plans[req].track_idx == 1 and req.kv.mamba_ping_pong_track_buffer == [2, 7]
    assert (states.available_size(), req.kv.mamba_last_track_seqlen) == (free, 4)


@pytest.mark.parametrize(("prompt", "plan"), [(5, (False, False)), (6, (False, True)), (7, (True, False))])
def test_a_plan_says_whether_this_step_or_the_next_one_ends_at_a_boundary(prompt, plan):
    batch, req, _ = buffered(prompt=prompt)
    batch.prepare_for_decode()
    assert (batch.plans[req].is_boundary, batch.plans[req].is_next_boundary) == plan


@pytest.mark.parametrize(("prompt", "tracked"), [(5, None), (6, None), (7, 8)])
def test_a_step_that_ends_at_no_boundary_keeps_no_state(prompt, tracked):
    batch, req, _ = buffered(prompt=prompt)
    slot = req.kv.mamba_ping_pong_track_buffer[req.kv.mamba_next_track_idx]
    batch.prepare_for_decode()
    assert batch.ranges == [ForwardRange(req, prompt, prompt + 1, tracked, None if tracked is None else slot)]


@pytest.mark.parametrize(("strategy", "prompt", "buffer"), [
    ("extra_buffer_lazy", 6, [2, None]), ("extra_buffer_lazy", 7, [2, 3]), ("extra_buffer", 7, [2, 3]),
])  # fmt: skip
def test_only_a_lazy_request_at_a_boundary_takes_a_further_slot(strategy, prompt, buffer):
    batch, req, states = buffered(prompt=prompt, mamba_radix_cache_strategy=strategy)
    before = req.kv.mamba_next_track_idx
    batch.prepare_for_decode()
    assert req.kv.mamba_ping_pong_track_buffer == buffer
    assert req.kv.mamba_next_track_idx == (1 if strategy.endswith("lazy") and prompt == 7 else before)
    assert states.available_size() == 8 - 1 - len([slot for slot in buffer if slot is not None])


@pytest.mark.parametrize(("next_idx", "buffer", "after"), [(0, [2, 7], ([2, 7], 0)), (1, [None, 2], ([3, 2], 0))])
def test_a_lazy_request_takes_a_slot_for_its_other_place_if_that_is_empty(next_idx, buffer, after):
    batch, req, _ = buffered(mamba_radix_cache_strategy="extra_buffer_lazy")
    req.kv.mamba_ping_pong_track_buffer, req.kv.mamba_next_track_idx = buffer, next_idx
    batch.prepare_for_decode()
    assert (req.kv.mamba_ping_pong_track_buffer, req.kv.mamba_next_track_idx) == after


def test_a_chunk_that_reaches_no_tracked_length_keeps_no_state():
    cache, _ = make_cache("GA", mamba_radix_cache_strategy="extra_buffer", state_grid=16)
    req = make_req(0, TEXT[:10])
    batch = prefill(cache, req)
    assert batch.ranges == [ForwardRange(req, 0, 10)]
    assert (req.kv.mamba_last_track_seqlen, req.kv.mamba_next_track_idx, req.kv.kv_committed_len) == (None, 0, 10)


@pytest.mark.parametrize(("strategy", "next_idx"), [("extra_buffer", 1), ("extra_buffer_lazy", 0)])
def test_the_next_state_of_a_chunk_is_tracked_in_the_other_slot_unless_a_request_is_lazy(strategy, next_idx):
    cache, _ = make_cache("GA", mamba_radix_cache_strategy=strategy, state_grid=4)
    req = make_req(0, TEXT[:10])
    batch = prefill(cache, req)
    assert batch.ranges == [ForwardRange(req, 0, 10, 8, 2)]
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (0, next_idx)
