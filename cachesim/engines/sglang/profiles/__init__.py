"""Versions, newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.rules import request as r
from cachesim.engines.sglang.rules import schedule as s
from cachesim.engines.sglang.rules import tree as t

V0_5_23 = Rules(
    name="sglang@0.5.23", build="0.5.23", source="SGLang 0.5.23 (PyPI)",
    active_policy=s.active_policy, waits_for_twin=s.waits_for_twin, queue_order=s.queue_order,
    refreshes_waiting=s.refreshes_waiting, match_limit=t.match_limit, accept_window=t.accept_window,
    accept_state=t.accept_state, best_hit=t.best_hit, branch_point=t.branch_point, recent_span=t.recent_span,
    stops_pass=s.stops_when_spent, admission=s.admission, next_chunk=s.next_chunk, alloc_need=r.alloc_need, evict_quota=t.evict_quota,
    evict_first=t.evict_first, drop_leaf=t.drop_leaf, drop_inside=t.drop_inside, track_prefill=r.track_prefill,
    track_decode=r.track_decode, give_at_chunk=r.give_at_chunk, give_at_end=r.give_at_end,
    insert_to_branch=r.insert_to_branch, publish_pages=r.publish_pages, window_frontier=r.window_frontier, live_from=t.live_from,
    capped_leaf=t.capped_leaf, keep_state=t.keep_state, drop_excess=t.drop_excess,
    prompt_boundary=t.prompt_boundary, counted_length=r.counted_length, slides_before=r.slides_after_check, release_window=r.release_window,
    decode_need=r.decode_need, decode_room=r.decode_room, retract_order=r.retract_order, batch_order=r.order_of_retraction,
    retract_room=r.retract_room,
)  # fmt: skip

RECORDED = replace(
    V0_5_23, name="sglang@0.5.23-recorded", source="the loop that made the recordings, around SGLang 0.5.23 (PyPI)",
    refreshes_waiting=s.refreshes_for_any, decode_room=r.decode_room_checked, batch_order=r.order_unchanged,
    slides_before=r.slides_before_check,
)  # fmt: skip

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_5_23, RECORDED)}
LINE = ("sglang@0.5.23",)
BESIDE = {"sglang@0.5.23-recorded": "sglang@0.5.23"}
