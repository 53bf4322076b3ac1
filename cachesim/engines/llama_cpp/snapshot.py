"""What does the server hold right now? Copies for the judge; looking changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Callable, Iterator, Mapping, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.contract import Removal, StoredBytes
from cachesim.engines.judge_view import Excess, Point, RowsPart, Shelf, StatePart, Stored
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.cell_ranges import index
from cachesim.engines.llama_cpp.memory.saved_state import AttentionState, Blob
from cachesim.engines.llama_cpp.prompt_cache import LOST, Entry
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ask, Resume
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot
from cachesim.engines.shared.held_tokens import Moment
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.rows import take
from cachesim.engines.shared.seen_rows import in_line
from cachesim.engines.shared.server_loop import watched
from cachesim.engines.shared.shelves import Cut, Shelves, unbroken
from cachesim.engines.shared.writes import NONE, EntryRange, Writes
from cachesim.model import Rows

# From where could evaluation go on right now? The restore points of a server, whatever its rules think of them.
#
# A length is usable if every row and state that the next token would read is present: rows 0 .. L-1 of full attention,
# the last window - 1 rows of a window, the one state of a recurrent layer.

def keep_all(pos: np.ndarray, pos_max: int, n_swa: int) -> np.ndarray:
    """The rule of a copy that leaves nothing out."""
    return np.ones(len(pos), dtype=bool)


def parts_of(base: AttentionState | None, swa: AttentionState | None, n_swa: int) -> tuple[RowsPart, ...]:
    """Saved attention caches as the judge sees them."""
    found = [RowsPart(0, base.pos, base.rows)] if base is not None else []
    return (*found, *([RowsPart(n_swa, swa.pos, swa.rows)] if swa is not None else []))


def shelves(server: Core, looked: Shelves) -> list[Shelf]:
    """Every restore point by conversation: live slots with their checkpoints, stored conversations with theirs.
    ``looked``: what was seen at the last look."""
    told: dict[Writes, EntryRange] = {}
    out, numbers = [], []
    for slot in server.slots:
        if slot.tokens:
            numbers.append(slot.id)
            out.append(_of_slot(server, slot, looked, told))
    looked.only(numbers)
    if server.cache is None or not server.cache.entries:
        return out
    entries = [entry for entry in server.cache.entries if entry.blob is not LOST]
    return out + looked.entries.each(entries, partial(_of_entry, server))


def _written(cache: AttentionCache, seq: int, looked: Shelves, told: dict[Writes, EntryRange]) -> EntryRange:
    """What may have been written since the last look in the cells of a sequence's stream, and in their rows. ``told``:
    what each stream has told already of this look."""
    writes = cache.cells(seq).writes
    found = told.get(writes)
    if found is None:
        found = told[writes] = writes.look(looked.reader)
    return found


def _of_slot(server: Core, slot: Slot, looked: Shelves, told: dict[Writes, EntryRange]) -> Shelf:
    parts, memory, number = server.memory.parts, server.memory.recr, slot.id
    quiet, written = True, NONE
    for name, cache in parts.items():
        found = _written(cache, number, looked, told)
        quiet = quiet and found.first >= found.stop
        written = found if name == "base" else written
    state = None if memory is None else StatePart(memory.pos_max(number), memory.row(number))
    if quiet:
        known = looked.unchanged(number, slot.tokens, state, slot.checkpoints)
        if known is not None:
            return known
    if state is not None:
        state = StatePart(state.pos, dict(state.rows))
    n, n_swa = len(slot.tokens), server.kind.n_swa
    if "swa" not in parts:
        base, first, kept = parts.get("base"), 0, n
        if base is not None:
            table = base.cells(number)
            cells = table.of(number)
            n, first = len(cells), int(cells[0]) if len(cells) else 0
            kept = looked.rows_kept(number, written, first)
        rows = None if base is None else in_line(table.pos, cells, base.rows[base.stream(number)], kept)
        if base is None or rows is not None:
            return looked.of_slot_in_line(
                number, slot.tokens, n, rows, state, slot.checkpoints, partial(_cut, n_swa),
                _bounds(len(slot.tokens), None, state, n_swa), kept, first,
            )
    return _copied(slot, {name: _digests(cache, number) for name, cache in parts.items()}, state, n_swa, looked)


def _copied(
    slot: Slot, parts: Mapping[str, AttentionState], state: StatePart | None, n_swa: int, looked: Shelves
) -> Shelf:
    base, swa = parts.get("base"), parts.get("swa")
    rows = parts_of(base, swa, n_swa)

    def points(tokens: Tokens, cuts: Sequence[Cut]) -> Iterator[Point]:
        live = Cut(None, tokens, *_bounds(len(tokens), swa, state, n_swa), rows[-1:] if swa else (), state)
        yield from _points("slot", "checkpoint", slot.id, live, cuts, base)

    return looked.of_slot(slot.id, slot.tokens, rows, state, slot.checkpoints, partial(_cut, n_swa), points)


def _digests(cache: AttentionCache, seq: int) -> AttentionState:
    """A copy of a sequence's cells, without numbers."""
    at = index(cache.cells(seq).of(seq))
    rows = {layer: Rows(take(Rows(one.digest, None, None), at).digest.copy(), None, None)
            for layer, one in cache.rows[cache.stream(seq)].items()}  # fmt: skip
    return AttentionState(cache.cells(seq).pos[at].copy(), rows)


def _of_entry(server: Core, entry: Entry) -> Shelf:
    tokens, blob, n_swa = tuple(entry.tokens), entry.blob, server.kind.n_swa
    live = Cut(None, tokens, *_bounds(len(tokens), blob.swa, blob.recr, n_swa), parts_of(None, blob.swa, n_swa),
               blob.recr)  # fmt: skip
    cuts = [_cut(n_swa, ckpt, tokens) for ckpt in entry.checkpoints]
    return Shelf(tokens, tuple(_points("entry", "entry checkpoint", -1, live, cuts, blob.base)))


def _cut(n_swa: int, ckpt: Checkpoint, held: Tokens | Moment) -> Cut:
    """A checkpoint of the conversation that holds these tokens."""
    tokens, blob = held[: ckpt.facts.n_tokens], ckpt.blob
    bounds = _bounds(len(tokens), blob.swa, blob.recr, n_swa)
    return Cut(ckpt, tokens, *bounds, parts_of(None, blob.swa, n_swa), blob.recr)


def _bounds(
    n: int, swa: AttentionState | None, recr: StatePart | None, n_swa: int
) -> tuple[int, int]:
    """The lengths at which windows and states of n tokens could be used, whatever is there of full attention."""
    lo, hi = 1, n
    if swa is not None:
        first, last = (int(swa.pos.min()), int(swa.pos.max())) if len(swa.pos) else (0, -1)
        lo, hi = max(lo, first + n_swa - 1 if first else 1), min(hi, last + 1)
    if recr is not None:
        lo, hi = max(lo, recr.pos + 1), min(hi, recr.pos + 1)
    return lo, hi


def _points(
    kind: str, kind_of_checkpoint: str, owner: int, live: Cut, cuts: Sequence[Cut], base: AttentionState | None
) -> Iterator[Point]:
    """The points of one conversation: itself, and each checkpoint together with the conversation's full rows."""
    full = parts_of(base, None, 0)
    reach = len(live.tokens) if base is None else unbroken(base.pos)
    for one in (live, *cuts):
        lo, hi = one.lo, min(one.hi, reach)
        if lo <= hi:
            name = kind if one is live else kind_of_checkpoint
            yield Point(Stored(name, owner, one.tokens, hi, (*full, *one.rows), one.state), lo, hi)


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
