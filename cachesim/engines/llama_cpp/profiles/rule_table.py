"""Rule table of a llama-server version. The default of a rule is the rule of b10587.

A field is a rule or a number, but never a boolean, which would require an ``if`` in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

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

if TYPE_CHECKING:
    import numpy as np

    from cachesim.engines.llama_cpp.rules.checkpoint_facts import CheckpointUse, Chunk, Ckpt, PromptInputs, ResumePlace
    from cachesim.engines.shared.prompt_cache_limits import Limits

Rule = Callable[..., Decision]


OUTSIDE = {"port": "8080", "preserve_reasoning": "the template's default"}
"""Defaults of the server that a client notices but no rule uses: its port, and whether the chat template renders the
reasoning of earlier answers (prompts are given as tokens here, with or without reasoning)."""


class FailedDrafterLine(NamedTuple):
    """Log line of a drafter that cannot evaluate a token: recorded with MTP heads, read for draft models."""

    kind: str                # "warn" or "error"
    call: str                # that failed
    counts_first: bool       # the line of an MTP head has the number of its first step, too

    def text_of(self, step: int, code: int, is_head: bool) -> str:
        """Return the text of the line; ``step``: number of steps before; ``code``: what the call returned."""
        number = step if is_head and self.counts_first else step - 1
        return f"{self.call}[{number}] returned {code}" if number >= 0 else f"{self.call} returned {code}"


OF_LLAMA_DECODE = FailedDrafterLine("error", call="llama_decode", counts_first=True)


@dataclass(frozen=True)
class AdapterRules:
    """Rules about adapters."""

    read: Callable[[Sequence[int]], Decision] = adapters.invocation_read
    ids: Callable[[Sequence[int], int], Decision] = adapters.ids_ignored
    list: Callable[[Mapping[int, float], adapters.Scales], Decision] = adapters.adapter_list
    clear: Callable[[adapters.RequestScales, Sequence[adapters.Adapter]], Decision] = adapters.clear_for_list
    one: Callable[[adapters.Scales, Sequence[adapters.Adapter]], Decision] = adapters.one_activated
    scan: Callable[[Sequence[int], Sequence[int]], Decision] = adapters.invocation_start
    cap: Callable[[int, int], Decision] = adapters.cap_before_start
    split: Callable[[int, int, bool, bool], Decision] = adapters.split_at_start
    back: Callable[[int, int], Decision] = adapters.back_to_leader
    batch: Callable[[adapters.Scales, adapters.Scales], Decision] = adapters.joins_batch
    lead: Callable[[], Decision] = adapters.leads_if_filled
    init: Callable[[adapters.Scales, bool], Decision] = adapters.scales_at_start
    save: Callable[[adapters.Scales, adapters.Scales], Decision] = adapters.save_by_likeness
    forget: Callable[[int], Decision] = adapters.forget_tokens
    entry: Callable[[adapters.SavedAdapters], Decision] = adapters.entry_notes_nothing
    file: Callable[[adapters.SavedAdapters, adapters.SavedAdapters | None, int], Decision] = adapters.restored_under_own
    start: Callable[[int], Decision] = adapters.start_stays
    rows: Callable[[int, int], Decision] = adapters.rows_count_alike
    chunks: Callable[[int, int], Decision] = adapters.chunks_behind_cap


@dataclass(frozen=True)
class MediaRules:
    """Rules about images."""

    position: Callable[[Sequence[int], int], Decision] = media.position_of
    resume: Callable[[Sequence[int], Ckpt, ResumePlace, bool], Decision] = media.resume_at
    lcp: Callable[[Sequence[int], int], Decision] = media.whole_images
    null: Callable[[Sequence[int], Sequence[int], int], Decision] = media.null_at_image
    cut: Callable[[Sequence[int], int], Decision] = media.cut_inside
    text_end: Callable[[Sequence[int], int, int], Decision] = media.text_end
    ckpt: Callable[[bool, int], Decision] = media.none_after_image
    fits: Callable[[int, int, bool], Decision] = media.fits_micro_batch
    fails: Callable[[int], Decision] = media.image_fails
    adapters: Callable[[Sequence[float], Sequence[float]], Decision] = media.adapters_of_image
    moves: Callable[[bool, bool], Decision] = media.moves_positions
    file: Callable[[bool, bool], Decision] = media.restorable
    last: Callable[[Sequence[int]], Decision] = media.last_may_be_image
    size: Callable[[int, int, int], Decision] = media.any_size
    back: Callable[[Sequence[int], int], Decision] = media.stays_inside
    again: Callable[[int], Decision] = media.tried_once
    reason: Callable[[bool, int], Decision] = media.no_reason


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """Rules and numbers of a version, in the order in which a request uses them."""

    n_swa: Callable[[int, bool], Decision] = startup.n_swa_unless_full
    window_told: Callable[[int, str], Decision] = newest.window_told
    kv_streams: Callable[[bool, str], Decision] = newest.streams_shared
    msa_read: Callable[[int, bool], Decision] = newest.reads_all
    slots_open: Callable[[int, bool, bool], Decision] = startup.slots_open_if_auto
    ctx_pool: Callable[[int, int, int], Decision] = startup.ctx_pool_given
    slot_ctx: Callable[[int, int, int, int, int], Decision] = startup.slot_ctx_whole
    slot_select: Callable[
        [Sequence[slot_selection.SlotFacts], int, int, float], Decision
    ] = slot_selection.slot_select_3
    slot_id: Callable[[int, int], Decision] = slot_selection.slot_id_modulo
    task_caches: Callable[[str], Decision] = prompt_lifecycle.completions_only
    task_whole: Callable[[str, int, int, str], Decision] = prompt_lifecycle.whole_prompt
    task_reuse: Callable[[str], Decision] = prompt_lifecycle.all_reuse
    shared: Callable[[Sequence[Sequence[int]]], Decision] = prompt_lifecycle.no_decisions
    children: Callable[[int], Decision] = slot_selection.children_copy
    marks: Callable[[bool], Decision] = prompt_lifecycle.marks_of_any
    slot_like: Callable[[Sequence[int], Sequence[int]], Decision] = slot_selection.like_by_prefix
    prompt_fit: Callable[[int, int, int, bool], Decision] = prompt_lifecycle.refuse_long
    discard_fit: Callable[[int], Decision] = shifts.discard_checked
    list_kept: Callable[[bool, int], Decision] = prompt_lifecycle.keep_list
    pc_ask: Callable[[int], Decision] = pc.ask_always
    pc_alloc: Callable[[Sequence[pc.EntryFacts], int, int, Limits], Decision] = pc.admit_strict
    pc_load: Callable[[Sequence[pc.EntryFacts], int, int, int], Decision] = pc.pick_entry
    pc_after_hit: Callable[[int], Decision] = pc.take_entry
    pc_update: Callable[[Sequence[int], Sequence[int], Limits], Decision] = pc.evict_strict
    load_failed: Callable[[int], Decision] = pc.clear_after_failed_load
    idle_save: Callable[[bool, int], Decision] = slot_selection.idle_save_all
    clear: Callable[[int], Decision] = prompt_lifecycle.clear_both
    restore_failed: Callable[[str], Decision] = prompt_lifecycle.restore_failed
    n_past: Callable[[int, bool], Decision] = prompt_lifecycle.n_past_lcp
    reuse: Callable[[Sequence[int], Sequence[int], int, int, bool], Decision] = shifts.reuse_chunks
    ckpt_need: Callable[[PromptInputs], Decision] = use.need_th4
    ckpt_pick: Callable[[Sequence[Ckpt], PromptInputs, int], Decision] = use.pick_pk3
    ckpt_restore: Callable[[Ckpt, PromptInputs], Decision] = use.resume_re4
    ckpt_unread: Callable[[int], Decision] = use.unread_aborts
    ckpt_reset: Callable[[PromptInputs], Decision] = use.resume_nothing
    ckpt_erase: Callable[[Sequence[Ckpt], PromptInputs, ResumePlace], Decision] = use.erase_er2
    erase_told: Callable[[int, Sequence[int]], Decision] = make.told_gone
    need_one: Callable[[int, int], Decision] = prompt_lifecycle.need_one
    trim_at: Callable[[int, int], Decision] = prompt_lifecycle.trim_at_n_past
    trim: Callable[[int], Decision] = prompt_lifecycle.abort_if_refused
    rm_refused: Callable[[int, int], Decision] = shifts.refusal_ends
    ckpt_on: Callable[[int, bool, int], Decision] = make.ckpt_on
    ckpt_break: Callable[[Chunk, Sequence[Ckpt]], Decision] = make.break_cr10
    ckpt_periodic: Callable[[Chunk, int, Sequence[Ckpt]], Decision] = make.periodic_none
    ckpt_create: Callable[[Chunk, int, Sequence[Ckpt], int, int], Decision] = make.create_cr10
    ckpt_replace: Callable[[Sequence[Ckpt], int], Decision] = make.replace_none
    ckpt_spacing: Callable[[Sequence[Ckpt], int, int, int], Decision] = make.space_older
    ckpt_limit: Callable[[Sequence[Ckpt], int], Decision] = make.limit_oldest
    ckpt_note: Callable[[Ckpt, CheckpointUse], Decision] = make.note_nothing
    limit_told: Callable[[int, Sequence[int]], Decision] = make.told_gone
    ckpt_count: Callable[[int, int, int], Decision] = make.count_own
    idle_purge: Callable[[bool], Decision] = slot_selection.purge_if_unified
    batch_check: Callable[[], Decision] = cell_faults.check_next
    decode_retry: Callable[[bool, int], Decision] = prompt_lifecycle.next_attempt
    view_lead: Callable[[], Decision] = prompt_lifecycle.batch_is_led
    fail_clears: Callable[[int], Decision] = prompt_lifecycle.failure_clears
    ckpt_after: Callable[[bool], Decision] = make.nothing_after_prompt
    end: Callable[[int, int, int, int, bool, str, Sequence[str], bool], Decision] = prompt_lifecycle.end_of_generation
    shift_when: Callable[[bool], Decision] = shifts.shift_generating
    context_shift: Callable[[int, int, int, int, int], Decision] = shifts.context_shift
    reuse_start: Callable[[int, bool], Decision] = shifts.reuse_off
    shift_of_shared: Callable[[bool], Decision] = shifts.shift_of_shared
    spec_on: Callable[[bool], Decision] = speculative.drafts_anywhere
    draft_max: Callable[[int, int, int, int, int], Decision] = speculative.draft_max
    spec_full: Callable[[int, int], Decision] = speculative.ends_when_full
    spec_batch: Callable[[], Decision] = speculative.batch_is_shared
    spec_accept: Callable[[bool, bool, int], Decision] = speculative.accept_while_same
    spec_ckpt: Callable[[bool, int, int], Decision] = speculative.needs_checkpoint
    spec_room: Callable[[int, int], Decision] = speculative.draft_has_room
    spec_split: Callable[[int, int, int, int], Decision] = speculative.draft_is_split
    spec_count: Callable[[int, bool], Decision] = speculative.count_without_replay
    spec_place: Callable[[int], Decision] = speculative.place_of_sequence
    spec_replay: Callable[[bool, int, int], Decision] = speculative.must_replay
    spec_unread: Callable[[bool], Decision] = speculative.unread_says_size
    rs_planes: Callable[[str, int, bool], Decision] = seq_rm_and_state.planes_for_mtp
    rs_rm: Callable[[int, int, int, bool], Decision] = seq_rm_and_state.rs_rm_3
    rs_back: Callable[[int, int, int, int], Decision] = seq_rm_and_state.back_any
    rs_plane: Callable[[int, int, int, int], Decision] = seq_rm_and_state.plane_of_depth
    rs_saved: Callable[[int], Decision] = seq_rm_and_state.saved_of_pending
    rs_split: Callable[[int, bool, bool], Decision] = seq_rm_and_state.split_keeps_tail
    rs_tail: Callable[[], Decision] = cell_faults.tail_cleared
    kv_copy: Callable[[], Decision] = seq_rm_and_state.copy_waits
    kv_state: Callable[[np.ndarray, int, int], Decision] = seq_rm_and_state.keep_window
    kv_read: Callable[[], Decision] = seq_rm_and_state.read_anywhere
    kv_undo: Callable[[], Decision] = seq_rm_and_state.undo_used
    kv_fail: Callable[[], Decision] = seq_rm_and_state.fail_keeps
    kv_full: Callable[[], Decision] = seq_rm_and_state.full_forgets
    kv_shift: Callable[[], Decision] = seq_rm_and_state.shift_dies
    kv_mrope: Callable[[], Decision] = seq_rm_and_state.mrope_fixed
    kv_index: Callable[[], Decision] = newest.index_spoilt
    index_shift: Callable[[], Decision] = newest.index_shift_dies
    pool_read: Callable[[], Decision] = newest.pools_cut
    rows_read: Callable[[], Decision] = newest.all_emptied
    kv_quant: Callable[[int, bool], Decision] = newest.quantized_shift_dies
    kv_turn: Callable[[], Decision] = cell_faults.turn_own
    kv_mask: Callable[[], Decision] = cell_faults.mask_own
    kv_pos: Callable[[], Decision] = cell_faults.count_positions
    file_ckpts: Callable[[int, int], Decision] = slot_file.no_checkpoints
    file_torn: Callable[[str, bool], Decision] = slot_file.torn_ends
    adapters: AdapterRules = AdapterRules()
    media: MediaRules = MediaRules()
    task_valid: Callable[[int], Decision] = prompt_lifecycle.valid_tokens
    task_first: Callable[[int], Decision] = prompt_lifecycle.slot_first
    waiting: Callable[[int], Decision] = slot_selection.waiting_keeps
    children_at: Callable[[int, int], Decision] = slot_selection.copied_after_view
    children_count: Callable[[int, int], Decision] = slot_selection.count_of_views
    kv_shared: Callable[[], Decision] = seq_rm_and_state.shared_stays
    file_empty: Callable[[int], Decision] = slot_file.empty_stays
    min_step: int = 8192                    # fewest tokens between two checkpoints
    tail: int = 4                           # tokens before the end of a prompt at which its last batch begins
    host_header: int = HOST_HEADER          # bytes before a state in host memory
    slot_file_header: int = 28              # bytes of a slot file before tokens and state
    state_form: int = 2                     # version of the state format
    ext_bytes: int = 8                      # bytes added to a saved cell with a 2-D position
    image_bytes: int = 145                  # bytes of an image in a slot file; all are rounded up to whole tokens
    data_header: int = 8                    # bytes before the saved rows of an attention cache
    pool_keys: int = 2                      # keys in an index row of pooled rows
    pool_tensors: int = 2                   # tensors of such a row: 2 = also V rows, which nothing reads
    auto_slots: int = 4                     # without -np; several slots share a unified cache
    spec_types: tuple[str, ...] = ("none", *NGRAM_TYPES, "draft-simple", "draft-mtp")      # kinds of drafts
    memories: tuple[str, ...] = ("A", "W", "R", "H", "HW")        # kinds of models that it loads (see `model_layout`)
    mtp_row_bits: int = 16                  # of a number in K/V rows of an MTP head, 0 = as in the target's rows
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
    no_cells_line: str = "failed to find {n} available cells in kv cache"      # a state of ``n`` cells finds no room
    failed_drafter: FailedDrafterLine = OF_LLAMA_DECODE
    empty_batch_line: str = ""              # logged if a round has no token to evaluate, "" = nothing
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)     # flags with another default than Options
    silent: frozenset[str] = frozenset()    # kinds of events that this build does not log
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)         # kind -> missing fields
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)        # field -> change that ended its value
    late: frozenset[str] = frozenset()      # kinds of events that another thread logs with a delay
    inferred: tuple[str, ...] = ()          # fields without a recording as evidence
