"""Options of the server.

Source: vLLM 0.33.0 vllm/config/cache.py, vllm/config/scheduler.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.flags import flag, flags_of, options_of
from cachesim.model import Spec, parse

DENSE = -1      # None in the real option


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names. ``num_gpu_blocks`` includes the null block, as in the real server. ``max_model_len`` 0 =
    as long as the pool allows. ``use_eagle``: the drafter keeps its own K/V, so lookups drop a block; nothing is
    drafted. ``block_size`` is not enlarged for models with states."""

    block_size: int = flag(16, least=1)
    num_gpu_blocks: int = flag(512, least=4)
    max_model_len: int = flag(0, open=0)
    max_num_batched_tokens: int = flag(2048, least=1)
    max_num_seqs: int = flag(128, least=1)
    enable_prefix_caching: bool = True
    prefix_cache_retention_interval: int = flag(0, least=DENSE)
    use_eagle: bool = False


FLAGS = flags_of(Options)


def options(flags: Mapping[str, Any]) -> Options:
    """Return the options with these values. Raise BadInput for an unknown name or an invalid value."""
    made = options_of(Options, flags)
    if made.prefix_cache_retention_interval > 0 and made.prefix_cache_retention_interval % made.block_size:
        raise BadInput("prefix_cache_retention_interval must be a multiple of block_size")
    if longest(made) < max(1, made.max_model_len):
        raise BadInput(f"{made.num_gpu_blocks} blocks do not hold one request", hint="num_gpu_blocks, max_model_len")
    return made


def longest(opts: Options) -> int:
    """Return the length of the longest request that fits beside the null block and two states [tokens]."""
    return (opts.num_gpu_blocks - 3) * opts.block_size


def spec_of(model: str) -> Spec:
    """Return the layers of a model. Raise BadInput for a model that is not modelled."""
    spec = parse(model)
    if any(layer.window for layer in spec.layers):
        raise BadInput(f"model {quoted(model)} has windows, which are not modelled for this engine")
    return spec
