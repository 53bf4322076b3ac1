"""The model's view of the memory while a ubatch is computed: rows by position, states by layer."""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, concatenate_cells, index
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache
from cachesim.engines.llama_cpp.memory.recurrent_cells import as_index, continues_own_cell
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.engines.shared.kv_rows import RowTable, read_rows, sort_by_position, write_rows
from cachesim.model import KVRows, LayerState, TokenRun
from cachesim.model.attention_mask import ByPosition, StretchView, View

# Merging of micro-batches that can be evaluated in a single pass with identical results.
#
# What a token reads does not depend on the split as long as no micro-batch takes a cell that an earlier micro-batch
# reads. In exact mode batches are split as in the engine, to need no more room.

class PlacedUbatch(NamedTuple):
    """A ubatch with its cells: per attention part, the cells of every run."""

    ubatch: Ubatch
    found: Mapping[str, Sequence[Found]]


def merge_ubatches(
    cuts: Sequence[PlacedUbatch], parts: Mapping[str, AttentionCache], recr: RecurrentCache | None
) -> PlacedUbatch | None:
    """Merge ubatches if they are consecutive tokens of a sequence, their cells come after all used cells,
    and their state continues in its own cell, or is new. Return None if they cannot be merged."""
    first = cuts[0][0]
    if any(len(ubatch.runs) > 1 or ubatch.runs[0].seq != first.runs[0].seq for ubatch, _ in cuts):
        return None
    if recr is not None:
        is_new = recr.pos_max(first.runs[0].seq) < 0
        if recr.n_rs_seq or recr.position is not as_index or not (is_new or continues_own_cell(recr.meta, first)):
            return None
    if any(a.runs[0].pos0 + a.n != b.runs[0].pos0 or a.at[0] + a.n != b.at[0] for (a, _), (b, _) in pairwise(cuts)):
        return None
    seq, pos0, _ = first.runs[0]
    found: dict[str, Sequence[Found]] = {}
    for name, cache in parts.items():
        together = concatenate_cells([cells[name][0] for _, cells in cuts])
        if not isinstance(together, range) or together.start < cache.cells(seq).end:
            return None
        found[name] = [together]
    tokens = [token for ubatch, _ in cuts for token in ubatch.runs[0].tokens]
    return PlacedUbatch(Ubatch((TokenRun(seq, pos0, tokens),), first.at, len(tokens)), found)


class UbatchStore(ByPosition):
    """``Store`` of a ubatch. ``found`` holds, per attention part, the new cells of every run."""

    def __init__(
        self, ubatch: Ubatch, parts: Mapping[str, AttentionCache], found: Mapping[str, Sequence[Found]],
        recr: RecurrentCache | None,
    ) -> None:
        self.ubatch = ubatch
        self.parts = parts
        self.found = found
        self.recr = recr
        self._seen: dict[tuple[str, int], tuple[np.ndarray, np.ndarray | slice]] = {}

    def piece(self, run: int, start: int, stop: int) -> UbatchStore:
        """Return the store of tokens start .. stop-1 of a single run."""
        whole = self.ubatch.runs[run]
        part = TokenRun(whole.seq, whole.pos0 + start, whole.tokens[start:stop])
        found = {name: [cells[run][start:stop]] for name, cells in self.found.items()}
        return type(self)(Ubatch((part,), (0,), stop - start), self.parts, found, self.recr)

    def _visible(self, part: str, run: int) -> tuple[np.ndarray, np.ndarray | slice]:
        """Return the positions (ascending) of the run's sequence and its cells in that order, a slice if possible."""
        known = self._seen.get((part, run))
        if known is None:
            cache, seq = self.parts[part], self.ubatch.runs[run].seq
            table = cache.cells(seq)
            cells = table.of(seq)
            at = index(cells)
            known = (table.pos[at], at) if isinstance(cells, range) else sort_by_position(cells, table.pos[at])
            self._seen[part, run] = known
        return known

    def view(self, part: str, run: int, asked: np.ndarray) -> View:
        """Return the view of the queries at positions ``asked``; see ``Store``."""
        table = self.parts[part].cells(self.ubatch.runs[run].seq)
        known = table.extents.stretch(self.ubatch.runs[run].seq)
        if known is not None and self.found[part][run][-1] == known[-1]:
            return StretchView(len(known), len(asked))
        return super().view(part, run, asked)

    def positions(self, part: str, run: int) -> np.ndarray:
        """Return the (n,) positions of the run's sequence in a part, ascending, with the run's own."""
        return self._visible(part, run)[0]

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Write the run's new rows into their cells."""
        part, kept = self._kept(layer, run)
        write_rows(kept, layer, index(self.found[part][run]), rows)

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return every row of the run's sequence, in the order of ``positions``."""
        part, kept = self._kept(layer, run)
        return read_rows(kept[layer], self._visible(part, run)[1])

    def _kept(self, layer: int, run: int) -> tuple[str, RowTable]:
        """Return the part to which a layer belongs, and the rows of the part's layers in the run's stream."""
        for part, cache in self.parts.items():
            kept = cache.rows[cache.stream(self.ubatch.runs[run].seq)]
            if layer in kept:
                return part, kept
        raise Crash(f"layer {layer} keeps no rows")

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the recurrent state before the run, None = zeroed."""
        assert self.recr is not None
        return self.recr.rows[self.recr.meta.tail[self.ubatch.runs[run].seq]].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the recurrent state after the run."""
        assert self.recr is not None
        self.recr.rows[self.recr.meta.tail[self.ubatch.runs[run].seq]][layer] = state


class CompressedUbatchStore(UbatchStore):
    """``UbatchStore`` of a memory with compressed rows. ``compressed``: those of each run's sequence."""

    def __init__(
        self, ubatch: Ubatch, parts: Mapping[str, AttentionCache], found: Mapping[str, Sequence[Found]],
        recr: RecurrentCache | None, compressed: Sequence[RowTable] = (),
    ) -> None:
        super().__init__(ubatch, parts, found, recr)
        self.compressed = compressed

    def piece(self, run: int, start: int, stop: int) -> CompressedUbatchStore:
        """Return the store of tokens start .. stop-1 of a single run."""
        part = super().piece(run, start, stop)
        return CompressedUbatchStore(
            part.ubatch, part.parts, found=part.found, recr=part.recr, compressed=self.compressed[run : run + 1]
        )

    def put_compressed(self, layer: int, run: int, first: int, rows: KVRows) -> None:
        """Write compressed rows under consecutive numbers from ``first`` on."""
        write_rows(self.compressed[run], layer, slice(first, first + len(rows.digest)), rows)

    def get_compressed(self, layer: int, run: int, n: int) -> KVRows:
        """Return the first ``n`` compressed rows of the run's sequence."""
        return read_rows(self.compressed[run][layer], slice(0, n))
