"""Rule table of a version of ik_llama.cpp's server. The defaults are the rules of `ik_llama@main`.

A field is a rule or a number, never a boolean, so that drivers do not branch on a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Callable, Mapping

from cachesim.engines.ik_llama.rules import (
    carried_over,
    common_prefix,
    context_shift,
    media,
    micro_batch,
    slot_file,
    slot_selection,
    speculative,
)
from cachesim.engines.ik_llama.rules import checkpoint_create as make
from cachesim.engines.ik_llama.rules import checkpoint_restore as use
from cachesim.engines.ik_llama.rules import prompt_cache as pc
from cachesim.engines.ik_llama.rules import trim as removal
from cachesim.engines.ik_llama.rules.checkpoint_restore import Unset
from cachesim.engines.rule import Decision
from cachesim.engines.shared.rule_set import RuleSet

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class MediaRules:
    """Rules about images."""

    position: Rule = media.position_after
    resume: Rule = media.tokens_up_to
    cut: Rule = media.cut_inside
    text_end: Rule = media.text_end
    place: Rule = media.image_place
    ckpt: Rule = media.none_right_after
    end: Rule = media.ends_with_image
    null: Rule = media.no_image_here
    fits: Rule = media.fits_micro_batch
    fails: Rule = media.image_fails
    shift: Rule = media.shift_around_images
    prompt_shift: Rule = media.prompt_shift_around_images
    drafts: Rule = media.drafts_with_projector


READ_ONLY = tuple(f"media.{one.name}" for one in fields(MediaRules))
"""Fields about images: no server with images was run."""


@dataclass(frozen=True, repr=False)
class Rules(RuleSet):
    """Rules of a version, in the order in which they apply to a request.

    ``last_checkpoint``: position from which the checkpoint interval of a new request is counted; ``undecoded``: number
    of sampled tokens that are added to the slot at the end without evaluation; ``block_flash`` and ``block_plain``:
    cells of a block with and without flash attention; ``most_images``: images in a prompt, 0 = their rules are not
    known. ``RuleSet`` describes the other fields; of ``unset``, a judged
    run tries every relevant value.
    """

    compare: Rule = slot_selection.compare_without_reasoning
    slot_select: Rule = slot_selection.slot_select
    shifted: Rule = slot_selection.compare_shifted
    pc_save: Rule = slot_selection.save_if_little_kept
    pc_alloc: Rule = pc.admit
    pc_peek: Rule = pc.peek_moves
    pc_load: Rule = pc.pick_kept
    pc_after_hit: Rule = pc.take_entry
    pc_failed: Rule = pc.failed_keeps
    pc_update: Rule = pc.evict
    parser: Rule = carried_over.parser_own
    system: Rule = carried_over.system_clears_all
    prompt_empty: Rule = common_prefix.prompt_empty
    keep: Rule = context_shift.keep_tokens
    full: Rule = context_shift.context_full
    refused: Rule = context_shift.refused_reads
    shift: Rule = context_shift.shift_context
    prompt_shift: Rule = context_shift.shift_prompt
    shift_find: Rule = context_shift.shift_in_cache
    prompt_cut: Rule = context_shift.prompt_cut_block
    shift_list: Rule = context_shift.shift_list_cached
    reuse: Rule = common_prefix.reuse_asked
    prefix: Rule = common_prefix.prefix_loose
    one: Rule = common_prefix.one_before
    ckpt_need: Rule = use.need_or_private
    ckpt_pick: Rule = use.pick_pos_max
    ckpt_resume: Rule = use.resume_prompt_end
    ckpt_reset: Rule = use.reset_tokens
    ckpt_erase: Rule = use.erase_thold
    trim: Rule = removal.trim_in_turn
    trim_failed: Rule = removal.failed_reset
    seq_rm: Rule = removal.rm_refused
    window: Rule = removal.window_compact
    ckpt_on: Rule = make.on_with_states
    ckpt_break: Rule = make.break_tolerance
    spec_start: Rule = speculative.start_with_one_slot
    ubatch_split: Rule = micro_batch.split_repeated
    kv_seen: Rule = micro_batch.seen_by_block_ends
    kv_window: Rule = micro_batch.window_in_last_blocks
    kv_blind: Rule = micro_batch.blind_is_not_a_number
    state_zero: Rule = micro_batch.zero_at_start
    graph: Rule = micro_batch.graph_by_sequences
    abort: Rule = micro_batch.abort_cuts
    decode_retry: Rule = micro_batch.next_attempt
    decode_again: Rule = micro_batch.again_from_view
    give_up: Rule = micro_batch.give_up_keeps
    ckpt_cells: Rule = removal.cells_claimed
    ckpt_interval: Rule = make.interval_exact
    ckpt_first: Rule = make.first_without_tolerance
    ckpt_create: Rule = make.create_by_tokens
    ckpt_evict: Rule = make.evict_by_option
    draft_max: Rule = speculative.draft_max
    draft_from: Rule = speculative.draft_from_target
    warm_up: Rule = speculative.warm_up_before
    spec_save: Rule = speculative.save_or_root_only
    spec_purge: Rule = speculative.purge_keep
    spec_commit: Rule = speculative.commit_ahead
    spec_steps: Rule = speculative.steps_by_place
    spec_row: Rule = speculative.row_first
    end: Rule = removal.end_of_generation
    slot_save: Rule = slot_file.save_side_file
    slot_restore: Rule = slot_file.restore_side_file
    slot_erase: Rule = slot_file.erase_all
    media: MediaRules = MediaRules()
    last_checkpoint: int = -1
    undecoded: int = 0
    block_flash: int = 256
    block_plain: int = 32
    most_images: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    unset: Mapping[Unset, int] = field(default_factory=dict, hash=False)
    silent: frozenset[str] = frozenset()
    unlogged: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    late: frozenset[str] = frozenset()
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)
