"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A cell stands for the position that its row was computed for: a speculative restore that relabels it hides nothing from
later tokens.
"""

from __future__ import annotations

from typing import Callable, Mapping

import numpy as np

from cachesim.engines.contract import Removal, StoredBytes
from cachesim.engines.ik_llama.memory.kv_cache import Blob, KvCache, States
from cachesim.engines.ik_llama.prompt_cache import Entry
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint, Slot
from cachesim.engines.inspection import Excess, Key, RowsPart, StatePart, Stored
from cachesim.engines.shared.kv_rows import contiguous_length, read_rows
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.restore_point_tracker import CheckpointRange, Conversation
from cachesim.engines.shared.server_loop import observe_seq_rm
from cachesim.model import Rows


def _rows(kv: KvCache, own: np.ndarray, rows: Mapping[int, Rows]) -> tuple[RowsPart, ...]:
    """Rows by kind of layer: full attention, windows."""
    windows = kv.kind.windows
    full = {layer: one for layer, one in rows.items() if layer not in windows}
    seen = {layer: one for layer, one in rows.items() if layer in windows}
    found = [RowsPart(0, own, full)] if full or not rows else []
    return (*found, *([RowsPart(kv.kind.n_swa, own, seen)] if seen else []))


def _state(kv: KvCache, pos: int, states: States) -> StatePart | None:
    return StatePart(pos, {layer: states.get(layer) for layer in kv.kind.states}) if kv.kind.hybrid else None


def _of(kv: KvCache, blob: Blob) -> StatePart | None:
    return _state(kv, blob.state_pos, blob.states)


def _lengths(n: int, state: StatePart | None) -> tuple[int, int]:
    """The lengths at which a state of n tokens could be used: its own end only."""
    return (1, n) if state is None else (max(1, state.pos + 1), min(n, state.pos + 1))


class Inspected(Core):
    """What the contract of a server asks about its slots, its memory and its prompt cache."""

    @property
    def arrival_is_unlogged(self) -> bool:
        """With similarity 0 nothing is written of a request that finds all slots busy."""
        return self.settings.flags.slot_prompt_similarity == 0

    def memory_matches(self, slot: int) -> bool:
        """Does the memory end where the tokens of the slot end?"""
        return self.memory.pos_max(slot) == max(0, len(self.slots[slot].tokens) - 1)

    def of_slot(self, slot: Slot) -> Conversation:
        """What the restore points of a slot depend on."""
        kv = self.memory
        state, own = _state(kv, kv.state_pos[slot.id], kv.states[slot.id]), kv.cells.own[kv.cells.of(slot.id)]
        return self._conversation(slot, own, state)

    def of_entry(self, entry: Entry) -> Conversation:
        """What those of a stored conversation depend on."""
        return self._conversation(entry, entry.blob.own, _of(self.memory, entry.blob))

    def _conversation(self, one: Slot | Entry, own: np.ndarray, state: StatePart | None) -> Conversation:
        """A cache of recurrent rows only has no restore points."""
        lengths = (1, 0) if self.kind.recurrent else _lengths(len(one.tokens), state)
        return Conversation(one.tokens, contiguous_length(own), *lengths, one.checkpoints)

    def of_checkpoint(self, checkpoint: Checkpoint) -> CheckpointRange:
        """What depends on a checkpoint itself. Without states there is nothing in it."""
        n = checkpoint.facts.n_tokens
        lengths = _lengths(n, _of(self.memory, checkpoint.blob)) if self.kind.hybrid else (1, 0)
        return CheckpointRange(n, *lengths)

    def stored(self, key: Key, start: int = 0) -> Stored:
        """What a restore point consists of."""
        kv, (kind, owner, _) = self.memory, key
        if kind == "slot":
            return self._live(owner, start)
        if kind == "entry":
            entry: Entry = self.points.conversation(key)
            blob, n = entry.blob, len(entry.tokens)
            return Stored(kind, owner, tuple(entry.tokens), n, _rows(kv, blob.own, blob.rows or {}), _of(kv, blob))
        ckpt: Checkpoint = self.points.checkpoint(key)
        held, owner = self.text_of(key)
        n = min(ckpt.facts.pos_max + 1, ckpt.facts.n_tokens)
        return Stored(kind, owner, tuple(held[: ckpt.facts.n_tokens]), n, (), _of(kv, ckpt.blob))

    def _live(self, slot: int, start: int) -> Stored:
        """A slot's rows from position ``start`` on, and its states."""
        kv, n = self.memory, len(self.slots[slot].tokens)
        if kv.kind.recurrent:                           # no part of it lies in cells
            return Stored("slot", slot, (), n, (), StatePart(kv.state_pos[slot], kv.states[slot]), start)
        cells = kv.cells.of(slot)
        own = kv.cells.own[cells]
        if start:
            cells, own = cells[own >= start], own[own >= start]
        rows = _rows(kv, own, {layer: read_rows(one, cells) for layer, one in kv.rows.items()})
        return Stored("slot", slot, (), n, rows, _state(kv, kv.state_pos[slot], kv.states[slot]), start)

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

    def exceeded_limits(self) -> list[Excess]:
        """Limits that are exceeded: checkpoints of a slot, bytes of the prompt cache."""
        sizes = [entry.size for entry in self.cache.entries] if self.cache else []
        counts = [len(slot.checkpoints) for slot in self.slots]
        return over_limits(counts, self.settings.max_checkpoints, sizes, self.settings.limit_size)

    def check(self) -> None:
        """Raise Crash unless the memory is consistent."""
        self.memory.check()

    def observe_removals(self, hear: Callable[[Removal], None]) -> None:
        """From now on tell of every removal of rows."""
        self.memory.seq_rm = observe_seq_rm(self.memory.seq_rm, self.held, hear)  # type: ignore[method-assign]
