"""One generated token that takes its cells at once and is evaluated later: which cells, and is it allowed?

It must not be told from one that is evaluated at once: the cells are those that the engine takes, and no cell is taken
whose row a token that waits has still to read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import Found, listed
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Placed
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.model import TokenRun


class Waiting(NamedTuple):
    """Consecutive tokens of one sequence, the cells of each by attention part, and the position of the first."""

    seq: int
    pos0: int
    tokens: list[int]
    cells: list[Mapping[str, Sequence[Found]]]

    def placed(self) -> Placed:
        """All of them as one ubatch."""
        ubatch = Ubatch((TokenRun(self.seq, self.pos0, self.tokens),), (0,), len(self.tokens))
        return Placed(ubatch, {name: [_joined([one[name][0] for one in self.cells])] for name in self.cells[0]})


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


def _joined(cells: Sequence[Found]) -> Found:
    """Cells one after the other: a range, if they are neighbours in order."""
    if all(isinstance(one, range) for one in cells) and all(a[-1] + 1 == b[0] for a, b in pairwise(cells)):
        return range(cells[0][0], cells[-1][-1] + 1)
    return np.concatenate([listed(one) for one in cells])
