"""Facts of a server that follow from its rules, model and options."""

from __future__ import annotations

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.engines.rule import Decision
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.runtime_context import get_runtime_context
from cachesim.events import Declined, Log
from cachesim.model import parse
from tests.unit.engines.sglang.trees import make_req

NEW = PROFILES["sglang@0.5.23"]
BUFFERED = {"mamba_radix_cache_strategy": "extra_buffer"}
LAZY = {"mamba_radix_cache_strategy": "extra_buffer_lazy"}


def context(model, rules=NEW, **flags):
    return get_runtime_context(rules, parse(model), options(flags), Log())


@pytest.mark.parametrize(("model", "flags", "parts", "window", "kept", "pairs", "drafts", "ahead"), [
    ("A", {}, (FULL,), 0, 0, False, 0, 1), ("A", {"draft_window": 9}, (FULL,), 0, 0, False, 0, 1),
    ("W8 A", {}, (FULL, SWA), 8, 8, False, 0, 1), ("W8 A W4", {"draft_window": 9}, (FULL, SWA), 8, 9, False, 0, 1),
    ("GA", {}, (FULL, MAMBA), 0, 0, False, 0, 1), ("G W8", {}, (FULL, SWA, MAMBA), 8, 8, False, 0, 1),
    ("A", {"speculative_algorithm": "EAGLE"}, (FULL,), 0, 0, True, 3, 8),
    ("A", {"speculative_algorithm": "NGRAM", "speculative_num_steps": 1}, (FULL,), 0, 0, False, 1, 4),
    ("GA", {"speculative_algorithm": "EAGLE"}, (FULL, MAMBA), 0, 0, False, 3, 8),
])  # fmt: skip
def test_parts_windows_and_drafts_of_a_server(model, flags, parts, window, kept, pairs, drafts, ahead):
    found = context(model, **flags)
    assert (found.tree_components, found.sliding_window_size, found.swa_retain_window) == (parts, window, kept)
    assert (found.is_eagle, found.num_draft_tokens, found.alloc_reserve_per_decode) == (pairs, drafts, ahead)
    assert found.supports_mamba is (MAMBA in parts)


@pytest.mark.parametrize(("flags", "buffered", "lazy", "overlaps", "places", "next_places"), [
    (BUFFERED, True, False, True, 2, [1, 0]), (LAZY, True, True, True, 2, [1, 0]),
    ({**BUFFERED, "disable_overlap_schedule": True}, True, False, False, 1, [0, 1]),
    ({"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}, False, False, False, 0, [0, 1]),
])  # fmt: skip
def test_places_for_tracked_states(flags, buffered, lazy, overlaps, places, next_places):
    found = context("GA", **flags)
    assert (found.enable_mamba_extra_buffer, found.enable_mamba_extra_buffer_lazy) == (buffered, lazy)
    assert (found.enable_overlap, found.tracking_slots.places) == (overlaps, places)
    assert [found.other_track_idx(place) for place in (0, 1)] == next_places


def test_drafts_can_reach_the_length_of_a_tracked_state():
    """A state is tracked at multiples of 64 tokens; two steps with three drafts evaluate up to eight."""
    found = context("GA", **BUFFERED, speculative_algorithm="NGRAM", mamba_track_interval=64, page_size=8)
    assert (found.mamba_track_grid, found.page_size) == (64, 8)
    assert [found.reaches_boundary(n) for n in (55, 56, 63, 64, 119, 120)] == [False, True, True, False, False, True]
    other = context("GA", **BUFFERED, speculative_algorithm="NGRAM", mamba_track_interval=48, state_grid=32)
    assert [other.reaches_boundary(n) for n in (40, 87, 88, 95, 96)] == [False, False, True, True, False]


def test_a_policy_that_came_later_is_refused():
    old = NEW.changed({"name": "sglang@x", "eviction_policies": frozenset({"lru", "lfu"})})
    with pytest.raises(NotInBuild, match="radix_eviction_policy slru does not exist in sglang@x"):
        context("A", old, radix_eviction_policy="slru")


def test_a_declined_restore_point_lies_within_the_computed_tokens():
    found, req = context("A"), make_req(3, range(10))
    req.kv.kv_committed_len = 6
    for n in (4, 5, 6, 7):
        found.decline(req, n, NEW.publish_pages)
    assert found.log.events == [Declined(3, n + 1, NEW.publish_pages.rule) for n in (4, 5)]
    assert found.decide(Decision(9, {}, "R"), req) == 9 and found.log.events[-1].rule == "R"


def test_a_queue_policy_that_a_release_does_not_have_is_refused():
    policy = {"schedule_policy": "shortest-prefill-first"}
    assert context("A", PROFILES["sglang@0.5.21"], **policy).server_args.schedule_policy == policy["schedule_policy"]
    with pytest.raises(NotInBuild, match="schedule_policy shortest-prefill-first does not exist"):
        context("A", PROFILES["sglang@0.5.20"], **policy)
