"""Micro-batches that are evaluated in one pass, because nobody can tell the difference.

What a token reads does not depend on where the batch is cut, as long as no micro-batch takes a cell from what the ones
before it read. The engine cuts all the same; where numbers are computed so do we, to need no more room.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, Sequence

from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import Found
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache
from cachesim.engines.llama_cpp.memory.recurrent_cells import goes_on
from cachesim.engines.llama_cpp.memory.ubatch import Ubatch
from cachesim.model import TokenRun

Cut = tuple[Ubatch, Mapping[str, Sequence[Found]]]
"""A ubatch and, per attention part, the cells of its runs."""


def in_one(cuts: Sequence[Cut], parts: Mapping[str, AttentionCache], recr: RecurrentCache | None) -> Cut | None:
    """All of them as one, if they are consecutive tokens of one sequence, whose cells lie behind all that are used and
    whose state goes on, or begins; None = they are not."""
    first = cuts[0][0]
    if any(len(ubatch.runs) > 1 or ubatch.runs[0].seq != first.runs[0].seq for ubatch, _ in cuts):
        return None
    if recr is not None and (recr.n_rs_seq or not (goes_on(recr.meta, first) or recr.pos_max(first.runs[0].seq) < 0)):
        return None
    if any(a.runs[0].pos0 + a.n != b.runs[0].pos0 or a.at[0] + a.n != b.at[0] for (a, _), (b, _) in pairwise(cuts)):
        return None
    seq, pos0, _ = first.runs[0]
    found: dict[str, Sequence[Found]] = {}
    for name, cache in parts.items():
        together = _together([cells[name][0] for _, cells in cuts], cache.cells(seq).end)
        if together is None:
            return None
        found[name] = [together]
    tokens = [token for ubatch, _ in cuts for token in ubatch.runs[0].tokens]
    return Ubatch((TokenRun(seq, pos0, tokens),), first.at, len(tokens)), found


def _together(cells: Sequence[Found], end: int) -> range | None:
    """Stretches of cells as one, if each begins where the one before it ends and the first not before ``end``."""
    ranges = [one for one in cells if isinstance(one, range)]
    if len(ranges) < len(cells) or ranges[0].start < end or any(a.stop != b.start for a, b in pairwise(ranges)):
        return None
    return range(ranges[0].start, ranges[-1].stop)
