"""Memories with index rows: those of the original, by their names.

KVCacheDSA         kv_mla ("base") and kv_lid ("idx")
KVCacheDSAISWA     a KVCacheDSA, and the windows ("swa")
KVCacheMSA         kv_base ("base") and kv_idx ("idx")
MemoryHybridIdx    a hybrid, and mem_idx ("idx"), which uses the cells of the attention cache

Every operation goes to both caches in the same order, so they have the same cells. The pooled keys of a hybrid are
those of the rows that are present: here they are computed when they are read, not kept.

Source: llama.cpp src/llama-kv-cache-dsa.cpp, llama-kv-cache-dsa-iswa.cpp, llama-kv-cache-msa.cpp,
llama-memory-hybrid-idx.cpp (b11549).
"""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import as_array
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.saved_state import Blob, StateReadError


class IndexMemory(Memory):
    """Memory with index rows in the cells of the attention rows."""

    @property
    def index(self) -> AttentionCache:
        """The cache of the index rows."""
        return self.parts["idx"]

    def check(self) -> None:
        """Raise Crash unless every part is consistent and both caches have the same cells."""
        super().check()
        for seq in range(self.sizes.n_seq):
            ours, theirs = (as_array(cache.cells(seq).of(seq)) for cache in (self.parts["base"], self.index))
            if ours.tolist() != theirs.tolist():
                raise Crash(f"attention rows and index rows of sequence {seq} are in different cells")


LATENT = ("dsa", "dsa_iswa")
"""Kinds of models with such a memory:"""


class LatentIndexMemory(IndexMemory):
    """Memory whose index keys are stored behind a rotation of the whole head: a K-shift may spoil them."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.index.spoils = self.traits.index_spoilt


class KVCacheDSA(LatentIndexMemory):
    """Latent rows and index rows."""

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part; if the second part fails, the first is emptied, too."""
        try:
            super().state_read(seq, blob, home)
        except StateReadError:
            self.parts["base"].seq_rm(seq, 0, POS_INF)
            raise


class KVCacheDSAISWA(LatentIndexMemory):
    """Latent rows and index rows beside windows. A failed read is not undone."""


class KVCacheMSA(IndexMemory):
    """K/V rows and index rows of blocks. A failed read is not undone."""


class MemoryHybridIdx(IndexMemory):
    """A hybrid with index rows."""

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part; if any part fails, the sequence is dropped from all."""
        try:
            super().state_read(seq, blob, home)
        except StateReadError:
            for part in self._all:
                part.seq_rm(seq, 0, POS_INF)
            raise
