"""Rules of a running request at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA
from cachesim.engines.sglang.rules import request
from cachesim.engines.sglang.rules.request import DecodeStep, RequestWindow

F, T = False, True
ASK = RequestWindow(
    pre_len=40,
    swa_evicted_seqlen=8,
    cache_protected_len=12,
    retain_floor=None,
    sliding_window_size=16,
    page_size=4,
    eviction_interval=1,
)


def step(decoded, window, page=1, forward_iter=0):
    """Return a decode step of a server whose windows slide every 8 steps."""
    return DecodeStep(decoded, forward_iter, window, page, eviction_interval=8)


SLOTS = (request.tracking_slots, request.tracking_slots_by_drafts, request.tracking_pair)


@pytest.mark.parametrize(("change", "rounded", "unrounded"), [
    ({}, (12, 24), (12, 24)),
    ({"sliding_window_size": 15}, (12, 24), (12, 24)),
    ({"sliding_window_size": 14}, (12, 24), (12, 24)),
    ({"sliding_window_size": 13, "pre_len": 41}, (12, 24), (12, 28)), ({"sliding_window_size": 2}, (12, 36), (12, 36)),
    ({"retain_floor": 22}, (12, 20), (12, 20)),
    ({"retain_floor": 30}, (12, 24), (12, 24)),
    ({"cache_protected_len": 4}, (8, 24), (8, 24)),
    ({"cache_protected_len": 30}, (30, 28), (30, 28)),
    ({"pre_len": 24}, (8, 8), (8, 8)),
    ({"pre_len": 25}, (12, 12), (12, 12)),
    ({"eviction_interval": 16}, (12, 24), (12, 24)), ({"eviction_interval": 17}, (8, 8), (8, 8)),
])  # fmt: skip
def test_window_slots_that_a_request_gives_back(change, rounded, unrounded):
    ask = ASK._replace(**change)
    assert (request.window_frontier(ask), request.unrounded_frontier(ask)) == (rounded, unrounded)
    assert request.no_frontier(ask) == (8, 8)


@pytest.mark.parametrize(("strategy", "overlaps", "drafts", "slots"), [
    ("extra_buffer", T, 0, [(2, 2), (2, 2), (2, 2)]), ("extra_buffer", F, 3, [(1, 1), (1, 1), (2, 2)]),
    ("extra_buffer_lazy", T, 0, [(2, 1), (0, 0), (0, 0)]), ("extra_buffer_lazy", F, 0, [(1, 1), (0, 0), (0, 0)]),
    ("no_buffer", T, 3, [(0, 0), (0, 0), (0, 0)]),
])  # fmt: skip
def test_places_for_tracked_states(strategy, overlaps, drafts, slots):
    assert [tuple(places(strategy, overlaps, drafts)) for places in SLOTS] == slots


@pytest.mark.parametrize(("found", "value"), [
    (request.state_source(T, T, 1), "extra_buffer"), (request.state_source(T, F, 2), "extra_buffer"),
    (request.state_source(T, F, 1), "no_buffer"), (request.state_source(F, T, 2), "no_buffer"),
    (request.state_source_running(T, T, 2), "no_buffer"),
    (request.overlaps(T, F, T, F), F), (request.overlaps(F, F, F, T), T), (request.overlaps(F, T, T, F), F),
    (request.overlaps(F, F, T, F), None), (request.overlaps(T, F, F, F), F),
    (request.overlaps_if_possible(F, F, F, F), T), (request.overlaps_if_possible(T, F, F, F), F),
    (request.overlaps_if_possible(F, F, T, F), F), (request.overlaps_if_possible(F, F, F, T), F),
    (request.keeps_states(T, T), T), (request.keeps_states_without_drafts(T, T), F),
    (request.keeps_states_without_drafts(T, F), T), (request.keeps_states_without_drafts(F, T), T),
    (request.skips_finishing(T), T), (request.skips_finishing(F), F), (request.runs_finishing(T), F),
    (request.leaves_each_step(), T), (request.leaves_at_decode(), F), (request.settles_next_step(), F),
    (request.settles_with_batch(), T), (request.kept_in_order([2, 0, 1]), [2, 0, 1]),
    (request.kept_in_place([2, 0, 1]), [0, 1, 2]),
    (request.slides_each_step(step(0, 4)), F), (request.slides_each_step(step(1, 4)), T),
    (request.slides_each_window(step(1, 4)), T), (request.slides_each_window(step(4, 4)), F),
    (request.slides_each_window(step(5, 4)), T), (request.slides_each_window(step(3, 1)), F),
    (request.slides_each_window_of_pages(step(5, 6, page=4)), T),
    (request.slides_each_window_of_pages(step(7, 6, page=4)), F),
    (request.slides_each_window_of_pages(step(5, 2, page=4)), T),
    (request.slides_at_iterations(step(1, 4, forward_iter=8)), T),
    (request.slides_at_iterations(step(0, 4, forward_iter=8)), F),
    (request.slides_at_iterations(step(1, 4, forward_iter=9)), F),
    (request.reserved_ahead(0), 1), (request.reserved_ahead(1), 4), (request.reserved_ahead(3), 8),
    (request.keeps_stopped(5, 6, T, (MAMBA,)), T), (request.keeps_stopped(5, 6, F, (FULL,)), T),
    (request.keeps_stopped(6, 6, F, (FULL, MAMBA)), T), (request.keeps_stopped(5, 6, F, (FULL, MAMBA)), F),
    (request.give_at_chunk(20, 16, T), 16), (request.give_at_chunk(12, 16, T), 12),
    (request.give_at_chunk(20, None, T), 0), (request.give_at_chunk(20, 16, F), 20),
    (request.give_at_end(20, 16, 8, F), 20), (request.give_at_end(20, 20, 8, T), 20),
    (request.give_at_end(20, None, 8, T), 0),
    (request.give_at_end(15, 16, 8, T), 8), (request.give_at_end(8, 16, 8, T), 8),
    (request.give_at_end(7, 16, 8, T), 0),
    (request.give_at_end(15, 16, None, T), 0),
    (request.insert_to_branch(20, None, 4), 20), (request.insert_to_branch(20, 20, 4), 20),
    (request.insert_to_branch(20, 12, 4), 12), (request.insert_to_branch(20, 4, 4), 20),
    (request.insert_to_branch(20, 21, 4), 20), (request.insert_all(20, 12, 4), 20),
    (request.publish_pages(19, 4).value, 16), (request.publish_pages(20, 4).value, 20),
    (request.publish_pages(19, 4).because, {"n": 19, "page": 4}),
    (request.retract_order([(1, 5), (3, 9), (3, 4)]).value, [2, 1, 0]),
    (request.retract_order([(1, 5), (1, 6)]).value, [0, 1]), (request.retract_order([(1, 5)]).because, {"running": 1}),
    (request.track_prefill(3, 10, None, 8).value, None), (request.track_prefill(3, 10, None, 8).because["start"], 10),
    (request.track_prefill(3, 11, None, 8).value, 11), (request.track_prefill(3, 26, None, 8).value, 19),
    (request.track_prefill(3, 26, 11, 8).value, 11), (request.track_prefill(3, 26, 12, 8).value, 19),
    (request.track_prefill(3, 19, 19, 8).value, 19), (request.track_prefill(3, 26, 3, 8).value, 19),
    (request.track_decode(7, 8, 8, 4).value, 8), (request.track_decode(8, 9, 8, 4).value, None),
    (request.track_decode(5, 13, 6, 4).value, 12),
    (request.track_decode(11, 13, 6, 4).because, {"start": 13, "grid": 12}),
])  # fmt: skip
def test_states_steps_and_insertions(found, value):
    assert found == value
