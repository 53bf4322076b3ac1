"""What does the server hold right now? Copies for the judge; looking changes nothing."""

from __future__ import annotations

import numpy as np

from cachesim.engines.base import Answer
from cachesim.engines.llama_cpp.memory.memory import Memory
from cachesim.engines.llama_cpp.memory.state import AttentionState, Blob, RecurrentState
from cachesim.engines.llama_cpp.rules.facts import Ask, Resume
from cachesim.engines.llama_cpp.server import Server
from cachesim.engines.llama_cpp.slot import Checkpoint
from cachesim.engines.shared.stored import over_limits
from cachesim.engines.view import RowsPart, StatePart, Stored


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


def _blob(blob: Blob, n_swa: int) -> tuple[tuple[RowsPart, ...], StatePart | None]:
    return parts_of(blob.base, blob.swa, n_swa), state_part(blob.recr)


def _live(memory: Memory, seq: int) -> tuple[tuple[RowsPart, ...], StatePart | None]:
    """Everything that the memory holds of a sequence."""
    parts = {name: cache.state_write(seq, keep_all) for name, cache in memory.parts.items()}
    state = memory.recr.state_write(seq) if memory.recr is not None else None
    return parts_of(parts.get("base"), parts.get("swa"), memory.kind.n_swa), state_part(state)


def live(server: Server, id_slot: int) -> Stored:
    """The slot as it stands: its tokens, and what the memory holds for it."""
    tokens = tuple(server.slots[id_slot].tokens)
    rows, state = _live(server.memory, id_slot)
    return Stored("slot", id_slot, tokens, len(tokens), rows, state)


def agrees(server: Server, answer: Answer) -> bool:
    """Does the memory end where the tokens of the answer's slot end?"""
    if answer.id_slot < 0:
        return True
    return server.memory.pos_max(answer.id_slot) == len(server.slots[answer.id_slot].tokens) - 1


def _checkpoint(server: Server, ckpt: Checkpoint, owner: int, tokens: tuple[int, ...], kind: str) -> Stored:
    """``resume``: where a longer prompt that begins with all of its tokens would go on."""
    facts, n_swa = ckpt.facts, server.kind.n_swa
    n = facts.n_tokens
    ask = Ask(n, n, n, n + 1, facts.pos_min, server.settings.n_swa, server.settings.exact)
    again: Resume = server.rules.ckpt_restore(facts, ask).value
    rows, state = _blob(ckpt.blob, n_swa)
    return Stored(kind, owner, tokens[:n], min(again.n_past, n), rows, state)


def kept(server: Server) -> list[Stored]:
    """Every checkpoint and every stored conversation, with the tokens that the server believes them to hold."""
    n_swa = server.kind.n_swa
    out = []
    for slot in server.slots:
        out += [_checkpoint(server, c, slot.id, tuple(slot.tokens), "checkpoint") for c in slot.checkpoints]
    for number, entry in enumerate(server.cache.entries if server.cache else ()):
        tokens = tuple(entry.tokens)
        rows, state = _blob(entry.blob, n_swa)
        out.append(Stored("entry", number, tokens, len(tokens), rows, state))
        out += [_checkpoint(server, c, number, tokens, "entry checkpoint") for c in entry.checkpoints]
    return out


def checkpoints(server: Server, id_slot: int) -> list[int]:
    """Lengths in tokens of the slot's checkpoints, oldest first."""
    return [c.facts.n_tokens for c in server.slots[id_slot].checkpoints]


def held(server: Server, seq: int) -> np.ndarray:
    """(n,) positions of a sequence's rows in every attention cache, ascending in each."""
    found = [np.zeros(0, np.int64)]
    for cache in server.memory.parts.values():
        table = cache.cells(seq)
        pos = table.pos[table.seqs[seq]]
        pos.sort()
        found.append(pos)
    return found[-1] if len(found) < 3 else np.concatenate(found)


def over(server: Server) -> list[str]:
    """Limits that are exceeded: checkpoints of a slot, bytes of the prompt cache."""
    sizes = [entry.size for entry in server.cache.entries] if server.cache else []
    counts = [len(slot.checkpoints) for slot in server.slots]
    return over_limits(counts, server.settings.max_checkpoints, sizes, server.settings.limit_size)
