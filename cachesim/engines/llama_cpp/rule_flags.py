"""Which options of llama-server govern which families of rules? For ``cachesim explain``."""

from __future__ import annotations

from typing import Mapping

RULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "LC-SLOT-SELECT": ("slot_prompt_similarity", "parallel"),
    "LC-SLOT-CTX": ("ctx_size", "parallel", "kv_unified", "kv_unified_per_slot"),
    "LC-CTX-POOL": ("ctx_size", "parallel", "kv_unified_per_slot"),
    "LC-PC-ASK": ("cache_ram",),
    "LC-PC-ALLOC": ("cache_ram",),
    "LC-PC-LOAD": ("cache_ram",),
    "LC-PC-UPDATE": ("cache_ram", "ctx_size"),
    "LC-IDLE-SAVE": ("cache_idle_slots", "kv_unified", "cache_ram"),
    "LC-IDLE-PURGE": ("kv_unified",),
    "LC-NPAST-LCP": ("cache_prompt",),
    "LC-NPAST-REUSE": ("cache_reuse",),
    "LC-CKPT-ON": ("ctx_checkpoints",),
    "LC-CKPT-NEED": ("swa_full",),
    "LC-CKPT-PICK": ("ctx_checkpoints",),
    "LC-CKPT-RESET": ("ctx_checkpoints", "checkpoint_min_step", "swa_full"),
    "LC-CKPT-BREAK": ("batch_size", "ubatch_size"),
    "LC-CKPT-PERIODIC": ("checkpoint_min_step",),
    "LC-CKPT-CREATE": ("checkpoint_min_step", "ubatch_size"),
    "LC-CKPT-SPACING": ("checkpoint_min_step",),
    "LC-CKPT-LIMIT": ("ctx_checkpoints",),
    "LC-CKPT-REPLACE": ("ctx_checkpoints",),
    "LC-DECODE": ("batch_size", "kv_unified"),
    "LC-SHIFT": ("context_shift", "ctx_size"),
    "LC-N-SWA": ("swa_full",),
    "LC-KV-FULL": ("swa_full",),
    "LC-SPEC-UNREAD": ("kv_unified", "ctx_size", "parallel"),
    "LC-KV-STATE": ("swa_full",),
    "LC-KV-COPY": ("kv_unified",),
    "LC-KV-UNDO": ("batch_size", "ubatch_size", "swa_full"),
    "LC-TASK": ("pooling", "ubatch_size"),
    "LC-RS-PLANES": ("spec_type", "spec_draft_n_max"),
    "LC-RS-BACK": ("spec_draft_n_max",),
    "LC-RS-SPLIT": ("ubatch_size", "kv_unified"),
    "LC-SPEC-ON": ("spec_type", "model_draft"),
    "LC-SPEC-MAX": ("spec_draft_n_max", "batch_size"),
    "LC-SPEC-CKPT": ("spec_draft_n_max",),
    "LC-SPEC-ROOM": ("batch_size", "spec_draft_n_max", "parallel"),
}
"""Family -> names of options."""
