"""What did a rule of mlx-lm's server say, in words? Lengths instead of tokens.

Rules of its inner tables are asked deep inside, many for every request; those that changed nothing say "".
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.engines.shared.sentences import Because, Sentences


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _key(key: Any, because: Because) -> str:
    if "suffix" not in because:
        return f"asked for as a whole, {because['n_tokens']} tokens, and stored with the answer"
    ends = f"; messages end at {_list(because['boundaries'])}" if because["boundaries"] else ""
    return f"asked for and stored without the suffix, {len(key.asked)} of {because['n_tokens']} tokens{ends}"


def _fetched(value: int, because: Because) -> str:
    none = because["longer"] in (None, because["shorter"])
    longer = "no longer key" if none else f"a longer key of {because['longer']}"
    prefix = f"a key of {because['shorter']} is a prefix" if because["shorter"] else "no key is a prefix"
    return f"{value} of {because['query']} served: {because['common']} shared, {prefix}, {longer}"


def _hand(hand: Any, because: Because) -> str:
    return {"copy": "", "give": "the entry itself is handed out, and gone",
            "lend": "the entry itself is handed out, to be moved later"}[hand.how]


def _segments(value: Any, because: Because) -> str:
    return "segments of " + ", ".join(f"{len(one.tokens)} ({one.cache_type})" for one in value) + " tokens"


def _rest(rest: Any, because: Because) -> str:
    return f"left to feed: {_list(because['left'])}" + (f", the thread ends: {rest.error}" if rest.error else "")


def _tails(value: Any, because: Because) -> str:
    if value is None:
        return f"tails of {_list(because['lengths'])} tokens make no array"
    zeros = sum(len(tail) - n for tail, n in zip(value, because["lengths"], strict=True))
    return f"tails of {_list(because['lengths'])} tokens" + (f", and {zeros} zeros before them" if zeros else "")


def _pc(value: int, because: Because) -> str:
    own = f"; the rows want {_list(because['own'])}" if "own" in because else ""
    return f"the batch halts {value} before the end of rows of {_list(because['lengths'])}{own}"


def _create(value: Any, because: Because) -> str:
    return f"{'an' if value else 'no'} entry of {because['start']} tokens"


def _position(value: int | None, because: Because) -> str:
    return "no checkpoint is asked for" if value is None else f"a checkpoint {-value} before the prompt's end"


def _alone(batchable: bool, because: Because) -> str:
    return "" if batchable else "served alone, " + ("with a seed" if because["seed"] else "beside a draft model")


def _drafting(value: int, because: Because) -> str:
    return f"{value} tokens are left for the first round" if value else "refused: the caches cannot be trimmed"


FAMILIES: dict[str, Callable[[Any, Because], str]] = {
    "ML-KEY": _key,
    "ML-BATCHABLE": _alone,
    "ML-BATCH": lambda v, b: "prompts are fed " + ("as a whole" if v == "whole" else "segment by segment"),
    "ML-SEG-SYSTEM": lambda v, b: f"the system segment ends at {v}" if v else "there is no system segment",
    "ML-SEG-TAIL": lambda v, b: f"a thought begins at {v}" if v < b["n_tokens"] else "no thought begins at the end",
    "ML-SEG-CUT": _segments,
    "ML-SEG-REST": _rest,
    "ML-PC-POSITION": _position,
    "ML-PC-BATCH": _pc,
    "ML-PC-TAILS": _tails,
    "ML-PC-ROW": lambda v, b: f"row {b['row']} of {b['rows']} stores the state of row {v}",
    "ML-CKPT-CREATE": _create,
    "ML-CANCEL": lambda v, b: "what was answered is " + ("stored" if v else "not stored"),
    "ML-SPEC-START": _drafting,
    "ML-LRU-HAND": _hand,
    "ML-LRU-USABLE": lambda v, b: "" if v else "the longer entry cannot be cut back",
    "ML-LRU-MOVE": lambda v, b: "the entry that it came from is deleted" if v else "",
    "ML-LRU-PREFIX": lambda v, b: f"entries of {_list(v)} go: the new one can be cut back to them" if v else "",
    "ML-LRU-SNAP": lambda v, b: f"snapshots of {_list(v)} tokens" if v else "",
    "ML-LRU-SNAPTRIM": lambda v, b: f"{sum(v)} of {len(v)} layers of the copy are cut",
    "ML-LRU-COUNT": lambda v, b: "too many entries" if v else "",
    "ML-LRU-BYTES": lambda v, b: "too many bytes" if v else "",
    "ML-LRU-VICTIM": lambda v, b: f"the oldest of queue {v} goes",
    "ML-RING-TRIMMABLE": lambda v, b: "" if v else "the ring has wrapped and cannot be trimmed",
    "ML-RING-TRIM": lambda v, b: f"{v.n} trimmed from a ring, {v.keep} stay" if hasattr(v, "keep") else "",
    "ML-RING-EXTRACT-START": lambda v, b: f"a row of a ring is taken from column {v} on" if v < 0 else "",
    "ML-ARRAYS-MASK": lambda v, b: "padding is kept from the states by a mask" if v else "",
    **dict.fromkeys((
        "ML-LRU-EXACT", "ML-LRU-SHORTER", "ML-LRU-LONGER", "ML-LRU-KEEP", "ML-LRU-TRIMMED", "ML-LRU-PRESENT",
        "ML-RING-MERGE", "ML-RING-EXTRACT-OFFSET", "ML-RING-EXTRACT-EMPTY", "ML-ARRAYS-MERGE", "ML-ARRAYS-EXTEND",
        "ML-ARRAYS-PAD", "ML-KV-EXTEND",
    ), lambda v, b: ""),
}
"""Sentences by family. Rules of the prompt cache that were asked for a whole request say so as one."""


def _of(say: Callable[[Any, Because], str]) -> Callable[[Any, Because], str]:
    return lambda value, because: _fetched(value, because) if "query" in because else say(value, because)


SENTENCES = Sentences({name: _of(say) if name.startswith("ML-LRU-") else say for name, say in FAMILIES.items()})
