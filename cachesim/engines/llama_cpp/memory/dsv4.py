"""Memory of DeepSeek V4: windows, compressed rows, and the rings of their compressors (``llama_kv_cache_dsv4``).

kv_raw       rows of a window ("swa"), and a table of all positions without rows ("base")
rings        the last inputs of each compressor ("recr"), with rollback planes
compressed   rows by number: a row for every ``ratio`` tokens of a sequence, hidden or shown by its number alone

Every sequence has its own stream, even if the server shares its context among the slots. A partial state has no
compressed rows: those of the sequence stay as they are.

Source: llama.cpp src/llama-kv-cache-dsv4.cpp (b11549).
"""

from __future__ import annotations

from typing import Any, Iterator

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Sizes
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.memory.ubatch_view import CompressedUbatchStore, PlacedUbatch, UbatchStore
from cachesim.engines.shared.kv_rows import RowTable, copy_rows, empty_rows, read_rows, replace_rows, write_rows
from cachesim.events import SeqRm
from cachesim.model import Model
from cachesim.model.store import index_of


class KVCacheDSV4(Memory):
    """Memory of a model with compressed rows."""

    names_parts = False

    def __init__(self, kind: ModelKind, sizes: Sizes, model: Model | None, *args: Any, **more: Any) -> None:
        super().__init__(kind, sizes, model, *args, **more)
        self._ratios = {index_of(i): layer.ratio for i, layer in enumerate(kind.spec.layers) if layer.ratio}
        self._layers = tuple(self._ratios) if model else ()
        self.compressed: list[RowTable] = [empty_rows(self._layers) for _ in range(sizes.n_seq)]
        self._copies: list[tuple[int, int]] = []          # (source, target): the next decode copies the rows

    def _zero(self, seq: int) -> None:
        """Empty the compressed rows of a sequence; seq < 0 = of all."""
        for one in range(len(self.compressed)) if seq < 0 else (seq,):
            self.compressed[one] = empty_rows(self._layers)

    def clear(self) -> None:
        """Empty every part."""
        super().clear()
        self._zero(-1)

    def seq_rm(self, seq: int, p0: int, p1: int = POS_INF) -> bool:
        """Remove positions from p0 on. Return False, with nothing changed, for a piece in the middle, or if the rings
        cannot be rolled back. Compressed rows of removed positions stay and are hidden by their numbers, until the
        whole sequence is removed."""
        if p1 != POS_INF:
            self.emit(SeqRm(seq, p0, p1, False))
            return False
        removed = super().seq_rm(seq, p0, p1)
        if removed and p0 <= 0:
            self._zero(seq)
        return removed

    def seq_cp(self, src: int, dst: int) -> None:
        """Make ``dst`` a copy of ``src``; as the build copies, now or in the next decode."""
        super().seq_cp(src, dst)
        if src != dst:
            self._copies.append((src, dst))
            if not self.traits.copy_waits:
                self._copy_compressed()

    def seq_keep(self, seq: int) -> None:
        """Remove all sequences but ``seq``."""
        for other in range(self.sizes.n_seq):
            if other != seq:
                self.seq_rm(other, 0)

    def init_update(self) -> None:
        """Do the pending copies."""
        super().init_update()
        self._copy_compressed()

    def _copy_compressed(self) -> None:
        for src, dst in self._copies:
            for layer, rows in self.compressed[src].items():
                replace_rows(self.compressed[dst], layer, rows)
        self._copies.clear()

    def store(self, placed: PlacedUbatch) -> UbatchStore:
        """Return the model's view of the memory for a ubatch whose metadata is written."""
        rows = [self.compressed[run.seq] for run in placed.ubatch.runs]
        return CompressedUbatchStore(placed.ubatch, self.parts, found=placed.found, recr=self.recr, compressed=rows)

    # --- saving and loading ----------------------------------------------------------------------------------

    def saved_rows(self, seq: int, n_tokens: int) -> Iterator[tuple[int, int, RowTable]]:
        """Yield for each ratio: it, the number of compressed rows that so many tokens have, and these rows by layer.
        They may be views."""
        for ratio in sorted(set(self._ratios.values())):
            n, table = n_tokens // ratio, self.compressed[seq]
            yield ratio, n, {layer: read_rows(table[layer], slice(0, n)) for layer in self._layers
                             if self._ratios[layer] == ratio}  # fmt: skip

    def _size_with(self, cells: int, seq: int, partial: bool) -> int:
        """Return the size of a saved state [bytes]: of a partial one without the table of positions and without
        compressed rows."""
        return cells + self.kind.dsv4_shape().size(self.pos_max(seq) + 1, partial)

    def state_write(self, seq: int, partial: bool) -> Blob:
        """Return a copy of the sequence, or (``partial``) of its window and rings."""
        blob = super().state_write(seq, partial)
        if partial:
            return blob
        kept = [rows for _, _, rows in self.saved_rows(seq, self.pos_max(seq) + 1)]
        return blob.with_compressed({layer: copy_rows(rows) for table in kept for layer, rows in table.items()})

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part. A full state first empties compressed rows, of all sequences if the build does
        so, and rings."""
        if blob.compressed is not None:
            self._zero(-1 if self.traits.rows_emptied else seq)
        super().state_read(seq, blob, home)
        for layer, rows in (blob.compressed or {}).items():
            write_rows(self.compressed[seq], layer, slice(0, len(rows.digest)), rows)
