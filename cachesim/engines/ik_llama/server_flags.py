"""The server's start-up: from command-line flags to the numbers that stay fixed.

Source: ik_llama.cpp common/common.cpp, examples/server/server-context.cpp init (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from cachesim.base import limits
from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.shared.command_line import check_flags
from cachesim.engines.shared.vocab import THINK
from cachesim.model.spec import TRAINED_ON

MIB = 1 << 20
LEAST_BATCH = 16            # GGML_KQ_MASK_PAD: a smaller n_batch becomes so large
EVICTIONS = ("variance", "fifo", "auto")
SPEC_TYPES = ("none", "mtp", "ngram-simple")
ROLLBACKS = ("auto", "per-step", "gpu-fallback", "cpu")


@dataclass(frozen=True, slots=True)
class Options:
    """Flags by their long names, with the defaults of 8337e4cd3. ``ctx_size`` 0 = the model's own context,
    ``TRAINED_ON`` tokens; ``cache_ram`` in MiB, -1 = no limit, 0 = no prompt cache; ``reasoning_tokens`` "auto" leaves
    <think> .. </think> out of similarities, "none" does not; ``flash_attn``: the context is made of blocks of 256
    cells, of 32 without; ``spec_draft_n_max`` drafts of a round, for which the server is prepared.
    ``companion_recurrent`` is not a flag of a real server: it makes the companion's memory refuse a removal, as #1889
    supposes."""

    ctx_size: int = 0
    batch_size: int = 2048
    ubatch_size: int = 512
    parallel: int = 1
    ctx_checkpoints: int = 32
    ctx_checkpoints_interval: int = 512
    ctx_checkpoints_tolerance: int = 5
    ctx_checkpoints_eviction: str = "variance"
    cache_ram: int = 8192
    cache_ram_similarity: float = 0.5
    cache_ram_n_min: int = 0
    slot_prompt_similarity: float = 0.1
    reasoning_tokens: str = "auto"
    context_shift: bool = True
    flash_attn: bool = True
    swa_compress: bool = False
    spec_type: str = "none"
    spec_draft_n_max: int = 16
    spec_ckpt_mode: str = "auto"
    companion_recurrent: bool = False


WORDS: Mapping[str, tuple[str, ...]] = {
    "ctx_checkpoints_eviction": EVICTIONS, "spec_type": SPEC_TYPES, "spec_ckpt_mode": ROLLBACKS,
    "reasoning_tokens": ("auto", "none"),
}
"""Options that are one of a few words."""


def options(flags: Mapping[str, Any]) -> Options:
    """Options from names and values. Raises BadInput for an unknown name or a value that cannot be used."""
    check_flags(flags, asdict(Options()))
    for name, value in flags.items():
        if name in WORDS and value not in WORDS[name]:
            raise BadInput(f"server flag {quoted(name)} cannot be {quoted(value)}", hint=nearest(value, WORDS[name]))
    for name, least in (("ctx_size", 0), ("batch_size", 1), ("ubatch_size", 1), ("parallel", 1)):
        if flags.get(name, least) < least:
            raise BadInput(f"server flag {quoted(name)} must be at least {least}, not {flags[name]}")
    limits.SLOTS.check(flags.get("parallel", 1), "server flag 'parallel'")
    return Options(**flags)


@dataclass(frozen=True, slots=True)
class Settings:
    """What start-up makes of options and model: counts in tokens, limits in bytes. ``marks`` are the tokens around
    reasoning that similarities leave out, None = nothing is left out; ``pad`` cells of a block, of which the context
    has a whole number; ``n_max`` drafts of a round, 0 = none; ``capacity`` tokens of a round whose recurrent rows can
    be kept."""

    n_slots: int
    n_ctx: int
    pad: int
    n_ctx_slot: int
    n_batch: int
    n_ubatch: int
    context_shift: bool
    flash_attn: bool
    max_checkpoints: int
    interval: int
    tolerance: int
    eviction: str
    has_cache: bool
    limit_size: int
    least_keep: float
    n_min: int
    sps: float
    marks: tuple[int, int] | None
    n_max: int
    capacity: int
    companion: bool
    rollback: str


def settings(opts: Options, kind: ModelKind, pad: int) -> Settings:
    """The numbers that hold as long as the server runs; ``pad`` cells are a block. Raises BadInput for flags with which
    it would not start."""
    if opts.spec_type == "mtp" and not kind.spec.mtp:
        raise BadInput(f"model {kind.name} has no MTP head for spec_type 'mtp'", hint="for example GGGA+M")
    if opts.spec_type != "none" and kind.recurrent:
        raise BadInput("a model of recurrent layers only cannot be speculated with: its memory cannot be cut")
    n_max = opts.spec_draft_n_max if opts.spec_type != "none" else 0
    can_shift = not kind.states and not kind.private
    n_ctx = -(-(opts.ctx_size or TRAINED_ON) // pad) * pad
    n_batch = max(LEAST_BATCH, min(n_ctx, opts.batch_size))
    return Settings(
        n_slots=opts.parallel,
        n_ctx=n_ctx,
        pad=pad,
        n_ctx_slot=n_ctx // opts.parallel,
        n_batch=n_batch,
        n_ubatch=min(opts.ubatch_size, n_batch),
        context_shift=opts.context_shift and can_shift,
        flash_attn=opts.flash_attn,
        max_checkpoints=opts.ctx_checkpoints,
        interval=opts.ctx_checkpoints_interval,
        tolerance=opts.ctx_checkpoints_tolerance,
        eviction=opts.ctx_checkpoints_eviction,
        has_cache=opts.cache_ram != 0,
        limit_size=max(0, opts.cache_ram) * MIB,
        least_keep=opts.cache_ram_similarity,
        n_min=opts.cache_ram_n_min,
        sps=opts.slot_prompt_similarity,
        marks=THINK if opts.reasoning_tokens == "auto" else None,
        n_max=n_max,
        capacity=n_max + 1,
        companion=opts.spec_type == "mtp",
        rollback="per-step" if opts.spec_ckpt_mode == "auto" else opts.spec_ckpt_mode,
    )
