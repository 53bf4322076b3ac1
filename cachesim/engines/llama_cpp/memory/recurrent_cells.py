"""Assignment of recurrent cells to the sequences of a ubatch.

It works on metadata only, so that it can be tried on a copy. Terms as in recurrent.py.
Source: llama.cpp src/llama-memory-recurrent.cpp find_slot (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Sequence

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.llama_cpp.memory.attention import Emit
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.engines.shared.slot_events import Warn
from cachesim.model import TokenRun


@dataclass(slots=True)
class Cell:
    """Cell of the recurrent memory. ``src``: row from which its state is read, -1 = a zeroed state."""

    pos: int = -1
    src: int = -1
    seqs: set[int] = field(default_factory=set)


@dataclass(slots=True)
class CellMetadata:
    """Metadata of all cells: everything except the rows. ``tail``: cell per sequence, -1 = none."""

    cells: list[Cell]
    tail: list[int]
    head: int = 0
    used: int = 0

    def copy(self) -> CellMetadata:
        """Return an independent copy."""
        return CellMetadata([replace(c, seqs=set(c.seqs)) for c in self.cells], list(self.tail), self.head, self.used)


Position = Callable[[int, int], int]
"""(sequence, index of a token) -> its position in the server's terms: smaller after an image with 2-D positions."""


def as_index(seq: int, index: int) -> int:
    """Return the position of a token in a list without images."""
    return index


def gap_before(meta: CellMetadata, run: TokenRun, position: Position) -> str:
    """Return the warning about a run whose last position is not that of its cell plus its tokens, "" = it is."""
    cell, n = meta.cells[meta.tail[run.seq]], len(run.tokens)
    if cell.pos < 0:
        return ""
    last, before = position(run.seq, run.pos0 + n - 1), position(run.seq, cell.pos)
    if last == before + n:
        return ""
    return f"non-consecutive token position {last} after {before} for sequence {run.seq} with {n} new tokens"


def continues_own_cell(meta: CellMetadata, ubatch: Ubatch) -> bool:
    """True for a single sequence that continues in a cell of its own at the next position (the common case)."""
    if len(ubatch.runs) != 1:
        return False
    run = ubatch.runs[0]
    tail = meta.tail[run.seq] if 0 <= run.seq < len(meta.tail) else -1
    return tail >= 0 and meta.cells[tail].seqs == {run.seq} and meta.cells[tail].pos + 1 == run.pos0


def find_slot(
    meta: CellMetadata, ubatch: Ubatch, emit: Emit, position: Position = as_index
) -> list[tuple[int, int]] | None:
    """Give each sequence of the ubatch its own cell, contiguous and in order. Return for every cell of the
    stretch (cell, row from which its state comes; -1 = zeroed), None for lack of room."""
    if continues_own_cell(meta, ubatch) and (position is as_index or not gap_before(meta, ubatch.runs[0], position)):
        meta.head = tail = meta.tail[ubatch.runs[0].seq]
        cell = meta.cells[tail]
        source = cell.src
        cell.src = tail
        cell.pos += ubatch.n
        return [(tail, source)]
    if meta.head > meta.used + 2 * len(ubatch.runs):
        meta.head = 0
    if any(not 0 <= run.seq < len(meta.cells) for run in ubatch.runs):
        return None
    _assign_own_cells(meta, ubatch.runs)
    tails = [meta.tail[run.seq] for run in ubatch.runs]
    first, last_tail = min(tails), max(tails)
    for place, run in enumerate(ubatch.runs, start=first):
        _swap(meta, place, meta.tail[run.seq])
    for place, run in enumerate(ubatch.runs, start=first):
        gap = gap_before(meta, run, position)
        if gap:
            emit(Warn(f"find_slot: {gap}"))
        meta.cells[place].pos = run.pos0 + len(run.tokens) - 1
    sources = []
    for i in range(first, last_tail + 1):
        sources.append((i, meta.cells[i].src))
        meta.cells[i].src = i
    meta.head = first
    meta.used = sum(1 for cell in meta.cells if cell.seqs)
    return sources if len(sources) >= len(ubatch.runs) else None


def _assign_own_cells(meta: CellMetadata, runs: Sequence[TokenRun]) -> None:
    """Move each sequence that has no cell, or shares a cell, to the next empty cell (copy on write)."""
    empty = _next_empty(meta, meta.head)
    for run in runs:
        tail = meta.tail[run.seq]
        if tail >= 0 and run.seq not in meta.cells[tail].seqs:       # rule LC-RS-TAIL.STALE
            raise ProcessAborted("GGML_ASSERT(cell.has_seq_id(seq_id)) failed", "recurrent-tail-stale", seq=run.seq)
        if tail >= 0 and len(meta.cells[tail].seqs) == 1:
            continue
        cell = meta.cells[empty]
        if cell.seqs:
            raise Crash("every recurrent cell is used, although there is one for each sequence")
        if tail >= 0:
            shared = meta.cells[tail]
            cell.pos, cell.src = shared.pos, shared.src
            shared.seqs.discard(run.seq)
        cell.seqs.add(run.seq)
        meta.tail[run.seq] = empty
        empty = _next_empty(meta, empty)


def _next_empty(meta: CellMetadata, start: int) -> int:
    n = len(meta.cells)
    ring = ((start + i) % n for i in range(n))
    return next((i for i in ring if not meta.cells[i].seqs), start % n)


def _swap(meta: CellMetadata, a: int, b: int) -> None:
    meta.cells[a], meta.cells[b] = meta.cells[b], meta.cells[a]
    meta.tail[:] = [b if tail == a else a if tail == b else tail for tail in meta.tail]
