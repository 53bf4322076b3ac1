"""Settings that the server derives from its command-line flags at startup.

Source: llama.cpp common/arg.cpp, src/llama-context.cpp, tools/server/server-context.cpp load_model (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from cachesim.base.errors import BadInput, NotInBuild, counted, quoted
from cachesim.engines.llama_cpp.flags import NOT_SIMULATED, Options, by_model, drafters_of, needing_model
from cachesim.engines.llama_cpp.memory.hybrid_memory import PAD, Sizes, can_shift, pad
from cachesim.engines.llama_cpp.memory.model_layout import KIND_WORDS, ModelKind, draft_kind
from cachesim.engines.llama_cpp.memory.newest_layout import SIMULATED_SINCE
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.rules.adapters import Adapter, read_adapters
from cachesim.model.spec import TRAINED_ON

MIB = 1 << 20
MAX_SLOTS = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings derived from options and model at startup. Contexts, batches and windows in tokens."""

    flags: Options           # as given on the command line
    n_slots: int
    unified: bool            # a common cell table for all slots
    n_ctx: int               # context of all slots together
    n_ctx_slot: int          # longest prompt plus answer of a slot
    n_batch: int
    n_ubatch: int
    n_swa: int               # window used by the checkpoint thresholds, 0 = none
    window: int              # window after which rows are dropped, 0 = none (also with --swa-full)
    exact: bool              # startup probe: the memory cannot be cut at an arbitrary position
    sizes: Sizes
    max_checkpoints: int     # per slot
    min_step: int            # fewest tokens between two checkpoints
    limit_size: int          # prompt cache [bytes]
    limit_tokens: int        # prompt cache [tokens]
    has_cache: bool          # the prompt cache is enabled
    cache_idle_slots: bool
    sps: float               # slot prompt similarity, a share of the prompt
    n_cache_reuse: int       # fewest tokens of a block that is reused by shifting, 0 = off
    context_shift: bool
    drafts: bool             # speculative decoding is on
    mtp: bool                # the drafter is the model's own MTP head
    draft: ModelKind | None  # model of the draft context, None = without draft context
    projector: str           # kind of the projector of images, "" = none, or without effect: older builds were not read


def can_roll_back(kind: ModelKind) -> bool:
    """True if the architecture has rollback planes: gated delta net, short convolution and compressors among the
    recorded models."""
    return bool(kind.recr) and all(kind.spec.layers[i].kind in "GCD" for i in kind.recr)


