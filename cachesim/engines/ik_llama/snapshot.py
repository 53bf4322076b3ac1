"""Inspection of the server: contents of slots, checkpoints and entries, and where evaluation could resume.

Positions of rows are those for which they were computed: a speculative restore that relabels a cell does not hide its
row from later tokens.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.ik_llama.memory.kv_cache import Blob, KvCache, States
from cachesim.engines.ik_llama.prompt_cache import Entry
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint, Slot
from cachesim.engines.inspection import (
    DraftMemory,
    Key,
    RowsPart,
    StatePart,
    StoredContent,
    StoredObject,
    StoredSize,
)
from cachesim.engines.point_kinds import CHECKPOINT
from cachesim.engines.shared.checkpoint_inspection import CheckpointInspection, CheckpointSequences, CheckpointSizes
from cachesim.engines.shared.conversation_points import CheckpointRange, Conversation, ConversationSource
from cachesim.engines.shared.kv_rows import contiguous_length, read_rows
from cachesim.engines.shared.restore_point_tracker import UNUSABLE, usable_lengths
from cachesim.engines.shared.server_loop import text_of
from cachesim.model import KVRows


def _rows(kv: KvCache, own: np.ndarray, rows: Mapping[int, KVRows]) -> tuple[RowsPart, ...]:
    """Return rows by kind of layer: full attention, windows."""
    windows = kv.kind.windows
    full = {layer: kept for layer, kept in rows.items() if layer not in windows}
    seen = {layer: kept for layer, kept in rows.items() if layer in windows}
    found = [RowsPart(0, own, full)] if full or not rows else []
    return (*found, *([RowsPart(kv.kind.n_swa, own, seen)] if seen else []))


def _state(kv: KvCache, pos: int, states: States) -> StatePart | None:
    return StatePart(pos, {layer: states.get(layer) for layer in kv.kind.states}) if kv.kind.hybrid else None


def _of(kv: KvCache, blob: Blob) -> StatePart | None:
    return _state(kv, blob.state_pos, blob.states)


def _lengths(n: int, state: StatePart | None) -> tuple[int, int]:
    """Return the range of lengths at which a state is usable: only its own end; without states up to ``n``."""
    return usable_lengths(n, state=None if state is None else state.pos + 1)


def text(core: Core, owner: Slot | Entry) -> list[int]:
    """Return the tokens of a slot or an entry, after the system prompt."""
    system = owner.system if isinstance(owner, Entry) else core.system
    return [*system, *owner.tokens] if system else owner.tokens


class SlotPoints(ConversationSource):
    """Inputs that decide the restore points of slots, checkpoints and stored conversations."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def of_slot(self, slot: Slot) -> Conversation:
        """Return the data that determine the restore points of a slot."""
        kv = self.core.memory
        state, own = _state(kv, kv.state_pos[slot.id], kv.states[slot.id]), kv.cells.own[kv.cells.held(slot.id)]
        return self._conversation(slot, own, state)

    def of_entry(self, entry: Entry) -> Conversation:
        """Return the data that determine the restore points of a stored conversation."""
        return self._conversation(entry, entry.blob.own, _of(self.core.memory, entry.blob))

    def _conversation(self, owner: Slot | Entry, own: np.ndarray, state: StatePart | None) -> Conversation:
        """Return the data of a slot or an entry. A purely recurrent cache does not have restore points."""
        tokens = text(self.core, owner)
        lengths = UNUSABLE if self.core.kind.recurrent else _lengths(len(tokens), state)
        return Conversation(tokens, contiguous_length(own), *lengths, owner.checkpoints)

    def of_checkpoint(self, checkpoint: Checkpoint) -> CheckpointRange:
        """Return the range of a checkpoint; empty without recurrent layers, because it holds nothing then."""
        n = checkpoint.facts.n_tokens
        lengths = _lengths(n, _of(self.core.memory, checkpoint.blob)) if self.core.kind.hybrid else UNUSABLE
        return CheckpointRange(n, *lengths)


