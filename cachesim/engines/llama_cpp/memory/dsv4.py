"""Memory of DeepSeek V4: windows, compressed rows, and the rings of their compressors (``llama_kv_cache_dsv4``).

kv_raw       rows of a window ("swa"), and a table of all positions without rows ("base")
rings        the last inputs of each compressor ("recr"), with rollback planes
compressed   rows by number: a row for every ``ratio`` tokens of a sequence, hidden or shown by its number alone

Every sequence has its own stream, even if the server shares its context among the slots.

Source: llama.cpp src/llama-kv-cache-dsv4.cpp (b11549).
"""

from __future__ import annotations

from typing import Any

from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Sizes
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind


class KVCacheDSV4(Memory):
    """Memory of a model with compressed rows."""

    names_parts = False

    def __init__(self, kind: ModelKind, sizes: Sizes, *args: Any, **more: Any) -> None:
        super().__init__(kind, sizes._replace(unified=False), *args, **more)

    def state_size(self, seq: int, partial: bool) -> int:
        """Return the size of a saved state [bytes]: of a partial one without the table of positions and without
        compressed rows."""
        cells = sum(cache.state_size(seq, self.keep) for cache in self._saved(partial).values())
        return cells + self.kind.dsv4_shape().size(self.pos_max(seq) + 1, partial)
