"""Inspection of the server for the judge: copies of slots, checkpoints and prompt-cache entries. It changes nothing."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from cachesim.base.keyed_tokens import identities
from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import DraftMemory, Key, RowsPart, StatePart, StoredContent, StoredObject, StoredSize
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import index
from cachesim.engines.llama_cpp.memory.dsv4 import KVCacheDSV4
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.prompt_cache import LOST, Entry
from cachesim.engines.llama_cpp.rules.checkpoint_facts import PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot
from cachesim.engines.point_kinds import CONVERSATION, RUNNING
from cachesim.engines.shared.checkpoint_inspection import CheckpointInspection, CheckpointSequences, CheckpointSizes
from cachesim.engines.shared.conversation_points import CheckpointRange, Conversation, ConversationSource
from cachesim.engines.shared.kv_rows import contiguous_length, read_rows
from cachesim.engines.shared.restore_point_tracker import RowRange, usable_lengths
from cachesim.engines.shared.server_loop import text_of
from cachesim.model import KVRows, Spec
from cachesim.model.store import index_of


def keep_all(pos: np.ndarray, pos_max: int, n_swa: int) -> np.ndarray:
    """Return a mask that keeps every cell: the rule for a complete copy."""
    return np.ones(len(pos), dtype=bool)


def _usable_lengths(n: int, swa: tuple[int, int] | None, recr: int | None, n_swa: int) -> tuple[int, int]:
    """Return the smallest and largest usable length of n tokens. ``swa``: first and last position of the window's rows,
    (-1, -1) = no rows; ``recr``: last position that the state has absorbed; None = the model has no such layers."""
    window = () if swa is None else (RowRange(max(swa[0], 0), swa[1], n_swa),)
    return usable_lengths(n, window, None if recr is None else recr + 1)


def _saved_lengths(blob: Blob, n: int, n_swa: int) -> tuple[int, int]:
    """Return the smallest and largest usable length of a saved state of n tokens."""
    swa = None
    if blob.swa is not None:
        swa = (int(blob.swa.pos.min()), int(blob.swa.pos.max())) if len(blob.swa.pos) else (-1, -1)
    return _usable_lengths(n, swa, None if blob.recr is None else blob.recr.pos, n_swa)


def contiguous_rows(cache: AttentionCache, seq: int) -> int:
    """Return the number of a sequence's rows from position 0 up to the first hole."""
    first, last = cache.pos_min(seq), cache.pos_max(seq)
    if first:
        return 0
    return last + 1 if cache.n_cells(seq) == last + 1 else contiguous_length(cache.cells(seq).held(seq))


def _rows_from(cache: AttentionCache, seq: int, start: int) -> tuple[np.ndarray, Mapping[int, KVRows]]:
    """Return the positions from ``start`` on and their rows. The rows may be views: read them at once."""
    table = cache.cells(seq)
    cells = table.of(seq)
    if start and isinstance(cells, range):
        cells = cells[max(0, start - table.span(seq)[0]) :]
    at = index(cells)
    pos = table.pos[at]
    if start and not isinstance(cells, range):
        at = cells[pos >= start]
        pos = table.pos[at]
    return pos, {layer: read_rows(rows, at) for layer, rows in cache.rows[cache.stream(seq)].items()}


def _compressed(spec: Spec, rows: Mapping[int, KVRows]) -> list[RowsPart]:
    """Return compressed rows in the judge's format."""
    return [RowsPart(0, np.arange(len(table.digest)), {layer: table}, spec.layers[index_of(layer)].ratio)
            for layer, table in rows.items()]  # fmt: skip


def _blob(blob: Blob, kind: ModelKind) -> StoredContent:
    """Return saved attention caches and states in the judge's format."""
    n_swa, compressed = kind.n_swa, _compressed(kind.spec, blob.compressed or {})
    saved = ((0, blob.base), (n_swa, blob.swa), (0, blob.idx))
    rows = [RowsPart(window, part.pos, part.rows) for window, part in saved if part is not None]
    return StoredContent((*rows, *compressed), blob.recr)


