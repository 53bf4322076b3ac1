"""What does the server hold right now? Copies for the judge; looking changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Callable

import numpy as np

from cachesim.engines.contract import Removal, StoredBytes
from cachesim.engines.judge_view import Excess, Point, RowsPart, Shelf, StatePart, Stored
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.prompt_cache import Entry
from cachesim.engines.llama_cpp.restore_points import keep_all, parts_of, shelves
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ask, Resume
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.server_loop import watched
from cachesim.engines.shared.shelves import Shelves


def _blob(blob: Blob, n_swa: int) -> tuple[tuple[RowsPart, ...], StatePart | None]:
    return parts_of(blob.base, blob.swa, n_swa), blob.recr


class Inspected(Core):
    """What the contract of a server asks about its slots, its memory and its prompt cache."""

    def replays(self, wrong: int) -> bool:
        """A rejection that the memory cannot take back is replayed from the checkpoint before the draft."""
        return self.settings.exact and wrong > self.settings.sizes.n_rs_seq

    @property
    def comes_unseen(self) -> bool:
        """With similarity 0 nothing is written of a request that finds all slots busy."""
        return self.settings.sps == 0

    def live(self, slot: int) -> Stored:
        """The slot as it stands: its tokens, and what the memory holds for it."""
        tokens, memory = self.tokens_of(slot), self.memory
        parts = {name: cache.state_write(slot, keep_all) for name, cache in memory.parts.items()}
        state = memory.recr.state_write(slot) if memory.recr is not None else None
        rows = parts_of(parts.get("base"), parts.get("swa"), memory.kind.n_swa)
        return Stored("slot", slot, tokens, len(tokens), rows, state)

    def agrees(self, slot: int) -> bool:
        """Does the memory end where the slot's tokens end?"""
        return self.memory.pos_max(slot) == len(self.slots[slot].tokens) - 1

    def kept(self) -> list[Stored]:
        """Every checkpoint and every stored conversation, with the tokens that the server believes them to hold."""
        out: list[Stored] = []
        for slot in self.slots:
            if slot.checkpoints:
                copy = partial(self._checkpoint, owner=slot.id, kind="checkpoint")
                out += self.looked.copies_of(slot.id, tuple(slot.tokens), slot.checkpoints, copy)
        return out + self.looked.stored_of(self.cache.entries if self.cache else [], self._entry)

    def _entry(self, entry: Entry) -> list[Stored]:
        """A stored conversation and its checkpoints."""
        tokens, (rows, state) = tuple(entry.tokens), _blob(entry.blob, self.kind.n_swa)
        mine = [self._checkpoint(ckpt, tokens, -1, "entry checkpoint") for ckpt in entry.checkpoints]
        return [Stored("entry", -1, tokens, len(tokens), rows, state), *mine]

    def _checkpoint(self, ckpt: Checkpoint, tokens: tuple[int, ...], owner: int, kind: str) -> Stored:
        """``resume``: where a longer prompt that begins with all of its tokens would go on."""
        facts, n = ckpt.facts, ckpt.facts.n_tokens
        ask = Ask(n, n, n, n + 1, facts.pos_min, self.settings.n_swa, self.settings.exact)
        again: Resume = self.rules.ckpt_restore(facts, ask).value
        rows, state = _blob(ckpt.blob, self.kind.n_swa)
        return Stored(kind, owner, tokens[:n], min(again.n_past, n), rows, state)

    def points(self) -> list[Point]:
        """Every restore point: live slots, their checkpoints, stored conversations and theirs."""
        return [point for shelf in shelves(self, Shelves(once=True)) for point in shelf.points]

    def shelves(self) -> list[Shelf]:
        """The same by conversation."""
        return shelves(self, self.looked)

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
        """(n,) positions of a sequence's rows in every attention cache, ascending in each."""
        found = [cache.cells(seq).held(seq) for cache in self.memory.parts.values()]
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)

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
