"""What did a rule say, in words? The sentence is built here, from the decision's numbers."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from cachesim.engines.rule import RULES
from cachesim.reports import sentences_checkpoint as checkpoint
from cachesim.reports.counted import counted
from cachesim.reports.sentences_mlx import sentence_mlx

Because = Mapping[str, Any]


def sentence(rule: str, value: Any, because: Because) -> str:
    """One plain sentence about a decision, "" for one of no interest; unknown families show their numbers."""
    if rule.startswith("ML-"):
        return _mlx(rule, value, because)
    family = rule.split(".")[0].removeprefix("LC-")
    build, by_rule = FAMILIES.get(family), BY_RULE.get(family)
    try:
        if by_rule:
            return by_rule(rule, value, because)
        return build(value, because) if build else _numbers(value, because)
    except (KeyError, TypeError, AttributeError):
        if _shipped(rule):
            raise
        return _numbers(value, because)


def _shipped(rule: str) -> bool:
    """Is it a rule of the package? A rule of somebody's own may say something of another form than its family."""
    return RULES[rule].__module__.startswith("cachesim.") if rule in RULES else False


def _mlx(rule: str, value: Any, because: Because) -> str:
    found = sentence_mlx(rule, value, because)
    return _numbers(value, because) if found is None else found


def _numbers(value: Any, because: Because) -> str:
    return f"{value}  ({', '.join(f'{k} {v}' for k, v in because.items())})"


def _slot(choice: Any, because: Because) -> str:
    if choice is None:
        return "every slot is busy"
    how = {
        "id": "named by the request",
        "name": "named by the request, nothing else looked at",
        "lcp": f"shares {choice.f_sim:.3f} of the prompt, {choice.f_keep:.3f} of it would stay",
        "lru": "used longest ago",
    }[choice.by]
    return f"slot {choice.slot}: {how}; the prompt cache is {'asked' if choice.update else 'not asked'}"


def _load(value: Any, because: Because) -> str:
    if "entries" not in because:
        return "the entry is moved out of the cache" if value else "the entry is copied and stays"
    what = "no entry is better than the slot" if value is None else f"entry {value} is better than the slot"
    return f"{what}: best f_keep {because['f_keep']:.3f}, f_sim {because['f_sim']:.3f} of {because['entries']} entries"


def _create(value: Any, because: Because) -> str:
    made = "a" if value else "no"
    if "start" not in because:
        return f"{made} checkpoint of the whole prompt"
    near = ", near the prompt's end" if because.get("near") else ""
    chunk = f" (chunk to {because['stop']}{near})" if "stop" in because else ""
    return f"{made} checkpoint of {because['start']} tokens{chunk}"


def _gone(value: Any, because: Because) -> str:
    if not value:
        return "no checkpoint goes"
    return f"{counted(len(value), 'checkpoint goes', 'checkpoints go')}: number {', '.join(map(str, value))}"


def _alloc(plan: Any, because: Because) -> str:
    gone = f"{len(plan.obsolete)} obsolete, {plan.evict} evicted"
    return f"{plan.verdict}: {because['n_tokens']} tokens, {because['entries']} entries before; {gone}"


def _update(plan: Any, because: Because) -> str:
    gone = plan.for_size + plan.for_tokens
    return f"{gone} of the oldest go; {because['tokens']} tokens against a limit of {plan.est}"


def _idle(plan: Any, because: Because) -> str:
    done = "saved" if plan.save else "left"
    return f"idle slot of {because['held']} tokens: {done}{', cleared' if plan.clear else ''}"


def _one(value: Any, because: Because) -> str:
    back = ", one is given back" if value != because["n_past"] else ""
    return f"{because['n_past']} of {because['n_tokens']} are held{back}"


def _behind(because: Because) -> str:
    return counted(because["checkpoints"], "checkpoint stays behind", "checkpoints stay behind")


def _rs_rm(refused: bool, because: Because) -> str:
    if not refused:
        return f"the state ends at {because['pos']}: removing {because['p0']} and behind changes nothing"
    until = "behind" if because["p1"] > because["pos"] else f"up to {because['p1'] - 1}"
    return f"the state ends at {because['pos']}: removing {because['p0']} and {until} is refused"


def _rs_back(goes: bool, because: Because) -> str:
    planes = f"(n_rs_seq {because['n_rs_seq']})"
    if goes:
        return f"the state is rolled back by {because['back']} {planes}"
    why = "a rollback is pending" if because["pending"] else "the state is shared"
    if because["back"] > because["n_rs_seq"]:
        why = "too few planes"
    return f"no rollback by {because['back']}: {why} {planes}"


FAMILIES: Mapping[str, Any] = {
    "SLOT-SELECT": _slot,
    "PC-ALLOC": _alloc,
    "PC-LOAD": _load,
    "PC-UPDATE": _update,
    "IDLE-SAVE": _idle,
    "NPAST-LCP": lambda v, b: f"{v} tokens are shared with the slot" + ("" if b["cache_prompt"] else " but not wanted"),
    "NPAST-ONE": _one,
    "CKPT-RESTORE": lambda v, b: f"evaluation goes on at {v.n_past}, from a checkpoint of {b['n_tokens']} tokens",
    "CKPT-RESET": lambda v, b: f"nothing fits: all is evaluated again, although {b['n_past']} tokens are shared",
    "CKPT-ERASE": _gone,
    "CKPT-SPACING": _gone,
    "CKPT-LIMIT": _gone,
    "CKPT-ON": lambda v, b: "checkpoints are made" if v else "no checkpoints are made for this memory",
    "CKPT-BREAK": lambda v, b: f"the chunk goes from {b['start']} to {v}",
    "CKPT-CREATE": _create,
    "CLEAR": lambda v, b: "the checkpoints go with the tokens" if v else _behind(b),
    "RS-BACK": _rs_back,
    "RS-RM": _rs_rm,
    "TASK": lambda v, b: f"a task of the kind {b['kind']}" + (f": {v}" if isinstance(v, str) else ""),
    "DECODE": lambda v, b: f"no room: next attempt with {v} tokens" + (" after a purge" if b["purged"] else ""),
    "END": lambda v, b: f"token {b['n_gen']} of {b['n_predict']}: " + (v[0] or "goes on"),
}

BY_RULE: Mapping[str, Callable[[str, Any, Because], str]] = {"CKPT-NEED": checkpoint.need, "CKPT-PICK": checkpoint.pick}
"""Families in which every rule has a condition of its own."""