def _contexts(opts: Options, rules: Rules, n_slots: int, unified: bool) -> tuple[int, int]:
    """Return the context of all slots together and of a sequence [tokens]."""
    pool = rules.ctx_pool(opts.ctx_size, n_slots, opts.kv_unified_per_slot).value
    n_ctx = _padded(pool or opts.n_ctx_train or TRAINED_ON, rules)
    n_ctx_seq = n_ctx if unified or n_slots == 1 else _padded(n_ctx // n_slots, rules)
    return n_ctx_seq if unified else n_ctx_seq * n_slots, n_ctx_seq


def _padded(n_ctx: int, rules: Rules) -> int:
    """Return a context rounded up as this version does [tokens]."""
    return rules.derived("ctx_pad", lambda to: pad(n_ctx, to))


def loaded_adapters(opts: Options, rules: Rules) -> tuple[Adapter, ...]:
    """Return the adapters of the command line as this version reads their files."""
    return tuple(adapter._replace(invocation=rules.adapters.read(adapter.invocation).value)
                 for adapter in read_adapters(opts.lora_scaled))  # fmt: skip


def _check_drafters(kinds: Sequence[str], rules: Rules) -> None:
    """Raise NotInBuild for drafters that are not simulated, or that this version does not have."""
    for kind in kinds:
        _check_drafter(kind, rules)
    if len(kinds) > 1 and not all(rules.has("spec_types", kind) for kind in ("ngram-simple", "draft-simple")):
        raise NotInBuild(f"several spec_type are not in {rules.name} ({rules.build})", hint="from b9109 (#22838) on")
    if len(models := [kind for kind in kinds if by_model(kind)]) > 1:
        raise NotInBuild(f"spec_type {quoted(','.join(models))} is not simulated: both would use one draft context")


def _check_drafter(kind: str, rules: Rules) -> None:
    """Raise NotInBuild for a drafter that is not simulated, or that this version does not have."""
    if (why := NOT_SIMULATED.get(kind)) is not None:
        raise NotInBuild(f"spec_type {quoted(kind)} is not simulated: {why}",
                         hint=f"simulated: {', '.join(rules.spec_types)}")  # fmt: skip
    if not rules.has("spec_types", kind):
        text = f"spec_type {quoted(kind)} is not in {rules.name} ({rules.build})"
        raise NotInBuild(text, hint=f"known there: {', '.join(rules.spec_types)}")


def _check_batch(n_batch: int, rules: Rules) -> None:
    """Raise BadInput if a starting server evaluates more tokens than fit into a batch, which ends it.
    Source: llama.cpp common/common.cpp common_context_can_seq_rm (#19270); run: b8352 to b11549."""
    if rules.derived("start_batch", lambda least: n_batch < least):
        raise BadInput(f"a server with a batch of {counted(n_batch, 'token')} aborts when it starts under {rules.name}",
                       hint=f"it then evaluates {rules.start_batch} tokens to try seq_rm: batch_size must be at least "
                            f"{rules.start_batch}")  # fmt: skip


ONE_TYPE = ("dsa", "dsa_iswa", "dsv4")
"""Kinds of models whose V rows are part of their K rows. Source: llama.cpp src/llama-context.cpp llama_init_from_model
(b11549)."""


def _check_model(opts: Options, kind: ModelKind, rules: Rules) -> None:
    """Raise NotInBuild if this version cannot load the model, BadInput if the server does not start with these types of
    its K and V rows."""
    if not rules.has("memories", kind.kind):
        first = SIMULATED_SINCE.get(kind.kind, "")
        cannot = f"is simulated from {first} on, not for" if first else "cannot be loaded by"
        text = f"model {quoted(kind.name)} ({KIND_WORDS[kind.kind]}) {cannot} {rules.name} ({rules.build})"
        raise NotInBuild(text, hint=f"models there: {', '.join(KIND_WORDS[known] for known in rules.memories)}")
    if kind.kind in ONE_TYPE and opts.cache_type_k != opts.cache_type_v:
        raise BadInput(f"the server does not start: {KIND_WORDS[kind.kind]} need one type of K and V rows, not "
                       f"{opts.cache_type_k} and {opts.cache_type_v}", hint=f"-ctv {opts.cache_type_k}")  # fmt: skip


def settings(opts: Options, kind: ModelKind, rules: Rules) -> Settings:
    """Return the settings that this version fixes at startup. Raise BadInput if it would not start."""
    if opts.parallel > MAX_SLOTS:
        raise BadInput(f"server flag 'parallel' must be -1 or 1 to {MAX_SLOTS}, not {opts.parallel}")
    drafters = drafters_of(opts.spec_type)
    _check_drafters(drafters, rules)
    _check_model(opts, kind, rules)
    adapters = read_adapters(opts.lora_scaled)
    if adapters and len(adapters) > rules.most_adapters:
        raise NotInBuild(f"adapters are not known of {rules.name} ({rules.build})", hint="from b4579 on")
    auto = rules.slots_open(opts.parallel, opts.kv_unified, bool(opts.model_draft)).value
    n_slots = rules.auto_slots if auto else opts.parallel
    unified = opts.kv_unified or (auto and n_slots > 1)
    n_ctx, n_ctx_seq = _contexts(opts, rules, n_slots, unified)
    n_batch = rules.derived("least_batch", lambda least: max(min(opts.batch_size, n_ctx), least))
    _check_batch(n_batch, rules)
    n_ubatch = min(n_batch, opts.ubatch_size)
    swa_full = opts.swa_full and kind.n_swa > 0
    planes = rules.rs_planes(needing_model(drafters), opts.spec_draft_n_max, can_roll_back(kind))
    shared = rules.kv_streams(unified, kind.kind).value
    sizes = Sizes(
        n_slots,
        shared,
        n_ctx_seq=n_ctx_seq,
        n_ubatch=n_ubatch,
        swa_full=swa_full,
        n_rs_seq=planes.value,
        window_pad=rules.window_pad if kind.swa else PAD,
    )
    drafts = bool(drafters) and rules.spec_on(bool(kind.recr)).value
    projector = opts.mmproj if opts.mmproj and rules.most_images else ""
    shiftable = can_shift(kind, sizes, kind.mrope and rules.kv_mrope().value == "fixed")
    movable: bool = rules.media.moves(shiftable, bool(projector)).value
    return Settings(
        flags=opts, n_slots=n_slots, unified=unified, sizes=sizes, n_ctx=n_ctx, n_batch=n_batch, n_ubatch=n_ubatch,
        n_ctx_slot=rules.slot_ctx(n_ctx_seq, n_ctx, n_slots, opts.kv_unified_per_slot, opts.n_ctx_train).value,
        n_swa=rules.n_swa(rules.window_told(kind.n_swa, kind.kind).value, swa_full).value,
        window=0 if swa_full else kind.n_swa,
        exact=bool(kind.recr),
        max_checkpoints=opts.ctx_checkpoints,
        min_step=rules.min_step if opts.checkpoint_min_step < 0 else opts.checkpoint_min_step,
        limit_size=max(0, opts.cache_ram) * MIB, limit_tokens=n_ctx, has_cache=opts.cache_ram != 0,
        cache_idle_slots=opts.cache_idle_slots and opts.cache_ram != 0, sps=opts.slot_prompt_similarity,
        n_cache_reuse=rules.reuse_start(opts.cache_reuse, movable).value, context_shift=opts.context_shift and movable,
        drafts=drafts, mtp=drafts and "draft-mtp" in drafters,
        draft=draft_kind(kind, needing_model(drafters), opts.model_draft, rules.mtp_row_bits) if drafts else None,
        projector=projector,
    )
