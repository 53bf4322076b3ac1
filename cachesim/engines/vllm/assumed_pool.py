"""Pool of blocks that holds all requests, for a server whose real number of blocks is not known."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import AssumedPool, AssumedSizes, RequestSize
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.vllm.flags import FITTING, Options, options
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config, groups_by_kind
from cachesim.engines.vllm.page_sizes import compressed_groups, real_groups
from cachesim.model import parse

STEP = 512                # the number of blocks is a multiple of it
SPARE = 4                 # blocks of a request in a group beside its tokens: an unfinished one, and those of states
_BLOCK = re.compile(r"/(\d+)")


def fit(model: str, given: Mapping[str, Any], requests: Sequence[RequestSize]) -> AssumedSizes:
    """Return a number of blocks with which no request waits for another's blocks and no block is evicted, or the most
    that the device holds; none if the options determine it. The smallest block that the options allow is taken in every
    group. Raise BadInput."""
    from cachesim.engines.vllm.history import LINE
    from cachesim.engines.vllm.pool_size import device_share, most_blocks, sized_model
    from cachesim.engines.vllm.profiles import PROFILES

    opts = options(given)
    is_determined = opts.kv_cache_size_tokens or (opts.kv_cache_memory_bytes and sized_model(opts) is not None)
    if "num_gpu_blocks" in given or is_determined:
        return AssumedSizes({}, notes=_unknown_length(model, given, requests))
    block = smallest_block(opts)
    ahead = 2 * opts.num_speculative_tokens
    each = [-(-(request.prompt + request.answer + ahead) // block) + SPARE + ahead for request in requests]
    taken = 1 + _groups(model, opts) * sum(each)
    share = min(0.99, max(0.0, opts.watermark))
    blocks = STEP * max(1, -(-int(taken / (1 - share)) // STEP))
    most = most_blocks(PROFILES[LINE[-1]], opts)
    if most and blocks > most:
        return AssumedSizes({"num_gpu_blocks": max(2, most)}, device_share(opts))
    return AssumedSizes({"num_gpu_blocks": blocks})


def _unknown_length(model: str, given: Mapping[str, Any], requests: Sequence[RequestSize]) -> tuple[str, ...]:
    """Return a line if max_model_len is not known and the pool, whose size the options determine, does not hold the
    longest request. Raise BadInput."""
    from cachesim.engines.vllm.history import LINE
    from cachesim.engines.vllm.profiles import PROFILES
    from cachesim.engines.vllm.start_options import own_length, resolved

    opts = options(given)
    longest = max((request.prompt + request.answer for request in requests), default=0)
    each = -(-longest // smallest_block(opts)) + SPARE + 2 * opts.num_speculative_tokens
    surely_fits = "num_gpu_blocks" in given and _groups(model, opts) * each < opts.num_gpu_blocks
    rules = PROFILES[LINE[-1]]
    if surely_fits or opts.max_model_len or own_length(rules, opts):
        return ()
    spec = parse(split_sizes(model)[0])
    try:
        started = resolved(rules, spec, {**given, "max_model_len": FITTING})
        most = get_kv_cache_config(rules, options(started), spec).max_model_len
    except BadInput:                    # options that the newest release refuses
        return ()
    if longest <= most:
        return ()
    return (f"max_model_len is not known: the pool holds a request of at most {most} tokens. The real server refuses "
            "or cuts a longer one, or does not start (--max-model-len).",)


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
