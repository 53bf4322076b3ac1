"""llama_decode: checks, order of operations, and effects on the memory.

It returns 0 on success, 1 if there were too few free cells (nothing changed), -1 if the batch does not continue the
contents of the memory. The real function has further codes for failures that a simulator cannot have.

The evaluation of a generated token may be deferred (``defer_token``): the token takes its cells at once and is
evaluated later, together with the tokens after it. Results are identical as long as ``flush_deferred`` precedes every
read of rows and states.

Source: llama.cpp src/llama-context.cpp decode, src/llama-batch.cpp init (3f545be).
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache, Emit
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, concatenate_cells
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.recurrent_cells import Position, as_index
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, Ubatch, runs_of
from cachesim.engines.llama_cpp.memory.ubatch_view import PlacedUbatch, UbatchStore, merge_ubatches
from cachesim.engines.shared.batch import TokenOutput, join_runs, micro_batch, read_outputs
from cachesim.engines.shared.slot_events import Error, Warn
from cachesim.model import HiddenOutput, Model, TokenRun

# Deferred evaluation of generated tokens: their cells, and the conditions.
#
# Results must equal those of immediate evaluation: a deferred token takes the cells that the engine takes, and no token
# takes a cell whose row a deferred token has yet to read.

class DeferredTokens(NamedTuple):
    """Deferred consecutive tokens of a sequence, the position of the first, and their cells: for each part of them that
    was deferred at once, by attention part."""

    seq: int
    pos0: int
    tokens: list[int]
    cells: list[Mapping[str, Sequence[Found]]]

    def continues_with(self, pos: int, seq: int) -> bool:
        """True if a token at position ``pos`` of a sequence is the next one."""
        return self.seq == seq and self.pos0 + len(self.tokens) == pos

    def placed(self) -> PlacedUbatch:
        """Return the deferred tokens as a single ubatch."""
        ubatch = Ubatch((TokenRun(self.seq, self.pos0, self.tokens),), (0,), len(self.tokens))
        parts = {name: [concatenate_cells([cells[name][0] for cells in self.cells])] for name in self.cells[0]}
        return PlacedUbatch(ubatch, parts)


def find_deferred_cells(
    memory: Memory, token: int, pos: int, seq: int, deferred: DeferredTokens | None
) -> PlacedUbatch | None:
    """Return the cells of a token after the deferred tokens of its sequence, or after the contents of the memory; None
    = it cannot be deferred. Changes nothing."""
    if deferred is None:
        first, continues = pos, memory.pos_max(seq) == pos - 1
    else:
        first, continues = deferred.pos0, deferred.continues_with(pos, seq)
    if not continues or (memory.recr is not None and not memory.recr.has_own_cell(seq)):
        return None
    ubatch = Ubatch((TokenRun(seq, pos, [token]),), (0,), 1)
    found: dict[str, Sequence[Found]] = {}
    for name, cache in memory.parts.items():
        cells = _find_deferred_cell(cache, ubatch, first)
        if cells is None:
            return None
        found[name] = cells
    return PlacedUbatch(ubatch, found)


def _find_deferred_cell(cache: AttentionCache, ubatch: Ubatch, first: int) -> Sequence[Found] | None:
    """Return the cells for the single token of ``ubatch``, whose evaluation is to be deferred. None if no cell is free,
    if a copy or K-shift is pending, or if deferred tokens of the sequence, from position ``first`` on, have yet to read
    the row in the cell."""
    seq = ubatch.runs[0].seq
    table = cache.cells(seq)
    found = None if cache.copies or table.has_shift else cache.find(ubatch)
    if found is None or cache.masked is None:                   # without a window only empty cells are free
        return found
    cell = found[0][0]
    read = cell < table.end and table.seqs[seq, cell] and not cache.masked(table.pos[cell : cell + 1], first)[0]
    return None if read else found


def _count_deferrable(cache: AttentionCache, seq: int, first: int) -> int:
    """Return how many tokens, one after the other, ``_find_deferred_cell`` would give the cells from the head on."""
    table = cache.cells(seq)
    empty = table.count_empty()
    return empty if empty or cache.masked is None else table.count_replaceable(seq, cache.masked, first)


OK = 0
NO_ROOM = 1
BAD_BATCH = -1
BAD_BATCH_LINE = "decode: failed to initialize batch"


def no_slot_line(n: int) -> str:
    """Return the log line of llama_decode if a batch of n tokens finds too few cells."""
    return f"decode: failed to find a memory slot for batch of size {n}"


class Context:
    """Memory, the model that fills it, and llama_decode. ``model`` None = positions only. ``bad_batch_lines``: the
    build's log lines for a batch that does not continue the contents of the memory. ``name``: "target" or "draft"."""

    def __init__(
        self, memory: Memory, model: Model | None, n_batch: int, n_ubatch: int, emit: Emit,
        bad_batch_lines: Sequence[str] = (BAD_BATCH_LINE,), name: str = "target",
    ) -> None:
        self.memory = memory
        self.model = model
        self.emit = emit
        self.bad_batch_lines = bad_batch_lines
        self.n_batch = n_batch
        self.n_ubatch = n_ubatch
        self.name = name
        self.position: Position = as_index
        self.spoken: dict[int, TokenOutput] = {}
        self._pieces: list[tuple[int, HiddenOutput]] = []
        self._deferred: DeferredTokens | None = None
        self.n_deferred = 0                                # number of deferred tokens

    def use_positions(self, position: Position) -> None:
        """Use the positions of a model with 2-D positions. A context without them (a draft model) cannot skip any."""
        if not self.memory.kind.mrope:
            self.position = position
        if self.memory.recr is not None:
            self.memory.recr.position = position

    def decode(self, batch: DecodeBatch, before: HiddenOutput | None = None) -> int:
        """Evaluate a batch and return llama_decode's code. ``spoken`` then maps indices in the batch to the model's
        output there. ``before`` (for an MTP head): the target model's hidden state before each token of the batch."""
        self.spoken, self._pieces = {}, []
        if not self.accepts(batch):
            return BAD_BATCH
        self.memory.init_update()
        placed = self.memory.init_batch(batch, self.n_ubatch)
        if placed is None:
            self.emit(Warn(no_slot_line(len(batch))))
            return NO_ROOM
        for one in placed:
            self.emit(micro_batch(self.name, one.ubatch))
        for piece in self._passes(placed):
            self.memory.apply(piece)
            self._compute(batch, piece, self.memory.store(piece), before)
        return OK

    def accepts(self, batch: DecodeBatch) -> bool:
        """True if a batch continues the contents of the memory, or the build does not check that. A refusal is
        logged."""
        seq = self._inconsistent(batch)
        if seq is None or self.memory.traits.unchecked:
            return True
        text = f"the tokens of sequence {seq} in the input batch have inconsistent sequence positions:"
        self.emit(Error(f"init: {text}"))
        for line in self.bad_batch_lines:
            self.emit(Error(line))
        return False

    def defer_token(self, batch: DecodeBatch) -> bool:
        """Give the single token of a batch its cells and leave its evaluation to ``flush_deferred``. Return False,
        with nothing changed, if it cannot be deferred: in exact mode, and as ``find_deferred_cells`` says."""
        if len(batch) != 1 or (self.model is not None and self.model.exact):
            return False
        token = batch.tokens[0]
        pos = batch.pos[0]
        seq = batch.seq[0]
        placed = find_deferred_cells(self.memory, token, pos, seq, self._deferred)
        if placed is None:
            return False
        self.emit(micro_batch(self.name, placed.ubatch))
        if self._deferred is None:
            self._deferred = DeferredTokens(seq, pos, [], [])
        self._defer(placed, self._deferred)
        self.spoken = {}
        return True

    def deferrable(self, pos: int, seq: int) -> int:
        """Return how many tokens of a sequence from position ``pos`` on can be deferred at once: as many as find an
        empty cell, or one with a row that no deferred token reads, after the deferred tokens; 0 unless they continue
        these."""
        deferred = self._deferred
        if deferred is None or not deferred.continues_with(pos, seq):
            return 0
        parts = self.memory.parts.values()
        return min((_count_deferrable(cache, seq, deferred.pos0) for cache in parts), default=POS_INF)

    def defer_more(self, tokens: Sequence[int]) -> None:
        """Defer tokens after the deferred ones, at most ``deferrable``: give them the cells that they get one after the
        other. Nothing is logged."""
        deferred = self._deferred
        assert deferred is not None
        n = len(tokens)
        found: dict[str, Sequence[Found]] = {}
        for name, cache in self.memory.parts.items():
            first = cache.cells(deferred.seq).head
            found[name] = [range(first, first + n)]
        run = TokenRun(deferred.seq, deferred.pos0 + len(deferred.tokens), tokens)
        self._defer(PlacedUbatch(Ubatch((run,), (0,), n), found), deferred)

    def _defer(self, placed: PlacedUbatch, deferred: DeferredTokens) -> None:
        self.memory.apply(placed)
        deferred.tokens.extend(placed.ubatch.runs[0].tokens)
        deferred.cells.append(placed.found)
        self.n_deferred += placed.ubatch.n

    def flush_deferred(self) -> list[TokenOutput]:
        """Evaluate the deferred tokens. Return the model's output after each, [] without a model."""
        if self._deferred is None:
            return []
        placed = self._deferred.placed()
        self._deferred = None
        self.n_deferred = 0
        self.spoken, self._pieces = {}, []
        n = placed.ubatch.n
        self._compute(DecodeBatch(out=[True] * n), placed, self.memory.store(placed), None)
        return [self.spoken[i] for i in range(n)] if self.spoken else []

    def _passes(self, placed: list[PlacedUbatch]) -> list[PlacedUbatch]:
        """Return the ubatches as they are evaluated: merged into a single pass if the results are identical."""
        if len(placed) < 2 or (self.model is not None and self.model.exact):
            return placed
        whole = merge_ubatches(placed, self.memory.parts, self.memory.recr)
        return placed if whole is None else [whole]

    @property
    def hidden(self) -> HiddenOutput | None:
        """Hidden states after each token of the last batch, None without a model."""
        pieces = sorted(self._pieces, key=lambda piece: piece[0])
        return join_runs([part for _, part in pieces]) if pieces else None

    def _inconsistent(self, batch: DecodeBatch) -> int | None:
        """Return the first sequence that does not start right after its last position in the memory, None if all do;
        2-D positions may leave gaps."""
        next_pos: dict[int, int] = {}
        for start, stop in runs_of(batch):
            seq = batch.seq[start]
            last = self.memory.pos_max(seq)
            want = next_pos[seq] if seq in next_pos else self.position(seq, last) + 1 if last >= 0 else 0
            have = self.position(seq, batch.pos[start])
            if want and have != want and not (self.memory.kind.mrope and have > want):
                return seq
            next_pos[seq] = self.position(seq, batch.pos[stop - 1]) + 1
        return None

    def _compute(
        self, batch: DecodeBatch, placed: PlacedUbatch, store: UbatchStore, before: HiddenOutput | None
    ) -> None:
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

    def _forward(self, model: Model, placed: PlacedUbatch, store: UbatchStore) -> list[HiddenOutput]:
        """Evaluate a ubatch. With rollback planes, evaluate its last tokens separately to keep the states between
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


# Target and draft context as a common memory: removals, copies and moves are applied to both.
#
# Source: llama.cpp common/common.cpp common_memory (3f545be).

def removal_refused(seq: int, p0: int, p1: int = POS_INF) -> ProcessAborted:
    """Return the end of the process at a refused removal."""
    end = -1 if p1 == POS_INF else p1
    text = f"failed to remove sequence {seq} with p0={p0}, p1={end}"
    return ProcessAborted(text, "removal-refused", seq=seq, p0=p0, p1=end)


class CommonMemory:
    """Memory of the target and of the draft context, if there is a draft context. ``ends``: (sequence, p0, p1) -> True
    if a refused removal ends the process."""

    def __init__(
        self, tgt: Memory, dft: Memory | None, ends: Callable[[int, int, int], bool] = lambda seq, p0, p1: True
    ) -> None:
        self.tgt = tgt
        self.dft = dft
        self.ends = ends
        self.all = [tgt] if dft is None else [tgt, dft]

    def rm(self, seq: int, p0: int) -> bool:
        """Remove all positions from p0 on from both. Return False if a memory refuses."""
        return all(memory.seq_rm(seq, p0, POS_INF) for memory in self.all)

    def must_rm(self, seq: int, p0: int, p1: int = POS_INF) -> None:
        """Remove positions p0 .. p1-1 from both. If a memory refuses, raise ProcessAborted, or ignore that if the build
        does so (``ends``)."""
        for memory in self.all:
            if not memory.seq_rm(seq, p0, p1) and self.ends(seq, p0, p1):
                raise removal_refused(seq, p0, p1)

    def seq_cp(self, src: int, dst: int) -> None:
        """Make ``dst`` a copy of ``src`` in both."""
        for memory in self.all:
            memory.seq_cp(src, dst)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move positions p0 .. p1-1 by delta in both."""
        for memory in self.all:
            memory.seq_add(seq, p0, p1, delta)