class Inspection(CheckpointInspection):
    """Contents of slots, checkpoints and stored conversations."""

    core: Core

    def tokens_of(self, slot: int) -> Tokens:
        """Return the tokens recorded for a slot, after the system prompt."""
        return tuple(text(self.core, self.core.slots[slot]))

    def memory_matches(self, slot: int) -> bool:
        """True if the memory ends where the tokens of the slot end."""
        return self.core.memory.pos_max(slot) == max(0, len(text(self.core, self.core.slots[slot])) - 1)

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the content of a restore point."""
        kv, (kind, owner, _) = self.core.memory, key
        if kind == "slot":
            return self._live(owner, start)
        if kind == "entry":
            entry: Entry = self.core.points.conversation(key)
            blob, tokens = entry.blob, tuple(text(self.core, entry))
            return StoredObject(
                kind,
                owner,
                tokens=tokens,
                resume=len(tokens),
                rows=_rows(kv, blob.own, blob.rows or {}),
                state=_of(kv, blob),
            )
        ckpt: Checkpoint = self.core.points.checkpoint(key)
        held, owner = text_of(self.core, key)
        reach = ckpt.facts.pos_max + 1
        if self.core.has_media_positions:
            reach = self.core.rules.media.resume(held, reach, True).value
        n = min(reach, ckpt.facts.n_tokens)
        return StoredObject(
            kind, owner, tokens=tuple(held[: ckpt.facts.n_tokens]), resume=n, rows=(), state=_of(kv, ckpt.blob)
        )

    def content(self, key: Key, start: int = 0) -> StoredContent:
        """Return the rows and states of a restore point: of a slot, rows from position ``start`` on."""
        if key[0] == CHECKPOINT:            # its tokens need not be copied
            checkpoint: Checkpoint = self.core.points.checkpoint(key)
            return StoredContent((), _of(self.core.memory, checkpoint.blob))
        return super().content(key, start)

    def _live(self, slot: int, start: int) -> StoredObject:
        """Return a slot's rows from position ``start`` on, and its states."""
        kv, n = self.core.memory, len(text(self.core, self.core.slots[slot]))
        if kv.kind.recurrent:                           # nothing is stored in cells
            return StoredObject(
                "slot",
                slot,
                tokens=(),
                resume=n,
                rows=(),
                state=StatePart(kv.state_pos[slot], kv.states[slot]),
                start=start,
            )
        held = kv.cells.held(slot)
        own = kv.cells.own[held]
        late = np.flatnonzero(own >= start) if start else np.arange(len(own))
        cells = late + held.start if isinstance(held, slice) else held[late]
        own = own[late]
        rows = _rows(kv, own, {layer: read_rows(table, cells) for layer, table in kv.rows.items()})
        return StoredObject(
            "slot",
            slot,
            tokens=(),
            resume=n,
            rows=rows,
            state=_state(kv, kv.state_pos[slot], kv.states[slot]),
            start=start,
        )


@lru_cache(maxsize=4096)
def _entry_size(n_tokens: int, n_bytes: int, checkpoint_bytes: int) -> StoredSize:
    """Return the size of a stored conversation; ``n_bytes`` includes its checkpoints. The draft context is never
    stored."""
    return StoredSize("entry", -1, tokens=n_tokens, bytes=n_bytes, draft_bytes=0, checkpoint_bytes=checkpoint_bytes)


class Sizes(CheckpointSizes):
    """Sizes of checkpoints and of the prompt cache."""

    core: Core

    def stored_sizes(self) -> list[StoredSize]:
        """Return the size of every checkpoint and every stored conversation. The draft context is never stored."""
        found = [StoredSize("checkpoint", slot.id, c.facts.n_tokens, c.facts.size)
                 for slot in self.core.slots for c in slot.checkpoints]  # fmt: skip
        return found + [
            _entry_size(len(entry.tokens), entry.size, entry.size - entry.blob.size)
            for entry in (self.core.cache.entries if self.core.cache else ())
        ]


class Sequences(CheckpointSequences):
    """Sequences of the memory, and the memory of the MTP head."""

    core: Core

    def held(self, seq: int) -> np.ndarray:
        """Return the positions (n,) of a sequence's cells, ascending."""
        cells = self.core.memory.cells
        return np.sort(cells.pos[cells.of(seq)])

    def draft_memory(self, slot: int) -> DraftMemory | None:
        """Return the memory of the MTP head for a slot."""
        if self.core.companion is None:
            return None
        kv = self.core.companion.kv
        pos = kv.cells.pos[kv.cells.of(slot)]
        first, last = (int(pos.min()), int(pos.max())) if len(pos) else (-1, -1)
        return DraftMemory(len(pos), first, pos_max=last, state_pos=kv.state_pos[slot], bytes=kv.size_of(slot, False))
