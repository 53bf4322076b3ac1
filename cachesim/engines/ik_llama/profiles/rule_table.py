"""Rule table of a version of ik_llama.cpp's server. The defaults are the rules of `ik_llama@main`.

A field is a rule or a number, never a boolean, so that drivers do not branch on a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

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

if TYPE_CHECKING:
    import numpy as np

    from cachesim.engines.shared.prompt_cache_limits import Limits

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class MediaRules:
    """Rules about images."""

    position: Callable[[Sequence[int], int, bool], Decision] = media.position_after
    resume: Callable[[Sequence[int], int, bool], Decision] = media.tokens_up_to
    cut: Callable[[Sequence[int], int], Decision] = media.cut_inside
    text_end: Callable[[Sequence[int], int, int, bool], Decision] = media.text_end
    place: Callable[[int, int], Decision] = media.image_place
    ckpt: Callable[[bool, bool, int], Decision] = media.none_right_after
    end: Callable[[int], Decision] = media.ends_with_image
    null: Callable[[int, int], Decision] = media.no_image_here
    fits: Callable[[int, int, bool], Decision] = media.fits_micro_batch
    fails: Callable[[int], Decision] = media.image_fails
    shift: Callable[[Sequence[int], context_shift.Shift], Decision] = media.shift_around_images
    prompt_shift: Callable[[Sequence[int], context_shift.PromptShift, int], Decision] = media.prompt_shift_around_images
    drafts: Callable[[str, bool], Decision] = media.drafts_with_projector


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

    compare: Callable[[int, int], Decision] = slot_selection.compare_without_reasoning
    slot_select: Callable[[Sequence[slot_selection.SlotFacts], int, float], Decision] = slot_selection.slot_select
    shifted: Callable[[int, int, int], Decision] = slot_selection.compare_shifted
    pc_save: Callable[[float, int, float, int], Decision] = slot_selection.save_if_little_kept
    pc_alloc: Callable[[Sequence[pc.EntryFacts]], Decision] = pc.admit
    pc_peek: Callable[[bool], Decision] = pc.peek_moves
    pc_load: Callable[[Sequence[pc.EntryFacts], pc.EntryFacts, float], Decision] = pc.pick_kept
    pc_after_hit: Callable[[int], Decision] = pc.take_entry
    pc_failed: Callable[[int], Decision] = pc.failed_keeps
    pc_update: Callable[[Sequence[int], Sequence[int], Limits], Decision] = pc.evict
    parser: Callable[[bool, bool], Decision] = carried_over.parser_own
    system: Callable[[int], Decision] = carried_over.system_clears_all
    prompt_empty: Callable[[int], Decision] = common_prefix.prompt_empty
    keep: Callable[[int | None, int], Decision] = context_shift.keep_tokens
    full: Callable[[int, int, bool], Decision] = context_shift.context_full
    refused: Callable[[int, int], Decision] = context_shift.refused_reads
    shift: Callable[[int, int, int, int, int], Decision] = context_shift.shift_context
    prompt_shift: Callable[[int, int, int, int], Decision] = context_shift.shift_prompt
    shift_find: Callable[
        [common_prefix.CommonLength, common_prefix.CommonLength, int, int], Decision
    ] = context_shift.shift_in_cache
    prompt_cut: Callable[[int], Decision] = context_shift.prompt_cut_block
    shift_list: Callable[[bool], Decision] = context_shift.shift_list_cached
    reuse: Callable[[bool], Decision] = common_prefix.reuse_asked
    prefix: Callable[[Sequence[int], Sequence[int], common_prefix.Pieces], Decision] = common_prefix.prefix_loose
    one: Callable[[int, int, bool], Decision] = common_prefix.one_before
    ckpt_need: Callable[[use.RestoreInputs], Decision] = use.need_or_private
    ckpt_pick: Callable[[Sequence[use.Ckpt], use.RestoreInputs], Decision] = use.pick_pos_max
    ckpt_resume: Callable[[use.Ckpt, use.RestoreInputs], Decision] = use.resume_prompt_end
    ckpt_reset: Callable[[use.RestoreInputs], Decision] = use.reset_tokens
    ckpt_erase: Callable[[Sequence[use.Ckpt], use.RestoreInputs], Decision] = use.erase_thold
    trim: Callable[[bool], Decision] = removal.trim_in_turn
    trim_failed: Callable[[bool, bool], Decision] = removal.failed_reset
    seq_rm: Callable[[bool, int, int, int], Decision] = removal.rm_refused
    window: Callable[[bool, bool, int], Decision] = removal.window_compact
    ckpt_on: Callable[[int, bool, bool], Decision] = make.on_with_states
    ckpt_break: Callable[[int, int, int, int], Decision] = make.break_tolerance
    spec_start: Callable[[str, int], Decision] = speculative.start_with_one_slot
    ubatch_split: Callable[[bool, Sequence[int]], Decision] = micro_batch.split_repeated
    kv_seen: Callable[[np.ndarray, int, int], Decision] = micro_batch.seen_by_block_ends
    kv_window: Callable[[int, int, int, bool, int], Decision] = micro_batch.window_in_last_blocks
    kv_blind: Callable[[int, bool], Decision] = micro_batch.blind_is_not_a_number
    state_zero: Callable[[int, int], Decision] = micro_batch.zero_at_start
    graph: Callable[
        [micro_batch.ComputeGraph | None, micro_batch.ComputeGraph, int], Decision
    ] = micro_batch.graph_by_sequences
    abort: Callable[[int, int], Decision] = micro_batch.abort_cuts
    decode_retry: Callable[[int], Decision] = micro_batch.next_attempt
    decode_again: Callable[[int], Decision] = micro_batch.again_from_view
    give_up: Callable[[int], Decision] = micro_batch.give_up_keeps
    ckpt_cells: Callable[[bool], Decision] = removal.cells_claimed
    ckpt_interval: Callable[[int, int, int], Decision] = make.interval_exact
    ckpt_first: Callable[[int], Decision] = make.first_without_tolerance
    ckpt_create: Callable[[Sequence[use.Ckpt], int, int, int, bool], Decision] = make.create_by_tokens
    ckpt_evict: Callable[[Sequence[use.Ckpt], str], Decision] = make.evict_by_option
    draft_max: Callable[[int, int, int, int], Decision] = speculative.draft_max
    draft_from: Callable[[int, int], Decision] = speculative.draft_from_target
    warm_up: Callable[[int, int], Decision] = speculative.warm_up_before
    spec_save: Callable[[int, int], Decision] = speculative.save_or_root_only
    spec_purge: Callable[[int, bool, int], Decision] = speculative.purge_keep
    spec_commit: Callable[[int], Decision] = speculative.commit_ahead
    spec_steps: Callable[[int, int], Decision] = speculative.steps_by_place
    spec_row: Callable[[int], Decision] = speculative.row_first
    end: Callable[[int, int], Decision] = removal.end_of_generation
    slot_save: Callable[[int], Decision] = slot_file.save_side_file
    slot_restore: Callable[[bool], Decision] = slot_file.restore_side_file
    slot_erase: Callable[[int], Decision] = slot_file.erase_all
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
