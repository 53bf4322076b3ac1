"""Attention cache: K/V rows in cells, with a cell table per stream.

base / swa   full-attention layers / sliding-window layers (a ring that drops old rows)
stream       independent cell table: common to all sequences (unified) or per sequence
n_swa        window in positions, 0 = none

Source: llama.cpp src/llama-kv-cache.cpp (3f545be).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import accumulate
from typing import Callable, Mapping, Sequence

import numpy as np

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.events import RowsPurged
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, as_array, as_range, index
from cachesim.engines.llama_cpp.memory.cells import Cells
from cachesim.engines.llama_cpp.memory.saved_state import AttentionShape, AttentionState, KeepCells, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, Ubatch, check_stream_order, split_by_run
from cachesim.engines.shared.kv_rows import copy_rows, empty_rows, read_rows, replace_rows, write_rows
from cachesim.events import Event
from cachesim.model import KVRows, Model
from cachesim.model.hash_mixing import mix

Emit = Callable[[Event], None]


def masked_swa(n_swa: int, p0: np.ndarray, p1: int) -> np.ndarray:
    """Return the mask of the keys at ``p0`` that a query at ``p1`` cannot see in a standard window. It sees n_swa keys,
    its own included."""
    return p1 - p0 >= n_swa


def spoilt_keys(rows: KVRows) -> KVRows:
    """Return rows with other keys: what is left of index keys whose rotated numbers were not undone before a K-shift.
    The keys of the original are arbitrary; these are as wrong."""
    k = None if rows.k is None else rows.k[..., ::-1].copy()
    return KVRows(mix(rows.digest), k, rows.v)


class AttentionCache:
    """Attention cache for ``n_seq`` sequences with ``size`` cells in each stream."""

    def __init__(
        self, size: int, n_seq: int, unified: bool, n_swa: int, layers: Sequence[int], shape: AttentionShape,
        model: Model | None, emit: Emit, traits: BuildTraits = BuildTraits(),  # noqa: B008 - immutable
    ) -> None:
        self.traits = traits
        self.size = size
        self.n_seq = n_seq
        self.n_swa = n_swa
        self.n_stream = 1 if unified else n_seq
        self.masked = partial(masked_swa, n_swa) if n_swa else None
        self.layers = tuple(layers)
        self.shape = shape
        self.emit = emit
        self.model = model
        stays = not n_swa or traits.shared_stays        # without windows every sequence sees its cells
        self.streams = [Cells(size, n_seq, traits.pos_set, stays) for _ in range(self.n_stream)]
        self.spoils = False                             # a K-shift spoils the keys
        self.ends_shift = False                         # a K-shift of these rows ends the process
        self.copies: list[tuple[int, int]] = []         # (source, target) streams: the next decode copies the rows
        self.rows = [empty_rows(self.layers if model else ()) for _ in self.streams]

    def stream(self, seq: int) -> int:
        """Return the index of the sequence's stream."""
        return 0 if self.n_stream == 1 else seq

    def cells(self, seq: int) -> Cells:
        """Return the cell table that holds the sequence."""
        return self.streams[0 if self.n_stream == 1 else seq]

    def pos_min(self, seq: int) -> int:
        """Return the smallest position of the sequence, -1 if it is absent."""
        return self.cells(seq).span(seq)[0]

    def pos_max(self, seq: int) -> int:
        """Return the largest position of the sequence, -1 if it is absent."""
        return self.cells(seq).span(seq)[1]

    def n_cells(self, seq: int) -> int:
        """Return the number of cells that the sequence uses."""
        return len(self.cells(seq).of(seq))

    # --- sequence operations: an attention cache never refuses them ----------------------------------------------

    def clear(self) -> None:
        """Empty every stream."""
        for table in self.streams:
            table.clear()

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        """Remove positions p0 .. p1-1; seq < 0 = of all sequences, in every stream. Always returns True."""
        for table in self.streams if seq < 0 else [self.cells(seq)]:
            table.remove(seq, p0, p1)
        return True

    def seq_cp(self, src: int, dst: int, p0: int = 0, p1: int = POS_INF) -> None:
        """Let ``dst`` share the cells of ``src`` (single stream), or copy them (several streams). If the build defers
        copies, the next decode copies the rows (``apply_copies``): until then the cells of ``dst`` keep old rows."""
        if src == dst:
            return
        if self.n_stream == 1:
            self.streams[0].share(src, dst, p0, p1)
            return
        if p0 > 0 or p1 != POS_INF:
            raise Crash("between streams only a whole sequence can be copied")
        mine, theirs = self.streams[dst], self.streams[src]
        mine.clear()
        cells = theirs.of(src)
        if len(cells):
            at = index(cells)
            mine.place(cells, as_range(theirs.pos[at]), dst)
            mine.shift[at] = theirs.shift[at]
        mine.has_shift, mine.head = theirs.has_shift, theirs.head
        self.copies.append((src, dst))
        if not self.traits.copy_waits:
            self.apply_copies()

    def apply_copies(self) -> None:
        """Copy the rows of whole streams that ``seq_cp`` has deferred. Rows written to the target in between are
        overwritten.

        Source: llama.cpp src/llama-kv-cache.cpp llama_kv_cache::seq_cp "sc_info", llama_kv_cache::update (3f545be)."""
        for src, dst in self.copies:
            for layer, rows in self.rows[src].items():
                replace_rows(self.rows[dst], layer, rows)
        self.copies.clear()

    def seq_keep(self, seq: int) -> None:
        """Remove all other sequences from the stream of ``seq``."""
        self.cells(seq).keep(seq)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move positions by delta. The next decode rotates the K rows (``apply_shift``)."""
        if self.shape.mrope and self.traits.mrope == "ends":
            raise ProcessAborted("GGML_ASSERT(hparams.n_pos_per_embd() == 1) failed in seq_add", "moved-2d-positions")
        self.cells(seq).move(seq, max(p0, 0), POS_INF if p1 < 0 else p1, delta)

    def seq_div(self, seq: int, p0: int, p1: int, d: int) -> None:
        """Divide positions by d, rounding down."""
        self.cells(seq).divide(seq, max(p0, 0), POS_INF if p1 < 0 else p1, d)

    def apply_shift(self) -> bool:
        """K-shift: rotate the K rows of moved cells to their new positions. Return True if a shift was pending."""
        if any(table.has_shift for table in self.streams[1:]) and self.traits.turn_first:
            return self._turn_first()
        moved = False
        for number, table in enumerate(self.streams):
            if not table.has_shift:
                continue
            moved = True
            if self.layers and self.traits.shift_ends:
                raise ProcessAborted("Segmentation fault: K-shift of quantized rows", "shift-of-quantized-rows")
            if self.ends_shift:
                raise ProcessAborted("K-shift of index rows failed", "shift-of-index-rows")
            if not self.layers and self.traits.shift_dies:
                text = "GGML_ASSERT(buffer) failed in set_input_k_shift: this cache has no layers"
                raise ProcessAborted(text, "shift-without-layers")
            cells = np.flatnonzero(table.shift)
            for layer, rows in self.rows[number].items():
                if self.model is None or not len(cells):
                    continue
                new = table.pos[cells]
                turned = self.model.shift_rows(layer, read_rows(rows, cells), new - table.shift[cells], new)
                self.write(number, layer, cells, spoilt_keys(turned) if self.spoils else turned)
            table.shift[:] = 0
            table.has_shift = False
        return moved

    def _turn_first(self) -> bool:
        """K-shift of rule LC-KV-TURN.FIRST: turn the K rows of the first stream by the shifts of the last."""
        table, shift = self.streams[0], self.streams[-1].shift
        cells = np.flatnonzero(shift)
        cells = cells[cells < table.end]
        cells = cells[table.pos[cells] >= 0]
        for layer, rows in self.rows[0].items():
            if self.model is not None and len(cells):
                old = table.pos[cells]
                turned = self.model.shift_rows(layer, read_rows(rows, cells), old, old + shift[cells])
                self.write(0, layer, cells, turned)
        for table in self.streams:
            table.shift[:] = 0
            table.has_shift = False
        return True

    # --- decoding ----------------------------------------------------------------------------------------------

    def find(self, ubatch: Ubatch) -> list[Found] | None:
        """Return free cells for every run (tokens of one sequence) of the ubatch, None if they do not all fit. Changes
        nothing, like llama.cpp's find_slot."""
        if self.n_stream > 1:
            check_stream_order([run.seq for run in ubatch.runs])
            found = [self.cells(run.seq).find(len(run.tokens), self.masked) for run in ubatch.runs]
            return None if any(cells is None for cells in found) else [c for c in found if c is not None]
        cells = self.streams[0].find(ubatch.n, self.masked)
        return None if cells is None else split_by_run(cells, ubatch)

    def has_room(self, tokens: Mapping[int, int]) -> bool:
        """True if there are cells for so many further tokens of each sequence."""
        needed = Counter[int]()
        for seq, n in tokens.items():
            needed[self.stream(seq)] += n
        return all(self.streams[number].find(n, self.masked) is not None for number, n in needed.items())

    def apply(self, ubatch: Ubatch, found: Sequence[Found], quiet: bool = False) -> None:
        """Put the ubatch's positions into the cells that ``find`` returned for them."""
        lost: dict[int, int] = {}
        for run, cells in zip(ubatch.runs, found, strict=True):
            pos = range(run.pos0, run.pos0 + len(run.tokens))
            for seq, last in self.cells(run.seq).place(cells, pos, run.seq).items():
                lost[seq] = max(last, lost.get(seq, last))
        if lost:
            self._purge(lost, quiet)
        for run, cells in zip(ubatch.runs, found, strict=True):
            self.cells(run.seq).head = int(cells[-1]) + 1

    def _purge(self, lost: Mapping[int, int], quiet: bool) -> None:
        """Remove a sequence's positions from pos_min up to the largest overwritten position (``lost``, per sequence),
        so that pos_min .. pos_max has no gap."""
        for seq, last in lost.items():
            first = self.pos_min(seq)
            if 0 <= first <= last:
                if not quiet:
                    self.emit(RowsPurged(seq, first, last))
                self.seq_rm(seq, first, last + 1)

    def prepare(self, ubatches: Sequence[Ubatch]) -> list[list[Found]] | None:
        """Try out cells for every ubatch in turn, undo the trial and return the cells; None if a ubatch
        does not fit. Rows of a window that the trial purges may stay purged (``purge_stays``)."""
        after_end = self._cells_after_end(ubatches) if len(ubatches) > 1 else None
        if after_end is not None:
            return after_end
        leaves_holes = bool(self.n_swa) and self.traits.purge_stays and len(ubatches) > 1
        undo: list[Callable[[], None]] = []
        out: list[list[Found]] = []
        for ubatch in ubatches:
            found = self.find(ubatch)
            if found is None:
                out = []
                break
            out.append(found)
            if leaves_holes:                    # restore only the found cells, last first
                undo += [self.cells(run.seq).save_at(cells) for run, cells in zip(ubatch.runs, found, strict=True)]
            elif len(out) == len(ubatches):     # no ubatch follows
                break
            elif not undo:
                undo = [partial(table.restore, table.save()) for table in self.streams]
            self.apply(ubatch, found, quiet=not leaves_holes)
        for put_back in reversed(undo):
            put_back()
        return out or None

    def _cells_after_end(self, ubatches: Sequence[Ubatch]) -> list[list[Found]] | None:
        """Return the cells of ``prepare`` without a trial if every search starts and ends after all used cells, where
        the previous ubatch ended; None otherwise."""
        table = self.cells(ubatches[0].runs[0].seq)
        if self.n_stream > 1 and len({run.seq for ubatch in ubatches for run in ubatch.runs}) > 1:
            return None
        stops = list(accumulate((ubatch.n for ubatch in ubatches), initial=table.head))
        least = min(ubatch.n for ubatch in ubatches)            # ``head`` and ``used`` grow by as much
        if not table.end <= table.head <= table.used + 2 * least or stops[-1] > table.size:
            return None
        return [split_by_run(range(at, at + ubatch.n), ubatch) for ubatch, at in zip(ubatches, stops, strict=False)]

    def write(self, number: int, layer: int, cells: np.ndarray | slice, rows: KVRows) -> None:
        """Write rows into cells of the stream with this index."""
        write_rows(self.rows[number], layer, cells, rows)

    # --- saving and loading --------------------------------------------------------------------------------------

    def saved_cells(self, seq: int, keep: KeepCells) -> Found:
        """Return the indices of the cells that a saved state of the sequence contains."""
        table = self.cells(seq)
        cells = table.of(seq)
        if self.n_swa and len(cells):
            return as_array(cells)[keep(table.pos[index(cells)], table.span(seq)[1], self.n_swa)]
        return cells

    def state_size(self, seq: int, keep: KeepCells) -> int:
        """Return the size of the result of ``state_write`` [bytes]."""
        return self.size_of(len(self.saved_cells(seq, keep)))

    def size_of(self, n: int) -> int:
        """Return the size of a saved state of n cells [bytes]."""
        return self.shape.size(n, self.n_stream)

    def state_write(self, seq: int, keep: KeepCells) -> AttentionState:
        """Return a copy of the sequence's cells."""
        at = index(self.saved_cells(seq, keep))
        number = self.stream(seq)
        rows = {layer: copy_rows(read_rows(rows, at)) for layer, rows in self.rows[number].items()}
        return AttentionState(self.streams[number].pos[at].copy(), rows)

    def state_read(self, seq: int, state: AttentionState) -> None:
        """Restore a saved state for ``seq`` into free cells. A state without cells changes nothing.

        Raise StateReadError if there are too few free cells; the sequence is then empty.
        """
        n = len(state.pos)
        if not n:
            return
        self.seq_rm(seq, 0, POS_INF)
        table = self.cells(seq)
        cells = (table.find_contiguous if self.traits.together else table.find)(n, self.masked)
        if cells is None:
            raise StateReadError(f"state_read_meta: {self.traits.no_cells_line.format(n=n)}")
        self._purge(table.place(cells, as_range(state.pos), seq), quiet=False)
        table.head = int(cells[0]) if self.traits.together else int(cells[-1]) + 1
        for layer, rows in state.rows.items():
            self.write(self.stream(seq), layer, index(cells), rows)

    def check(self) -> None:
        """Raise Crash unless every table is consistent and no window has a gap."""
        for table in self.streams:
            table.check()
        if self.n_swa:
            for seq in range(self.n_seq):
                lo, hi = self.cells(seq).span(seq)
                if lo >= 0 and hi - lo + 1 != self.n_cells(seq):
                    raise Crash(f"window of sequence {seq}: {self.n_cells(seq)} cells for positions {lo} .. {hi}")
