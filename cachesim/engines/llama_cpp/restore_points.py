"""From where could evaluation go on right now? The restore points of a server, whatever its rules think of them.

A length is usable if every row and state that the next token would read is present: rows 0 .. L-1 of full attention,
the last window - 1 rows of a window, the one state of a recurrent layer.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np

from cachesim.engines.judge_view import Point, RowsPart, StatePart, Stored
from cachesim.engines.llama_cpp.memory.saved_state import AttentionState, Blob, RecurrentState
from cachesim.engines.llama_cpp.prompt_cache import LOST
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint


def keep_all(pos: np.ndarray, pos_max: int, n_swa: int) -> np.ndarray:
    """The rule of a copy that leaves nothing out."""
    return np.ones(len(pos), dtype=bool)


def parts_of(base: AttentionState | None, swa: AttentionState | None, n_swa: int) -> tuple[RowsPart, ...]:
    """Saved attention caches as the judge sees them."""
    found = [RowsPart(0, base.pos, base.rows)] if base is not None else []
    return (*found, *([RowsPart(n_swa, swa.pos, swa.rows)] if swa is not None else []))


def state_part(state: RecurrentState | None) -> StatePart | None:
    """A saved recurrent state as the judge sees it."""
    return None if state is None else StatePart(state.pos, state.rows)


def points(server: Core) -> list[Point]:
    """Every restore point: live slots, their checkpoints, stored conversations and theirs."""
    out: list[Point] = []
    for slot in server.slots:
        if slot.tokens:
            live = _copy(server, slot.id)
            out += _of(server, "slot", slot.id, slot.tokens, live, slot.checkpoints)
    for number, entry in enumerate(server.cache.entries if server.cache else ()):
        if entry.blob is not LOST:
            out += _of(server, "entry", number, entry.tokens, entry.blob, entry.checkpoints)
    return out


def _copy(server: Core, seq: int) -> Blob:
    states = {name: cache.state_write(seq, keep_all) for name, cache in server.memory.parts.items()}
    recr = server.memory.recr.state_write(seq) if server.memory.recr is not None else None
    return Blob(0, states.get("base"), states.get("swa"), recr)


def _of(
    server: Core, kind: str, owner: int, tokens: list[int], blob: Blob, checkpoints: Sequence[Checkpoint]
) -> Iterator[Point]:
    """The points of one conversation: itself, and each checkpoint together with the conversation's full rows."""
    held = tuple(tokens)
    yield from _point(server, kind, owner, held, blob.base, blob.swa, blob.recr)
    for ckpt in checkpoints:
        name = "checkpoint" if kind == "slot" else "entry checkpoint"
        mine = held[: ckpt.facts.n_tokens]
        yield from _point(server, name, owner, mine, blob.base, ckpt.blob.swa, ckpt.blob.recr)


def _point(
    server: Core, kind: str, owner: int, tokens: tuple[int, ...], base: AttentionState | None,
    swa: AttentionState | None, recr: RecurrentState | None,
) -> Iterator[Point]:
    n_swa = server.kind.n_swa
    lo, hi = 1, len(tokens)
    if base is not None:
        hi = min(hi, _unbroken(base))
    if swa is not None:
        first, last = (int(swa.pos.min()), int(swa.pos.max())) if len(swa.pos) else (0, -1)
        lo, hi = max(lo, first + n_swa - 1 if first else 1), min(hi, last + 1)
    if recr is not None:
        lo, hi = max(lo, recr.pos + 1), min(hi, recr.pos + 1)
    if lo <= hi:
        rows = parts_of(base, swa, n_swa)
        yield Point(Stored(kind, owner, tokens, hi, rows, state_part(recr)), lo, hi)


def _unbroken(base: AttentionState) -> int:
    """Number of rows present from position 0 on without a hole."""
    if not len(base.pos):
        return 0
    held = set(base.pos.tolist())
    return next((i for i in range(len(held)) if i not in held), len(held))
