"""Rules of a version of mlx-lm's server, with the tables of its cache classes and its prompt cache.

The defaults are the rules of 0.32.2. A field is a rule, a name or a table, never a boolean, which would need an
``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from cachesim.engines.mlx_lm.caches import AT_0_32_2, CacheRules
from cachesim.engines.mlx_lm.lru import LRU_HEAD, LruRules
from cachesim.engines.mlx_lm.rules import keys, prefill, segments
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

if TYPE_CHECKING:
    from cachesim.base.tokens import Tokens



@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """Rules of a version, in the order in which a request meets them. A version uses only one of the two generators;
    the rules of the other are copied from a neighbour and never called."""

    batchable: Callable[[bool, bool], Decision] = keys.is_batchable
    mergeable: Callable[[Sequence[str], bool], Decision] = keys.merge_of_class
    extracts: Callable[[Sequence[str]], Decision] = keys.extract_every
    new_cache: Callable[[int], Decision] = keys.new_limited
    batching: Callable[[], Decision] = keys.batch_segments
    system_end: Callable[[Tokens, Tokens | None], Decision] = segments.system_end
    thinks: Callable[[bool, bool], Decision] = segments.thinks_by_tokenizer
    tail: Callable[[Tokens, int], Decision] = segments.tail_anywhere
    cut_chat: Callable[[Tokens, int, int], Decision] = segments.cut_chat
    cut_other: Callable[[Tokens, str], Decision] = segments.cut_none
    key: Callable[[Tokens, Tokens, Sequence[int]], Decision] = keys.key_prompt
    rest: Callable[[Sequence[segments.Segment], int], Decision] = segments.rest_or_value_error
    position: Callable[[Tokens, str, bool, bool, Tokens | None], Decision] = prefill.position_think
    pc: Callable[[Sequence[int], Sequence[int | None]], Decision] = prefill.pc_largest
    fresh: Callable[[Sequence[bool], Sequence[int]], Decision] = prefill.fresh_if_first_empty
    right_lengths: Callable[[int, int], Decision] = prefill.lengths_without_tail
    tails: Callable[[Sequence[Tokens], int], Decision] = prefill.tails_plain
    create_at_pc: Callable[[int, int | None, int], Decision] = prefill.create_if_asked
    row: Callable[[int, int], Decision] = prefill.row_own
    create: Callable[[int, bool, int], Decision] = segments.create_at_segment_end
    create_alone: Callable[[int], Decision] = segments.create_never
    start_drafting: Callable[[bool, int, int], Decision] = prefill.start_trimmable
    draft_round: Callable[[int, int], Decision] = prefill.round_any
    key_alone: Callable[[int, int], Decision] = keys.key_of_held
    key_stopped: Callable[[int, int], Decision] = keys.key_of_returned
    cancel: Callable[[], Decision] = segments.cancel_drops
    final_type: str = "assistant"      # queue of finished conversations
    checkpoint_type: str = "user"      # queue of prompt checkpoints
    caches: CacheRules = AT_0_32_2
    lru: LruRules = LRU_HEAD
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
