"""What did a rule about llama.cpp's context checkpoints say, in words? Each with its own rule's condition.

A rule that is not listed here (a rule of one's own) is given without a condition, never with another rule's.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

Because = Mapping[str, Any]


def need(rule: str, value: Any, because: Because) -> str:
    """CKPT-NEED: is a checkpoint searched for, and what was compared?"""
    n_past, pos_min, thold = because["n_past"], because["pos_min"], value.thold
    if value.search:
        return f"checkpoint needed: pos_min {pos_min} {_than(rule)} pos_min_thold {thold} (common prefix {n_past})"
    if n_past == 0:
        return "no search for a checkpoint: n_past = 0"
    if pos_min > thold or (pos_min == thold and _than(rule) == ">="):
        return f"no search for a checkpoint: n_past {n_past} is all that the slot holds"
    return f"no checkpoint needed: pos_min {pos_min} {'<' if _than(rule) == '>=' else '<='} pos_min_thold {thold}"


def _than(rule: str) -> str:
    return ">" if rule in ("LC-CKPT-NEED.TH0", "LC-CKPT-NEED.TH1") else ">="


def pick(rule: str, value: Any, because: Because) -> str:
    """CKPT-PICK: which checkpoint is restored, of which, and what the rule asked of it."""
    had = because["had"]
    found = "no usable checkpoint" if value is None else f"restores checkpoint n_tokens = {had[value]}"
    asked = CONDITIONS.get(rule)
    return f"{found} (candidates: {had})" + (f"; asked: {asked(because)}" if asked else "")


def _pk0(b: Because) -> str:
    return f"pos_min <= {b['thold']}"


def _pk1(b: Because) -> str:
    return f"pos_min < {b['thold']}"


def _pk2(b: Because) -> str:
    return f"pos_min < {b['thold']} or pos_min = 0"


def _pk3(b: Because) -> str:
    return f"pos_max <= {b['pos_next']} and ({_pk2(b)})"


def _whole(b: Because) -> str:
    return f"pos_max <= {b['last']} and ({_pk2(b)})"


def _v1(b: Because) -> str:
    if not b["exact"]:
        return _pk2(b)
    return f"n_tokens <= {b['n_past']} and < {b['n_tokens']}, pos_max <= {b['pos_next']}"


def _v3(b: Because) -> str:
    if not b["exact"]:
        return _pk3(b)
    return f"the longest with n_tokens <= {min(b['n_past'], b['n_tokens'] - 1)}"


CONDITIONS: Mapping[str, Callable[[Because], str]] = {
    "LC-CKPT-PICK.PK0": _pk0,
    "LC-CKPT-PICK.PK1": _pk1,
    "LC-CKPT-PICK.PK2": _pk2,
    "LC-CKPT-PICK.PK3": _pk3,
    "LC-CKPT-PICK.WHOLE": _whole,
    "LC-CKPT-PICK.V1": _v1,
    "LC-CKPT-PICK.V3": _v3,
}
"""What a checkpoint must satisfy, by the id of the rule."""
