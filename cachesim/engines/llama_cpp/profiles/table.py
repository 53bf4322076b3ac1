"""What is a version of llama-server made of? A table of rules and numbers, and how two tables are compared.

A field is a rule or a number: never a boolean, which would be an ``if`` waiting in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Callable

from cachesim.engines.base import Decision
from cachesim.engines.llama_cpp.memory.state import HOST_HEADER

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules:
    """One version. Fields in the order in which a request meets them; each is a rule or a number.

    ``silent`` are kinds of events that this build does not log, ``inferred`` fields that nobody saw run.
    """

    name: str
    build: str
    source: str
    slot_select: Rule
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
    need_one: Rule
    ckpt_on: Rule
    ckpt_break: Rule
    ckpt_create: Rule
    ckpt_spacing: Rule
    ckpt_limit: Rule
    decode_retry: Rule
    end: Rule
    context_shift: Rule
    draft_max: Rule
    spec_ckpt: Rule
    spec_replay: Rule
    rs_rm: Rule
    kv_state: Rule
    min_step: int = 8192
    host_header: int = HOST_HEADER
    slot_file_header: int = 28
    silent: frozenset[str] = frozenset()
    inferred: tuple[str, ...] = ()


def rule_fields(rules: Rules) -> dict[str, Any]:
    """The profile's rules by field, in the order in which a request meets them."""
    return {f.name: getattr(rules, f.name) for f in fields(rules) if callable(getattr(rules, f.name))}


def differences(a: Rules, b: Rules) -> list[tuple[str, Any, Any]]:
    """Fields in which two profiles differ, names and sources aside."""
    skip = {"name", "build", "source", "inferred"}
    return [
        (f.name, getattr(a, f.name), getattr(b, f.name))
        for f in fields(a)
        if f.name not in skip and getattr(a, f.name) != getattr(b, f.name)
    ]
