"""Prompt cache in host memory: admission, selection and eviction of conversations.

Entry: a conversation stored earlier: its tokens, the whole state of the target, a copy of the slot's checkpoints.
Source: ik_llama.cpp examples/server/server-task.cpp server_prompt_cache (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.ik_llama.rules.slot_selection import ShiftedPrefix, similarity
from cachesim.engines.ik_llama.source_files import TASK, ik_llama
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.prompt_cache_limits import F32, Limits, evict_oldest, part


class EntryFacts(NamedTuple):
    """An entry compared with a text: its length and the length of the text, both without reasoning, and how much of
    each the common prefix covers. ``reach``: the longest of its prefixes, within the common prefix, from which
    evaluation could resume. ``shifted``: comparison with the text without the part that was discarded from the entry,
    None = nothing was discarded."""

    n_tokens: int
    asked: int
    n_cache: int
    n_prompt: int
    reach: int = 0
    shifted: ShiftedPrefix | None = None


class Admission(NamedTuple):
    """True if a conversation may be stored: ``verdict`` "store" or "already"; ``obsolete``: entries that it makes
    superfluous."""

    verdict: str
    obsolete: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.verdict == "store"


@rule("IK-PC-ALLOC", Role.STORE, ik_llama(TASK, "server_prompt_cache::alloc", "8337e4cd3"))
def admit(entries: Sequence[EntryFacts]) -> Decision:
    """Save a conversation to the prompt cache unless an entry contains it; remove entries that are prefixes of it
    (what was removed before such an entry was found stays removed). An emptied entry is a prefix of everything."""
    obsolete: list[int] = []
    for i, entry in enumerate(entries):
        if entry.n_prompt == entry.asked:
            return Decision(Admission("already", tuple(obsolete)), {"entries": len(entries)})
        if entry.n_cache == entry.n_tokens:
            obsolete.append(i)
    return Decision(Admission("store", tuple(obsolete)), {"entries": len(entries)})


def _similar(one: EntryFacts) -> float:
    if one.shifted is None:
        return float(similarity(one.n_prompt, one.asked, one.n_tokens))
    return float(similarity(one.shifted.n_prompt, one.shifted.asked, one.n_tokens))


def _kept(entry: EntryFacts) -> float:
    return float(part(entry.n_cache, entry.n_tokens)) if entry.n_tokens else 0.0


def _base(slot: EntryFacts) -> tuple[float, float]:
    """Return f_keep and sim of the slot's content. The common prefix is counted in tokens of the prompt here."""
    return float(part(slot.n_prompt, slot.n_tokens)) if slot.n_tokens else 0.0, _similar(slot)


def _pick(entries: Sequence[EntryFacts], slot: EntryFacts, least_keep: float) -> Decision:
    keep, sim = _base(slot)
    found = None
    for i, entry in enumerate(entries):
        s = _similar(entry)
        if s <= sim:
            continue
        k = _kept(entry)
        if not F32(k) < F32(least_keep):
            keep = k
            sim = s
            found = i
    return Decision(found, {"f_keep": keep, "f_sim": sim, "entries": len(entries)})


@rule("IK-PC-LOAD.KEEP", Role.LOAD, ik_llama(TASK, "server_prompt_cache::load", "8337e4cd3"), since="#2105")
def pick_kept(entries: Sequence[EntryFacts], slot: EntryFacts, least_keep: float) -> Decision:
    """Pick the entry most similar to the prompt, if it is more similar than the slot and at least a share of it would
    be kept; return its index."""
    return _pick(entries, slot, least_keep)


# [Gone in ik_llama@2105]
@rule("IK-PC-LOAD.ANY", Role.LOAD, ik_llama(TASK, "server_prompt_cache::load", "d2da6da05"), until="#2105")
def pick_any(entries: Sequence[EntryFacts], slot: EntryFacts, least_keep: float) -> Decision:
    """Pick the entry most similar to the prompt, if it is more similar than the slot; return its index."""
    return _pick(entries, slot, 0.0)


# [New in ik_llama@pr1877]
@rule("IK-PC-LOAD.VIABLE", Role.LOAD, ik_llama(pull=1877, note="open; Derived from its text"))
def pick_viable(entries: Sequence[EntryFacts], slot: EntryFacts, least_keep: float) -> Decision:
    """Pick as its base does, but only entries that can go back to the common prefix and keep enough; of equally
    similar entries the entry with the longer prefix."""
    keep, sim = _base(slot)
    best = (sim, slot.n_cache)
    found = None
    for i, entry in enumerate(entries):
        k, s = _kept(entry), _similar(entry)
        if entry.reach > 0 and not F32(k) < F32(least_keep) and s > sim and (s, entry.n_cache) > best:
            keep = k
            best = (s, entry.n_cache)
            found = i
    return Decision(found, {"f_keep": keep, "f_sim": best[0], "entries": len(entries)})


@rule("IK-PC-PEEK.MOVE", Role.DROP, ik_llama(TASK, "server_prompt_cache::load", "8337e4cd3"))
def peek_moves(excluding: bool) -> Decision:
    """True if comparing empties the token lists of the slot and of every entry: unless reasoning is excluded,
    they are moved instead of copied."""
    return Decision(not excluding, {"excluding": excluding})


# [New in ik_llama@pr1877]
@rule("IK-PC-PEEK.COPY", Role.DROP, ik_llama(pull=1877, note="open"))
def peek_copies(excluding: bool) -> Decision:
    """Return False: comparing works on copies."""
    return Decision(False, {"excluding": excluding})


# [Gone in ik_llama@1079]
@rule("IK-PC-PEEK.DIRECT", Role.DROP, ik_llama(TASK, "server_prompt_cache::load", "2a633c435^"),
      until="#1079 (2a633c435)")
def peek_directly(excluding: bool) -> Decision:
    """Return False: token lists are compared where they are."""
    return Decision(False, {"excluding": excluding})


@rule("IK-PC-HIT.TAKE", Role.HAND, ik_llama(TASK, "server_prompt_cache::load", "8337e4cd3"))
def take_entry(entry: int) -> Decision:
    """Return True: an entry is removed from the prompt cache on load."""
    return Decision(True, {"entry": entry})


# [New in ik_llama@pr1877]
@rule("IK-PC-HIT.CLONE", Role.HAND, ik_llama(pull=1877, note="open"))
def clone_entry(entry: int) -> Decision:
    """Return False: the slot gets a copy, the entry stays in the prompt cache."""
    return Decision(False, {"entry": entry})


@rule("IK-PC-UPDATE", Role.DROP, ik_llama(TASK, "server_prompt_cache::update", "8337e4cd3"))
def evict(sizes: Sequence[int], lengths: Sequence[int], limits: Limits) -> Decision:
    """Evict the oldest entries while the bytes exceed the limit; the newest entry always stays."""
    because = {"size": sum(sizes), "tokens": sum(lengths), "limit_size": limits.size}
    return Decision(evict_oldest(sizes, lengths, limits, spare=1), because)


@rule("IK-PC-FAILED.KEEPS", Role.FAIL, ik_llama(TASK, "server_prompt_cache::load", "8337e4cd3"))
def failed_keeps(held: int) -> Decision:
    """Return False: if no contiguous free cells are found for an entry, the slot's memory is empty, but its tokens
    stay."""
    return Decision(False, {"held": held})
