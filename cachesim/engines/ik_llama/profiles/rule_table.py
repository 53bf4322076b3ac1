"""What is a version of ik_llama.cpp's server made of? A table of rules and numbers.

A field is a rule or a number: never a boolean, which would be an ``if`` waiting in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.ik_llama.rules.checkpoint_restore import Unset
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules(RuleSet):
    """One version. Fields in the order in which a request meets them; each is a rule or a number.

    ``last_checkpoint`` is where the interval of a new request is counted from, ``undecoded`` the sampled tokens that
    join the slot's tokens at the end without having been evaluated; ``block_flash`` and ``block_plain`` are the cells
    of a block with and without flash attention. ``silent``, ``unlogged``: what this build does not log; ``late``: kinds
    of events that another thread writes, some time after they happened; ``defaults``: flags whose default is not that
    of the options; ``unset``: values of uninitialised numbers, 0 where nothing is said (the judge of a run tries every
    value that matters); ``inferred``: fields that were not seen running; ``ended``: what ended a number.
    """

    name: str
    build: str
    source: str
    slot_select: Rule
    shifted: Rule
    pc_save: Rule
    pc_alloc: Rule
    pc_peek: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_failed: Rule
    pc_update: Rule
    prompt_empty: Rule
    keep: Rule
    full: Rule
    refused: Rule
    shift: Rule
    prompt_shift: Rule
    shift_find: Rule
    prompt_cut: Rule
    shift_list: Rule
    reuse: Rule
    prefix: Rule
    one: Rule
    ckpt_need: Rule
    ckpt_pick: Rule
    ckpt_resume: Rule
    ckpt_reset: Rule
    ckpt_erase: Rule
    trim: Rule
    trim_failed: Rule
    seq_rm: Rule
    window: Rule
    ckpt_on: Rule
    ckpt_break: Rule
    spec_start: Rule
    ubatch_split: Rule
    kv_seen: Rule
    kv_window: Rule
    kv_blind: Rule
    state_zero: Rule
    decode_retry: Rule
    decode_again: Rule
    give_up: Rule
    ckpt_cells: Rule
    ckpt_interval: Rule
    ckpt_first: Rule
    ckpt_create: Rule
    ckpt_evict: Rule
    draft_max: Rule
    spec_save: Rule
    spec_purge: Rule
    spec_commit: Rule
    spec_steps: Rule
    spec_row: Rule
    end: Rule
    slot_save: Rule
    slot_restore: Rule
    slot_erase: Rule
    last_checkpoint: int = -1
    undecoded: int = 0
    block_flash: int = 256
    block_plain: int = 32
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unset: Mapping[Unset, int] = field(default_factory=dict, hash=False)
    silent: frozenset[str] = frozenset()
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    late: frozenset[str] = frozenset()
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
