"""Rule table of a version of ik_llama.cpp's server.

A field is a rule or a number, never a boolean, so that drivers do not branch on a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Callable, Mapping

from cachesim.engines.ik_llama.rules import media
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


@dataclass(frozen=True)
class Rules(RuleSet):
    """Rules of a version, in the order in which they apply to a request.

    ``last_checkpoint``: position from which the checkpoint interval of a new request is counted; ``undecoded``: number
    of sampled tokens that are added to the slot at the end without evaluation; ``block_flash`` and ``block_plain``:
    cells of a block with and without flash attention; ``most_images``: images in a prompt, 0 = their rules are not
    known. ``RuleSet`` describes the other fields; of ``unset``, a judged
    run tries every relevant value.
    """

    compare: Rule
    slot_select: Rule
    shifted: Rule
    pc_save: Rule
    pc_alloc: Rule
    pc_peek: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_failed: Rule
    pc_update: Rule
    parser: Rule
    system: Rule
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
    graph: Rule
    abort: Rule
    decode_retry: Rule
    decode_again: Rule
    give_up: Rule
    ckpt_cells: Rule
    ckpt_interval: Rule
    ckpt_first: Rule
    ckpt_create: Rule
    ckpt_evict: Rule
    draft_max: Rule
    draft_from: Rule
    warm_up: Rule
    spec_save: Rule
    spec_purge: Rule
    spec_commit: Rule
    spec_steps: Rule
    spec_row: Rule
    end: Rule
    slot_save: Rule
    slot_restore: Rule
    slot_erase: Rule
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
