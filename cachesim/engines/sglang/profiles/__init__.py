"""Versions, newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cachesim.engines.sglang.compressed_pools import PLAIN
from cachesim.engines.sglang.history import BESIDE, LINE
from cachesim.engines.sglang.profiles.rule_table import EARLIER_CHUNK_SIZES, Rules
from cachesim.engines.sglang.rules import host as h
from cachesim.engines.sglang.rules import reported
from cachesim.engines.sglang.rules import request as r
from cachesim.engines.sglang.rules import schedule as s
from cachesim.engines.sglang.rules import tree as t
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

HOST_READ = ("host_slots", "counts_uses", "writes_through", "leave_device", "reclaims_doubles", "drop_host_leaf",
             "load_back")  # fmt: skip
"""Rules of host memory, which only the newest release has been compared with."""
REQUEST_READ = ("admission", "next_chunk", "retract_order", "window_frontier", "chunk_frontier", "slides",
                "owned_tokens", "takes_other_place", "stays_full", "tracking_slots", "give_at_end",
                "keeps_stopped", "room_for_states", "forgets_overwritten", "frees_published",
                "window_gone_from")  # fmt: skip
"""Rules of requests in releases of which only the trees have been compared."""

V0_5_23 = Rules("sglang@0.5.23", "0.5.23", "SGLang 0.5.23 (PyPI)")

RECORDED = replace(
    V0_5_23, name="sglang@0.5.23-recorded", source="the loop around SGLang 0.5.23 (PyPI) in the recordings",
    refreshed=frozenset(t.PRIORITIES), decode_pages=0, decode_order=("slide_windows", "retract"),
    stays_full=s.tries_each_step, settles_chunk=r.settles_with_batch, kept_order=r.kept_in_place,
    tracking_slots=r.tracking_pair, least_tokens=0, states_cap_requests=False,
)  # fmt: skip

V0_5_22 = replace(
    V0_5_23, name="sglang@0.5.22", build="0.5.22", source="SGLang 0.5.22 (PyPI)", window_frontier=r.unrounded_frontier,
    chunk_frontier=r.unrounded_frontier, retained_window=t.model_window, leaves_each_step=r.leaves_at_decode,
    spent_stops=s.tries_when_spent, held_rows=s.counts_free_rows, state_unlock=r.never_unlocks, rematches=True,
    rematches_at_end=True, keeps_stopped=r.keeps_all_stopped,
    hosts_parts=False, inferred=HOST_READ,
)  # fmt: skip

V0_5_21 = replace(
    V0_5_22, name="sglang@0.5.21", build="0.5.21", source="SGLang 0.5.21 (PyPI)", counts_hit=t.counts_each,
    rematches_at_end=False, refreshed=frozenset(), give_at_end=r.give_last_at_end, remembers_previous=False,
    ends_retracted_prompts=False,
    skips_finishing=r.runs_finishing, owned_tokens=reported.owned_run, room_for_states=r.states_for_each,
    forgets_overwritten=r.keeps_overwritten, frees_published=r.frees_published,
)  # fmt: skip

V0_5_20 = replace(
    V0_5_21, name="sglang@0.5.20", build="0.5.20", source="SGLang 0.5.20 (PyPI)",
    window_gone_from=r.gone_from_beginning, chunk_frontier=r.raised_frontier,
    queue_policies=frozenset(s.ORDERS) - {"shortest-prefill-first"},
    compressed_form=PLAIN, ended={"queue_policies.shortest-prefill-first": "#40024"},
)  # fmt: skip

V0_5_19 = replace(
    V0_5_20, name="sglang@0.5.19", build="0.5.19", source="SGLang 0.5.19 (PyPI): the first release whose models all "
    "have UnifiedRadixCache", split_recent=t.split_refreshes, insert_to_branch=r.insert_all,
    prompt_boundary=t.no_boundary, chunk_sizes=EARLIER_CHUNK_SIZES, compressed_form=None,
    publishes_events=False, inferred=(*HOST_READ, *REQUEST_READ),
)  # fmt: skip

V0_5_18 = replace(
    V0_5_19, name="sglang@0.5.18", build="0.5.18", source="SGLang 0.5.18 (PyPI): RadixCache without windows and states",
    split_created=t.split_is_new,
)  # fmt: skip

V0_5_17 = replace(
    V0_5_18, name="sglang@0.5.17", build="0.5.17", source="SGLang 0.5.17 (PyPI)", window_frontier=r.frontier_each_time,
    chunk_frontier=r.no_frontier, slides=r.slides_at_iterations, takes_other_place=reported.place_after_result,
    ended={**V0_5_18.ended, "window_frontier": "#33404, #34729"},
)  # fmt: skip

V0_5_16 = replace(
    V0_5_17, name="sglang@0.5.16", build="0.5.16", source="SGLang 0.5.16 (PyPI): the first release whose models with "
    "windows or states have UnifiedRadixCache", caps_states=False, ended={**V0_5_18.ended, "caps_states": "#31230"},
)  # fmt: skip

V0_5_15 = replace(
    V0_5_16, name="sglang@0.5.15", build="0.5.15", source="SGLang 0.5.15 (PyPI): SWARadixCache, MambaRadixCache",
    recent_span=t.recent_path, eviction_policy=t.policy_of_plain_tree, evict_quota=t.asked_quota,
    evict_stop=t.stops_at_quota, stays_above=t.drops_tombstones_above, capped_leaf=t.uncapped_leaf,
    frees_windows_with_rows=t.rows_leave_with_windows,
)  # fmt: skip

V0_5_14 = replace(
    V0_5_15, name="sglang@0.5.14", build="0.5.14", source="SGLang 0.5.14 (PyPI)", revive=t.revive_adopted,
    window_frontier=r.frontier_page_more,
)  # fmt: skip

V0_5_13 = replace(
    V0_5_14, name="sglang@0.5.13", build="0.5.13", source="SGLang 0.5.13 (PyPI)", state_source=r.state_source_running,
    overlaps=r.overlaps_with_drafts, slides=r.slides_each_window_of_pages, least_tokens=0,
    counts_drafter=False, ended={**V0_5_14.ended, "counts_drafter": "#23862", "least_tokens": "#27399"},
    inferred=(*V0_5_14.inferred, "evict_first", "track_prefill"),
)  # fmt: skip

V0_5_12 = replace(
    V0_5_13, name="sglang@0.5.12", build="0.5.12", source="SGLang 0.5.12 (PyPI)",
    strategies=frozenset({"auto", "no_buffer", "extra_buffer"}),
    ended={**V0_5_13.ended, "strategies.extra_buffer_lazy": "#27118"},
)  # fmt: skip

V0_5_11 = replace(
    V0_5_12, name="sglang@0.5.11", build="0.5.11", source="SGLang 0.5.11 (PyPI)", stays_full=s.stays_always,
)  # fmt: skip

V0_5_10 = replace(
    V0_5_11, name="sglang@0.5.10", build="0.5.10", source="SGLang 0.5.10 (PyPI)", overlaps=r.overlaps_without_drafts,
    window_frontier=r.frontier_window_only, slides=r.slides_each_window, owned_tokens=reported.owned_all,
    fills_context=False, ended={**V0_5_11.ended, "overlaps": "#21062", "fills_context": "#22546"},
)  # fmt: skip

V0_5_9 = replace(
    V0_5_10, name="sglang@0.5.9", build="0.5.9", source="SGLang 0.5.9 (PyPI)", overlaps=r.overlaps_if_possible,
    keeps_states=r.keeps_states_without_drafts,
    tracking_slots=r.tracking_slots_by_drafts,
    counts_uses=h.counts_uses_on_host, eviction_policies=frozenset(t.PRIORITIES) - {"slru"},
    ended={**V0_5_11.ended, "tracking_slots": "#18808", "eviction_policies.slru": "#18843"},
)  # fmt: skip

REPAIRED = replace(
    V0_5_23, name="sglang@0.5.23-repaired", source="proposed by cachesim, not tried on a GPU",
    owned_tokens=reported.owned_published, reserve_later=reported.reserve_rest,
    takes_other_place=reported.place_after_each, takes_state_of_prefix=reported.state_at_prefix,
    cut_waits=reported.cut_waits,
)  # fmt: skip


def _before(number: int, base: Rules, **rules: Any) -> Rules:
    """Return a release without a pull request that it contains."""
    source = f"sgl-project/sglang#{number}, taken back from {base.source}"
    return replace(base, name=f"sglang@before-{number}", source=source, **rules)


BEFORE_37836 = _before(37836, V0_5_23, taken_after=reported.taken_on_flat_grid)
BEFORE_29860 = _before(29860, V0_5_23, window_frontier=reported.frontier_without_page,
                       chunk_frontier=reported.frontier_without_page)  # fmt: skip
BEFORE_27038 = _before(27038, V0_5_23, copy_unlock=reported.unlock_to_root)
BEFORE_17061 = _before(17061, V0_5_9, accept_node=reported.accept_unreset)

PROFILES = newest_first(rule_sets_in(Rules, globals()), LINE, BESIDE)
