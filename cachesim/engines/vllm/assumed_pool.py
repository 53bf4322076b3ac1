"""Pool of blocks that holds all requests, for a server whose real number of blocks is not known."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from cachesim.engines.capabilities import AssumedPool, Option, RequestSize
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.vllm.flags import Options, options
from cachesim.engines.vllm.kv_cache_planning import groups_by_kind
from cachesim.engines.vllm.page_sizes import compressed_groups, real_groups
from cachesim.model import parse

STEP = 512                # the number of blocks is a multiple of it
SPARE = 4                 # blocks of a request in a group beside its tokens: an unfinished one, and those of states
_BLOCK = re.compile(r"/(\d+)")


def fit(model: str, given: Mapping[str, Any], requests: Sequence[RequestSize]) -> Mapping[str, Option]:
    """Return a number of blocks with which no request waits for another's blocks and no block is evicted; {} if the
    number is given. The smallest block that the options allow is taken in every group. Raise BadInput."""
    if "num_gpu_blocks" in given:
        return {}
    opts = options(given)
    block = smallest_block(opts)
    ahead = 2 * opts.num_speculative_tokens
    each = [-(-(request.prompt + request.answer + ahead) // block) + SPARE + ahead for request in requests]
    taken = 1 + _groups(model, opts) * sum(each)
    share = min(0.99, max(0.0, opts.watermark))
    return {"num_gpu_blocks": STEP * max(1, -(-int(taken / (1 - share)) // STEP))}


def smallest_block(opts: Options) -> int:
    """Return the smallest block [tokens] that a group of these options can have: longer blocks of a real model need
    fewer."""
    if packed := compressed_groups(opts):
        return min(cache.block for group in packed for cache in group.caches)
    stated = [int(size) for size in _BLOCK.findall(opts.kv_groups)]
    return min(filter(None, stated or (opts.attention_block_size or opts.block_size, opts.mamba_block_size)))


def _groups(model: str, opts: Options) -> int:
    """Return the number of groups."""
    if opts.kv_groups:
        return len(opts.kv_groups.split())
    if packed := compressed_groups(opts):
        return len(packed)
    return sum(groups_by_kind(parse(split_sizes(model)[0]), real_groups(opts)).values())


ASSUMED = AssumedPool(fit, "GPU KV cache size")
