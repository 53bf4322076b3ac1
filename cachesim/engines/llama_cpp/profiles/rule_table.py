"""Rule table of a llama-server version.

A field is a rule or a number, but never a boolean, which would require an ``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.llama_cpp.memory.context import BAD_BATCH_LINE
from cachesim.engines.llama_cpp.memory.saved_state import HOST_HEADER
from cachesim.engines.llama_cpp.rules import adapters, media
from cachesim.engines.llama_cpp.rules.prompt_lifecycle import slot_first, valid_tokens
from cachesim.engines.llama_cpp.rules.seq_rm_and_state import shared_stays
from cachesim.engines.llama_cpp.rules.slot_file import empty_stays
from cachesim.engines.llama_cpp.rules.slot_selection import copied_after_view, waiting_keeps
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


OUTSIDE = {"port": "8080", "preserve_reasoning": "the template's default"}
"""Defaults of the server that a client notices but no rule uses: its port, and whether the chat template renders the
reasoning of earlier answers (prompts are given as tokens here, with or without reasoning)."""


@dataclass(frozen=True)
class AdapterRules:
    """Rules about adapters."""

    read: Rule = adapters.invocation_read
    ids: Rule = adapters.ids_ignored
    list: Rule = adapters.adapter_list
    clear: Rule = adapters.clear_for_list
    one: Rule = adapters.one_activated
    scan: Rule = adapters.invocation_start
    cap: Rule = adapters.cap_before_start
    split: Rule = adapters.split_at_start
    back: Rule = adapters.back_to_leader
    batch: Rule = adapters.joins_batch
    lead: Rule = adapters.leads_if_filled
    init: Rule = adapters.scales_at_start
    save: Rule = adapters.save_by_likeness
    forget: Rule = adapters.forget_tokens
    entry: Rule = adapters.entry_notes_nothing
    file: Rule = adapters.restored_under_own
    start: Rule = adapters.start_stays
    rows: Rule = adapters.rows_count_alike
    chunks: Rule = adapters.chunks_behind_cap


@dataclass(frozen=True)
class MediaRules:
    """Rules about images."""

    position: Rule = media.position_of
    resume: Rule = media.resume_at
    lcp: Rule = media.whole_images
    null: Rule = media.null_at_image
    cut: Rule = media.cut_inside
    text_end: Rule = media.text_end
    ckpt: Rule = media.none_after_image
    fits: Rule = media.fits_micro_batch
    fails: Rule = media.image_fails
    adapters: Rule = media.adapters_of_image
    moves: Rule = media.moves_positions
    file: Rule = media.restorable
    last: Rule = media.last_may_be_image
    size: Rule = media.any_size
    back: Rule = media.stays_inside
    again: Rule = media.tried_once
    reason: Rule = media.no_reason


@dataclass(frozen=True)
class Rules(RuleSet):
    """Rules and numbers of a version, in the order in which a request uses them."""

    n_swa: Rule
    ctx_pool: Rule
    slot_ctx: Rule
    slot_select: Rule
    slot_id: Rule
    task_caches: Rule
    task_whole: Rule
    task_reuse: Rule
    shared: Rule
    children: Rule
    marks: Rule
    slot_like: Rule
    prompt_fit: Rule
    list_kept: Rule
    pc_ask: Rule
    pc_alloc: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_update: Rule
    load_failed: Rule
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
    trim_at: Rule
    trim: Rule
    rm_refused: Rule
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
    batch_check: Rule
    decode_retry: Rule
    fail_clears: Rule
    ckpt_after: Rule
    end: Rule
    shift_when: Rule
    context_shift: Rule
    shift_of_shared: Rule
    spec_on: Rule
    draft_max: Rule
    spec_batch: Rule
    spec_accept: Rule
    spec_ckpt: Rule
    spec_room: Rule
    spec_split: Rule
    spec_count: Rule
    spec_place: Rule
    spec_replay: Rule
    spec_unread: Rule
    rs_planes: Rule
    rs_rm: Rule
    rs_back: Rule
    rs_plane: Rule
    rs_saved: Rule
    rs_split: Rule
    rs_tail: Rule
    kv_copy: Rule
    kv_state: Rule
    kv_read: Rule
    kv_undo: Rule
    kv_fail: Rule
    kv_full: Rule
    kv_shift: Rule
    kv_turn: Rule
    kv_mask: Rule
    kv_pos: Rule
    file_ckpts: Rule
    file_torn: Rule
    adapters: AdapterRules = AdapterRules()
    media: MediaRules = MediaRules()
    task_valid: Rule = valid_tokens
    task_first: Rule = slot_first
    waiting: Rule = waiting_keeps
    children_at: Rule = copied_after_view
    kv_shared: Rule = shared_stays
    file_empty: Rule = empty_stays
    min_step: int = 8192                    # fewest tokens between two checkpoints
    tail: int = 4                           # tokens before the end of a prompt at which its last batch begins
    host_header: int = HOST_HEADER          # bytes before a state in host memory
    slot_file_header: int = 28              # bytes of a slot file before tokens and state
    state_form: int = 2                     # version of the state format
    ext_bytes: int = 8                      # bytes added to a saved cell with a 2-D position
    image_bytes: int = 145                  # bytes of an image in a slot file; all are rounded up to whole tokens
    data_header: int = 8                    # bytes before the saved rows of an attention cache
    auto_slots: int = 4                     # without -np; several slots share a unified cache
    spec_types: tuple[str, ...] = ("none", "ngram-simple", "draft-simple", "draft-mtp")      # kinds of drafts
    memories: tuple[str, ...] = ("A", "W", "R", "H", "HW")        # kinds of models that it loads (see `model_layout`)
    most_adapters: int = 0                  # adapters that the server loads, 0 = rules not known
    most_images: int = 0                    # images in a prompt, 0 = their rules are not known
    ctx_pad: int = 256                      # n_ctx is a multiple of this
    window_pad: int = 256                   # cells of a window cache are a multiple of this
    least_batch: int = 1                    # smallest n_batch
    share_digits: int = 3                   # digits of f_sim in the log
    outside: Mapping[str, str] = field(default_factory=lambda: dict(OUTSIDE), hash=False)    # see OUTSIDE
    bad_batch_lines: tuple[str, ...] = (BAD_BATCH_LINE, "llama_decode: failed to decode, ret = -1")
    fatal_lines: tuple[str, ...] = ("{text} off = {off}, n_batch = {n_batch}, ret = {ret}", "decode() failed: {text}")
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)     # flags with another default than Options
    silent: frozenset[str] = frozenset()    # kinds of events that this build does not log
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)         # kind -> missing fields
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)        # field -> change that ended its value
    late: frozenset[str] = frozenset()      # kinds of events that another thread logs with a delay
    inferred: tuple[str, ...] = ()          # fields without a recording as evidence
