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

from typing import Any, Mapping, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, as_array
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache
from cachesim.engines.llama_cpp.memory.saved_state import Blob, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.engines.llama_cpp.memory.ubatch_view import PlacedUbatch, UbatchStore
from cachesim.model import KVRows
from cachesim.model.hash_mixing import mix
from cachesim.model.pooled_index import POOL
from cachesim.model.store import index_of


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
        self.index.ends_shift = self.traits.index_dies


class KVCacheDSA(LatentIndexMemory):
    """Latent rows and index rows."""

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part; if the second part fails, the first is emptied, too, if the build does so."""
        try:
            super().state_read(seq, blob, home)
        except StateReadError:
            if self.traits.fail_undoes:
                self.parts["base"].seq_rm(seq, 0, POS_INF)
            raise


class KVCacheDSAISWA(LatentIndexMemory):
    """Latent rows and index rows beside windows. A failed read is not undone."""


class KVCacheMSA(IndexMemory):
    """K/V rows and index rows of blocks. A failed read is not undone."""


def first_foreign_row(cells: np.ndarray, most: int, sets: np.ndarray) -> int:
    """Return the number of a sequence's first row from which on pooled rows are not read as in a cold run, their number
    if all are.

    ``cells`` (n,): cells of the rows in order of position; ``sets`` (n, sequences): the sequences that use each cell;
    ``most``: rows that a token reads. A sorting routine chooses the rows of the last pool. It begins with the first
    cells of the buffer and takes the others one by one, without those of other sequences: its choice is that of a cold
    run if the first cells are the first rows, and the others follow in order. A pool whose rows belong to different
    sets of sequences is never complete, and is always read."""
    n = len(cells)
    start = min(n, most)
    wrong = np.zeros(n, bool)
    wrong[:start] = cells[:start] != np.arange(start)
    wrong[start:] = cells[start:] < cells[start - 1 : n - 1] if start else False
    whole = n // POOL * POOL
    if whole:
        by_pool = sets[:whole].reshape(whole // POOL, POOL, -1)
        mixed = (by_pool != by_pool[:, :1]).any(axis=(1, 2))
        wrong[:whole] |= np.repeat(mixed, POOL)
    found = np.flatnonzero(wrong)
    return int(found[0]) if len(found) else n


class CutPoolStore(UbatchStore):
    """Store of a build whose reading of pooled rows depends on their cells. ``counts``: index rows of a layer -> rows
    that a token chooses.

    Index rows that are not read as in a cold run get another digest, so that every token that chooses among them
    differs from its cold run. Their numbers stay: which rows of a pool the original reads is not computed."""

    def __init__(
        self, ubatch: Ubatch, parts: Mapping[str, AttentionCache], found: Mapping[str, Sequence[Found]],
        recr: RecurrentCache | None, counts: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(ubatch, parts, found, recr)
        self.counts = counts or {}

    def piece(self, run: int, start: int, stop: int) -> CutPoolStore:
        """Return the store of tokens start .. stop-1 of a single run."""
        part = super().piece(run, start, stop)
        return CutPoolStore(part.ubatch, part.parts, part.found, part.recr, self.counts)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return every row of the run's sequence, in the order of ``positions``."""
        rows = super().get_rows(layer, run)
        count = self.counts.get(layer)
        if count is None or len(rows.digest) < count + POOL:
            return rows
        table = self.parts["idx"].cells(self.ubatch.runs[run].seq)
        cells = np.arange(len(table.pos))[self._visible("idx", run)[1]]
        first = first_foreign_row(cells, count + POOL - 1, table.seqs[:, cells].T)
        if first == len(cells):
            return rows
        digest = rows.digest.copy()
        digest[first:] = mix(digest[first:] + cells[first:].astype(np.uint64))
        return KVRows(digest, rows.k, rows.v)


class MemoryHybridIdx(IndexMemory):
    """A hybrid with index rows."""

    def store(self, placed: PlacedUbatch) -> UbatchStore:
        """Return the model's view of the memory for a ubatch whose metadata is written."""
        if not self.traits.pools_cut:
            return super().store(placed)
        counts = {index_of(i): self.kind.spec.layers[i].count for i in self.kind.idx}
        return CutPoolStore(placed.ubatch, self.parts, placed.found, self.recr, counts)

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part; if any part fails, the sequence is dropped from all."""
        try:
            super().state_read(seq, blob, home)
        except StateReadError:
            for part in self._all:
                part.seq_rm(seq, 0, POS_INF)
            raise
