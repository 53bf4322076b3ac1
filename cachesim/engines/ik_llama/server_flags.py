"""Server start-up: conversion of flags to the numbers that stay fixed.

Source: ik_llama.cpp common/common.cpp, examples/server/server-context.cpp init (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama.flags import Options
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.ik_llama.profiles import Rules
from cachesim.engines.shared.vocab import THINK
from cachesim.model.spec import TRAINED_ON

MIB = 1 << 20
LEAST_BATCH = 16            # GGML_KQ_MASK_PAD: a smaller n_batch is raised to this


@dataclass(frozen=True, slots=True)
class Settings:
    """Fixed numbers of a running server."""

    flags: Options
    n_slots: int                    # number of slots
    n_ctx: int                      # size of the context [tokens], a multiple of `pad`
    pad: int                        # cells of a block
    n_ctx_slot: int                 # share of a slot [tokens]
    n_batch: int                    # largest batch [tokens]
    n_ubatch: int                   # largest micro-batch [tokens]
    context_shift: bool             # a full slot is shifted
    max_checkpoints: int            # most checkpoints of a slot
    limit_size: int                 # limit of the prompt cache [bytes], 0 = none
    marks: tuple[int, int] | None   # tokens around reasoning that similarities omit, None = reasoning counts
    projector: str                  # kind of the projector of images, "" = none, or none is known of these rules
    n_max: int                      # longest draft [tokens], 0 = no drafts
    rollback: str                   # method to save recurrent states before a draft


def settings(opts: Options, kind: ModelKind, rules: Rules) -> Settings:
    """Return the fixed numbers of a server of these rules. Raise BadInput for flags with which the server
    does not start."""
    if opts.spec_type == "mtp" and not kind.spec.mtp:
        raise BadInput(f"model {kind.name} has no MTP head for spec_type 'mtp'", hint="for example GGGA+M")
    if opts.spec_type != "none" and kind.recurrent:
        raise BadInput("drafts need a model with attention layers: recurrent memory does not support removals")
    pad = rules.block_flash if opts.flash_attn else rules.block_plain
    projector = opts.mmproj if rules.most_images else ""
    drafts: str = rules.media.drafts(opts.spec_type, bool(projector)).value
    can_shift = not kind.states and not kind.private
    n_ctx = -(-(opts.ctx_size or opts.n_ctx_train or TRAINED_ON) // pad) * pad
    n_batch = max(LEAST_BATCH, min(n_ctx, opts.batch_size))
    return Settings(
        flags=opts, n_slots=opts.parallel, n_ctx=n_ctx, pad=pad, n_ctx_slot=n_ctx // opts.parallel, n_batch=n_batch,
        n_ubatch=min(opts.ubatch_size, n_batch), context_shift=opts.context_shift and can_shift,
        max_checkpoints=opts.ctx_checkpoints, limit_size=max(0, opts.cache_ram) * MIB,
        marks=THINK if opts.reasoning_tokens == "auto" else None,
        projector=projector, n_max=opts.spec_draft_n_max if drafts != "none" else 0,
        rollback="per-step" if opts.spec_ckpt_mode == "auto" else opts.spec_ckpt_mode,
    )
