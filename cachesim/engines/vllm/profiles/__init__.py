"""Releases of vLLM as tables of rules, newest first, each as its successor with what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

from cachesim.engines.shared.timeline import UNKNOWN, Landed, Timeline
from cachesim.engines.vllm.profiles.rule_table import Rules
from cachesim.engines.vllm.rules import blocks, lookup, schedule, states

__all__ = ["BESIDE", "LINE", "PROFILES", "RENAMED", "TIMELINE", "V0_33_0", "Rules"]

V0_33_0 = Rules("vllm@0.33.0", "2026-11-02", "vLLM 0.33.0 (PyPI)")

V0_32_0 = replace(
    V0_33_0, name="vllm@0.32.0", build="2026-10-18", source="vLLM 0.32.0 (PyPI)",
    speculation=schedule.speculation_drops, junction_ends=blocks.junction_only,
    publish_again=blocks.publish_overlapped, key_again=states.keyed_again,
    goes_on=schedule.stops, passes_over=schedule.waits,
)

V0_31_0 = replace(
    V0_32_0, name="vllm@0.31.0", build="2026-10-05", source="vLLM 0.31.0 (PyPI)",
    states_align=schedule.states_at_blocks, reach=lookup.reach_prompt, partial_rows=blocks.partial_rows_end,
    checkpoint=states.checkpoint_unit, keeps_inside=states.keep_own, state_tail=states.state_tail_end,
    states_needed=states.states_needed_fresh, left_behind=states.left_behind_alone,
    last_boundary=states.last_boundary_whole, start_column=states.start_column_smallest,
)

V0_30_0 = replace(
    V0_31_0, name="vllm@0.30.0", build="2026-09-22", source="vLLM 0.30.0 (PyPI)",
    prefill_cap=schedule.prefill_cap_always, reserves_inside=states.reserve_every, keeps_inside=states.keep_end,
    state_tail=states.state_tail_own, states_needed=states.states_needed_set,
)

SPLIT_0_23_0 = replace(
    V0_30_0, name="vllm@0.23.0-split-on-0.30.0",
    source="vLLM 0.30.0 with the chunks of 0.23.0 (PyPI), which do not end where prompts part",
    split=schedule.split_alone,
)

REPAIRED = replace(
    V0_33_0, name="vllm@0.33.0-repaired", source="vLLM 0.33.0 without its known faults, proposed by cachesim",
    look_at=lookup.look_at_known, wait_for_state=states.wait_for_copy, chunk_block=schedule.chunk_block_of_states,
    split=schedule.split_in_block, reserves_inside=states.reserve_in_prompt, exports_inside=states.export_reserved,
)

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0, V0_32_0, V0_31_0, V0_30_0, REPAIRED, SPLIT_0_23_0)}
LINE = (V0_30_0.name, V0_31_0.name, V0_32_0.name, V0_33_0.name)
BESIDE = {REPAIRED.name: V0_33_0.name, SPLIT_0_23_0.name: V0_30_0.name}
RENAMED = {"vllm@latest-repaired": REPAIRED.name}
OWN = {name: Landed(UNKNOWN, PROFILES[name].build) for name in LINE}
TIMELINE = Timeline(OWN, {}, {name.partition("@")[2]: at for name, at in OWN.items()})
"""Days of the releases on PyPI. The days on which single changes landed are not known."""
