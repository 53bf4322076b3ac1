"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A cell stands for the position that its row was computed for: a speculative restore that relabels it hides nothing from
later tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Iterator, Mapping, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.contract import Removal, StoredBytes
from cachesim.engines.ik_llama.memory.kv import Blob, KvCache, States
from cachesim.engines.ik_llama.prompt_cache import Entry
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint, Slot
from cachesim.engines.judge_view import Excess, Point, RowsPart, Shelf, StatePart, Stored
from cachesim.engines.shared.held_tokens import Moment
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.seen_rows import in_line
from cachesim.engines.shared.server_loop import watched
from cachesim.engines.shared.shelves import Cut, Shelves, unbroken
from cachesim.engines.shared.writes import EntryRange
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


def _checkpoint(kv: KvCache, ckpt: Checkpoint, tokens: tuple[int, ...], owner: int, kind: str) -> Stored:
    n = min(ckpt.facts.pos_max + 1, ckpt.facts.n_tokens)
    return Stored(kind, owner, tokens[: ckpt.facts.n_tokens], n, (), _of(kv, ckpt.blob))


def _points(
    kv: KvCache, kind: str, owner: int, live: Cut, cuts: Sequence[Cut], rows: tuple[RowsPart, ...], own: np.ndarray
) -> Iterator[Point]:
    """The points of one conversation: itself, and each checkpoint together with the conversation's rows."""
    if kv.kind.recurrent:
        return
    reach = min(len(live.tokens), unbroken(own))
    for one in (live, *cuts):
        lo, hi = one.lo, min(one.hi, reach)
        if lo <= hi:
            name = kind if one is live else "checkpoint" if kind == "slot" else "entry checkpoint"
            yield Point(Stored(name, owner, one.tokens, hi, rows, one.state), lo, hi)


def _cut(ckpt: Checkpoint | None, tokens: tuple[int, ...], state: StatePart | None) -> Cut:
    """These tokens with this state."""
    return Cut(ckpt, tokens, *_bounds(len(tokens), state), (), state)


def _bounds(n: int, state: StatePart | None) -> tuple[int, int]:
    """The lengths at which a state of n tokens could be used: its own end only."""
    lo, hi = 1, n
    return (lo, hi) if state is None else (max(lo, state.pos + 1), min(hi, state.pos + 1))


def _cut_of(kv: KvCache, ckpt: Checkpoint, held: Tokens | Moment) -> Cut:
    return _cut(ckpt, held[: ckpt.facts.n_tokens], _of(kv, ckpt.blob))


def _slot_shelf(srv: Core, slot: Slot, looked: Shelves, written: EntryRange) -> Shelf:
    kv, number = srv.memory, slot.id
    used = slot.checkpoints if kv.kind.hybrid else []
    if written.first >= written.stop:
        now = _state(kv, kv.state_pos[number], kv.states[number])
        known = looked.unchanged(number, slot.tokens, now, used)
        if known is not None:
            return known
    cells = kv.cells.of(number)
    first = int(cells[0]) if len(cells) else 0
    kept = looked.rows_kept(number, written, first)
    line = None if kv.kind.recurrent or kv.kind.windows else in_line(kv.cells.own, cells, kv.rows, kept)
    if line is not None:
        state = _state(kv, kv.state_pos[number], kv.states[number])
        return looked.of_slot_in_line(
            number, slot.tokens, len(cells), line, state, used, partial(_cut_of, kv),
            _bounds(len(slot.tokens), state), kept, first,
        )
    blob = kv.get(number, partial=False)
    state = _of(kv, blob)
    rows = _rows(kv, blob.own, {layer: Rows(one.digest, None, None) for layer, one in (blob.rows or {}).items()})

    def points(tokens: Tokens, cuts: Sequence[Cut]) -> Iterator[Point]:
        return _points(kv, "slot", number, _cut(None, tokens, state), cuts, rows, blob.own)

    return looked.of_slot(number, slot.tokens, rows, state, used, partial(_cut_of, kv), points)


