"""Saved states whose file ends too early: the part in which the state ends, and what a memory reads of it.

Source: llama.cpp src/llama-kv-cache.cpp state_read, src/llama-memory-recurrent.cpp state_read (3f545be).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.saved_state import AttentionState, Blob

PARTS = ("base", "idx", "swa", "recr")           # in the order of a state
HYBRID_IDX = ("base", "recr", "idx")             # of a hybrid with index rows


class StateEnd(NamedTuple):
    """Place at which a state ends. ``part``: "" = before the first; ``rows``: in its rows, not in its positions;
    ``last``: no field of another part follows (nor one of another layer's recurrent states)."""

    part: str = ""
    rows: bool = False
    last: bool = False


def _order(memory: Memory) -> tuple[str, ...]:
    """Return the parts in the order of a state. Raise BadInput for a memory whose truncated states are not
    simulated."""
    if memory.kind.kind == "dsv4":
        raise BadInput("a truncated slot file with compressed rows is not simulated")
    return HYBRID_IDX if memory.kind.kind == "hybrid_idx" else PARTS


def _sizes(memory: Memory, blob: Blob) -> Iterator[tuple[str, int, int, int]]:
    """Yield the parts of a state: name, bytes, bytes of the rows at its end, and of those after which nothing else
    follows."""
    for name in _order(memory):
        state = getattr(blob, name)
        if state is None:
            continue
        if isinstance(state, AttentionState):
            cache, n = memory.parts[name], len(state.pos)
            rows = cache.shape.rows_size(n)
            yield name, cache.shape.size(n, cache.n_stream), rows, rows
        elif memory.recr is not None:
            shape, present = memory.recr.shape, state.pos >= 0
            tail = shape.row_bytes // shape.layers if present else 0
            yield name, shape.size(present), shape.rows_size(present), tail


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
    order = _order(memory)
    read = order[: order.index(torn.part) + 1]
    memory.state_read(seq, Blob(blob.size, **{name: getattr(blob, name) for name in read}))
    part = memory.recr if torn.part == "recr" else memory.parts[torn.part]
    if part is not None and (frees or not torn.rows):
        part.seq_rm(seq, 0, POS_INF)
