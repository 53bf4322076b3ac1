"""The server's start-up: from command-line flags to the numbers that stay fixed.

Source: ik_llama.cpp common/common.cpp, examples/server/server-context.cpp init (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama.flags import Options
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.shared.vocab import THINK
from cachesim.model.spec import TRAINED_ON

MIB = 1 << 20
LEAST_BATCH = 16            # GGML_KQ_MASK_PAD: a smaller n_batch becomes so large


@dataclass(frozen=True, slots=True)
class Settings:
    """What start-up makes of options and model: counts in tokens, limits in bytes. ``marks`` are the tokens around
    reasoning that similarities leave out, None = nothing is left out; ``pad`` cells of a block, of which the context
    has a whole number; ``n_max`` drafts of a round, 0 = none."""

    flags: Options
    n_slots: int
    n_ctx: int
    pad: int
    n_ctx_slot: int
    n_batch: int
    n_ubatch: int
    context_shift: bool
    max_checkpoints: int
    limit_size: int
    marks: tuple[int, int] | None
    n_max: int
    rollback: str


def settings(opts: Options, kind: ModelKind, pad: int) -> Settings:
    """The numbers that hold as long as the server runs; ``pad`` cells are a block. Raises BadInput for flags with which
    it would not start."""
    if opts.spec_type == "mtp" and not kind.spec.mtp:
        raise BadInput(f"model {kind.name} has no MTP head for spec_type 'mtp'", hint="for example GGGA+M")
    if opts.spec_type != "none" and kind.recurrent:
        raise BadInput("a model of recurrent layers only cannot be speculated with: its memory cannot be cut")
    can_shift = not kind.states and not kind.private
    n_ctx = -(-(opts.ctx_size or TRAINED_ON) // pad) * pad
    n_batch = max(LEAST_BATCH, min(n_ctx, opts.batch_size))
    return Settings(
        flags=opts, n_slots=opts.parallel, n_ctx=n_ctx, pad=pad, n_ctx_slot=n_ctx // opts.parallel, n_batch=n_batch,
        n_ubatch=min(opts.ubatch_size, n_batch), context_shift=opts.context_shift and can_shift,
        max_checkpoints=opts.ctx_checkpoints, limit_size=max(0, opts.cache_ram) * MIB,
        marks=THINK if opts.reasoning_tokens == "auto" else None,
        n_max=opts.spec_draft_n_max if opts.spec_type != "none" else 0,
        rollback="per-step" if opts.spec_ckpt_mode == "auto" else opts.spec_ckpt_mode,
    )
