"""Which options of ik_llama.cpp's server govern which families of rules? For ``cachesim explain``."""

from __future__ import annotations

from typing import Mapping

RULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "IK-SLOT-SELECT": ("slot_prompt_similarity", "parallel"),
    "IK-PREFIX": ("reasoning_tokens",),
    "IK-PC-SAVE": ("cache_ram", "cache_ram_similarity", "cache_ram_n_min"),
    "IK-PC-ALLOC": ("cache_ram",),
    "IK-PC-LOAD": ("cache_ram", "cache_ram_similarity"),
    "IK-PC-PEEK": ("reasoning_tokens",),
    "IK-PC-UPDATE": ("cache_ram",),
    "IK-CKPT-ON": ("ctx_checkpoints",),
    "IK-CKPT-BREAK": ("ctx_checkpoints_tolerance", "batch_size"),
    "IK-CKPT-FIRST": ("ctx_checkpoints_tolerance",),
    "IK-CKPT-INTERVAL": ("ctx_checkpoints_interval",),
    "IK-CKPT-EVICT": ("ctx_checkpoints", "ctx_checkpoints_eviction"),
    "IK-FULL": ("context_shift", "ctx_size"),
    "IK-SHIFT": ("context_shift", "ctx_size"),
    "IK-PROMPT-SHIFT": ("context_shift", "ctx_size"),
    "IK-SPEC-MAX": ("spec_draft_n_max",),
    "IK-SPEC-SAVE": ("spec_ckpt_mode", "spec_draft_n_max"),
    "IK-WINDOW": ("swa_compress", "parallel"),
}
"""Family -> names of options."""
