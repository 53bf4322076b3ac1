"""Rule sets before #1072, newest first: prompts are prefilled as a whole, with a common checkpoint for all rows of a
group."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.mlx_lm.caches import AT_0_31_1_QWEN35, AT_M1019, AT_PR999
from cachesim.engines.mlx_lm.lru import (
    LRU_BASE923,
    LRU_BASE1006,
    LRU_M1019,
    LRU_PR923,
    LRU_PR929,
    LRU_PR999,
    LRU_V911,
)
from cachesim.engines.mlx_lm.profiles.since_1072 import M1072
from cachesim.engines.mlx_lm.rules import keys, prefill

M1019 = replace(
    M1072,
    name="mlx_lm@m1019",
    build="2026-03-26",
    source="mlx-lm 4d3af3ce (#1019)",
    batching=keys.batch_whole,               # until #1072
    cancel=prefill.cancel_stores,            # until #1072
    caches=AT_M1019,
    lru=LRU_M1019,
    new_cache=keys.new_limited,              # from #834 to #1072
    ended={"new_cache": "#1072", "batching": "#1072", "cancel": "#1072", "arrays_filtered": "#1072",
           "arrays_keep": "#1077", "exact": "#1078", "prune": "#1078",
           "victim": "#1072"},
)  # fmt: skip

V0_31_1 = replace(
    M1019,
    name="mlx_lm@0.31.1",
    build="2026-03-16",
    source="mlx-lm 73c85504 (the base of #1006; the rules of v0.31.1)",
    final_type="normal",                     # until #1019
    checkpoint_type="checkpoint",            # until #1019
    lru=LRU_BASE1006,
    ended=dict.fromkeys(
        ("final_type", "checkpoint_type", "present", "prune", "over_bytes", "victim", "kinds"), "#1019"
    ),
)

V0_31_1_QWEN35 = replace(
    V0_31_1,
    name="mlx_lm@0.31.1-qwen3_5",
    source="mlx-lm 73c85504 with the model file qwen3_5.py in place of qwen3_next.py",
    caches=AT_0_31_1_QWEN35,
    ended={"arrays_advance": "#1024"},
)
"""Of the differences of the two files this table has one: the counters. The other is not simulated: at right padding
qwen3_5.py keeps the last inputs of the convolution, whatever the lengths (until #1072)."""

PR1006C = replace(
    V0_31_1,
    name="mlx_lm@pr1006c",
    source="ml-explore/mlx-lm#1006 (c2e01bcb)",
    position=prefill.position_sentinel,
    tails=prefill.tails_zeros,
    create_at_pc=prefill.create_if_own,
)

PR1006B = replace(
    PR1006C,
    name="mlx_lm@pr1006b",
    source="ml-explore/mlx-lm#1006 (82574b4d)",
    create_at_pc=prefill.create_if_asked,
)

PR1006A = replace(
    PR1006B,
    name="mlx_lm@pr1006a",
    source="ml-explore/mlx-lm#1006 (f0402185)",
    tails=prefill.tails_plain,
)

PR999 = replace(
    V0_31_1,
    name="mlx_lm@pr999",
    source="ml-explore/mlx-lm#999 (38e83982)",
    caches=AT_PR999,
    lru=LRU_PR999,
)

V0_31_0 = replace(
    V0_31_1,
    name="mlx_lm@0.31.0",
    build="2026-02-26",
    source="mlx-lm 2105aaf9 (#911, in v0.31.0)",
    row=prefill.row_last,                    # until #976
    lru=LRU_V911,
    ended={"row": "#976"},
)

BASE923 = replace(
    V0_31_0,
    name="mlx_lm@base923",
    build="2026-02-19",
    source="mlx-lm 321e764e (the base of #923 and #929)",
    position=prefill.position_none,          # until #911
    pc=prefill.pc_one,                       # until #911
    checkpoint_type="normal",                # until #911; not used
    lru=LRU_BASE923,
    ended=dict.fromkeys(
        ("position", "pc", "checkpoint_type", "longer", "hand_out", "present", "prune", "victim", "kinds"), "#911"
    ),
)

PR923 = replace(
    BASE923,
    name="mlx_lm@pr923",
    source="ml-explore/mlx-lm#923 (c30598cf)",
    key=keys.key_bare,
    lru=LRU_PR923,
)

PR929 = replace(
    PR923,
    name="mlx_lm@pr929",
    source="ml-explore/mlx-lm#929 (c1c0d8ef)",
    key=keys.key_bare_all,
    lru=LRU_PR929,
)
