"""Rules of a version of mlx-lm's server, with the tables of its cache classes and its prompt cache.

A field is a rule, a name or a table, never a boolean: a boolean would need an ``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.mlx_lm.caches import CacheRules
from cachesim.engines.mlx_lm.lru import LruRules
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules(RuleSet):
    """Rules of a version, in the order in which a request meets them. A version uses only one of the two generators;
    the rules of the other are copied from a neighbour and never called."""

    batchable: Rule
    mergeable: Rule
    new_cache: Rule
    batching: Rule
    system_end: Rule
    thinks: Rule
    tail: Rule
    cut_chat: Rule
    cut_other: Rule
    key: Rule
    rest: Rule
    position: Rule
    pc: Rule
    fresh: Rule
    right_lengths: Rule
    tails: Rule
    create_at_pc: Rule
    row: Rule
    create: Rule
    create_alone: Rule
    start_drafting: Rule
    draft_round: Rule
    key_alone: Rule
    key_stopped: Rule
    cancel: Rule
    final_type: str         # queue of finished conversations
    checkpoint_type: str    # queue of prompt checkpoints
    caches: CacheRules
    lru: LruRules
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
