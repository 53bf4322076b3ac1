"""Results of a step: tokens of answers, and the places of the states that requests track."""

import pytest

from cachesim.engines.base import Output
from cachesim.engines.sglang.managers.batch_result_processor import BatchResultProcessor
from cachesim.engines.sglang.managers.schedule_batch import PrefillStats, ScheduleBatch, TrackPlan
from cachesim.engines.sglang.profiles import PROFILES
from tests.unit.engines.sglang.trees import NEW, make_cache, make_req

FIRST, SECOND = 0, 1            # places


def running(prompt=6, rules=NEW, limit=1000, **flags):
    """Return a processor, a request after its prefill step, and its batch; states are tracked every four tokens."""
    usual = {"mamba_radix_cache_strategy": "extra_buffer", "mamba_track_interval": 4}
    cache, pools = make_cache("GA", rules, size=128, states=20, state_grid=4, **{**usual, **flags})
    req = make_req(0, range(prompt), answer=8)
    batch = ScheduleBatch(cache.context, cache, [req], PrefillStats([], []))
    req.extend_end = req.seqlen
    batch.prepare_for_extend()
    req.seq_len = req.extend_end
    return BatchResultProcessor(cache.context, cache, limit), req, batch, pools.req_to_token_pool.mamba_allocator


def plan(req, track_idx, is_boundary=False, is_next_boundary=False, steps=1):
    req.decode_batch_idx = steps
    return TrackPlan(track_idx, 1, is_boundary=is_boundary, is_next_boundary=is_next_boundary)


def test_tokens_behind_the_end_of_an_answer_are_not_a_part_of_it():
    processor, req, _, _ = running(speculative_algorithm="NGRAM")
    req.task.answer.predicted_n = 6
    req.fill_ids += [10, 11, 12]
    processor.append_outputs(req, [Output(n, 0, None) for n in (6, 7, 8)], is_decode=True)
    assert req.is_answered and req.task.answer.tokens == [10, 11] and (req.num_output_ids, req.seqlen) == (3, 9)
    assert req.kv.kv_committed_len == 9 and len(req.task.answer.outputs) == 3


def test_an_answer_ends_at_the_longest_length():
    processor, req, _, _ = running(limit=7)
    req.fill_ids.append(10)
    processor.append_outputs(req, [Output(6, 0, None)], is_decode=False)
    assert req.is_answered and req.kv.kv_committed_len == 6


@pytest.mark.parametrize(("flags", "is_decode"), [({"speculative_algorithm": "NGRAM"}, False), ({}, True)])
def test_only_a_step_with_drafts_learns_here_how_many_tokens_it_evaluated(flags, is_decode):
    processor, req, _, _ = running(**flags)
    req.fill_ids.append(10)
    processor.append_outputs(req, [Output(6, 0, None)], is_decode=is_decode)
    assert (req.kv.kv_committed_len, req.num_output_ids) == (6, 1)


def test_a_request_without_a_plan_keeps_its_places():
    processor, req, batch, _ = running()
    processor.update_tracked_states(req, batch, 1)
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx, req.kv.mamba_last_track_seqlen) == (
        FIRST, SECOND, 4)  # fmt: skip


def test_a_step_that_is_not_launched_yet_takes_no_place():
    processor, req, batch, _ = running()
    batch.plans[req] = plan(req, SECOND, is_next_boundary=True)
    processor.update_tracked_states(req, batch, 1)
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (FIRST, SECOND)


@pytest.mark.parametrize("profile", ["sglang@0.5.23", "sglang@0.5.23-repaired"])
def test_the_other_place_is_taken_as_soon_as_the_tracking_step_is_launched(profile):
    processor, req, batch, _ = running(rules=PROFILES[profile])
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (FIRST, SECOND)
    batch.plans[req] = plan(req, SECOND, is_next_boundary=True, steps=2)
    processor.update_tracked_states(req, batch, 1)
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (FIRST, FIRST)
    req.kv.kv_committed_len = 9
    batch.plans[req] = plan(req, SECOND, is_boundary=True, steps=2)
    processor.update_tracked_states(req, batch, 1)
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (SECOND, FIRST)
    assert (req.kv.mamba_last_track_seqlen, req.kv.mamba_prev_track_seqlen) == (8, 4)


