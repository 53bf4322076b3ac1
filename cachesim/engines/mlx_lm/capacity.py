"""Sizes of the server's caches. Source: mlx-lm mlx_lm/models/cache.py LRUPromptCache."""

from __future__ import annotations

from cachesim.engines.shared.capacity import (
    MIB,
    CapacityForms,
    CapacityQuestion,
    CapacitySize,
    conversation_mib,
    number_of_conversations,
)


def _conversation_bytes(question: CapacityQuestion) -> tuple[int, int]:
    """Return 1 MiB, because 0 sets no limit, and the bytes of all conversations at their longest."""
    return MIB, conversation_mib(question)[1] * MIB


FORMS = CapacityForms(
    (CapacitySize("prompt_cache_size", "entries", number_of_conversations),
     CapacitySize("prompt_cache_bytes", "bytes", _conversation_bytes)),
    shared=("prompt_cache_size", "prompt_cache_bytes"),
    direct="an entry is a whole conversation, and which entries remain depends on their types and on what was found",
)  # fmt: skip
