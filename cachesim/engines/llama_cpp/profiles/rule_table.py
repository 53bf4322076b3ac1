"""What is a version of llama-server made of? A table of rules and numbers.

A field is a rule or a number: never a boolean, which would be an ``if`` waiting in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.llama_cpp.memory.context import BAD_BATCH_LINE
from cachesim.engines.llama_cpp.memory.saved_state import HOST_HEADER
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


OUTSIDE = {"port": "8080", "preserve_reasoning": "the template's default"}
"""Defaults of the server that a client notices and no rule here asks for: where it listens, and whether the template is
told to render the thoughts of earlier answers (a prompt is given in tokens here, with or without them)."""


@dataclass(frozen=True)
class Rules(RuleSet):
    """One version. Fields in the order in which a request meets them; each is a rule or a number.

    ``silent`` are kinds of events that this build does not log, ``unlogged`` fields of logged ones by kind, ``outside``
    defaults that matter outside the simulator only, ``spec_types`` the kinds of drafts that can be asked for,
    ``defaults`` flags whose default is not that of the options, ``ended`` the change that ended a field's value where
    its rule does not say so, ``inferred`` fields that nobody saw run.
    """

    name: str
    build: str
    source: str
    n_swa: Rule
    ctx_pool: Rule
    slot_ctx: Rule
    slot_select: Rule
    slot_id: Rule
    task_caches: Rule
    task_whole: Rule
    task_reuse: Rule
    shared: Rule
    marks: Rule
    pc_ask: Rule
    pc_alloc: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_update: Rule
    idle_save: Rule
    clear: Rule
    restore_failed: Rule
    n_past: Rule
    reuse: Rule
    ckpt_need: Rule
    ckpt_pick: Rule
    ckpt_restore: Rule
    ckpt_unread: Rule
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
    ckpt_note: Rule
    limit_told: Rule
    ckpt_count: Rule
    idle_purge: Rule
    decode_retry: Rule
    ckpt_after: Rule
    end: Rule
    context_shift: Rule
    shift_of_shared: Rule
    spec_on: Rule
    draft_max: Rule
    spec_accept: Rule
    spec_ckpt: Rule
    spec_room: Rule
    spec_split: Rule
    spec_replay: Rule
    spec_unread: Rule
    rs_planes: Rule
    rs_rm: Rule
    rs_back: Rule
    rs_split: Rule
    kv_copy: Rule
    kv_state: Rule
    kv_read: Rule
    kv_undo: Rule
    kv_fail: Rule
    kv_full: Rule
    kv_shift: Rule
    file_ckpts: Rule
    min_step: int = 8192
    tail: int = 4                           # tokens before the end of a prompt at which its last batch begins
    host_header: int = HOST_HEADER
    slot_file_header: int = 28
    state_form: int = 2
    ext_bytes: int = 8
    data_header: int = 8
    auto_slots: int = 4                     # without -np; more than one share a unified cache
    spec_types: tuple[str, ...] = ("none", "ngram-simple", "draft-simple", "draft-mtp")
    ctx_pad: int = 256
    window_pad: int = 256
    least_batch: int = 1
    share_digits: int = 3
    outside: Mapping[str, str] = field(default_factory=lambda: dict(OUTSIDE), hash=False)
    bad_batch_lines: tuple[str, ...] = (BAD_BATCH_LINE, "llama_decode: failed to decode, ret = -1")
    fatal_lines: tuple[str, ...] = ("{text} off = {off}, n_batch = {n_batch}, ret = {ret}", "decode() failed: {text}")
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    silent: frozenset[str] = frozenset()
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
    late: frozenset[str] = frozenset()
    inferred: tuple[str, ...] = ()