@pytest.mark.parametrize(("profile", "next_idx"), [("sglang@0.5.23", SECOND), ("sglang@0.5.23-repaired", FIRST)])
def test_a_first_step_that_tracks_leaves_its_place_to_the_next_one(profile, next_idx):
    processor, req, batch, _ = running(rules=PROFILES[profile])
    req.kv.kv_committed_len = 9
    batch.plans[req] = plan(req, SECOND, is_boundary=True, steps=2)
    processor.update_tracked_states(req, batch, 1)
    assert (req.kv.mamba_last_track_idx, req.kv.mamba_next_track_idx) == (SECOND, next_idx)


def test_a_lazy_request_frees_the_slot_of_its_state_before():
    processor, req, batch, states = running(mamba_radix_cache_strategy="extra_buffer_lazy")
    kv, free = req.kv, states.available_size()
    kv.mamba_ping_pong_track_buffer[SECOND] = states.alloc()
    kv.kv_committed_len = 9                         # a further step is launched
    batch.plans[req] = plan(req, SECOND, is_boundary=True, steps=2)
    processor.update_tracked_states(req, batch, 1)
    assert kv.mamba_ping_pong_track_buffer[FIRST] is None and states.available_size() == free
    assert (kv.mamba_last_track_idx, kv.mamba_next_track_idx, kv.mamba_last_track_seqlen) == (SECOND, SECOND, 8)
    processor.update_tracked_states(req, batch, 1)
    assert states.available_size() == free, "an empty place has nothing to free"


def test_a_lazy_request_keeps_both_slots_until_a_boundary():
    processor, req, batch, states = running(mamba_radix_cache_strategy="extra_buffer_lazy")
    kv = req.kv
    kv.mamba_ping_pong_track_buffer[SECOND] = states.alloc()
    batch.plans[req] = plan(req, SECOND)
    processor.update_tracked_states(req, batch, 1)
    assert None not in kv.mamba_ping_pong_track_buffer and kv.mamba_last_track_seqlen == 4


@pytest.mark.parametrize(("is_next_boundary", "steps"), [(False, 2), (True, 1)])
def test_a_lazy_request_hands_over_its_state_if_no_launched_step_overwrites_it(is_next_boundary, steps):
    processor, req, batch, _ = running(mamba_radix_cache_strategy="extra_buffer_lazy")
    req.is_answered = True
    batch.plans[req] = plan(req, FIRST, is_next_boundary=is_next_boundary, steps=steps)
    processor.update_tracked_states(req, batch, 1)
    assert req.mamba_lazy_checkpoint


@pytest.mark.parametrize("has_own_slot", [False, True])
def test_a_lazy_request_hands_over_no_state_that_a_step_overwrites(has_own_slot):
    processor, req, batch, states = running(mamba_radix_cache_strategy="extra_buffer_lazy")
    kv, req.is_answered = req.kv, True
    if has_own_slot:
        kv.mamba_ping_pong_track_buffer[SECOND], kv.mamba_next_track_idx = states.alloc(), SECOND
    batch.plans[req] = plan(req, FIRST, is_next_boundary=True, steps=2)
    processor.update_tracked_states(req, batch, 1)
    assert req.mamba_lazy_checkpoint is has_own_slot


