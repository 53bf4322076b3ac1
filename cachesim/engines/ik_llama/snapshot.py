"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A cell stands for the position that its row was computed for: a speculative restore that relabels it hides nothing from
later tokens.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Sequence

import numpy as np

from cachesim.engines.contract import Removal, StoredBytes
from cachesim.engines.ik_llama.memory.kv import Blob, KvCache, States
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint
from cachesim.engines.judge_view import Excess, Point, RowsPart, StatePart, Stored
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.server_loop import watched
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


def _of(kv: KvCache, blob: Blob) -> StatePart | None:
    return _state(kv, blob.state_pos, blob.states)


def _checkpoint(kv: KvCache, ckpt: Checkpoint, owner: int, tokens: tuple[int, ...], kind: str) -> Stored:
    n = min(ckpt.facts.pos_max + 1, ckpt.facts.n_tokens)
    return Stored(kind, owner, tokens[: ckpt.facts.n_tokens], n, (), _of(kv, ckpt.blob))


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


class Inspected(Core):
    """What the contract of a server asks about its slots, its memory and its prompt cache."""

    @property
    def comes_unseen(self) -> bool:
        """With similarity 0 nothing is written of a request that finds all slots busy."""
        return self.settings.sps == 0

    def live(self, slot: int) -> Stored:
        """The slot as it stands: its tokens, and what the memory holds for it."""
        kv, tokens = self.memory, self.tokens_of(slot)
        blob = kv.get(slot, partial=False)
        return Stored("slot", slot, tokens, len(tokens), _rows(kv, blob.own, blob.rows or {}), _of(kv, blob))

    def agrees(self, slot: int) -> bool:
        """Does the memory end where the tokens of the slot end?"""
        return self.memory.pos_max(slot) == max(0, len(self.slots[slot].tokens) - 1)

    def kept(self) -> list[Stored]:
        """Every checkpoint and every stored conversation, with the tokens that the server believes them to hold."""
        kv, out = self.memory, []
        for slot in self.slots:
            out += [_checkpoint(kv, c, slot.id, tuple(slot.tokens), "checkpoint") for c in slot.checkpoints]
        for number, entry in enumerate(self.cache.entries if self.cache else ()):
            tokens, blob = tuple(entry.tokens), entry.blob
            rows = _rows(kv, blob.own, blob.rows or {})
            out.append(Stored("entry", number, tokens, len(tokens), rows, _of(kv, blob)))
            out += [_checkpoint(kv, c, number, tokens, "entry checkpoint") for c in entry.checkpoints]
        return out

    def points(self) -> list[Point]:
        """Every restore point: live slots, their checkpoints, stored conversations and theirs."""
        out: list[Point] = []
        for slot in self.slots:
            if slot.tokens:
                blob = self.memory.get(slot.id, partial=False)
                out += _points(self.memory, "slot", slot.id, slot.tokens, blob, slot.checkpoints)
        for number, entry in enumerate(self.cache.entries if self.cache else ()):
            if entry.tokens:
                out += _points(self.memory, "entry", number, entry.tokens, entry.blob, entry.checkpoints)
        return out

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths in tokens of the slot's checkpoints, oldest first."""
        return [c.facts.n_tokens for c in self.slots[slot].checkpoints]

    def stored_bytes(self) -> StoredBytes:
        """What checkpoints and stored conversations weigh right now."""
        checkpoints = sum(c.facts.size for slot in self.slots for c in slot.checkpoints)
        return StoredBytes(checkpoints, sum(entry.size for entry in self.cache.entries) if self.cache else 0)

    def held(self, seq: int) -> np.ndarray:
        """(n,) labels of a sequence's cells, ascending."""
        cells = self.memory.cells
        return np.sort(cells.pos[cells.of(seq)])

    def exceeded(self) -> list[Excess]:
        """Limits that are exceeded: checkpoints of a slot, bytes of the prompt cache."""
        sizes = [entry.size for entry in self.cache.entries] if self.cache else []
        counts = [len(slot.checkpoints) for slot in self.slots]
        return over_limits(counts, self.settings.max_checkpoints, sizes, self.settings.limit_size)

    def check(self) -> None:
        """Raise Crash unless the memory is consistent."""
        self.memory.check()

    def watch_removals(self, hear: Callable[[Removal], None]) -> None:
        """From now on tell of every removal of rows."""
        self.memory.seq_rm = watched(self.memory.seq_rm, self.held, hear)  # type: ignore[method-assign]
