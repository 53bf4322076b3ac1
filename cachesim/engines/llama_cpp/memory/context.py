"""llama_decode: what it refuses, in which order it works, what remains after it.

Returns 0 on success, 1 if no room was found (nothing changed), -1 if the batch does not continue what the
memory holds. The real function has further codes for failures that a simulator cannot have.

A generated token may be ``put_off``: it takes its cells at once, but nobody can tell whether it was evaluated then or
together with those that follow it, as long as ``settle`` comes before anybody looks at rows and states.

Source: llama.cpp src/llama-context.cpp decode, src/llama-batch.cpp init (3f545be).
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache, Emit
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, in_a_row
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, Ubatch, runs_of
from cachesim.engines.llama_cpp.memory.ubatch_view import Placed, UbatchStore, in_one
from cachesim.engines.shared.batch import TokenOutput, join_runs, read_outputs
from cachesim.events import Error, Warn
from cachesim.model import Hidden, Model, TokenRun

# One generated token that takes its cells at once and is evaluated later: which cells, and is it allowed?
#
# It must not be told from one that is evaluated at once: the cells are those that the engine takes, and no cell is
# taken whose row a token that waits has still to read.

class Waiting(NamedTuple):
    """Consecutive tokens of one sequence, the cells of each by attention part, and the position of the first."""

    seq: int
    pos0: int
    tokens: list[int]
    cells: list[Mapping[str, Sequence[Found]]]

    def placed(self) -> Placed:
        """All of them as one ubatch."""
        ubatch = Ubatch((TokenRun(self.seq, self.pos0, self.tokens),), (0,), len(self.tokens))
        return Placed(ubatch, {name: [in_a_row([one[name][0] for one in self.cells])] for name in self.cells[0]})


def next_cells(memory: Memory, token: int, pos: int, seq: int, waiting: Waiting | None) -> Placed | None:
    """Cells of a token behind those of its sequence that wait, or behind what the memory holds; None = it cannot wait.
    Changes nothing."""
    if waiting is None:
        first, goes_on = pos, memory.pos_max(seq) == pos - 1
    else:
        first, goes_on = waiting.pos0, waiting.seq == seq and waiting.pos0 + len(waiting.tokens) == pos
    if not goes_on or (memory.recr is not None and not memory.recr.goes_on(seq)):
        return None
    ubatch = Ubatch((TokenRun(seq, pos, [token]),), (0,), 1)
    found: dict[str, Sequence[Found]] = {}
    for name, cache in memory.parts.items():
        cells = _next_cell(cache, ubatch, first)
        if cells is None:
            return None
        found[name] = cells
    return Placed(ubatch, found)


def _next_cell(cache: AttentionCache, ubatch: Ubatch, first: int) -> Sequence[Found] | None:
    """The cell of one token; None = there is none, other work comes before it, or the token of its sequence at position
    ``first`` reads what is there."""
    seq = ubatch.runs[0].seq
    table = cache.cells(seq)
    found = None if cache.copies or table.has_shift else cache.find(ubatch)
    if found is None or cache.masked is None:                   # without a window only empty cells are taken
        return found
    cell = found[0][0]
    read = cell < table.end and table.seqs[seq, cell] and not cache.masked(table.pos[cell : cell + 1], first)[0]
    return None if read else found


OK, NO_ROOM, BAD_BATCH = 0, 1, -1
BAD_BATCH_LINE = "decode: failed to initialize batch"


class Context:
    """A memory, a model that fills it, and llama_decode between them. ``model`` None = positions only;
    ``bad_batch_lines``: what the build logs of a batch that does not continue what the memory holds."""

    def __init__(
        self, memory: Memory, model: Model | None, n_batch: int, n_ubatch: int, emit: Emit,
        bad_batch_lines: Sequence[str] = (BAD_BATCH_LINE,),
    ) -> None:
        self.memory, self.model, self.emit, self.bad_batch_lines = memory, model, emit, bad_batch_lines
        self.n_batch, self.n_ubatch = n_batch, n_ubatch
        self.spoken: dict[int, TokenOutput] = {}
        self._pieces: list[tuple[int, Hidden]] = []
        self._waiting: Waiting | None = None
        self.waiting = 0                                # tokens that were put off

    def decode(self, batch: DecodeBatch, before: Hidden | None = None) -> int:
        """Evaluate a batch. ``spoken`` then maps places in the batch to what the model said there. ``before``: for an
        MTP head, what the trunk said before each token of the batch."""
        self.spoken, self._pieces = {}, []
        if not self._continues(batch):
            for line in self.bad_batch_lines:
                self.emit(Error(line))
            return BAD_BATCH
        self.memory.init_update()
        placed = self.memory.init_batch(batch, self.n_ubatch)
        if placed is None:
            self.emit(Warn(f"decode: failed to find a memory slot for batch of size {len(batch)}"))
            return NO_ROOM
        for piece in self._passes(placed):
            self._compute(batch, piece, self.memory.apply(piece), before)
        return OK

    def put_off(self, batch: DecodeBatch) -> bool:
        """Give the one token of a batch its cells, and leave its evaluation to ``settle``. False = it cannot wait, and
        nothing has changed: numbers are computed, or see ``next_cells``."""
        if len(batch) != 1 or (self.model is not None and self.model.exact):
            return False
        token, pos, seq = batch.tokens[0], batch.pos[0], batch.seq[0]
        placed = next_cells(self.memory, token, pos, seq, self._waiting)
        if placed is None:
            return False
        self.memory.apply(placed)
        if self._waiting is None:
            self._waiting = Waiting(seq, pos, [], [])
        self._waiting.tokens.append(token)
        self._waiting.cells.append(placed.found)
        self.waiting += 1
        self.spoken = {}
        return True

    def settle(self) -> list[TokenOutput]:
        """Evaluate the tokens that were put off. Returns what the model said after each, nothing where nothing is
        computed."""
        if self._waiting is None:
            return []
        placed, self._waiting, self.waiting = self._waiting.placed(), None, 0
        self.spoken, self._pieces = {}, []
        n = placed.ubatch.n
        self._compute(DecodeBatch(out=[True] * n), placed, self.memory.store(placed), None)
        return [self.spoken[i] for i in range(n)] if self.spoken else []

    def _passes(self, placed: list[Placed]) -> list[Placed]:
        """The ubatches as they are evaluated: all in one pass where that makes no difference."""
        if len(placed) < 2 or (self.model is not None and self.model.exact):
            return placed
        whole = in_one(placed, self.memory.parts, self.memory.recr)
        return placed if whole is None else [whole]

    @property
    def hidden(self) -> Hidden | None:
        """What the model said after each token of the last batch, None where nothing is computed."""
        pieces = sorted(self._pieces, key=lambda piece: piece[0])
        return join_runs([part for _, part in pieces]) if pieces else None

    def _continues(self, batch: DecodeBatch) -> bool:
        """Does every sequence go on right after what the memory holds? With 2-D positions gaps are let through."""
        next_pos: dict[int, int] = {}
        for start, stop in runs_of(batch):
            seq = batch.seq[start]
            want = next_pos[seq] if seq in next_pos else self.memory.pos_max(seq) + 1      # 0 = nothing is held
            have = batch.pos[start]
            if want and have != want and not (self.memory.kind.mrope and have > want):
                text = f"the tokens of sequence {seq} in the input batch have inconsistent sequence positions:"
                self.emit(Error(f"init: {text}"))
                return False
            next_pos[seq] = batch.pos[stop - 1] + 1
        return True

    def _compute(self, batch: DecodeBatch, placed: Placed, store: UbatchStore, before: Hidden | None) -> None:
        if self.model is None:
            return
        if before is None:
            hidden = self._forward(self.model, placed, store)
        else:
            runs = placed.ubatch.runs
            read = [before.part(at, at + len(run.tokens)) for run, at in zip(runs, placed.ubatch.at, strict=True)]
            hidden = self.model.forward(runs, store, read)
        self._pieces += zip(placed.ubatch.at, hidden, strict=True)
        self.spoken |= read_outputs(self.model, batch, placed.ubatch, hidden)

    def _forward(self, model: Model, placed: Placed, store: UbatchStore) -> list[Hidden]:
        """Evaluate the ubatch; where there are rollback planes, its last tokens one by one, to keep the states between
        them."""
        recr = self.memory.recr
        if recr is None or not recr.n_rs_seq:
            return model.forward(placed.ubatch.runs, store)
        out = []
        for number, run in enumerate(placed.ubatch.runs):
            n = len(run.tokens)
            head = max(1, n - recr.n_rs_seq)
            states, parts = [], []
            for start, stop in [(0, head), *((k, k + 1) for k in range(head, n))]:
                piece = TokenRun(run.seq, run.pos0 + start, run.tokens[start:stop])
                parts += model.forward([piece], store.piece(number, start, stop))
                states.append(dict(recr.row(run.seq)))
            recr.keep_planes(run.seq, states[-2::-1])
            out.append(join_runs(parts))
        return out


# Target and draft context as one memory: every removal, copy and move happens in both.
#
# Source: llama.cpp common/common.cpp common_memory (3f545be).

class CommonMemory:
    """The target's memory, and the draft context's where there is one."""

    def __init__(self, tgt: Memory, dft: Memory | None) -> None:
        self.tgt, self.dft = tgt, dft
        self.all = [tgt] if dft is None else [tgt, dft]

    def must_rm(self, seq: int, p0: int, p1: int = POS_INF) -> None:
        """Remove positions p0 .. p1-1 from both. Raises Aborted if one refuses: the process ends there."""
        for memory in self.all:
            if not memory.seq_rm(seq, p0, p1):
                end = -1 if p1 == POS_INF else p1
                text = f"failed to remove sequence {seq} with p0={p0}, p1={end}"
                raise ProcessAborted(text, "removal-refused", seq=seq, p0=p0, p1=end)

    def seq_cp(self, src: int, dst: int) -> None:
        """``dst`` becomes a copy of ``src`` in both."""
        for memory in self.all:
            memory.seq_cp(src, dst)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move positions p0 .. p1-1 by delta in both."""
        for memory in self.all:
            memory.seq_add(seq, p0, p1, delta)