@pytest.mark.parametrize(("places", "tracked"), [(FIRST, False), (SECOND, True)])
def test_a_lazy_request_with_drafts_promotes_its_second_slot(places, tracked):
    processor, req, batch, states = running(mamba_radix_cache_strategy="extra_buffer_lazy",
                                            speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    kv = req.kv
    kv.mamba_ping_pong_track_buffer[SECOND] = states.alloc()
    req.num_output_ids = 3                          # two tokens were evaluated: the seventh and the eighth
    batch.plans[req] = plan(req, places)
    processor.update_tracked_states(req, batch, 2)
    assert (kv.mamba_last_track_seqlen, kv.mamba_next_track_idx) == (8, places)
    assert (kv.mamba_ping_pong_track_buffer[FIRST] is None) is tracked


def test_a_lazy_request_with_drafts_hands_over_no_state_that_may_be_overwritten():
    processor, req, batch, _ = running(mamba_radix_cache_strategy="extra_buffer_lazy",
                                       speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    req.is_answered, req.num_output_ids = True, 1
    batch.plans[req] = plan(req, FIRST)
    processor.update_tracked_states(req, batch, 0)
    assert not req.mamba_lazy_checkpoint, "its next two steps can reach a boundary"


@pytest.mark.parametrize(("n_outputs", "n_accepted", "lengths", "places"), [
    (3, 2, (8, 4), (SECOND, FIRST)), (3, 1, (8, 4), (SECOND, FIRST)), (4, 2, (8, 4), (SECOND, FIRST)),
    (4, 1, (4, None), (FIRST, SECOND)), (2, 1, (4, None), (FIRST, SECOND)),
])  # fmt: skip
def test_a_step_with_drafts_tracks_the_last_boundary_that_it_reaches(n_outputs, n_accepted, lengths, places):
    processor, req, batch, _ = running(speculative_algorithm="NGRAM", speculative_num_steps=3)
    kv, req.num_output_ids = req.kv, n_outputs             # all but the last token are evaluated
    batch.plans[req] = plan(req, SECOND)
    processor.update_tracked_states(req, batch, n_accepted)
    assert (kv.mamba_last_track_seqlen, kv.mamba_prev_track_seqlen) == lengths
    assert (kv.mamba_last_track_idx, kv.mamba_next_track_idx) == places


@pytest.mark.parametrize(("place", "n_outputs", "other_slot", "is_kept"), [
    (FIRST, 3, True, False),        # the step wrote the state that would be handed over
    (SECOND, 3, True, True),        # it wrote the other one
    (FIRST, 2, True, True),         # it wrote none, and the next one writes the other one
    (FIRST, 2, False, True),        # the next steps reach no boundary
])
@pytest.mark.parametrize("last", [FIRST, SECOND])
def test_a_lazy_request_with_drafts_ends_with_the_state_that_is_certain(last, place, n_outputs, other_slot, is_kept):
    processor, req, batch, states = running(
        prompt=66, mamba_radix_cache_strategy="extra_buffer_lazy", speculative_algorithm="NGRAM",
        speculative_num_steps=1, mamba_track_interval=68)  # fmt: skip
    slot = states.alloc()
    req.kv.mamba_ping_pong_track_buffer = [slot, slot]
    if not other_slot:
        req.kv.mamba_ping_pong_track_buffer[1 - last] = None
    req.kv.mamba_next_track_idx, req.is_answered, req.num_output_ids = last, True, n_outputs
    req.kv.kv_committed_len = 69                    # behind the boundary at 68, and far from the one at 136
    batch.plans[req] = plan(req, last if place == FIRST else 1 - last)
    processor.update_tracked_states(req, batch, 1)
    assert req.mamba_lazy_checkpoint is is_kept


def test_a_lazy_request_with_drafts_notes_where_its_last_state_is():
    processor, req, batch, states = running(mamba_radix_cache_strategy="extra_buffer_lazy",
                                            speculative_algorithm="NGRAM", speculative_num_steps=1)  # fmt: skip
    kv = req.kv
    kv.mamba_ping_pong_track_buffer[SECOND] = states.alloc()
    req.num_output_ids = 2                          # the seventh token: no boundary
    batch.plans[req] = plan(req, SECOND)
    processor.update_tracked_states(req, batch, 1)
    assert (kv.mamba_last_track_idx, kv.mamba_last_track_seqlen) == (FIRST, 4)
    req.num_output_ids = 3
    processor.update_tracked_states(req, batch, 1)
    assert (kv.mamba_last_track_idx, kv.mamba_last_track_seqlen) == (SECOND, 8)
