"""Values that the server derives at its start from the model and its flags: where states come from, their grid, and,
from the memory for the pools, their sizes and the number of requests.

Source: SGLang python/sglang/srt/arg_groups/overrides.py _mamba_radix_cache_resolution, mamba_cache_chunk_size;
mem_cache/kv_cache_configurator.py _handle_max_mamba_cache, resolve_max_num_reqs; model_executor/pool_configurator.py
(0.5.23).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.engines.sglang.compressed_pools import REQUESTS, compressed_slots
from cachesim.engines.sglang.flags import (
    AUTO,
    BUFFERED,
    BYTES,
    EAGLE,
    LAZY,
    UNSET_REQUESTS,
    UNSET_STATES,
    UNSET_TOKENS,
    Options,
)
from cachesim.engines.sglang.flags import UNBUFFERED as RUNNING
from cachesim.engines.sglang.sparse_models import check_derived, forced_page, served_model
from cachesim.engines.shared.known_models import plain
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.shared.size_formulas import F16, F32, LayerSize
from cachesim.model import Spec, parse

if TYPE_CHECKING:
    from cachesim.engines.sglang.profiles.rule_table import Rules

KERNEL_CHUNK = 64           # tokens of a chunk of the kernels, if the model does not name another number
UNBUFFERED = "C"            # kinds of layers whose models do not support tracked states
PER_REQUEST = 3             # states of a request beside the tracked ones
DRAFTING = 48               # requests that run at a time with drafts, if the flags do not state their number
FEWEST, MOST = 2048, 4096   # and without drafts
GIB = 1 << 30

WINDOW_POOLS = frozenset(map(plain, (
    "gpt_oss", "gemma4", "gemma4_text", "laguna", "mellum", "step3p5", "granite_swa", "mimo_v2_flash")))  # fmt: skip
"""Model types whose windows have a pool of their own. Source: SGLang python/sglang/srt/configs/model_config.py
is_hybrid_swa_model, arg_groups/model_overrides/gemma2_gemma3.py (0.5.23)."""


class PoolSizes(NamedTuple):
    """Slots of full attention, of windows and of states, and the requests that run at a time."""

    rows: int
    windows: int
    states: int
    requests: int


def resolved(rules: Rules, opts: Options, spec: Spec) -> Options:
    """Return the options with the values that the server derives in place of those left to it. Raise BadInput for a
    page that does not fit the grid, and for too little memory."""
    has_states = any(layer.recurrence for layer in spec.layers)
    if opts.mamba_radix_cache_strategy not in rules.strategies:
        known = ", ".join(sorted(rules.strategies))
        raise NotInBuild(f"mamba_radix_cache_strategy {opts.mamba_radix_cache_strategy} does not exist in {rules.name}",
                         hint=known)  # fmt: skip
    if has_states and not opts.disable_radix_cache:
        opts = _with_strategy(rules, opts, spec)
    else:
        overlaps = rules.overlaps(opts.disable_overlap_schedule, True, False, bool(opts.speculative_algorithm))
        opts = replace(opts, mamba_radix_cache_strategy=RUNNING, disable_overlap_schedule=not overlaps)
    model = pooled(served_model(opts.real_model)) if opts.real_model else None
    if model is not None and (page := forced_page(model)):
        opts = replace(opts, page_size=page)
    if model is not None:
        opts = with_requests(model, opts)
    opts = replace(opts,
                   state_grid=opts.state_grid or (grid_of(model, opts.page_size) if has_states else KERNEL_CHUNK))
    if opts.mamba_radix_cache_strategy != RUNNING:
        _check_lengths(opts)
    if not opts.pool_gib:
        return replace(opts, max_running_requests=_requests_at_a_time(rules, opts, model, has_states))
    if model is None:
        raise BadInput("pool_gib needs a model whose sizes are known", hint="max_total_tokens N")
    check_derived(rules.compressed_form is not None, model)
    sizes = pool_sizes(rules, model, opts, int(opts.pool_gib * GIB))
    if sizes.requests < 1:
        raise NotInBuild(f"{opts.pool_gib:g} GiB hold no request of this model",
                         hint="pool_gib, mamba_full_memory_ratio")  # fmt: skip
    return replace(opts, max_total_tokens=sizes.rows, swa_tokens=sizes.windows,
                   max_mamba_cache_size=max(4, sizes.states), max_running_requests=sizes.requests)  # fmt: skip


def with_requests(model: RealModel, opts: Options) -> Options:
    """Return the options with the number of requests that the server sets for a model that compresses rows."""
    is_set = model.compressed and opts.max_running_requests == UNSET_REQUESTS
    return replace(opts, max_running_requests=REQUESTS) if is_set else opts


def _requests_at_a_time(rules: Rules, opts: Options, model: RealModel | None, has_states: bool) -> int:
    """Return the requests that run at a time in pools of the sizes of the options. Raise NotInBuild if the server does
    not start with them."""
    context = opts.context_len or (model.context if model else 0)
    states = opts.max_mamba_cache_size if has_states else None
    found = most_requests(rules, opts, tokens=opts.max_total_tokens, states=states, context=context)
    if found < 1:
        raise NotInBuild(f"the server does not start: {opts.max_mamba_cache_size} states hold no request, which takes "
                         f"{states_per_request(rules, opts)}", hint="max_mamba_cache_size")  # fmt: skip
    return found


def _with_strategy(rules: Rules, opts: Options, spec: Spec) -> Options:
    """Return the options of a model with states: where they come from, and whether steps overlap. Raise NotInBuild if
    the server does not start with them."""
    strategy = opts.mamba_radix_cache_strategy
    is_chosen = strategy == AUTO
    is_supported = not any(layer.kind in UNBUFFERED for layer in spec.layers)
    if is_chosen:
        strategy = rules.state_source(is_supported, not opts.disable_overlap_schedule, opts.page_size)
    is_running = strategy == RUNNING
    has_drafts = bool(opts.speculative_algorithm)
    does_overlap = rules.overlaps(opts.disable_overlap_schedule, is_chosen, is_running, has_drafts)
    if does_overlap is None:
        raise NotInBuild("no_buffer needs --disable-overlap-schedule", hint=BUFFERED)
    if is_running and opts.page_size > 1:
        raise NotInBuild("no_buffer needs --page-size 1", hint=BUFFERED)
    if not is_running:
        _check_tracking(opts, strategy, is_supported, does_overlap)
    return replace(opts, mamba_radix_cache_strategy=strategy, disable_overlap_schedule=not does_overlap,
                   disable_radix_cache=not rules.keeps_states(is_running, has_drafts))  # fmt: skip


def _check_tracking(opts: Options, strategy: str, is_supported: bool, does_overlap: bool) -> None:
    """Raise NotInBuild if a server that tracks states does not start with these options."""
    if not is_supported:
        raise NotInBuild(f"{strategy} is not supported for short convolutions", hint=RUNNING)
    if strategy == LAZY and not does_overlap:
        raise NotInBuild("extra_buffer_lazy excludes --disable-overlap-schedule", hint=BUFFERED)


def _check_lengths(opts: Options) -> None:
    """Raise NotInBuild if a server that tracks states has no such grid, or does not start with this interval."""
    if opts.state_grid % opts.page_size:
        raise NotInBuild("state_grid must be a multiple of page_size")
    if opts.mamba_track_interval % opts.page_size:
        raise NotInBuild("mamba_track_interval must be a multiple of page_size")
    if opts.speculative_algorithm and opts.mamba_track_interval <= opts.speculative_num_steps:
        raise NotInBuild("mamba_track_interval must not be shorter than a draft and one token")


def grid_of(model: RealModel | None, page: int) -> int:
    """Return the grid of tracked states: the chunk of the kernel or the page, whichever is longer. Raise NotInBuild if
    neither divides the other."""
    chunk = model.kernel if model and model.kernel else KERNEL_CHUNK
    if max(chunk, page) % min(chunk, page):
        raise NotInBuild(f"page_size {page}: neither it nor the chunk of {chunk} tokens divides the other")
    return max(chunk, page)


def states_per_request(rules: Rules, opts: Options) -> int:
    """Return the slots of states that the server counts for a request."""
    if opts.disable_radix_cache:
        return 1
    drafts = opts.speculative_num_steps if opts.speculative_algorithm else 0
    overlaps = not opts.disable_overlap_schedule
    tracked: int = rules.tracking_slots(opts.mamba_radix_cache_strategy, overlaps, drafts).slots
    return PER_REQUEST + tracked


def pool_sizes(rules: Rules, model: RealModel, opts: Options, room: int) -> PoolSizes:
    """Return the sizes of the pools that so much memory [bytes] of a device holds; a smaller number of the options is
    kept. Raise NotInBuild if the devices cannot share the states."""
    if model.compressed and rules.compressed_form is not None:
        opts = with_requests(model, opts)
        rows, windows = compressed_slots(rules.compressed_form, model, opts, room)
        requests = most_requests(rules, opts, tokens=rows, states=None, context=opts.context_len or model.context)
        return PoolSizes(rows, windows, states=0, requests=requests)
    drafts = opts.speculative_num_steps + 1 if opts.speculative_algorithm else 0
    given = opts.max_mamba_cache_size if opts.max_mamba_cache_size != UNSET_STATES else 0
    states = 0
    if model.states:
        each = state_slot(model, opts.tensor_parallel_size)
        if opts.disable_radix_cache and not given:
            given = opts.max_running_requests
        states, room = state_slots(
            each, room, ratio=opts.mamba_full_memory_ratio, drafts=drafts, given=given,
            most=DRAFTING if opts.max_running_requests == UNSET_REQUESTS else opts.max_running_requests,
            per=states_per_request(rules, opts),
        )
    full, window = (sum(row_slot(one, opts) for one in of) for of in (model.full, model.windows))
    full += drafter_slot(rules, model, opts)
    ratio = opts.swa_full_tokens_ratio if window and full else 0
    cell = full + ratio * window if full else window
    tokens = max(0, int(room / cell)) if cell else opts.max_total_tokens
    if opts.max_total_tokens != UNSET_TOKENS:
        tokens = min(tokens, opts.max_total_tokens)
    tokens = tokens // opts.page_size * opts.page_size
    requests = most_requests(
        rules, opts, tokens=tokens, states=states if model.states else None,
        context=opts.context_len or model.context,
    )
    return PoolSizes(tokens, int(tokens * ratio) // opts.page_size * opts.page_size, states, requests)


def most_requests(rules: Rules, opts: Options, *, tokens: int, states: int | None, context: int) -> int:
    """Return the requests that run at a time: as given, else by the contexts that the pool holds; at most as many as
    the pools have room for. ``tokens``: slots of rows; ``states``: slots of states, None = the model has none;
    ``context``: of the model [tokens], 0 = unknown.

    Source: SGLang mem_cache/kv_cache_configurator.py KVCacheConfigurator.resolve_max_num_reqs, 3119 (0.5.23), 2263
    (0.5.20); model_executor/model_runner_kv_cache_mixin.py init_memory_pool, 339 (0.5.9)."""
    most = opts.max_running_requests
    if most == UNSET_REQUESTS and opts.speculative_algorithm:
        most = DRAFTING
    if most == UNSET_REQUESTS:
        most = max(FEWEST, min(int(tokens / context * 512) if context else FEWEST, MOST))
    if rules.least_tokens:
        most = min(most, tokens // rules.least_tokens)
    if states is not None and rules.states_cap_requests:
        most = min(most, states // states_per_request(rules, opts))
    return most


LATENT_FP8 = 656            # bytes of a chosen latent row of fp8, with its scales and a part of 2 bytes
SCALE_OF = 128              # numbers of the key of an index that share a scale


def row_slot(layer: LayerSize, opts: Options) -> int:
    """Return the bytes of a token in a layer on a device, which has at least one head: its row, and the key of its
    index. Source: SGLang mem_cache/kv_cache_configurator.py calculate_mla_kv_cache_dim, 3412,
    model_executor/pool_configurator.py _compute_cell_size (0.5.23)."""
    if layer.kind == "I":
        row = layer.key * F16 if BYTES[opts.kv_cache_dtype] == F16 else LATENT_FP8
        return row + layer.index_key + layer.index_key // SCALE_OF * F32
    if layer.kind == "B":
        return row_slot(layer._replace(kind="A"), opts) + layer.index_key * F16
    heads = max(1, layer.kv_heads)
    kept = max(1, heads // opts.tensor_parallel_size)
    return (layer.key + layer.value) // heads * kept * BYTES[opts.kv_cache_dtype]


def drafter_slot(rules: Rules, model: RealModel, opts: Options) -> int:
    """Return the bytes of a token in the layers of an EAGLE drafter on a device, which share the memory: those of the
    MTP head, or one layer, of the size of the model's. Source: SGLang model_executor/pool_configurator.py
    DefaultPoolConfigurator, 261 (0.5.23)."""
    if opts.speculative_algorithm != EAGLE or not rules.counts_drafter or not model.full:
        return 0
    return max(1, len(model.heads)) * row_slot(model.full[-1], opts)


def state_slot(model: RealModel, devices: int = 1) -> int:
    """Return the bytes of the states of a request in all layers on one of so many devices; matrices are F32 unless the
    model names F16. Raise NotInBuild if the devices cannot share them."""
    width = F16 if model.state_type in ("bfloat16", "float16") else F32
    if any(one.conv % devices or one.matrix % devices for one in model.states):
        raise NotInBuild(f"tensor_parallel_size {devices} does not divide the states of the model")
    return sum(one.conv // devices * F16 + one.matrix // devices * width for one in model.states)


def state_slots(each: int, room: int, *, ratio: float, drafts: int, given: int, most: int, per: int) -> tuple[int, int]:
    """Return the slots of states of ``each`` bytes, and the memory that is left [bytes]. ``drafts``: tokens of a draft,
    for each of which a running request keeps a state; ``given``: number of slots, 0 = by the ratio; ``most``: requests
    that run at a time; ``per``: slots of a request."""
    if ratio <= 0:
        raise BadInput("--mamba-full-memory-ratio must be above 0")
    budget = room * ratio / (1 + ratio)
    states = given or max(0, int((budget - each * (1 + drafts)) // (each * (1 + drafts / per))))
    running = min(most, states // per)
    scratch = each * (running + 1) * drafts if drafts else 0
    return states, room - (states + 1) * each - scratch


def derived_sizes(rules: Rules, opts: Options) -> list[str]:
    """Return lines about what the server derives for the real model that the options name, [] without one. Raise
    BadInput."""
    if not opts.real_model:
        return []
    model = pooled(served_model(opts.real_model))
    found = resolved(rules, opts, stand_in(model))
    name, said = "/".join(Path(opts.real_model).parts[-2:]), []
    if forced_page(model):
        said.append(f"{name}: pages of {found.page_size}, which the server sets for this model")
    said += _capped(rules, opts, found) if model.states and not opts.pool_gib else []
    if model.states and not opts.disable_radix_cache:
        is_tracked = found.mamba_radix_cache_strategy in (BUFFERED, LAZY)
        every = f", on a grid of {found.state_grid} tokens" if is_tracked else ""
        said.append(f"{name}: pages of {found.page_size}, states by {found.mamba_radix_cache_strategy}{every}")
    if opts.pool_gib:
        counts = ((found.max_total_tokens, "of rows"), (found.swa_tokens if model.windows else 0, "of windows"),
                  (found.max_mamba_cache_size if model.states else 0, "of states"))  # fmt: skip
        slots = ", ".join(f"{number:,} {what}" for number, what in counts if number)
        said.append(f"{name}: slots: {slots}; {found.max_running_requests} requests at a time")
    return said


def derived_pool(rules: Rules, opts: Options) -> list[str]:
    """Return a line about the largest pools that the device can hold, [] if they are not known."""
    most = most_sizes(rules, opts)
    if most is None:
        return []
    return [f"max_total_tokens at most {most.rows}: all of {device_share(opts)}, of which weights and activations take "
            "a part"]  # fmt: skip


def most_sizes(rules: Rules, opts: Options) -> PoolSizes | None:
    """Return the sizes of the largest pools that the device can hold beside nothing else, None if its memory or the
    sizes of the layers are not known. Raise BadInput for an unknown model."""
    if not opts.real_model or not opts.device_memory or opts.pool_gib:
        return None
    model = pooled(served_model(opts.real_model))
    started = resolved(rules, opts, stand_in(model))
    asked = replace(started, max_running_requests=opts.max_running_requests)
    try:
        check_derived(rules.compressed_form is not None, model)
        return pool_sizes(rules, model, asked, int(opts.device_memory * opts.mem_fraction_static * GIB))
    except BadInput:
        return None


def device_share(opts: Options) -> str:
    """Return the share of the device that weights and pools have, in words."""
    share = f" x {opts.mem_fraction_static:g}" if opts.mem_fraction_static < 1 else ""
    return f"{opts.device_memory} GiB{share}"


def _capped(rules: Rules, opts: Options, found: Options) -> list[str]:
    """Return a line about a number of requests that the given states cap, [] without one."""
    per = states_per_request(rules, found)
    wanted = most_requests(rules, opts, tokens=opts.max_total_tokens, states=None, context=0)
    if opts.max_mamba_cache_size == UNSET_STATES or found.max_running_requests >= wanted:
        return []
    return [f"max_running_requests is capped to {found.max_running_requests}: {found.max_mamba_cache_size} states, "
            f"{per} for each request"]  # fmt: skip


def pooled(model: RealModel) -> RealModel:
    """Return a model with windows only if they have a pool of their own, else with full attention in their place."""
    if not model.arch or plain(model.arch) in WINDOW_POOLS:
        return model
    return model._replace(layers=tuple(one._replace(kind="A") if one.kind == "W" else one for one in model.layers))


def stand_in(model: RealModel) -> Spec:
    """Return layers with the kinds of a model."""
    return parse(short_notation(model))
