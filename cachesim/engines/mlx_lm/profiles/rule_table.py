"""Rules of a version of mlx-lm's server, with the tables of its cache classes and its prompt cache.

The defaults are the rules of 0.32.2. A field is a rule, a name or a table, never a boolean, which would need an
``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.mlx_lm.caches import AT_0_32_2, CacheRules
from cachesim.engines.mlx_lm.lru import LRU_HEAD, LruRules
from cachesim.engines.mlx_lm.rules import keys, prefill, segments
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """Rules of a version, in the order in which a request meets them. A version uses only one of the two generators;
    the rules of the other are copied from a neighbour and never called."""

    batchable: Rule = keys.is_batchable
    mergeable: Rule = keys.merge_of_class
    new_cache: Rule = keys.new_limited
    batching: Rule = keys.batch_segments
    system_end: Rule = segments.system_end
    thinks: Rule = segments.thinks_by_tokenizer
    tail: Rule = segments.tail_anywhere
    cut_chat: Rule = segments.cut_chat
    cut_other: Rule = segments.cut_none
    key: Rule = keys.key_prompt
    rest: Rule = segments.rest_or_value_error
    position: Rule = prefill.position_think
    pc: Rule = prefill.pc_largest
    fresh: Rule = prefill.fresh_if_first_empty
    right_lengths: Rule = prefill.lengths_without_tail
    tails: Rule = prefill.tails_plain
    create_at_pc: Rule = prefill.create_if_asked
    row: Rule = prefill.row_own
    create: Rule = segments.create_at_segment_end
    create_alone: Rule = segments.create_never
    start_drafting: Rule = prefill.start_trimmable
    draft_round: Rule = prefill.round_any
    key_alone: Rule = keys.key_of_held
    key_stopped: Rule = keys.key_of_returned
    cancel: Rule = segments.cancel_drops
    final_type: str = "assistant"      # queue of finished conversations
    checkpoint_type: str = "user"      # queue of prompt checkpoints
    caches: CacheRules = AT_0_32_2
    lru: LruRules = LRU_HEAD
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
