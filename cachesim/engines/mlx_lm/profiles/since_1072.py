"""Rule sets since #1072, newest first: prompts are fed in segments."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.mlx_lm.caches import AT_D78BF58E, AT_M1072, AT_M1072_METAL, AT_PR1253, AT_V0_31_3
from cachesim.engines.mlx_lm.lru import LRU_M1072, LRU_PR1186
from cachesim.engines.mlx_lm.profiles.rule_table import Rules
from cachesim.engines.mlx_lm.rules import keys, repaired, segments
from cachesim.engines.mlx_lm.rules import prefill as drafts

V0_32_2 = Rules(name="mlx_lm@0.32.2", build="2026-09", source="mlx-lm 0.32.2 (PyPI)")

D78BF58E = replace(
    V0_32_2,
    name="mlx_lm@d78bf58e",
    build="2026-08-22",
    source="mlx-lm d78bf58e",
    rest=segments.rest_or_index_error,       # until 0.32.2
    caches=AT_D78BF58E,
    ended={"rest": "0.32.2", "arrays_mask": "0.32.2", "state": "0.32.2", "restore": "0.32.2", "meta_state": "0.32.2",
           "extend_empty_side": "0.32.2"},
)  # fmt: skip

V0_31_3 = replace(
    D78BF58E,
    name="mlx_lm@0.31.3",
    build="2026-04-22",
    source="mlx-lm v0.31.3 (ed1fca4c)",
    caches=AT_V0_31_3,
    ended={"arrays_state": "#1632", "chunked_front": "#1673"},
)

PR1253 = replace(
    V0_31_3,
    name="mlx_lm@pr1253",
    source="ml-explore/mlx-lm#1253 (6236c674), the same as #1254",
    caches=AT_PR1253,
)

PR1186 = replace(V0_31_3, name="mlx_lm@pr1186", source="ml-explore/mlx-lm#1186 (c83dedf3)", lru=LRU_PR1186)

PR1030 = replace(
    V0_31_3,
    name="mlx_lm@pr1030",
    source="ml-explore/mlx-lm#1030 (edbdc50a) on v0.31.3",
    thinks=segments.thinks_by_request,
)

M1072 = replace(
    V0_31_3,
    name="mlx_lm@m1072",
    build="2026-04-01",
    source="mlx-lm 3f9d179f (#1072, in v0.31.2)",
    new_cache=keys.new_unlimited,            # until #1106
    tail=segments.tail_guarded,              # until #1114
    start_drafting=drafts.start_any,         # until #1109
    caches=AT_M1072,
    lru=LRU_M1072,
    ended={"tail": "#1114", "start_drafting": "#1109", "new_cache": "#1106", "arrays_merge_empty": "#1169",
           "arrays_extend_none": "#1169",
           "rotating_merge": "#1093", "extend_empty_side": "#1141", "arrays_extend_padding": "#1177",
           "arrays_filtered": "#1169"},
)  # fmt: skip
"""The rules of #1072; v0.31.2 also has #1093, #1109 and #1114."""

M1072_METAL = replace(
    M1072,
    name="mlx_lm@m1072-metal",
    source="mlx-lm 3f9d179f on Metal, where a missing row is read as ml-explore/mlx-lm#1169 reports",
    caches=AT_M1072_METAL,
)
"""Read, not run: its only difference from M1072 is what the device does with an index out of bounds."""


# Proposal of this project on top of 0.32.2: every stored state equals that of a cold run, and no request ends the
# generation thread.
#
# Each of these rules is necessary: without it a scenario in scenarios/mlx_lm/repairs fails.

V0_32_2_REPAIRED = replace(
    V0_32_2,
    name="mlx_lm@0.32.2-repaired",
    source="0.32.2 with the edits that its rules name, proposed here",
    tail=repaired.tail_behind_system,
    key=repaired.key_but_last,
    key_alone=repaired.key_of_evaluated,
    start_drafting=repaired.start_always,
    draft_round=repaired.round_trimmable,
    caches=replace(V0_32_2.caches, ring_mask=repaired.mask_straight),
    inferred=("tail", "key", "key_alone", "start_drafting", "draft_round", "caches.ring_mask"),
)
