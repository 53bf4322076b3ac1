"""Versions of vLLM, as tables of rules, newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

from cachesim.engines.vllm.profiles.rule_table import Rules
from cachesim.engines.vllm.rules import blocks, lookup, schedule, sizes

V0_33_0 = Rules("vllm@0.33.0", "2026-11-02", "vLLM 0.33.0 (PyPI)")

V0_32_0 = replace(
    V0_33_0, name="vllm@0.32.0", build="2026-10-18", source="vLLM 0.32.0 (PyPI)", speculation=sizes.speculation_drop,
    junction_ends=blocks.junction_alone, publish_again=blocks.publish_async, goes_on=False, promises_again=True,
)  # fmt: skip

V0_31_0 = replace(
    V0_32_0, name="vllm@0.31.0", build="2026-10-05", source="vLLM 0.31.0 (PyPI)", drop_limit=lookup.drop_limit_last,
    partial_rows=blocks.partial_prompt, checkpoint=blocks.checkpoint_before, keep_inside=blocks.keep_inside_late,
    keep_tail=blocks.keep_tail_part, states_needed=blocks.states_with_scratch, split=schedule.split_at_whole,
    inside_aligned=False, moves_scratch=False,
)  # fmt: skip

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0, V0_32_0, V0_31_0)}
LINE: tuple[str, ...] = (*PROFILES,)[::-1]
__all__ = ["LINE", "PROFILES", "Rules"]
