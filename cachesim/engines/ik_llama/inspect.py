"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A cell stands for the position that its row was computed for: a speculative restore that relabels it hides nothing from
later tokens.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

import numpy as np

from cachesim.engines.base import Answer
from cachesim.engines.ik_llama.memory.kv import Blob, KvCache, States
from cachesim.engines.ik_llama.server import Server
from cachesim.engines.ik_llama.slot import Checkpoint
from cachesim.engines.view import Point, RowsPart, StatePart, Stored
from cachesim.model import Rows


def _rows(kv: KvCache, own: np.ndarray, rows: Mapping[int, Rows]) -> tuple[RowsPart, ...]:
    """Rows by kind of layer: full attention, windows."""
    windows = kv.kind.windows
    full = {layer: one for layer, one in rows.items() if layer not in windows}
    seen = {layer: one for layer, one in rows.items() if layer in windows}
    found = [RowsPart(0, own, full)] if full or not rows else []
    return (*found, *([RowsPart(kv.kind.n_swa, own, seen)] if seen else []))


def _state(kv: KvCache, pos: int, states: States) -> StatePart | None:
    if not kv.kind.hybrid:
        return None
    return StatePart(pos, {layer: states.get(layer) for layer in kv.kind.states})


def live(server: Server, id_slot: int) -> Stored:
    """The slot as it stands: its tokens, and what the memory holds for it."""
    kv, tokens = server.memory, tuple(server.slots[id_slot].tokens)
    blob = kv.get(id_slot, partial=False)
    return Stored("slot", id_slot, tokens, len(tokens), _rows(kv, blob.own, blob.rows or {}), _of(kv, blob))


def _of(kv: KvCache, blob: Blob) -> StatePart | None:
    return _state(kv, blob.state_pos, blob.states)


def agrees(server: Server, answer: Answer) -> bool:
    """Does the memory end where the tokens of the answer's slot end?"""
    if answer.id_slot < 0:
        return True
    return server.memory.pos_max(answer.id_slot) == max(0, len(server.slots[answer.id_slot].tokens) - 1)


def _checkpoint(kv: KvCache, ckpt: Checkpoint, owner: int, tokens: tuple[int, ...], kind: str) -> Stored:
    n = min(ckpt.facts.pos_max + 1, ckpt.facts.n_tokens)
    return Stored(kind, owner, tokens[: ckpt.facts.n_tokens], n, (), _of(kv, ckpt.blob))


def kept(server: Server) -> list[Stored]:
    """Every checkpoint and every stored conversation, with the tokens that the server believes them to hold."""
    kv, out = server.memory, []
    for slot in server.slots:
        out += [_checkpoint(kv, c, slot.id, tuple(slot.tokens), "checkpoint") for c in slot.checkpoints]
    for number, entry in enumerate(server.cache.entries if server.cache else ()):
        tokens, blob = tuple(entry.tokens), entry.blob
        rows = _rows(kv, blob.own, blob.rows or {})
        out.append(Stored("entry", number, tokens, len(tokens), rows, _of(kv, blob)))
        out += [_checkpoint(kv, c, number, tokens, "entry checkpoint") for c in entry.checkpoints]
    return out


def checkpoints(server: Server, id_slot: int) -> list[int]:
    """Lengths in tokens of the slot's checkpoints, oldest first."""
    return [c.facts.n_tokens for c in server.slots[id_slot].checkpoints]


def points(server: Server) -> list[Point]:
    """Every restore point: live slots, their checkpoints, stored conversations and theirs."""
    out: list[Point] = []
    for slot in server.slots:
        if slot.tokens:
            blob = server.memory.get(slot.id, partial=False)
            out += _points(server.memory, "slot", slot.id, slot.tokens, blob, slot.checkpoints)
    for number, entry in enumerate(server.cache.entries if server.cache else ()):
        if entry.tokens:
            out += _points(server.memory, "entry", number, entry.tokens, entry.blob, entry.checkpoints)
    return out


def _points(
    kv: KvCache, kind: str, owner: int, tokens: list[int], blob: Blob, checkpoints: Sequence[Checkpoint]
) -> Iterator[Point]:
    """The points of one conversation: itself, and each checkpoint together with the conversation's rows."""
    held, rows = tuple(tokens), _rows(kv, blob.own, blob.rows or {})
    reach = min(len(held), _unbroken(blob.own))
    if kv.kind.recurrent:
        return
    yield from _point(Stored(kind, owner, held, reach, rows, _of(kv, blob)), reach)
    for ckpt in checkpoints if kv.kind.hybrid else ():
        name = "checkpoint" if kind == "slot" else "entry checkpoint"
        mine = held[: ckpt.facts.n_tokens]
        yield from _point(Stored(name, owner, mine, len(mine), rows, _of(kv, ckpt.blob)), reach)


def _point(stored: Stored, reach: int) -> Iterator[Point]:
    """A state is usable at its own end only."""
    lo, hi = 1, min(reach, len(stored.tokens))
    if stored.state is not None:
        lo, hi = max(lo, stored.state.pos + 1), min(hi, stored.state.pos + 1)
    if lo <= hi:
        yield Point(stored._replace(resume=hi), lo, hi)


def _unbroken(own: np.ndarray) -> int:
    """Number of rows present from position 0 on without a hole."""
    present = np.unique(own)
    gaps = np.flatnonzero(present != np.arange(len(present)))
    return int(gaps[0]) if len(gaps) else len(present)


def held(server: Server, seq: int) -> np.ndarray:
    """(n,) labels of a sequence's cells, ascending."""
    cells = server.memory.cells
    return np.sort(cells.pos[cells.of(seq)])


def over(server: Server) -> list[str]:
    """Limits that are exceeded: checkpoints of a slot, bytes of the prompt cache."""
    most, limit = server.settings.max_checkpoints, server.settings.limit_size
    found = [f"slot {slot.id} has {len(slot.checkpoints)} checkpoints, at most {most}"
             for slot in server.slots if len(slot.checkpoints) > most]
    size = sum(entry.size for entry in server.cache.entries) if server.cache else 0
    return [*found, f"the prompt cache holds {size} bytes, at most {limit}"] if limit and size > limit else found
