"""A batch: chunks of a prefill step, tokens of a decode step, and retraction."""

from cachesim.engines.sglang.managers.schedule_batch import ForwardRange, PrefillStats, ScheduleBatch
from tests.unit.engines.sglang.trees import make_cache, make_req

TEXT = tuple(range(100, 140))


def prefill(cache, *reqs):
    """Return a batch after a prefill step that evaluated whole prompts."""
    batch = ScheduleBatch(cache.context, cache, list(reqs), PrefillStats([], []))
    for req in reqs:
        req.extend_end = req.seqlen
    batch.prepare_for_extend()
    for req in reqs:
        req.kv.kv_committed_len = req.seqlen
    return batch


def test_a_prefill_step_allocates_its_chunks():
    cache, pools = make_cache(size=64, page_size=4)
    batch = prefill(cache, make_req(0, TEXT[:6]), make_req(1, TEXT[:3]))
    assert batch.ranges == [ForwardRange(batch.reqs[0], 0, 6), ForwardRange(batch.reqs[1], 0, 3)]
    assert pools.token_to_kv_pool_allocator.available_size() == 64 - 8 - 4
    assert pools.req_to_token_pool.read(1, 0, 3).tolist() == [12, 13, 14] and batch.next_ranges() == []


def test_a_chunk_tracks_a_state():
    cache, _ = make_cache("GA", mamba_scheduler_strategy="extra_buffer", state_grid=4)
    batch = prefill(cache, make_req(0, TEXT[:10]))
    kv = batch.reqs[0].kv
    assert batch.ranges[0].mamba_track_seqlen == kv.mamba_last_track_seqlen == 8
    assert (kv.mamba_pool_idx, kv.mamba_ping_pong_track_buffer, kv.mamba_last_track_idx) == (1, [2, 3], 0)


def test_a_decode_step_evaluates_right_draft_tokens_one_by_one():
    cache, _ = make_cache(speculative_algorithm="NGRAM", speculative_num_steps=3)
    req = prefill(cache, make_req(0, TEXT[:10], draft_else=2)).reqs[0]
    batch = ScheduleBatch(cache.context, cache, [req])
    batch.prepare_for_decode()
    assert (req.extend_end, req.kv.kv_allocated_len) == (13, 18)
    first = batch.ranges
    seen = []
    ranges = first
    while ranges:
        seen += [(one.start, one.end) for one in ranges]
        req.kv.kv_committed_len = ranges[0].end
        ranges = batch.next_ranges()
    assert seen == [(10, 11), (11, 12), (12, 13)] and batch.evaluated_ranges() == [ForwardRange(req, 10, 13)]


def test_the_request_with_the_shorter_answer_is_retracted():
    cache, _ = make_cache(size=20)
    long, short = make_req(0, TEXT[:10]), make_req(1, TEXT[10:20])
    prefill(cache, long, short)
    long.append_output_id(7)
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
