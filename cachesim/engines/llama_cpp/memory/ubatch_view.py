"""What the model sees of the memory while one ubatch is computed: rows by position, states by layer."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, index
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.engines.shared.rows import by_position, take
from cachesim.model import LayerState, Rows, Run
from cachesim.model.attention_mask import ByPosition


class UbatchStore(ByPosition):
    """The Store of one ubatch. ``found`` holds, per attention part, the new cells of every run."""

    def __init__(
        self, ubatch: Ubatch, parts: Mapping[str, AttentionCache], found: Mapping[str, Sequence[Found]],
        recr: RecurrentCache | None,
    ) -> None:
        self.ubatch, self.parts, self.found, self.recr = ubatch, parts, found, recr
        self._part_of = {layer: name for name, cache in parts.items() for layer in cache.layers}
        self._seen: dict[tuple[str, int], tuple[np.ndarray, np.ndarray | slice]] = {}

    def piece(self, run: int, start: int, stop: int) -> UbatchStore:
        """The store of tokens start .. stop-1 of one run alone."""
        whole = self.ubatch.runs[run]
        part = Run(whole.seq, whole.pos0 + start, whole.tokens[start:stop])
        found = {name: [cells[run][start:stop]] for name, cells in self.found.items()}
        return UbatchStore(Ubatch((part,), (0,), stop - start), self.parts, found, self.recr)

    def _visible(self, part: str, run: int) -> tuple[np.ndarray, np.ndarray | slice]:
        """(positions ascending, cells in that order) of the run's sequence; a slice where the cells allow it."""
        known = self._seen.get((part, run))
        if known is None:
            cache, seq = self.parts[part], self.ubatch.runs[run].seq
            table = cache.cells(seq)
            cells = table.of(seq)
            at = index(cells)
            known = (table.pos[at], at) if isinstance(cells, range) else by_position(cells, table.pos[at])
            self._seen[part, run] = known
        return known

    def positions(self, part: str, run: int) -> np.ndarray:
        """(n,) positions of the run's sequence in a part, ascending, the run's own included."""
        return self._visible(part, run)[0]

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the run's own new rows into their cells."""
        part = self._part_of[layer]
        cache = self.parts[part]
        cache.write(cache.stream(self.ubatch.runs[run].seq), layer, index(self.found[part][run]), rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Every row of the run's sequence, in the order of ``positions``."""
        part = self._part_of[layer]
        cache = self.parts[part]
        rows = cache.rows[cache.stream(self.ubatch.runs[run].seq)][layer]
        cells = self._visible(part, run)[1]
        return take(rows, cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The recurrent state before the run, None = zeroed."""
        assert self.recr is not None
        return self.recr.rows[self.recr.meta.tail[self.ubatch.runs[run].seq]].get(layer)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """The recurrent state after the run."""
        assert self.recr is not None
        self.recr.rows[self.recr.meta.tail[self.ubatch.runs[run].seq]][layer] = state
