"""Slots of SGLang's pools for a real model: bytes of a slot, and the number of slots in a given memory.

Source: SGLang python/sglang/srt/model_executor/pool_configurator.py, mem_cache/kv_cache_configurator.py,
configs/mamba_utils.py (0.5.23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Option
from cachesim.engines.sglang.flags import BUFFERED, UNBUFFERED, options
from cachesim.engines.sglang.pool_sizes import (
    PoolSizes,
    drafter_slot,
    pool_sizes,
    pooled,
    resolved,
    row_slot,
    stand_in,
    state_slot,
)
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.sparse_models import check_derived
from cachesim.engines.shared.memory_use import AgentForms, MemoryForms, MemoryPart, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_layers import RealModel

ROWS = "slots of rows"
WINDOWS = "slots of windows"
STATES = "slots of states"
RATIOS, STRATEGIES = (0.9, 0.3, 3.0), (UNBUFFERED, BUFFERED)
WINDOW_RATIOS = (0.8, 0.2)
"""For agents: memory of states per memory of rows; origin of the states; slots of windows per slot of rows."""


def slots_in(ask: MemoryQuestion, model: RealModel) -> PoolSizes:
    """Return the slots that the room holds, as the server derives them at its start. Raise BadInput."""
    assert isinstance(ask.rules, Rules)
    if not (model.full or model.windows or model.states):
        return PoolSizes(rows=0, windows=0, states=0, requests=0)
    opts = options(ask.options)
    started = resolved(ask.rules, replace(opts, real_model="", pool_gib=0.0), stand_in(model))
    asked = replace(started, max_running_requests=opts.max_running_requests)
    return pool_sizes(ask.rules, model, asked, ask.room)


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of the pools: as many slots as the room holds, else those of the options, with the copies in
    host memory, for which the room is not meant. Raise BadInput."""
    assert isinstance(ask.rules, Rules)
    model = pooled(ask.model)
    if model.compressed:
        raise BadInput("sglang: memory does not list pools of layers that compress rows",
                       hint="run --set pool_gib=N derives their slots")  # fmt: skip
    check_derived(ask.rules.compressed_form is not None, model)
    opts = options(ask.options)
    full, window = (sum(row_slot(one, opts) for one in of) for of in (model.full, model.windows))
    state = state_slot(model, opts.tensor_parallel_size)
    tokens = opts.max_total_tokens
    given = (tokens, opts.swa_tokens or int(tokens * opts.swa_full_tokens_ratio), opts.max_mamba_cache_size)
    if ask.room:
        sizes = slots_in(ask, model)
        given = (sizes.rows if full else 0, sizes.windows if full else sizes.rows, sizes.states)
    slots = zip((ROWS, WINDOWS, STATES), (full, window, state), given, strict=True)
    parts = tuple(MemoryPart(name, each, number, "slots") for name, each, number in slots if each)
    pool = {part.name: part.number for part in parts}
    if drafter := drafter_slot(ask.rules, model, opts):
        parts = (*parts, MemoryPart("slots of the drafter", drafter, given[0], "slots"))
    if opts.enable_hierarchical_cache and not ask.room:
        copies = ask.rules.host_slots(tokens, opts.hicache_ratio, opts.page_size)
        parts = (*parts, MemoryPart("copies of slots", full, copies, "slots", host=True))
    return MemoryUse(full, window, state, checkpoint=0, parts=parts, pool=pool, takes_all=True)


def agent_settings(ask: MemoryQuestion, clients: int) -> Iterator[dict[str, Option]]:
    """Yield what the layers of a model allow: shares of the memory for windows, or for states and where they come from;
    with as many slots as fit."""
    model = ask.model
    shares: list[dict[str, Option]] = [{}]
    if model.states:
        shares = [{"mamba_full_memory_ratio": ratio, "mamba_radix_cache_strategy": name,
                   "disable_overlap_schedule": name == UNBUFFERED}
                  for ratio in RATIOS for name in STRATEGIES]  # fmt: skip
    elif model.windows and model.full:
        shares = [{"swa_full_tokens_ratio": ratio} for ratio in WINDOW_RATIOS]
    for share in shares:
        pool = use(ask._replace(options={**ask.options, **share})).pool
        states = {"max_mamba_cache_size": pool[STATES]} if model.states else {}
        yield {**share, "max_total_tokens": pool.get(ROWS, pool.get(WINDOWS, 0)), **states}


AGENTS = AgentForms(("python3", "-m", "sglang.launch_server", "--model-path"), agent_settings, unit=16,
                    filled=("max_total_tokens", "max_mamba_cache_size"))  # fmt: skip
FORMS = MemoryForms(use, (), {"max_mamba_cache_size": (1, 4), "max_total_tokens": (1, 4)}, AGENTS, kinds="DIB")
