"""Rule sets before #910, newest first, and proposals on it: a single conversation until #625, then entries without a
limit of bytes."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.mlx_lm.caches import AT_0_25_1, AT_0_30_2
from cachesim.engines.mlx_lm.lru import (
    LRU_0_24_1,
    LRU_0_28_3,
    LRU_0_30_2,
    LRU_PR923_OWN,
    LRU_PR923_REPAIRED,
    LRU_PR923_SHARED,
)
from cachesim.engines.mlx_lm.profiles.before_1072 import BASE923, PR923
from cachesim.engines.mlx_lm.rules import keys, prefill

PR923_REPAIRED = replace(
    PR923,
    name="mlx_lm@pr923-repaired",
    source="c30598cf with the edit that its rule names, proposed here",
    lru=LRU_PR923_REPAIRED,
    inferred=("lru.snapshots",),
)

PR923_SHARED = replace(
    BASE923,
    name="mlx_lm@pr923-shared",
    source="ml-explore/mlx-lm#923 (ec281581)",
    key=keys.key_bare_first,
    lru=LRU_PR923_SHARED,
)
"""The third commit of the pull request: an entry at the first end of a message is the object of the whole key. If that
prefix already has an entry, the original also counts another owner; this table does not."""

PR923_SHARED_REPAIRED = replace(
    PR923_SHARED,
    name="mlx_lm@pr923-shared-repaired",
    source="ec281581 with the edit that its rule names, proposed here",
    lru=LRU_PR923_OWN,
    inferred=("lru.snapshot_copy",),
)

V0_30_2 = replace(
    BASE923,
    name="mlx_lm@0.30.2",
    build="2026-01-05",
    source="mlx-lm v0.30.2 (94497d52)",
    mergeable=keys.merge_of_rows,            # until #743
    extracts=keys.extract_rows,              # until #743
    new_cache=keys.new_unlimited,            # until #834
    fresh=prefill.fresh_if_no_tokens,        # until #743
    right_lengths=prefill.lengths_of_all,    # until #738
    cancel=prefill.cancel_removes,           # until #741
    caches=AT_0_30_2,
    lru=LRU_0_30_2,
    ended={"mergeable": "#743", "extracts": "#743", "fresh": "#743", "new_cache": "#834", "right_lengths": "#738",
           "cancel": "#741",
           "kv_merge_empty": "#755", "ring_extract_end": "#738", "ring_row_start": "#738",
           "rotating_merge": "#738", "masks_window": "#843", "over_bytes": "#906"},
)  # fmt: skip
"""Compared with the real server: 400 drawn bursts without a difference."""

V0_28_4 = replace(
    V0_30_2,
    name="mlx_lm@0.28.4",
    build="2025-12-03",
    source="mlx-lm v0.28.4",
    mergeable=keys.merge_any,                # until #655
    ended={"mergeable": "#655"},
)
"""Compared with the real server: drawn bursts on four models. On a CPU, the server also ends at prompts of different
lengths for Qwen3-Next, which Metal evaluates by another path; that is not simulated."""

V0_28_3 = replace(
    V0_30_2,
    name="mlx_lm@0.28.3",
    build="2025-10-17",
    source="mlx-lm v0.28.3 (5e6a7f68)",
    mergeable=keys.merge_never,              # until #626
    lru=LRU_0_28_3,
    ended={"mergeable": "#626", **dict.fromkeys(
        ("asked", "exact", "shorter", "keep", "trim_in", "hand_out", "move", "present", "over_count"), "#625")},
)  # fmt: skip
"""The server keeps a single conversation and answers one request at a time. A request that leaves nothing to evaluate
ends its connection without an answer; here it gets status 404."""

V0_25_1 = replace(
    V0_28_3,
    name="mlx_lm@0.25.1",
    build="2025-06-07",
    source="mlx-lm v0.25.1 (584780a0)",
    key_stopped=keys.key_of_prompt,          # until #405
    caches=AT_0_25_1,
    ended={"key_stopped": "#405", "ring_meta": "#487", "ring_spare": "#487"},
)

V0_24_1 = replace(
    V0_25_1,
    name="mlx_lm@0.24.1",
    build="2025-05-14",
    source="mlx-lm v0.24.1 (864f5ce1)",
    lru=LRU_0_24_1,
    ended={"asked": "#183"},
)
