"""What is a version of llama-server made of? A table of rules and numbers, and how two tables are compared.

A field is a rule or a number: never a boolean, which would be an ``if`` waiting in the driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import Any, Callable, Collection, Mapping, NamedTuple

from cachesim.engines.base import Decision
from cachesim.engines.llama_cpp.memory.state import HOST_HEADER

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules:
    """One version. Fields in the order in which a request meets them; each is a rule or a number.

    ``silent`` are kinds of events that this build does not log, ``unlogged`` fields of logged ones by kind,
    ``defaults`` flags whose default is not that of the options, ``ended`` the change that ended a field's value where
    its rule does not say so, ``inferred`` fields that nobody saw run.
    """

    name: str
    build: str
    source: str
    n_swa: Rule
    slot_ctx: Rule
    slot_select: Rule
    task_caches: Rule
    task_whole: Rule
    pc_ask: Rule
    pc_alloc: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_update: Rule
    idle_save: Rule
    clear: Rule
    n_past: Rule
    reuse: Rule
    ckpt_need: Rule
    ckpt_pick: Rule
    ckpt_restore: Rule
    ckpt_reset: Rule
    ckpt_erase: Rule
    erase_told: Rule
    need_one: Rule
    trim: Rule
    ckpt_on: Rule
    ckpt_break: Rule
    ckpt_periodic: Rule
    ckpt_create: Rule
    ckpt_replace: Rule
    ckpt_spacing: Rule
    ckpt_limit: Rule
    limit_told: Rule
    ckpt_count: Rule
    idle_purge: Rule
    decode_retry: Rule
    ckpt_after: Rule
    end: Rule
    context_shift: Rule
    draft_max: Rule
    spec_ckpt: Rule
    spec_replay: Rule
    rs_rm: Rule
    kv_state: Rule
    kv_read: Rule
    kv_undo: Rule
    min_step: int = 8192
    host_header: int = HOST_HEADER
    slot_file_header: int = 28
    ext_bytes: int = 8
    ctx_pad: int = 256
    window_pad: int = 256
    least_batch: int = 1
    share_digits: int = 3
    fatal_lines: tuple[str, ...] = ("{text} off = {off}, n_batch = {n_batch}, ret = {ret}", "decode() failed: {text}")
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    silent: frozenset[str] = frozenset()
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    inferred: tuple[str, ...] = ()


def rule_fields(rules: Rules) -> dict[str, Any]:
    """The profile's rules by field, in the order in which a request meets them."""
    return {f.name: getattr(rules, f.name) for f in fields(rules) if callable(getattr(rules, f.name))}


def differences(a: Rules, b: Rules) -> list[tuple[str, Any, Any]]:
    """Fields in which two profiles differ, names and sources aside."""
    skip = {"name", "build", "source", "ended", "inferred"}
    return [
        (f.name, getattr(a, f.name), getattr(b, f.name))
        for f in fields(a)
        if f.name not in skip and getattr(a, f.name) != getattr(b, f.name)
    ]


SAID = frozenset({"erase_told", "limit_told", "share_digits", "fatal_lines", "silent", "unlogged"})
"""Fields that change only what the log says."""


class Change(NamedTuple):
    """A field in which two neighbouring versions differ: the rule's id or the number in each, and the change behind it
    ("" = not known)."""

    field: str
    old: str
    new: str
    source: str


def changes(old: Rules, new: Rules) -> list[Change]:
    """What was changed between two versions, the log aside."""
    return [
        Change(name, _told(a), _told(b), _source(old, name, a, b))
        for name, a, b in differences(old, new) if name not in SAID
    ]


def _told(value: Any) -> str:
    return str(getattr(value, "rule", value))


def _source(old: Rules, name: str, a: Any, b: Any) -> str:
    """The pull request that ended the older rule or began the newer one."""
    if name in old.ended or not callable(a):
        return old.ended.get(name, "")
    for rule, pattern in ((b, r"ggml-org/llama.cpp(#\d+)"), (a, r"\b(?:to|before|until) (#\d+)"), (b, r"since (#\d+)")):
        found = re.search(pattern, (rule.__doc__ or "").partition("Source:")[2])
        if found:
            return found[1]
    return ""


def mixed(old: Rules, new: Rules, names: Collection[str]) -> Rules:
    """The older version with these fields of the newer one."""
    return replace(old, **{name: getattr(new, name) for name in names})
