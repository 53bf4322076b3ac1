"""The server's start-up: from command-line flags to the numbers that stay fixed.

Source: llama.cpp common/arg.cpp, src/llama-context.cpp, tools/server/server-context.cpp load_model (3f545be).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput, NotInBuild, nearest, quoted
from cachesim.engines.llama_cpp.memory.hybrid_memory import Sizes, can_shift, pad
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind, draft_kind
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.shared.command_line import check_flags
from cachesim.model.spec import TRAINED_ON

MIB = 1 << 20
POOLINGS = ("mean", "last", "rank")
SPEC_TYPES = ("none", "ngram-simple", "draft-simple", "draft-mtp")


@dataclass(frozen=True, slots=True)
class Options:
    """Flags by their long names, with the defaults of b11549. ``ctx_size`` 0 = the model's own context, ``TRAINED_ON``
    tokens; ``parallel`` -1 = as many slots as the version starts without the flag (four with a unified cache since
    b6925, whatever ``kv_unified`` says); ``cache_ram`` in MiB, -1 = no byte limit, 0 = no prompt cache;
    ``checkpoint_min_step`` -1 = the default of the version. ``kv_unified_per_slot`` caps the context of a slot (0 = no
    cap; with ``ctx_size`` 0 the context is as large as all slots together), in versions that have the flag; ``pooling``
    is how an embedding is made: "last" and "rank" read the last token."""

    ctx_size: int = 0
    batch_size: int = 2048
    ubatch_size: int = 512
    parallel: int = -1
    kv_unified: bool = False
    swa_full: bool = False
    ctx_checkpoints: int = 32
    checkpoint_min_step: int = -1
    cache_ram: int = 8192
    slot_prompt_similarity: float = 0.1
    cache_idle_slots: bool = True
    cache_prompt: bool = True
    cache_reuse: int = 0
    context_shift: bool = False
    spec_type: str = "none"
    spec_draft_n_max: int = 3
    model_draft: str = ""
    kv_unified_per_slot: int = 0
    pooling: str = "mean"


DEFAULTS: Mapping[str, Any] = asdict(Options())


def options(flags: Mapping[str, Any]) -> Options:
    """Options from names and values. Raises BadInput for an unknown name or a value of the wrong type."""
    check_flags(flags, DEFAULTS)
    return Options(**flags)


@dataclass(frozen=True, slots=True)
class Settings:
    """What start-up makes of options and model. Contexts, batches and windows in tokens, limits in bytes and tokens."""

    n_slots: int
    unified: bool
    n_ctx: int
    n_ctx_slot: int
    n_batch: int
    n_ubatch: int
    n_swa: int               # the window that thresholds count with
    window: int              # the window beyond which something is forgotten
    exact: bool              # the probe at start-up: the memory cannot be cut at any position
    sizes: Sizes
    max_checkpoints: int
    min_step: int
    limit_size: int
    limit_tokens: int
    has_cache: bool
    cache_idle_slots: bool
    cache_prompt: bool       # what a request asks for that does not say
    sps: float
    n_cache_reuse: int
    context_shift: bool
    drafts: bool
    mtp: bool
    draft: ModelKind | None
    pooling: str


def _check(opts: Options, rules: Rules) -> None:
    """Raise BadInput for flags that the server of this version would not start with."""
    for name, least in (("ctx_size", 0), ("batch_size", 1), ("ubatch_size", 1), ("checkpoint_min_step", -1)):
        if getattr(opts, name) < least:
            raise BadInput(f"server flag {quoted(name)} must be at least {least}, not {getattr(opts, name)}")
    if opts.parallel == 0 or not -1 <= opts.parallel <= 64:
        raise BadInput(f"server flag 'parallel' must be -1 or 1 to 64, not {opts.parallel}")
    if opts.spec_type not in SPEC_TYPES:
        raise BadInput(f"unknown spec_type {quoted(opts.spec_type)}", hint=nearest(opts.spec_type, SPEC_TYPES))
    if opts.pooling not in POOLINGS:
        hint = nearest(opts.pooling, POOLINGS) or ", ".join(POOLINGS)
        raise BadInput(f"unknown pooling {quoted(opts.pooling)}", hint=hint)
    if opts.spec_type not in rules.spec_types:
        text = f"spec_type {quoted(opts.spec_type)} is not in {rules.name} ({rules.build})"
        raise NotInBuild(text, hint=f"known there: {', '.join(rules.spec_types)}")


def can_roll_back(kind: ModelKind) -> bool:
    """Architectures with rollback planes: of the recorded ones the gated delta net and the short convolution."""
    return bool(kind.recr) and all(kind.spec.layers[i].kind in "GC" for i in kind.recr)


def _contexts(opts: Options, rules: Rules, n_slots: int, unified: bool) -> tuple[int, int]:
    """Tokens of the whole context and of one sequence's."""
    pool = rules.ctx_pool(opts.ctx_size, n_slots, opts.kv_unified_per_slot).value
    n_ctx = pad(pool or TRAINED_ON, rules.ctx_pad)
    n_ctx_seq = n_ctx if unified or n_slots == 1 else pad(n_ctx // n_slots, rules.ctx_pad)
    return n_ctx_seq if unified else n_ctx_seq * n_slots, n_ctx_seq


def settings(opts: Options, kind: ModelKind, rules: Rules) -> Settings:
    """The numbers fixed at start-up of this version. Raises BadInput for flags that it would not start with."""
    _check(opts, rules)
    auto = opts.parallel == -1
    n_slots = rules.auto_slots if auto else opts.parallel
    unified = opts.kv_unified or (auto and n_slots > 1)
    n_ctx, n_ctx_seq = _contexts(opts, rules, n_slots, unified)
    n_batch = max(min(opts.batch_size, n_ctx), rules.least_batch)
    n_ubatch = min(n_batch, opts.ubatch_size)
    swa_full = opts.swa_full and kind.n_swa > 0
    planes = rules.rs_planes(opts.spec_type, opts.spec_draft_n_max, can_roll_back(kind))
    sizes = Sizes(n_slots, unified, n_ctx_seq, n_ubatch, swa_full, planes.value, rules.window_pad)
    drafts = opts.spec_type != "none" and rules.spec_on(bool(kind.recr)).value
    movable = can_shift(kind, sizes)
    return Settings(
        n_slots=n_slots,
        unified=unified,
        n_ctx=n_ctx,
        n_ctx_slot=rules.slot_ctx(n_ctx_seq, n_ctx, n_slots, opts.kv_unified_per_slot).value,
        n_batch=n_batch,
        n_ubatch=n_ubatch,
        n_swa=rules.n_swa(kind.n_swa, swa_full).value,
        window=0 if swa_full else kind.n_swa,
        exact=bool(kind.recr),
        sizes=sizes,
        max_checkpoints=opts.ctx_checkpoints,
        min_step=rules.min_step if opts.checkpoint_min_step < 0 else opts.checkpoint_min_step,
        limit_size=max(0, opts.cache_ram) * MIB,
        limit_tokens=n_ctx,
        has_cache=opts.cache_ram != 0,
        cache_idle_slots=opts.cache_idle_slots and opts.cache_ram != 0,
        cache_prompt=opts.cache_prompt,
        sps=opts.slot_prompt_similarity,
        n_cache_reuse=opts.cache_reuse if movable else 0,
        context_shift=opts.context_shift and movable,
        pooling=opts.pooling,
        drafts=drafts,
        mtp=drafts and opts.spec_type == "draft-mtp",
        draft=draft_kind(kind, opts.spec_type, opts.model_draft) if drafts else None,
    )
