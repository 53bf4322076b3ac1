"""What did a rule of mlx-lm's server say, in words? Lengths instead of tokens.

Rules of its inner tables are asked deep inside, many for every request; those that changed nothing say "".
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

Because = Mapping[str, Any]


def sentence_mlx(rule: str, value: Any, because: Because) -> str | None:
    """One plain sentence, "" for what is of no interest, None for an unknown family."""
    family = rule.split(".")[0].removeprefix("ML-")
    if family.startswith("LRU-") and "query" in because:
        return _fetched(value, because)
    build = FAMILIES.get(family)
    return None if build is None else str(build(value, because))


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


def _drafting(value: int, because: Because) -> str:
    return f"{value} tokens are left for the first round" if value else "refused: the caches cannot be trimmed"


FAMILIES: Mapping[str, Any] = {
    "KEY": _key,
    "BATCHABLE": lambda v, b: "" if v else "served alone, " + ("with a seed" if b["seed"] else "beside a draft model"),
    "BATCH": lambda v, b: "prompts are fed " + ("as a whole" if v == "whole" else "segment by segment"),
    "SEG-SYSTEM": lambda v, b: f"the system segment ends at {v}" if v else "there is no system segment",
    "SEG-TAIL": lambda v, b: f"a thought begins at {v}" if v < b["n_tokens"] else "no thought begins at the end",
    "SEG-CUT": _segments,
    "SEG-REST": _rest,
    "PC-POSITION": _position,
    "PC-BATCH": _pc,
    "PC-TAILS": _tails,
    "PC-ROW": lambda v, b: f"row {b['row']} of {b['rows']} stores the state of row {v}",
    "CKPT-CREATE": _create,
    "CANCEL": lambda v, b: "what was answered is " + ("stored" if v else "not stored"),
    "SPEC-START": _drafting,
    "LRU-HAND": _hand,
    "LRU-USABLE": lambda v, b: "" if v else "the longer entry cannot be cut back",
    "LRU-MOVE": lambda v, b: "the entry that it came from is deleted" if v else "",
    "LRU-PREFIX": lambda v, b: f"entries of {_list(v)} go: the new one can be cut back to them" if v else "",
    "LRU-SNAP": lambda v, b: f"snapshots of {_list(v)} tokens" if v else "",
    "LRU-SNAPTRIM": lambda v, b: f"{sum(v)} of {len(v)} layers of the copy are cut",
    "LRU-COUNT": lambda v, b: "too many entries" if v else "",
    "LRU-BYTES": lambda v, b: "too many bytes" if v else "",
    "LRU-VICTIM": lambda v, b: f"the oldest of queue {v} goes",
    "RING-01": lambda v, b: "" if v else "the ring has wrapped and cannot be trimmed",
    "RING-02": lambda v, b: f"{v.n} trimmed from a ring, {v.keep} stay" if hasattr(v, "keep") else "",
    "RING-04": lambda v, b: f"a row of a ring is taken from column {v} on" if v < 0 else "",
    "ARRAYS-01": lambda v, b: "padding is kept from the states by a mask" if v else "",
    **dict.fromkeys((
        "LRU-EXACT", "LRU-SHORTER", "LRU-LONGER", "LRU-KEEP", "LRU-TRIMMED", "LRU-PRESENT", "RING-03", "RING-05",
        "RING-06", "ARRAYS-02", "ARRAYS-03", "ARRAYS-04", "BATCH-01",
    ), lambda v, b: ""),
}
