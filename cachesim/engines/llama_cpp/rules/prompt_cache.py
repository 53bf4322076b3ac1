"""Prompt cache: saving of conversations, selection of an entry to load, eviction.

Entry: a saved conversation with its tokens, state and checkpoints; all bytes count.
f_keep = common prefix / entry, f_sim = common prefix / new prompt, in single precision.
Source: llama.cpp tools/server/server-task.cpp, server_prompt_cache (3f545be).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, TASK, llama_cpp
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.prompt_cache_limits import F32, Eviction, Limits, evict_oldest, part

MIN_KEEP = 0.25          # an entry with a smaller f_keep is not loaded


class EntryFacts(NamedTuple):
    """Facts of an entry: number of tokens, common prefix with the prompt (or saved conversation), bytes."""

    n_tokens: int
    lcp: int
    size: int


class Admission(NamedTuple):
    """Decision about saving a conversation. ``verdict``: "store", "already" or "too_big". ``obsolete``: entries that
    are prefixes of the new entry. ``evict``: number of oldest remaining entries to evict."""

    verdict: str
    obsolete: tuple[int, ...] = ()
    evict: int = 0

    def __bool__(self) -> bool:
        return self.verdict == "store"


def _held_already(entries: Sequence[EntryFacts], n_tokens: int) -> bool:
    return any(entry.lcp == n_tokens for entry in entries)


def _obsolete(entries: Sequence[EntryFacts]) -> tuple[int, ...]:
    return tuple(i for i, entry in enumerate(entries) if entry.lcp == entry.n_tokens)


@rule("LC-PC-ALLOC.PC6", Role.STORE, llama_cpp(TASK, "server_prompt_cache::alloc", "3f545be"), since="#25070 (b9908)")
def admit_strict(entries: Sequence[EntryFacts], n_tokens: int, size: int, limits: Limits) -> Decision:
    """Save a conversation to the prompt cache unless an entry starts with it or it is larger than the limit. Removes
    entries that are prefixes of it, then evicts the oldest until it fits."""
    because = {"n_tokens": n_tokens, "size": size, "limit_size": limits.size, "entries": len(entries)}
    if _held_already(entries, n_tokens):
        return Decision(Admission("already"), because)
    if limits.size and size > limits.size:
        return Decision(Admission("too_big"), because)
    obsolete = _obsolete(entries)
    rest = [entry.size for i, entry in enumerate(entries) if i not in obsolete]
    evict = 0
    while limits.size and evict < len(rest) and sum(rest[evict:]) + size > limits.size:
        evict += 1
    return Decision(Admission("store", obsolete, evict), because)


# [Gone in llama_cpp@b10587]
@rule("LC-PC-ALLOC.PC5", Role.STORE, llama_cpp(TASK, "", "7c158fbb4"), until="#25070")
def admit_any(entries: Sequence[EntryFacts], n_tokens: int, size: int, limits: Limits) -> Decision:
    """Save a conversation to the prompt cache unless an entry starts with it. Removes entries that are prefixes of it;
    the size is checked later."""
    because = {"n_tokens": n_tokens, "size": size, "entries": len(entries)}
    if _held_already(entries, n_tokens):
        return Decision(Admission("already"), because)
    return Decision(Admission("store", _obsolete(entries)), because)


@rule("LC-PC-ASK.PC4", Role.CONSULT, llama_cpp(CONTEXT, "get_available_slot", "3f545be"), since="#20993 (b8658)")
def ask_always(held: int) -> Decision:
    """Return True: the prompt cache is used for an empty slot too."""
    return Decision(True, {"held": held})


# [Gone in llama_cpp@b8916]
@rule("LC-PC-ASK.PC0", Role.CONSULT,
      llama_cpp(CONTEXT, "get_available_slot", "ab9d4c367"), since="#16391", until="#20993")
def ask_if_held(held: int) -> Decision:
    """Return False for an empty slot, which neither saves to the prompt cache nor loads from it."""
    return Decision(held > 0, {"held": held})


@rule("LC-PC-LOAD.BOTH", Role.LOAD, llama_cpp(TASK, "server_prompt_cache::load", "3f545be"))
def pick_entry(entries: Sequence[EntryFacts], held: int, lcp: int, asked: int) -> Decision:
    """Pick the entry that is better than the slot in both f_keep and f_sim, with f_keep of at least 0.25; return its
    index. Each entry found raises both bounds, so a later entry with a longer prefix but a smaller f_keep is not
    picked."""
    keep = part(lcp, held) if held else F32(-1)
    sim = part(lcp, asked)
    found = None
    for i, entry in enumerate(entries):
        k, s = part(entry.lcp, entry.n_tokens), part(entry.lcp, asked)
        if not k < F32(MIN_KEEP) and k > keep and s > sim:
            keep = k
            sim = s
            found = i
    return Decision(found, {"f_keep": float(keep), "f_sim": float(sim), "entries": len(entries)})


@rule("LC-PC-LOAD.TAKE", Role.LOAD,
      llama_cpp(TASK, "server_prompt_cache::load", "3f545be", note="#24143 is about this"))
def take_entry(entry: int) -> Decision:
    """Return True: an entry is removed from the prompt cache on load."""
    return Decision(True, {"entry": entry})


# [New in llama_cpp@pr24143-on-b9518]
@rule("LC-PC-LOAD.CLONE", Role.LOAD, llama_cpp(pull=24143, note="open"))
def clone_entry(entry: int) -> Decision:
    """Return False: the slot gets a copy, and the entry keeps its place in the list."""
    return Decision(False, {"entry": entry})


@rule("LC-PC-FAILED.CLEAR", Role.FAIL, llama_cpp(CONTEXT, 'get_available_slot "prompt_load"', "3f545be"),
      since="#17078 (b6999)")
def clear_after_failed_load(held: int) -> Decision:
    """Return True: if an entry cannot be read, the slot is cleared."""
    return Decision(True, {"held": held})


# [New in llama_cpp@b6998]
# [Gone in llama_cpp@b7400]
@rule("LC-PC-FAILED.KEEP", Role.FAIL,
      llama_cpp(SERVER, "server_slot::prompt_load", "17304cbcc", note="read, not run"),
      since="#16391 (b6723)", until="#17078 (b6999)")
def keep_after_failed_load(held: int) -> Decision:
    """Return False: if an entry cannot be read, the slot keeps its token list, although its cells are gone."""
    return Decision(False, {"held": held})


@rule("LC-PC-UPDATE.PC6", Role.DROP, llama_cpp(TASK, "server_prompt_cache::update", "3f545be"), since="#25070 (b9908)")
def evict_strict(sizes: Sequence[int], lengths: Sequence[int], limits: Limits) -> Decision:
    """Evict the oldest entries while the bytes, then the tokens, exceed the limit; even the last may be evicted."""
    because = {"size": sum(sizes), "tokens": sum(lengths), "limit_size": limits.size, "limit_tokens": limits.tokens}
    return Decision(evict_oldest(sizes, lengths, limits, spare=0), because)


# [Gone in llama_cpp@b10587]
@rule("LC-PC-UPDATE.PC5", Role.DROP, llama_cpp(TASK, "", "7c158fbb4"), until="#25070")
def evict_spare_one(sizes: Sequence[int], lengths: Sequence[int], limits: Limits) -> Decision:
    """Evict the oldest entries while the bytes, then the tokens, exceed the limit; the last entry always stays."""
    because = {"size": sum(sizes), "tokens": sum(lengths), "limit_size": limits.size, "limit_tokens": limits.tokens}
    return Decision(evict_oldest(sizes, lengths, limits, spare=1), because)


# [Gone in llama_cpp@b6914]
@rule("LC-PC-UPDATE.PC0", Role.DROP,
      llama_cpp(SERVER, "server_prompt_cache::update"), since="#16391 (b6723)", until="#16560 (b6756)")
def evict_fixed_tokens(sizes: Sequence[int], lengths: Sequence[int], limits: Limits) -> Decision:
    """Evict the oldest entries while the bytes, then the tokens, exceed the limit. The limit in tokens does not depend
    on the bytes; the last entry always stays."""
    because = {"size": sum(sizes), "tokens": sum(lengths), "limit_size": limits.size, "limit_tokens": limits.tokens}
    by_size = evict_oldest(sizes, lengths, Limits(limits.size, 0), spare=1).for_size
    by_tokens = evict_oldest(sizes[by_size:], lengths[by_size:], Limits(0, limits.tokens), spare=1).for_tokens
    return Decision(Eviction(by_size, by_tokens, limits.tokens), because)
