"""Saved states whose file ends too early: the part in which the state ends, and what a memory reads of it.

Source: llama.cpp src/llama-kv-cache.cpp state_read, src/llama-memory-recurrent.cpp state_read (3f545be).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.saved_state import Blob

PARTS = ("base", "swa", "recr")      # in the order of a state


class StateEnd(NamedTuple):
    """Place at which a state ends. ``part``: "" = before the first; ``rows``: in its rows, not in its positions;
    ``last``: no field of another part follows (nor one of another layer's recurrent states)."""

    part: str = ""
    rows: bool = False
    last: bool = False


def _sizes(memory: Memory, blob: Blob) -> Iterator[tuple[str, int, int, int]]:
    """Yield the parts of a state: name, bytes, bytes of the rows at its end, and of those after which nothing else
    follows."""
    for name, state in (("base", blob.base), ("swa", blob.swa)):
        if state is not None:
            cache, n = memory.parts[name], len(state.pos)
            rows = cache.shape.rows_size(n)
            yield name, cache.shape.size(n, cache.n_stream), rows, rows
    if blob.recr is not None and memory.recr is not None:
        shape, present = memory.recr.shape, blob.recr.pos >= 0
        yield "recr", shape.size(present), shape.rows_size(present), shape.row_bytes // shape.layers


def torn_at(memory: Memory, blob: Blob, left: int) -> StateEnd | None:
    """Return the place at which a state of ``left`` bytes ends, None if it is complete."""
    at, parts = 0, [*_sizes(memory, blob)]
    if left < 0:
        return StateEnd()
    for name, size, rows, tail in parts:
        at += size
        if left < at:
            return StateEnd(name, left >= at - rows, name == parts[-1][0] and left >= at - tail)
    return None


def read_torn(memory: Memory, seq: int, blob: Blob, torn: StateEnd, frees: bool) -> None:
    """Restore a state up to the place at which it ends; parts after it are unchanged. ``frees``: the part in which it
    ends is emptied. Otherwise its cells stay taken. Their rows do not matter: the slot does not list their tokens, and
    its next request removes them."""
    if not torn.part:
        return
    read = PARTS[: PARTS.index(torn.part) + 1]
    base, swa, recr = (getattr(blob, name) if name in read else None for name in PARTS)
    memory.state_read(seq, Blob(blob.size, base, swa, recr))
    part = memory.recr if torn.part == "recr" else memory.parts[torn.part]
    if part is not None and (frees or not torn.rows):
        part.seq_rm(seq, 0, POS_INF)
