"""Sentences for the decisions of mlx-lm's LRUPromptCache. The rule that decided a whole fetch gets a single sentence
for all of it."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import Because, NoEffect, Say, numbers


def _fetched(value: int, because: Because) -> str:
    """Return a sentence for fetch_nearest_cache as a whole."""
    shorter, longer = because["shorter"], because["longer"]
    found = [f"shorter key of {shorter}"] if shorter else []
    found += [f"longer key of {longer}"] if longer not in (None, shorter) else []
    keys = ", ".join(found) or "no key shares a prefix with it"
    reused = f"{value} of {because['query']} tokens reused"
    return f"fetch_nearest_cache: {reused} (common prefix {because['common']}; {keys})"


def _hand(hand: Any, because: Because) -> str:
    return {
        "copy": NoEffect("the entry is copied (deepcopy) and stays in the prompt cache"),
        "give": "the entry is removed from the prompt cache on fetch",
        "lend": "the entry is handed out itself and stays in the prompt cache",
    }[hand.how]


def _keep(value: int, because: Because) -> str:
    back = ": one token must stay unevaluated" if value < because["common"] else ""
    return NoEffect(f"longer entry trimmed to {counted(value, 'token')}{back}")


def _trimmed(value: bool, because: Because) -> str:
    text = f"trimmed {because['trimmed']} of {because['wanted']} tokens"
    return NoEffect(text) if value else f"{text}: the longer entry is not used"


def _prefixes(value: Any, because: Because) -> str:
    if not value:
        return NoEffect(f"no prefix entry removed (keys that are prefixes: {numbers(because['prefixes'])})")
    return f"removes the prefix entries of {numbers(value)} tokens: the new entry is trimmable"


def _count(value: int, because: Because) -> str:
    text = f"{counted(because['entries'], 'entry', 'entries')}, limit {because['max_size']}"
    return f"evicts {counted(value, 'entry', 'entries')} ({text})" if value else NoEffect(f"nothing evicted ({text})")


def _bytes(value: bool, because: Because) -> str:
    text = f"{because['size']:,} bytes, limit {because['max_bytes']:,}"
    return f"evicts an entry ({text})" if value else NoEffect(f"nothing evicted ({text})")


def _present(value: Any, because: Because) -> str:
    owners = f", {counted(value.owners, 'more owner')}" if value.owners else ""
    kept = "new cache replaces the stored one" if value.take_new else "stored cache stays"
    return NoEffect(f"the key is present: the {kept}{owners}")


PLAIN: dict[str, Say] = {
    "ML-LRU-QUERY": lambda v, b: NoEffect(f"{v} of {b['query']} prompt tokens are looked up"),
    "ML-LRU-UNTRIMMABLE": lambda v, b: (
        f"the longer entry counts for {v} tokens, untrimmed" if v else NoEffect("the longer entry is not used")),
    "ML-LRU-TRIM-IN": lambda v, b: "the entry itself is trimmed" if v else NoEffect("a copy of the entry is trimmed"),
    "ML-LRU-SNAPCOPY": lambda v, b: (
        f"entry of the first {b['length']} tokens: {'the same object' if v is None else f'a copy trimmed by {v}'}"),
    "ML-LRU-EXACT": lambda v, b: NoEffect(f"the query of {b['query']} tokens is {'' if v else 'not '}a key"),
    "ML-LRU-SHORTER": lambda v, b: NoEffect(f"longest key that is a prefix: {v} tokens" if v else "no key is a prefix"),
    "ML-LRU-LONGER": lambda v, b: NoEffect(
        f"a longer key is {'' if v else 'not '}tried (shorter key: {b['shorter']} tokens)"),
    "ML-LRU-KEEP": _keep,
    "ML-LRU-USABLE": lambda v, b: NoEffect("every layer is trimmable") if v else "the longer entry is not trimmable",
    "ML-LRU-TRIMMED": _trimmed,
    "ML-LRU-HAND": _hand,
    "ML-LRU-PRESENT": _present,
    "ML-LRU-MOVE": lambda v, b: (
        "the entry that the request was fetched from is deleted" if v else NoEffect("no entry is moved")),
    "ML-LRU-PREFIX": _prefixes,
    "ML-LRU-SNAP": lambda v, b: (
        f"stores copies for prefixes of {numbers(v)} tokens" if v else NoEffect("no copies for prefixes stored")),
    "ML-LRU-SNAPTRIM": lambda v, b: f"the copy is trimmed in {sum(v)} of {counted(len(v), 'layer')}",
    "ML-LRU-COUNT": _count,
    "ML-LRU-BYTES": _bytes,
    "ML-LRU-VICTIM": lambda v, b: (
        f"evicts the oldest entry of queue {v} (queues: {numbers(b['queues'])} entries)"),
}

OWN: dict[str, Say] = {
    "ML-LRU-HAND.move": lambda v, b: "the entry is handed out itself and moved to its new key later" if (
        v.how == "lend" and v.old_key and not v.count_down) else _hand(v, b),
    "ML-LRU-TRIMMED.any": lambda v, b: NoEffect(f"trimmed {b['trimmed']} of {b['wanted']} tokens; not checked"),
    "ML-LRU-PREFIX.but_last": lambda v, b: (
        f"{_prefixes(v, b)} (a prefix one token shorter stays)" if v else _prefixes(v, b)),
    "ML-LRU-PREFIX.reach": lambda v, b: (
        f"removes the prefix entries of {numbers(v)} tokens: every layer of the new one can be trimmed so far" if v
        else _prefixes(v, b)),
    "ML-LRU-PREFIX.none": lambda v, b: NoEffect("prefix entries stay"),
    "ML-LRU-MOVE.never": lambda v, b: NoEffect("the entry that the request was fetched from stays"),
    "ML-LRU-SNAP.none": lambda v, b: NoEffect("this version stores no copies for prefixes"),
    "ML-LRU-SNAP.evaluated": lambda v, b: (
        f"evaluates a prefix of {numbers(v)} tokens again and stores it" if v else NoEffect("no prefix is evaluated")),
    "ML-LRU-VICTIM.single": lambda v, b: f"evicts the oldest of {counted(b['queues'][0], 'entry', 'entries')}",
    "ML-LRU-VICTIM.two": lambda v, b: (
        f"evicts the oldest {'checkpoint' if v else 'normal'} entry (queues: {numbers(b['queues'])})"),
}


def _of(say: Say) -> Say:
    return lambda value, because: _fetched(value, because) if "query" in because and "longer" in because else (
        say(value, because))


FAMILIES: dict[str, Say] = {name: _of(say) for name, say in PLAIN.items()}
VARIANTS: dict[str, Say] = {name: _of(say) for name, say in OWN.items()}
