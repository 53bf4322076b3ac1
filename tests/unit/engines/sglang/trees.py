"""Prefix caches without a scheduler."""

from dataclasses import replace

from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer, Request
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.allocator import (
    NO_SLOT,
    PagedTokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
)
from cachesim.engines.sglang.mem_cache.base_prefix_cache import InsertParams
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool, MemoryPools, MHATokenToKVPool
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.runtime_context import get_runtime_context
from cachesim.engines.shared.request_queue import ReceivedRequest
from cachesim.events import Log
from cachesim.model import parse

NEW = PROFILES["sglang@0.5.23"]


def make_cache(model="A", rules=NEW, size=64, states=8, **flags):
    """Return the prefix cache of a model, and its pools."""
    spec = parse(model)
    args = options({"max_total_tokens": size, "max_mamba_cache_size": states, "swa_tokens": size, **flags})
    context = get_runtime_context(replace(rules, states_cap_requests=False), spec, args, Log())
    if context.sliding_window_size:
        allocator = SWATokenToKVPoolAllocator(size, size, args.page_size)
    else:
        allocator = PagedTokenToKVPoolAllocator(size, args.page_size)
    pools = MemoryPools(HybridReqToTokenPool(8, states), allocator, MHATokenToKVPool(spec))
    return UnifiedRadixCache(context, pools), pools


def take(pools, n):
    """Return fresh slots."""
    return pools.token_to_kv_pool_allocator.alloc_extend(NO_SLOT, 0, n)


def insert(cache, pools, key, state=None):
    """Insert tokens, with a state if the tree has states."""
    if cache.mamba is not None and state is None:
        state = pools.req_to_token_pool.mamba_allocator.alloc()
    return cache.insert(InsertParams(key=key, extra_key=None, limit=len(key), value=take(pools, len(key)), text=key,
                                     mamba_value=state))  # fmt: skip


def make_req(rid, prompt, answer=8, **fields):
    """Return a request."""
    task = ReceivedRequest(rid, Request(tuple(prompt), answer, **fields), Answer(rid))
    return Req(rid, task, TokenList(prompt))
