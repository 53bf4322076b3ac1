"""Which options of mlx-lm's server govern which families of rules? For ``cachesim explain``."""

from __future__ import annotations

from typing import Mapping

RULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "ML-LRU-COUNT": ("prompt_cache_size",),
    "ML-LRU-BYTES": ("prompt_cache_bytes",),
    "ML-LRU-VICTIM": ("prompt_cache_size", "prompt_cache_bytes"),
    "ML-LRU-SNAP": ("snapshot_interval",),
    "ML-BATCH": ("prompt_concurrency", "decode_concurrency"),
    "ML-BATCHABLE": ("draft_model",),
    "ML-PC-BATCH": ("prompt_concurrency",),
    "ML-SPEC-START": ("draft_model", "num_draft_tokens", "prefill_step_size"),
    "ML-SPEC-ROUND": ("draft_model", "num_draft_tokens"),
    "ML-SEG-TAIL": ("thinking",),
    "ML-PC-POSITION": ("thinking",),
}
"""Family -> names of options."""
