"""Sizes of the server's caches. Source: llama.cpp tools/server/server-task.cpp server_prompt_cache (3f545be)."""

from __future__ import annotations

from cachesim.engines.shared.capacity import CapacityForms, CapacitySize, conversation_mib

FORMS = CapacityForms(
    (CapacitySize("cache_ram", "MiB", conversation_mib),),
    shared=("ctx_size", "parallel", "cache_ram"),
    direct="the prompt cache evicts whole conversations, the oldest first, and a load removes one from it",
)
