"""Recurrent memory: a cell per sequence. Its state covers all tokens and can be rolled back only by a few, if at all.

cell     position of the last absorbed token, the sequences that share the cell, the row from which its state is read
tail     the cell that holds a sequence's state
row      the state tensors of a cell after its last token
plane    with n_rs_seq > 0, further rows: the states 1 .. n_rs_seq tokens before the last
rs_idx   a pending rollback: number of planes by which a sequence goes back

Source: llama.cpp src/llama-memory-recurrent.cpp (3f545be).
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import Emit
from cachesim.engines.llama_cpp.memory.recurrent_cells import (
    Cell,
    CellMetadata,
    Position,
    as_index,
    continues_own_cell,
    find_slot,
)
from cachesim.engines.llama_cpp.memory.saved_state import RecurrentShape, RecurrentState, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, Ubatch
from cachesim.model import LayerState, TokenRun


class RollbackPlanes(NamedTuple):
    """Inputs of a rollback decision: number of planes, planes of a pending rollback, sequences that share the cell."""

    n_rs_seq: int
    pending: int
    sharers: int


Refuses = Callable[[int, int, int, RollbackPlanes], bool]
"""(pos of the cell, p0, p1, planes) -> True if the cut is refused."""

Row = dict[int, LayerState | None]
"""State of every recurrent layer; None or a missing layer = zeroed."""


class RecurrentCache:
    """States of ``n_seq`` sequences in as many cells, with ``n_rs_seq`` rollback planes. ``refuses`` applies the
    profile's rules RS-RM and RS-BACK."""

    def __init__(
        self, n_seq: int, layers: Sequence[int], shape: RecurrentShape, refuses: Refuses, emit: Emit, n_rs_seq: int = 0,
        traits: BuildTraits = BuildTraits(),  # noqa: B008 - immutable
    ) -> None:
        self.size = n_seq
        self.n_rs_seq = n_rs_seq
        self.traits = traits
        self.layers = tuple(layers)
        self.shape = shape
        self.refuses = refuses
        self.emit = emit
        self.position: Position = as_index
        self.clear()

    def clear(self) -> None:
        """Empty every cell."""
        self.meta = CellMetadata([Cell() for _ in range(self.size)], [-1] * self.size)
        self.rows: list[Row] = [{} for _ in range(self.size)]
        self.planes: list[dict[int, Row]] = [{} for _ in range(self.size)]     # a missing plane is zeroed
        self.rs_idx = [0] * self.size
        self.since = [0] * self.size                     # tokens evaluated after the newest plane of a cell
        self.written = [0] * self.size                   # planes of the micro-batch that wrote the newest

    def cell(self, seq: int) -> Cell | None:
        """Return the cell that holds the sequence, None if it is absent."""
        tail = self.meta.tail[seq] if 0 <= seq < self.size else -1
        return self.meta.cells[tail] if tail >= 0 else None

    def pos_max(self, seq: int) -> int:
        """Return the position of the last absorbed token, -1 if the sequence is absent. Equal to pos_min."""
        cell = self.cell(seq)
        return cell.pos if cell else -1

    pos_min = pos_max

    # --- sequence operations --------------------------------------------------------------------------------

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        """Remove positions p0 .. p1-1 (rule LC-RS-RM); False = refused, nothing changed. A cut strictly inside the past
        changes nothing: the state still contains the removed tokens."""
        p0, p1 = max(p0, 0), POS_INF if p1 < 0 else p1
        if p0 == 0 and p1 == POS_INF and seq < self.size:
            self.rs_idx = [0 if seq in (s, -1) else back for s, back in enumerate(self.rs_idx)]
        if seq >= self.size:
            return False
        if seq < 0:
            if p0 != p1 and not (p0 == 0 and p1 == POS_INF):
                return False
        else:
            cell = self.cell(seq)
            if cell and cell.pos >= 0:
                if self.refuses(cell.pos, p0, p1, RollbackPlanes(self.n_rs_seq, self.rs_idx[seq], len(cell.seqs))):
                    return False
                if self.n_rs_seq and 0 < p0 <= cell.pos < p1:
                    return self._roll_back(seq, cell, p0)
                if p0 <= cell.pos < p1 and not self.traits.tail_stays:
                    self.meta.tail[seq] = -1
        self._erase(seq, p0, p1)
        return True

    def _roll_back(self, seq: int, cell: Cell, p0: int) -> bool:
        """Continue from the plane that the build takes for the state before position p0; False = it takes none."""
        tail = self.meta.tail[seq]
        plane = self.traits.plane(cell.pos - (p0 - 1), self.rs_idx[seq], self.since[tail], self.written[tail])
        if plane:
            self.rs_idx[seq], cell.pos = plane, p0 - 1
        return bool(plane)

    def _erase(self, seq: int, p0: int, p1: int) -> None:
        for i, cell in enumerate(self.meta.cells):
            if not p0 <= cell.pos < p1:
                continue
            if seq < 0:
                for s in cell.seqs:
                    self.meta.tail[s] = -1
                cell.seqs.clear()
            else:
                cell.seqs.discard(seq)
            if not cell.seqs:
                cell.pos = cell.src = -1
                self.meta.used -= 1
                self.meta.head = min(self.meta.head, i)

    def seq_cp(self, src: int, dst: int) -> None:
        """Move ``dst`` from its own cell to the cell of ``src``, which they share until either is written to."""
        if src == dst or src >= self.size or dst >= self.size:
            return
        old = self.cell(dst)
        if old is not None:
            old.seqs.discard(dst)
            self.meta.tail[dst] = -1
            if not old.seqs:
                old.pos = old.src = -1
                self.meta.used -= 1
        cell = self.cell(src)
        if cell is not None:
            cell.seqs.add(dst)
            self.meta.tail[dst] = self.meta.tail[src]

    def seq_keep(self, seq: int) -> None:
        """Remove all other sequences."""
        for i, cell in enumerate(self.meta.cells):
            if i != seq:
                self.meta.tail[i] = -1
            if seq in cell.seqs:
                cell.seqs = {seq}
            elif cell.seqs:
                cell.seqs.clear()
                cell.pos = cell.src = -1
                self.meta.used -= 1
                self.meta.head = min(self.meta.head, i)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move the cell's position if it lies in the range. The state cannot be moved."""
        cell = self.cell(seq)
        if delta and cell and max(p0, 0) <= cell.pos < (POS_INF if p1 < 0 else p1):
            cell.pos += delta

    def seq_div(self, seq: int, p0: int, p1: int, d: int) -> None:
        """Divide the cell's position by d, rounding down, if it lies in the range."""
        cell = self.cell(seq)
        if d != 1 and cell and max(p0, 0) <= cell.pos < (POS_INF if p1 < 0 else p1):
            cell.pos //= d

    # --- decoding ---------------------------------------------------------------------------------------------

    def prepare(self, ubatches: Sequence[Ubatch]) -> bool:
        """True if every ubatch in turn finds a cell. Tried on a copy, unless the only ubatch continues its own cell."""
        if len(ubatches) == 1 and self.position is as_index and continues_own_cell(self.meta, ubatches[0]):
            return True
        trial = self.meta.copy()
        return all(find_slot(trial, ubatch, self.emit, self.position) is not None for ubatch in ubatches)

    def has_own_cell(self, seq: int) -> bool:
        """True if the sequence has a cell of its own and there are no rollback planes."""
        cell = self.cell(seq)
        return not self.n_rs_seq and cell is not None and len(cell.seqs) == 1

    def apply(self, ubatch: Ubatch) -> None:
        """Assign cells to the ubatch and move its states to them."""
        sources = find_slot(self.meta, ubatch, self.emit, self.position)
        if sources is None:
            raise Crash("a prepared ubatch finds no recurrent cell")
        owners = {self.meta.tail[run.seq]: run.seq for run in ubatch.runs}
        rows = [self._source(src, owners.get(cell)) for cell, src in sources]
        for (cell, _), row in zip(sources, rows, strict=True):
            self.rows[cell] = dict(row)
        for run in ubatch.runs:
            tail, earlier = self.meta.tail[run.seq], len(run.tokens) - 1
            self.rs_idx[run.seq] = 0
            self.since[tail] = 0 if earlier else self.since[tail] + 1
            self.written[tail] = min(earlier, self.n_rs_seq) or self.written[tail]

    def _source(self, src: int, seq: int | None) -> Row:
        """Return the states from which a cell continues: those of a row, or of the plane of a pending rollback."""
        back = 0 if seq is None else self.rs_idx[seq]
        return {} if src < 0 else self.planes[src].get(back - 1, {}) if back else self.rows[src]

    def keep_planes(self, seq: int, earlier: Sequence[Row]) -> None:
        """Store the states 1, 2, ... tokens before the last token of a ubatch, at most ``n_rs_seq``. Others stay
        stale."""
        tail = self.meta.tail[seq]
        for back, row in enumerate(earlier):
            self.planes[tail][back] = row

    # --- saving and loading --------------------------------------------------------------------------------------

    def row(self, seq: int) -> Row:
        """Return the states from which the sequence continues, with a pending rollback resolved."""
        cell = self.cell(seq)
        return {} if cell is None else self._source(cell.src, seq)

    def state_size(self, seq: int) -> int:
        """Return the size of the result of ``state_write`` [bytes]."""
        return self.shape.size(self.cell(seq) is not None)

    def state_write(self, seq: int) -> RecurrentState:
        """Return the sequence's state. States are immutable, so this is a reference."""
        return RecurrentState(self.pos_max(seq), dict(self.row(seq)))

    def save(self, seq: int) -> RecurrentState:
        """Return the sequence's state, as the build saves it. Raise ProcessAborted if it cannot do so while a rollback
        is pending."""
        if 0 <= seq < self.size and self.rs_idx[seq] and self.traits.saved_plane(self.rs_idx[seq]) < 0:
            raise ProcessAborted("GGML_ABORT in state_write: a rollback is pending", "saved-during-rollback", seq=seq)
        return self.state_write(seq)

    def state_read(self, seq: int, state: RecurrentState, home: int | None = None) -> None:
        """Replace the sequence's state; ``home``: the cell that gets the states, None = the sequence's own. Raise
        StateReadError for lack of free cells."""
        self.seq_rm(seq, 0, POS_INF)
        if state.pos < 0:
            return
        sources = find_slot(self.meta, Ubatch((TokenRun(seq, state.pos, [0]),), (0,), 1), self.emit)
        if sources is None:
            raise StateReadError("state_read_meta: failed to find slot for recurrent state")
        self.rows[self.meta.tail[seq] if home is None else home] = dict(state.rows)
        self.rs_idx[seq] = 0

    def check(self) -> None:
        """Raise Crash unless tails and cells agree."""
        for seq, tail in enumerate(() if self.traits.tail_stays else self.meta.tail):
            if tail >= 0 and seq not in self.meta.cells[tail].seqs:
                raise Crash(f"the tail of sequence {seq} is cell {tail}, which does not hold it")
        for i, cell in enumerate(self.meta.cells):
            if (cell.pos >= 0) != bool(cell.seqs):
                raise Crash(f"recurrent cell {i} has position {cell.pos} and sequences {sorted(cell.seqs)}")
            for seq in cell.seqs:
                if self.meta.tail[seq] != i:
                    raise Crash(f"recurrent cell {i} holds sequence {seq}, whose tail is {self.meta.tail[seq]}")
        if self.meta.used != sum(1 for cell in self.meta.cells if cell.seqs):
            raise Crash("recurrent cells in use are miscounted")
