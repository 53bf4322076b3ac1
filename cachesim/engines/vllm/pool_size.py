"""Size of the pool of blocks, as far as the options determine it: from its memory, or from the size that the server's
log states.

Source: vLLM vllm/v1/core/kv_cache_planning.py get_kv_cache_config_from_groups, _max_memory_usage_bytes_from_groups;
vllm/v1/core/kv_cache_utils.py get_kv_cache_capacity, get_max_concurrency_for_kv_cache_config;
vllm/v1/worker/utils.py request_memory (0.30.0 to 0.33.0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.vllm.compressed_layers import served_model
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.kv_cache_planning import blocks_of_longest, get_kv_cache_config
from cachesim.engines.vllm.page_sizes import block_bytes
from cachesim.model import Spec

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

GIB = 1 << 30


def given_blocks(rules: Rules, opts: Options, spec: Spec) -> int:
    """Return the number of blocks, with the null block, that the memory of the pool or the log determines; 0 if neither
    is given or the sizes of the layers are not known. Raise BadInput."""
    if opts.kv_cache_size_tokens:
        return _blocks_of_tokens(rules, opts, spec)
    if opts.kv_cache_memory_bytes and (model := sized_model(opts)) is not None:
        each = block_bytes(rules, opts, model)
        if opts.kv_cache_memory_bytes < 2 * each:
            raise NotInBuild(f"the server does not start: {opts.kv_cache_memory_bytes:,} bytes do not hold two blocks "
                             f"of {each:,}", hint="kv_cache_memory_bytes")  # fmt: skip
        return opts.kv_cache_memory_bytes // each
    return 0


def sized_model(opts: Options) -> RealModel | None:
    """Return the real model that the options name, None without one. Raise BadInput."""
    return served_model(opts.real_model) if opts.real_model else None


def _blocks_of_tokens(rules: Rules, opts: Options, spec: Spec) -> int:
    """Return the blocks of a pool whose size the log states: so many tokens fit as requests of the maximum length."""
    tokens = opts.kv_cache_size_tokens
    length = opts.max_model_len if opts.max_model_len > 0 else tokens
    config = get_kv_cache_config(rules, replace(opts, max_model_len=length), spec)
    return -(-tokens * blocks_of_longest(rules, opts, config.kv_cache_groups, length) // length)


def most_blocks(rules: Rules, opts: Options) -> int:
    """Return the most blocks that the device can hold beside nothing else, 0 if its memory or the bytes of a block are
    not known. Raise BadInput for an unknown model."""
    model = sized_model(opts)
    if model is None or not opts.device_memory:
        return 0
    try:
        each = block_bytes(rules, opts, model)
    except BadInput:
        return 0
    return int(opts.device_memory * GIB * opts.gpu_memory_utilization) // each


def derived_pool(rules: Rules, opts: Options) -> list[str]:
    """Return a line about the pool of the real model that the options name: the blocks that its memory holds, or the
    most that the device can hold; [] if the options say neither. Raise BadInput."""
    model = sized_model(opts)
    if opts.kv_cache_memory_bytes and model is None:
        return ["kv_cache_memory_bytes is not used: the sizes of the layers are not known"]
    if model is not None and opts.kv_cache_memory_bytes:
        each = block_bytes(rules, opts, model)
        blocks = opts.kv_cache_memory_bytes // each
        return [f"num_gpu_blocks {blocks}: {opts.kv_cache_memory_bytes:,} bytes hold so many of {each:,} bytes"]
    if most := most_blocks(rules, opts):
        return [f"num_gpu_blocks at most {most}: all of {device_share(opts)}, of which weights and activations take a "
                "part"]  # fmt: skip
    return []


def device_share(opts: Options) -> str:
    """Return the share of the device that weights, activations and pool have, in words."""
    return f"{opts.device_memory} GiB x {opts.gpu_memory_utilization:g}"
