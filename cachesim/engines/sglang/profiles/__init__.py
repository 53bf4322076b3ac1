"""Versions, newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cachesim.engines.sglang.history import BESIDE, LINE
from cachesim.engines.sglang.profiles.rule_table import EARLIER_CHUNK_SIZES, Rules
from cachesim.engines.sglang.rules import host as h
from cachesim.engines.sglang.rules import reported
from cachesim.engines.sglang.rules import request as r
from cachesim.engines.sglang.rules import schedule as s
from cachesim.engines.sglang.rules import tree as t
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

V0_5_23 = Rules("sglang@0.5.23", "0.5.23", "SGLang 0.5.23 (PyPI)")

RECORDED = replace(
    V0_5_23, name="sglang@0.5.23-recorded", source="the loop around SGLang 0.5.23 (PyPI) in the recordings",
    refreshed=frozenset(t.PRIORITIES), decode_pages=0, decode_order=("slide_windows", "retract"),
    stays_full=s.tries_each_step, settles_chunk=r.settles_with_batch, kept_order=r.kept_in_place,
    tracking_slots=r.tracking_pair, least_tokens=0, states_cap_requests=False,
)  # fmt: skip

V0_5_20 = replace(
    V0_5_23, name="sglang@0.5.20", build="0.5.20", source="SGLang 0.5.20 (PyPI): the first release whose default is "
    "UnifiedRadixCache", window_frontier=r.unrounded_frontier, chunk_frontier=r.unrounded_frontier,
    counts_hit=t.counts_each, rematches=True, retained_window=t.model_window, refreshed=frozenset(),
    owned_tokens=reported.owned_run, skips_finishing=r.runs_finishing, leaves_each_step=r.leaves_at_decode,
    hosts_parts=False,
    inferred=(
        "admission", "next_chunk", "retract_order", "host_slots", "counts_uses", "writes_through", "leave_device",
        "reclaims_doubles", "drop_host_leaf", "load_back"),
)  # fmt: skip

V0_5_9 = replace(
    V0_5_20, name="sglang@0.5.9", build="0.5.9", source="SGLang 0.5.9 (PyPI): SWARadixCache, MambaRadixCache",
    recent_span=t.recent_path, evict_quota=t.asked_quota, stays_above=t.drops_tombstones_above,
    insert_to_branch=r.insert_all, window_frontier=r.window_frontier, chunk_frontier=r.no_frontier,
    slides=r.slides_each_window, revive=t.revive_adopted, capped_leaf=t.uncapped_leaf, prompt_boundary=t.no_boundary,
    state_source=r.state_source_running, overlaps=r.overlaps_if_possible,
    keeps_states=r.keeps_states_without_drafts, takes_other_place=reported.place_after_result,
    tracking_slots=r.tracking_slots_by_drafts, least_tokens=0, chunk_sizes=EARLIER_CHUNK_SIZES,
    strategies=frozenset({"auto", "no_buffer", "extra_buffer"}),
    owned_tokens=reported.owned_all, stays_full=s.stays_always,
    counts_uses=h.counts_uses_on_host, eviction_policies=frozenset(t.PRIORITIES) - {"slru"}, publishes_events=False,
    inferred=(*V0_5_20.inferred, "evict_first", "track_prefill"),
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
