"""Rule table of a llama-server version. The default of a rule is the rule of b10587.

A field is a rule or a number, but never a boolean, which would require an ``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.llama_cpp.flags import NGRAM_TYPES
from cachesim.engines.llama_cpp.memory.context import BAD_BATCH_LINE
from cachesim.engines.llama_cpp.memory.saved_state import HOST_HEADER
from cachesim.engines.llama_cpp.rules import (
    adapters,
    cell_faults,
    media,
    prompt_lifecycle,
    seq_rm_and_state,
    slot_file,
    slot_selection,
    speculative,
    startup,
)
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import context_shift as shifts
from cachesim.engines.llama_cpp.rules import newest_memories as newest
from cachesim.engines.llama_cpp.rules import prompt_cache as pc
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


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """Rules and numbers of a version, in the order in which a request uses them."""

    n_swa: Rule = startup.n_swa_unless_full
    window_told: Rule = newest.window_told
    kv_streams: Rule = newest.streams_shared
    msa_read: Rule = newest.reads_all
    slots_open: Rule = startup.slots_open_if_auto
    ctx_pool: Rule = startup.ctx_pool_given
    slot_ctx: Rule = startup.slot_ctx_whole
    slot_select: Rule = slot_selection.slot_select_3
    slot_id: Rule = slot_selection.slot_id_modulo
    task_caches: Rule = prompt_lifecycle.completions_only
    task_whole: Rule = prompt_lifecycle.whole_prompt
    task_reuse: Rule = prompt_lifecycle.all_reuse
    shared: Rule = prompt_lifecycle.no_decisions
    children: Rule = slot_selection.children_copy
    marks: Rule = prompt_lifecycle.marks_of_any
    slot_like: Rule = slot_selection.like_by_prefix
    prompt_fit: Rule = prompt_lifecycle.refuse_long
    list_kept: Rule = prompt_lifecycle.keep_list
    pc_ask: Rule = pc.ask_always
    pc_alloc: Rule = pc.admit_strict
    pc_load: Rule = pc.pick_entry
    pc_after_hit: Rule = pc.take_entry
    pc_update: Rule = pc.evict_strict
    load_failed: Rule = pc.clear_after_failed_load
    idle_save: Rule = slot_selection.idle_save_all
    clear: Rule = prompt_lifecycle.clear_both
    restore_failed: Rule = prompt_lifecycle.restore_failed
    n_past: Rule = prompt_lifecycle.n_past_lcp
    reuse: Rule = shifts.reuse_chunks
    ckpt_need: Rule = use.need_th4
    ckpt_pick: Rule = use.pick_pk3
    ckpt_restore: Rule = use.resume_re4
    ckpt_unread: Rule = use.unread_aborts
    ckpt_reset: Rule = use.resume_nothing
    ckpt_erase: Rule = use.erase_er2
    erase_told: Rule = make.told_gone
    need_one: Rule = prompt_lifecycle.need_one
    trim_at: Rule = prompt_lifecycle.trim_at_n_past
    trim: Rule = prompt_lifecycle.abort_if_refused
    rm_refused: Rule = shifts.refusal_ends
    ckpt_on: Rule = make.ckpt_on
    ckpt_break: Rule = make.break_cr10
    ckpt_periodic: Rule = make.periodic_none
    ckpt_create: Rule = make.create_cr10
    ckpt_replace: Rule = make.replace_none
    ckpt_spacing: Rule = make.space_older
    ckpt_limit: Rule = make.limit_oldest
    ckpt_note: Rule = make.note_nothing
    limit_told: Rule = make.told_gone
    ckpt_count: Rule = make.count_own
    idle_purge: Rule = slot_selection.purge_if_unified
    batch_check: Rule = cell_faults.check_next
    decode_retry: Rule = prompt_lifecycle.next_attempt
    fail_clears: Rule = prompt_lifecycle.failure_clears
    ckpt_after: Rule = make.nothing_after_prompt
    end: Rule = prompt_lifecycle.end_of_generation
    shift_when: Rule = shifts.shift_generating
    context_shift: Rule = shifts.context_shift
    shift_of_shared: Rule = shifts.shift_of_shared
    spec_on: Rule = speculative.drafts_anywhere
    draft_max: Rule = speculative.draft_max
    spec_batch: Rule = speculative.batch_is_shared
    spec_accept: Rule = speculative.accept_while_same
    spec_ckpt: Rule = speculative.needs_checkpoint
    spec_room: Rule = speculative.draft_has_room
    spec_split: Rule = speculative.draft_is_split
    spec_count: Rule = speculative.count_without_replay
    spec_place: Rule = speculative.place_of_sequence
    spec_replay: Rule = speculative.must_replay
    spec_unread: Rule = speculative.unread_says_size
    rs_planes: Rule = seq_rm_and_state.planes_for_mtp
    rs_rm: Rule = seq_rm_and_state.rs_rm_3
    rs_back: Rule = seq_rm_and_state.back_any
    rs_plane: Rule = seq_rm_and_state.plane_of_depth
    rs_saved: Rule = seq_rm_and_state.saved_of_pending
    rs_split: Rule = seq_rm_and_state.split_keeps_tail
    rs_tail: Rule = cell_faults.tail_cleared
    kv_copy: Rule = seq_rm_and_state.copy_waits
    kv_state: Rule = seq_rm_and_state.keep_window
    kv_read: Rule = seq_rm_and_state.read_anywhere
    kv_undo: Rule = seq_rm_and_state.undo_used
    kv_fail: Rule = seq_rm_and_state.fail_keeps
    kv_full: Rule = seq_rm_and_state.full_forgets
    kv_shift: Rule = seq_rm_and_state.shift_dies
    kv_index: Rule = newest.index_spoilt
    kv_quant: Rule = newest.quantized_shift_dies
    kv_turn: Rule = cell_faults.turn_own
    kv_mask: Rule = cell_faults.mask_own
    kv_pos: Rule = cell_faults.count_positions
    file_ckpts: Rule = slot_file.no_checkpoints
    file_torn: Rule = slot_file.torn_ends
    adapters: AdapterRules = AdapterRules()
    media: MediaRules = MediaRules()
    task_valid: Rule = prompt_lifecycle.valid_tokens
    task_first: Rule = prompt_lifecycle.slot_first
    waiting: Rule = slot_selection.waiting_keeps
    children_at: Rule = slot_selection.copied_after_view
    kv_shared: Rule = seq_rm_and_state.shared_stays
    file_empty: Rule = slot_file.empty_stays
    min_step: int = 8192                    # fewest tokens between two checkpoints
    tail: int = 4                           # tokens before the end of a prompt at which its last batch begins
    host_header: int = HOST_HEADER          # bytes before a state in host memory
    slot_file_header: int = 28              # bytes of a slot file before tokens and state
    state_form: int = 2                     # version of the state format
    ext_bytes: int = 8                      # bytes added to a saved cell with a 2-D position
    image_bytes: int = 145                  # bytes of an image in a slot file; all are rounded up to whole tokens
    data_header: int = 8                    # bytes before the saved rows of an attention cache
    auto_slots: int = 4                     # without -np; several slots share a unified cache
    spec_types: tuple[str, ...] = ("none", *NGRAM_TYPES, "draft-simple", "draft-mtp")      # kinds of drafts
    memories: tuple[str, ...] = ("A", "W", "R", "H", "HW")        # kinds of models that it loads (see `model_layout`)
    most_adapters: int = 0                  # adapters that the server loads, 0 = rules not known
    most_images: int = 0                    # images in a prompt, 0 = their rules are not known
    ctx_pad: int = 256                      # n_ctx is a multiple of this
    window_pad: int = 256                   # cells of a window cache are a multiple of this
    least_batch: int = 1                    # smallest n_batch
    start_batch: int = 2                    # tokens of the batch that a starting server evaluates, 0 = none
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
