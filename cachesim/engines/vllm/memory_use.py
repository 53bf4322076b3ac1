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
    row_type,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import F16
from cachesim.engines.vllm.rules.blocks import DENSE, Admission

BYTES = {"auto": F16, "bfloat16": F16, "float16": F16, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Type of the rows -> bytes of a number."""
BLOCK_SIZES = (16, 32, 64)  # for agents
FEW_MORE = 1.5              # groups are filled up if the largest kind has fewer layers than this times the smallest


def groups_of(model: RealModel) -> tuple[int, int, int]:
    """Return the number of groups with full attention and with windows, and the layers of a group. Raise BadInput for
    a model whose layers keep different amounts."""
    if model.states:
        raise BadInput("blocks of models with recurrent layers depend on the kernels that vLLM selects",
                       hint="its log has their number")  # fmt: skip
    if len({(one.key, one.value) for one in (*model.full, *model.windows)}) != 1:
        raise BadInput("blocks of models whose layers have rows of different sizes are not modelled")
    kinds = [len(layers) for layers in (model.full, model.windows) if layers]
    size = max(kinds) if max(kinds) < min(kinds) * FEW_MORE else min(kinds)
    return -(-len(model.full) // size), -(-len(model.windows) // size), size


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of the pool: as many blocks as the room holds, else those of the options. Raise BadInput."""
    model = ask.model
    options = ask.options
    full_groups, window_groups, layers = groups_of(model)
    size = options["block_size"]
    width = BYTES[options["kv_cache_dtype"]]
    full, window = (sum(one.key + one.value for one in of) * width for of in (model.full, model.windows))
    block = (full + window) // len([*model.full, *model.windows]) * layers * size
    blocks = ask.room // block if ask.room else options["num_gpu_blocks"]
    most = options["max_model_len"] or context_of(ask)
    windows = Admission("swa", model.window, in_flight=options["max_num_batched_tokens"], most=most, block=size)
    cap = ask.rules.admission_cap(windows) if window_groups else 0
    request = full_groups * -(-most // size) + window_groups * cap
    pool = {"blocks": blocks, "tokens": int(blocks / request * most)}
    chunk = block * full_groups * options["blocks_per_chunk"]           # a place has room for a chunk of any group
    chunks = MemoryPart("chunks", chunk, options["num_cpu_chunks"], "chunks", host=True)
    pool_part = MemoryPart("blocks", block, blocks, "blocks")
    parts = (pool_part, chunks) if chunks.number else (pool_part,)
    return MemoryUse(full, window, state=0, checkpoint=0, parts=parts, pool=pool, takes_all=True)


def agent_settings(ask: MemoryQuestion, clients: int) -> Iterator[dict[str, Option]]:
    """Yield sizes of blocks and, for windows, distances between published blocks, with as many blocks as fit. A request
    is at most as long as the pool."""
    for size in BLOCK_SIZES:
        pool = use(ask._replace(options={**ask.options, "block_size": size})).pool
        longest = min(context_needed(ask), pool["tokens"] // size * size)
        for distance in (0, DENSE) if ask.model.windows else (0,):
            yield {"block_size": size, "num_gpu_blocks": pool["blocks"], "max_model_len": longest,
                   "prefix_cache_retention_interval": distance}  # fmt: skip


AGENTS = AgentForms(("vllm", "serve"), agent_settings, unit=min(BLOCK_SIZES), filled=("num_gpu_blocks",))
FORMS = MemoryForms(use, (row_type(BYTES),), {"num_gpu_blocks": (1, 2)}, AGENTS)
