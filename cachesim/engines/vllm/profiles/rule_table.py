"""The rules of a version, in the order in which they apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.contract import RuleSet
from cachesim.engines.rule import Decision

Rule = Callable[..., Decision]
Plain = Callable[..., Any]


@dataclass(frozen=True)
class Rules(RuleSet):
    """A version. ``find``, ``keep``: rules by kind of group."""

    name: str
    build: str
    source: str
    speculation: Plain
    scheduler_block: Plain
    hash_unit: Plain
    partial_hits: Plain
    cap: Plain
    hash: Plain
    prefill_cap: Plain
    surely_ends: Plain
    next_waiting: Plain
    most_tokens: Plain
    reconcile: Plain
    look_up_one: Plain
    find: Mapping[str, Plain]
    pad_drafts: Plain
    split: Rule
    leave_lookahead: Plain
    reserve: Plain
    needed: Plain
    states_needed: Plain
    state_inside: Plain
    wait_for_state: Rule
    admit: Rule
    preempt: Rule
    evict: Rule
    skipped: Plain
    reference_gap: Plain
    side: Callable[[bool], str]
    publishable: Plain
    publishable_one: Plain
    boundaries: Plain
    keep: Mapping[str, Plain]
    partial_rows: Plain
    publish_again: Plain
    reset_preempts: Plain
    inferred: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