def named(core: Core, tokens: Sequence[int]) -> Sequence[int]:
    """Return tokens with the keys that they were computed under."""
    return identities(tokens) if core.adapters else tokens


class SlotPoints(ConversationSource):
    """Inputs that decide the restore points of slots, checkpoints and prompt-cache entries."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def of_slot(self, slot: Slot) -> Conversation:
        """Return the inputs that decide the restore points of a slot."""
        memory, n = self.core.memory, len(slot.tokens)
        base, swa = memory.parts.get("base"), memory.parts.get("swa")
        window = None if swa is None else (swa.pos_min(slot.id), swa.pos_max(slot.id))
        state = None if memory.recr is None else memory.recr.pos_max(slot.id)
        lo, hi = _usable_lengths(n, window, state, self.core.kind.n_swa)
        rows = n if base is None else contiguous_rows(base, slot.id)
        return Conversation(named(self.core, slot.tokens), rows, lo, hi, slot.checkpoints)

    def of_entry(self, entry: Entry) -> Conversation:
        """Return the inputs that decide the restore points of a prompt-cache entry."""
        n, blob = len(entry.tokens), entry.blob
        rows = 0 if blob is LOST else n if blob.base is None else contiguous_length(blob.base.pos)
        lo, hi = _saved_lengths(blob, n, self.core.kind.n_swa)
        return Conversation(named(self.core, entry.tokens), rows, lo, hi, entry.checkpoints)

    def of_checkpoint(self, checkpoint: Checkpoint) -> CheckpointRange:
        """Return the inputs that decide the restore points of a checkpoint."""
        n = checkpoint.facts.n_tokens
        return CheckpointRange(n, *_saved_lengths(checkpoint.blob, n, self.core.kind.n_swa))


class Inspection(CheckpointInspection):
    """Contents of slots, checkpoints and prompt-cache entries."""

    core: Core

    def tokens_of(self, slot: int) -> Tokens:
        """Return the tokens recorded for a slot, with their keys."""
        return tuple(named(self.core, self.core.slots[slot].tokens))

    def slot_with_id(self, id_slot: int) -> int:
        """Return the slot of a save, restore or erase with this id; 0 for another id than a slot's."""
        found: int | None = self.core.rules.slot_id(id_slot, len(self.core.slots)).value if id_slot > 0 else None
        return found or 0

    def live(self, slot: int) -> StoredObject:
        """Return a copy of the slot: its tokens and everything that the memory holds for it."""
        tokens, memory = self.tokens_of(slot), self.core.memory
        parts = {name: cache.state_write(slot, keep_all) for name, cache in memory.parts.items()}
        recr = memory.recr.state_write(slot) if memory.recr is not None else None
        copy = Blob(
            0,
            parts.get("base"),
            swa=parts.get("swa"),
            recr=recr,
            idx=parts.get("idx"),
            compressed=self._numbered(slot, len(tokens)),
        )
        rows, state = _blob(copy, memory.kind)
        return StoredObject("slot", slot, tokens=tokens, resume=len(tokens), rows=rows, state=state)

    def _numbered(self, slot: int, n: int) -> Mapping[int, KVRows] | None:
        """Return the compressed rows of a slot's first n tokens by layer, None if the memory has none."""
        memory = self.core.memory
        if not isinstance(memory, KVCacheDSV4):
            return None
        return {layer: rows for _, _, table in memory.saved_rows(slot, n) for layer, rows in table.items()}

    def memory_matches(self, slot: int) -> bool:
        """True if the memory ends at the last token of the slot."""
        return self.core.memory.pos_max(slot) == len(self.core.slots[slot].tokens) - 1

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the contents of a restore point."""
        kind, owner, _ = key
        if kind == RUNNING:
            return StoredObject(kind, owner, (), len(self.core.slots[owner].tokens), *self.content(key, start), start)
        if kind == CONVERSATION:
            entry: Entry = self.core.points.conversation(key)
            rows, state = _blob(entry.blob, self.core.kind)
            return StoredObject(
                kind,
                owner,
                tokens=tuple(named(self.core, entry.tokens)),
                resume=len(entry.tokens),
                rows=rows,
                state=state,
            )
        ckpt: Checkpoint = self.core.points.checkpoint(key)
        held, owner = text_of(self.core, key)
        facts = ckpt.facts
        n = ckpt.facts.n_tokens
        settings = self.core.settings
        request = PromptInputs(
            n, n, held=n, n_tokens=n + 1, pos_min=facts.pos_min, n_swa=settings.n_swa, exact=settings.exact
        )
        resume: ResumePlace = self.core.rules.ckpt_restore(facts, request).value  # for a longer prompt with this prefix
        if settings.projector:
            resume = self.core.rules.media.resume(held, facts, resume, self.core.kind.mrope).value
        rows, state = _blob(ckpt.blob, self.core.kind)
        return StoredObject(
            kind, owner, tokens=tuple(named(self.core, held[:n])), resume=min(resume.n_past, n), rows=rows, state=state
        )

    def content(self, key: Key, start: int = 0) -> StoredContent:
        """Return the rows and states of a restore point: of a slot, full-attention rows from position ``start`` on."""
        if key[0] == RUNNING:
            return self._live(key[1], start)
        points = self.core.points
        holder: Entry | Checkpoint = points.conversation(key) if key[0] == CONVERSATION else points.checkpoint(key)
        return _blob(holder.blob, self.core.kind)

    def _live(self, slot: int, start: int) -> StoredContent:
        """Return a slot's full-attention rows from position ``start`` on, its windows and its states."""
        memory, n_swa = self.core.memory, self.core.kind.n_swa
        rows = tuple(
            RowsPart(n_swa if name == "swa" else 0, *_rows_from(cache, slot, 0 if name == "swa" else start))
            for name, cache in memory.parts.items()
        )
        n = len(self.core.slots[slot].tokens)
        rows = (*rows, *_compressed(memory.kind.spec, self._numbered(slot, n) or {}))
        state = None if memory.recr is None else StatePart(memory.recr.pos_max(slot), memory.recr.row(slot))
        return StoredContent(rows, state)


