"""Blocks of vLLM's pool for a real model: bytes of a block, and the number of blocks in a given memory.

Source: vLLM vllm/v1/core/kv_cache_planning.py _get_kv_cache_groups_uniform_page_size, _get_kv_cache_bytes_per_block,
get_kv_cache_config_from_groups; kv_cache_utils.py get_kv_cache_capacity (0.33.0).
"""

from __future__ import annotations

from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.agent_settings import context_needed
from cachesim.engines.shared.memory_use import (
    AgentForms,
    MemoryForms,
    MemoryPart,
    MemoryQuestion,
    MemoryUse,
    context_of,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.vllm.flags import Options, options
from cachesim.engines.vllm.layer_groups import LayerGroups
from cachesim.engines.vllm.page_sizes import LayerBlocks, model_blocks, model_groups, row_bytes, state_bytes
from cachesim.engines.vllm.profiles import Rules
from cachesim.engines.vllm.rules.blocks import DENSE, Admission

BLOCK_SIZES = (16, 32, 64)  # for agents


def _check_alike(model: RealModel) -> None:
    """Raise BadInput for a model whose layers of a kind keep different amounts."""
    if model.indexed or model.compressed:
        raise BadInput("blocks of layers that choose or compress rows are not modelled")
    kinds = (model.full, model.windows, model.states)
    if any(len({layer._replace(kind="") for layer in layers}) > 1 for layers in kinds):
        raise BadInput("blocks of models whose layers of a kind have different sizes are not modelled")


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of the pool: as many blocks as the room holds, else those of the options. Raise BadInput."""
    model = ask.model
    opts = options(ask.options)
    _check_alike(model)
    assert isinstance(ask.rules, Rules)
    groups = model_groups(model, opts)
    sizes = model_blocks(ask.rules, opts, model)
    full = [row_bytes(layer, opts, model.row_type) for layer in model.full]
    window = [row_bytes(layer, opts, model.row_type) for layer in model.windows]
    states = [state_bytes(layer, model, opts) for layer in model.states]
    rows = max(max(full, default=0) * sizes.full, max(window, default=0) * sizes.window)
    block = max(rows, max(states, default=0)) * groups.layers
    blocks = ask.room // block if ask.room else opts.num_gpu_blocks
    most = opts.max_model_len or context_of(ask)
    pool = {"blocks": blocks, "tokens": int(blocks / _request_blocks(ask, opts, groups, sizes, most) * most)}
    chunk = block * groups.full * opts.blocks_per_chunk                 # a place has room for a chunk of any group
    chunks = MemoryPart("chunks", chunk, opts.num_cpu_chunks, "chunks", host=True)
    pool_part = MemoryPart("blocks", block, blocks, "blocks")
    parts = (pool_part, chunks) if chunks.number else (pool_part,)
    return MemoryUse(sum(full), sum(window), state=sum(states), checkpoint=0, parts=parts, pool=pool, takes_all=True)


def _request_blocks(ask: MemoryQuestion, opts: Options, groups: LayerGroups, sizes: LayerBlocks, most: int) -> int:
    """Return the blocks that a request of ``most`` tokens holds."""
    windows = Admission(
        kind="swa",
        window=ask.model.window,
        max_in_flight_tokens=opts.max_num_batched_tokens,
        max_model_len=most,
        block_size=sizes.window,
    )
    assert isinstance(ask.rules, Rules)
    cap = ask.rules.admission_cap(windows) if groups.window else 0
    inside = 1 if opts.mamba_prefill_checkpoint_alignment else 0
    states = (2 + inside if opts.enable_prefix_caching else 1) + opts.num_speculative_tokens
    return int(groups.full * -(-most // sizes.full) + groups.window * cap + groups.state * states)


def _refuse_unequal(model: RealModel) -> None:
    """Raise BadInput for a model whose blocks are not those that ``block_size`` states."""
    if model.states:
        raise BadInput("settings for blocks of models with recurrent layers are not compared")
    if len({(one.key, one.value) for one in (*model.full, *model.windows)}) > 1:
        raise BadInput("settings for models whose layers have rows of different sizes are not compared")


def agent_settings(ask: MemoryQuestion, clients: int) -> Iterator[dict[str, Option]]:
    """Yield sizes of blocks and, for windows, distances between published blocks, with as many blocks as fit. A request
    is at most as long as the pool. Raise BadInput for a model whose blocks have other sizes."""
    _refuse_unequal(ask.model)
    for size in BLOCK_SIZES:
        pool = use(ask._replace(options={**ask.options, "block_size": size})).pool
        longest = min(context_needed(ask), pool["tokens"] // size * size)
        for distance in (0, DENSE) if ask.model.windows else (0,):
            yield {"block_size": size, "num_gpu_blocks": pool["blocks"], "max_model_len": longest,
                   "prefix_cache_retention_interval": distance}  # fmt: skip


AGENTS = AgentForms(("vllm", "serve"), agent_settings, unit=min(BLOCK_SIZES), filled=("num_gpu_blocks",))
FORMS = MemoryForms(use, (), {"num_gpu_blocks": (1, 2)}, AGENTS)
