"""Blocks of vLLM's pool for a real model: bytes of a block, and the number of blocks in a given memory.

Source: vLLM vllm/v1/core/kv_cache_planning.py _get_kv_cache_groups_uniform_page_size, _get_kv_cache_bytes_per_block,
get_kv_cache_config_from_groups; kv_cache_utils.py get_kv_cache_capacity (0.33.0).
"""

from __future__ import annotations

from dataclasses import replace
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
from cachesim.engines.vllm.kv_cache_planning import KINDS, max_in_flight_tokens, states_of_request
from cachesim.engines.vllm.page_sizes import GroupBlocks, block_bytes, group_blocks, state_bytes, token_bytes
from cachesim.engines.vllm.profiles import Rules
from cachesim.engines.vllm.rules.blocks import DENSE, Admission

BLOCK_SIZES = (16, 32, 64)  # for agents


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of the pool: as many blocks as the room holds, else those of the options. Raise BadInput."""
    model = ask.model
    assert isinstance(ask.rules, Rules)
    opts = _started(ask.rules, options(ask.options))
    block = block_bytes(ask.rules, opts, model)
    groups = group_blocks(ask.rules, opts, model)
    full, window = token_bytes(ask.rules, opts, model)
    states = [state_bytes(layer, model, opts) for layer in model.states]
    room = ask.room or opts.kv_cache_memory_bytes
    most = opts.max_model_len if opts.max_model_len > 0 else context_of(ask)
    needed = sum(_request_blocks(ask.rules, opts, group, most) for group in groups)
    blocks = room // block if room else opts.num_gpu_blocks
    if opts.kv_cache_size_tokens and not room:
        blocks = -(-opts.kv_cache_size_tokens * needed // most)
    pool = {"blocks": blocks, "tokens": int(blocks / needed * most)}
    full_groups = sum(group.letter == "A" for group in groups)
    chunk = block * full_groups * opts.blocks_per_chunk                 # a place has room for a chunk of any group
    chunks = MemoryPart("chunks", chunk, opts.num_cpu_chunks, "chunks", host=True)
    pool_part = MemoryPart("blocks", block, blocks, "blocks")
    parts = (pool_part, chunks) if chunks.number else (pool_part,)
    return MemoryUse(full, window, state=sum(states), checkpoint=0, parts=parts, pool=pool, takes_all=True)


def _started(rules: Rules, opts: Options) -> Options:
    """Return the options with the size of a step that the device determines, unless it is given."""
    if opts.max_num_batched_tokens != options({}).max_num_batched_tokens:
        return opts
    return replace(opts, max_num_batched_tokens=rules.batch_size(opts.device_memory).max_num_batched_tokens)


def _request_blocks(rules: Rules, opts: Options, group: GroupBlocks, most: int) -> int:
    """Return the blocks that a request of ``most`` tokens holds in a group."""
    if group.letter == "S":
        return states_of_request(opts)
    cap: int = rules.admission_cap(Admission(
        kind=KINDS[group.letter],
        window=group.window,
        max_in_flight_tokens=max_in_flight_tokens(opts),
        max_num_batched_tokens=opts.max_num_batched_tokens,
        max_model_len=most,
        block_size=group.block,
    ))  # fmt: skip
    return cap or -(-most // group.block)


def _refuse_unequal(model: RealModel) -> None:
    """Raise BadInput for a model whose blocks are not those that ``block_size`` states."""
    if model.states:
        raise BadInput("settings for blocks of models with recurrent layers are not compared")
    if model.indexed or model.compressed:
        raise BadInput("settings for layers that choose or compress rows are not compared")
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


AGENTS = AgentForms(("vllm", "serve"), agent_settings, unit=min(BLOCK_SIZES), filled=("num_gpu_blocks",),
                    stated=("kv_cache_memory_bytes", "kv_cache_size_tokens"))
FORMS = MemoryForms(use, (), {"num_gpu_blocks": (1, 2)}, AGENTS, kinds="DIB")