class Sizes(CheckpointSizes):
    """Sizes of checkpoints and of the prompt cache."""

    core: Core

    def stored_sizes(self) -> list[StoredSize]:
        """Return the size of every checkpoint and every entry of the prompt cache."""
        found = [StoredSize(
            "checkpoint",
            slot.id,
            tokens=c.facts.n_tokens,
            bytes=c.facts.size,
            draft_bytes=c.draft.size if c.draft else 0,
        )
                 for slot in self.core.slots for c in slot.checkpoints]  # fmt: skip
        return found + [
            StoredSize(
                "entry",
                -1,
                tokens=len(entry.tokens),
                bytes=entry.size,
                draft_bytes=entry.draft.size if entry.draft else 0,
                checkpoint_bytes=sum(c.facts.size for c in entry.checkpoints),
            )
            for entry in (self.core.cache.entries if self.core.cache else ())
        ]  # fmt: skip


class Sequences(CheckpointSequences):
    """Sequences of the target memory, and the memory of the drafter."""

    core: Core

    def held(self, seq: int) -> np.ndarray:
        """Return the (n,) positions of a sequence's rows in every attention cache, ascending within each."""
        found = [cache.cells(seq).held(seq) for cache in self.core.memory.parts.values()]
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)

    def draft_memory(self, slot: int) -> DraftMemory | None:
        """Return the memory of the draft model or MTP head for a slot."""
        if self.core.dft is None:
            return None
        memory = self.core.dft.memory
        rows = sum(len(cache.cells(slot).held(slot)) for cache in memory.parts.values())
        state = memory.recr.pos_max(slot) if memory.recr is not None else -1
        return DraftMemory(
            rows,
            memory.pos_min(slot),
            pos_max=memory.pos_max(slot),
            state_pos=state,
            bytes=memory.state_size(slot, False),
        )

    def reevaluates_draft(self, wrong: int) -> bool:
        """True if a rejection of ``wrong`` tokens is replayed from the checkpoint before the draft."""
        return self.core.settings.exact and wrong > self.core.settings.sizes.n_rs_seq
