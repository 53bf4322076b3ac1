"""The server's start-up: from options to the numbers that stay fixed.

Source: vLLM 0.33.0 vllm/config/cache.py, vllm/config/scheduler.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.command_line import check_flags
from cachesim.model import Spec, parse

DENSE = -1      # the real option is None then


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names. ``num_gpu_blocks`` counts the null block, as the real server does. ``max_model_len`` 0 =
    as long as the pool has blocks for. ``use_eagle``: the drafter keeps K/V of its own, so that lookups drop a block;
    nothing is drafted. The size of a block is what is said here: it is not enlarged for models with states."""

    block_size: int = 16
    num_gpu_blocks: int = 512
    max_model_len: int = 0
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    enable_prefix_caching: bool = True
    prefix_cache_retention_interval: int = 0
    use_eagle: bool = False


def options(flags: Mapping[str, Any]) -> Options:
    """Options from names and values. Raises BadInput for an unknown name or a value that cannot be used."""
    check_flags(flags, asdict(Options()))
    made = Options(**flags)
    for name in ("block_size", "max_num_batched_tokens", "max_num_seqs"):
        if getattr(made, name) < 1:
            raise BadInput(f"server flag {quoted(name)} must be at least 1")
    if made.prefix_cache_retention_interval > 0 and made.prefix_cache_retention_interval % made.block_size:
        raise BadInput("prefix_cache_retention_interval must be a multiple of block_size")
    if longest(made) < max(1, made.max_model_len):
        raise BadInput(f"{made.num_gpu_blocks} blocks do not hold one request", hint="num_gpu_blocks, max_model_len")
    return made


def longest(opts: Options) -> int:
    """Tokens of the longest request that the pool holds beside the null block and two states."""
    return (opts.num_gpu_blocks - 3) * opts.block_size


def spec_of(model: str) -> Spec:
    """The layers of a model. Raises BadInput for one that is not modelled."""
    spec = parse(model)
    if any(layer.window for layer in spec.layers):
        raise BadInput(f"model {quoted(model)} has windows, which are not modelled for this engine")
    return spec