def _entry_shelf(kv: KvCache, entry: Entry) -> Shelf:
    tokens, blob = tuple(entry.tokens), entry.blob
    cuts = [_cut_of(kv, ckpt, tokens) for ckpt in entry.checkpoints] if kv.kind.hybrid else []
    rows = _rows(kv, blob.own, blob.rows or {})
    return Shelf(tokens, tuple(_points(kv, "entry", -1, _cut(None, tokens, _of(kv, blob)), cuts, rows, blob.own)))


class Inspected(Core):
    """What the contract of a server asks about its slots, its memory and its prompt cache."""

    @property
    def comes_unseen(self) -> bool:
        """With similarity 0 nothing is written of a request that finds all slots busy."""
        return self.settings.sps == 0

    def live(self, slot: int) -> Stored:
        """The slot as it stands: its tokens, and what the memory holds for it."""
        kv, tokens = self.memory, self.tokens_of(slot)
        if kv.kind.recurrent:                           # no part of it lies in cells
            state = StatePart(kv.state_pos[slot], dict(kv.states[slot]))
            return Stored("slot", slot, tokens, len(tokens), (), state)
        blob = kv.get(slot, partial=False)
        return Stored("slot", slot, tokens, len(tokens), _rows(kv, blob.own, blob.rows or {}), _of(kv, blob))

    def agrees(self, slot: int) -> bool:
        """Does the memory end where the tokens of the slot end?"""
        return self.memory.pos_max(slot) == max(0, len(self.slots[slot].tokens) - 1)

    def kept(self) -> list[Stored]:
        """Every checkpoint and every stored conversation, with the tokens that the server believes them to hold."""
        out: list[Stored] = []
        for slot in self.slots:
            if slot.checkpoints:
                copy = partial(_checkpoint, self.memory, owner=slot.id, kind="checkpoint")
                out += self.looked.copies_of(slot.id, tuple(slot.tokens), slot.checkpoints, copy)
        return out + self.looked.stored_of(self.cache.entries if self.cache else [], self._entry)

    def _entry(self, entry: Entry) -> list[Stored]:
        """A stored conversation and its checkpoints."""
        kv, tokens, blob = self.memory, tuple(entry.tokens), entry.blob
        mine = [_checkpoint(kv, ckpt, tokens, -1, "entry checkpoint") for ckpt in entry.checkpoints]
        rows = _rows(kv, blob.own, blob.rows or {})
        return [Stored("entry", -1, tokens, len(tokens), rows, _of(kv, blob)), *mine]

    def points(self) -> list[Point]:
        """Every restore point: live slots, their checkpoints, stored conversations and theirs."""
        return [point for shelf in self._shelves(Shelves(once=True)) for point in shelf.points]

    def shelves(self) -> list[Shelf]:
        """The same by conversation."""
        return self._shelves(self.looked)

    def _shelves(self, looked: Shelves) -> list[Shelf]:
        """The same for one who has looked before."""
        entries = [entry for entry in self.cache.entries if entry.tokens] if self.cache else []
        stored = looked.entries.each(entries, partial(_entry_shelf, self.memory))
        used = [slot for slot in self.slots if slot.tokens]
        looked.only([slot.id for slot in used])
        written = self.memory.cells.writes.look(looked.reader)
        return [_slot_shelf(self, slot, looked, written) for slot in used] + stored

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths in tokens of the slot's checkpoints, oldest first."""
        return [c.facts.n_tokens for c in self.slots[slot].checkpoints]

    def checkpoint_spans(self, slot: int) -> list[tuple[int, int]]:
        """pos_min and pos_max of the slot's checkpoints, oldest first."""
        return [(c.facts.pos_min, c.facts.pos_max) for c in self.slots[slot].checkpoints]

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
