"""Allocation of slots and states for the requests of a step.

Source: sgl-project/sglang python/sglang/srt/mem_cache/allocation.py (0.5.23).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT, ceil_align
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache


def _missing_slots(req: Req, tracked: int) -> int:
    """Return how many slots of states a request still needs. ``tracked``: slots of its tracking buffer."""
    missing = 0
    if req.kv.mamba_pool_idx is None:
        missing += 1
    if req.kv.mamba_ping_pong_track_buffer is None:
        missing += tracked
    return missing


def alloc_req_slots(reqs: Sequence[Req], tree_cache: UnifiedRadixCache) -> None:
    """Give each request the slots of its states."""
    context = tree_cache.context
    if not context.supports_mamba:
        return
    places, tracked = context.tracking_slots
    missing = sum(_missing_slots(req, tracked) for req in reqs)
    needed = context.rules.room_for_states(missing, len(reqs), context.enable_mamba_extra_buffer_lazy)
    available = tree_cache.req_to_token_pool.mamba_allocator.available_size()
    tree_cache.evict_for_alloc(EvictParams(mamba_num=max(0, needed - available)))
    for req in reqs:
        kv = req.kv
        if kv.mamba_pool_idx is None:
            kv.mamba_pool_idx = tree_cache.alloc_mamba_slot()
            kv.mamba_needs_clear = True
        if tracked and kv.mamba_ping_pong_track_buffer is None:
            slots = [tree_cache.alloc_mamba_slot() for _ in range(tracked)]
            kv.mamba_ping_pong_track_buffer = [*slots, *[None] * (places - tracked)]
            kv.mamba_next_track_idx = 0
            kv.mamba_last_track_idx = 0 if tracked < places else context.other_track_idx(0)


def alloc_token_slots(req: Req, tree_cache: UnifiedRadixCache, seq_len: int) -> None:
    """Give a request slots for its tokens up to ``seq_len``; the caller has made room. Raise ProcessAborted."""
    allocator = tree_cache.token_to_kv_pool_allocator
    pool = tree_cache.req_to_token_pool
    page = tree_cache.page_size
    start = req.kv.kv_allocated_len
    num_new_pages = -(-seq_len // page) - -(-start // page)
    if num_new_pages > allocator.available_size() // page:
        raise ProcessAborted("Out of memory. Try to lower your batch size.", "out-of-slots")
    last_loc = int(pool.read(req.rid, start - 1, start)[0]) if start else NO_SLOT
    pool.write(req.rid, start, allocator.alloc_extend(last_loc, start, seq_len))
    req.kv.kv_allocated_len = max(start, seq_len)


def alloc_for_extend(reqs: Sequence[Req], tree_cache: UnifiedRadixCache) -> None:
    """Give each request of a prefill step its states, the slots of its hit, and slots for its chunk."""
    alloc_req_slots(reqs, tree_cache)
    page = tree_cache.page_size
    spare = tree_cache.rules.spare_pages * page * len(reqs) if page > 1 else 0
    tree_cache.evict_from_tree_cache(sum(req.extend_len for req in reqs) + spare)
    for req in reqs:
        if not req.kv.kv_allocated_len and req.last_node is not None:
            slots = tree_cache.tree_core.collect_full_device_indices(req.last_node)
            tree_cache.req_to_token_pool.write(req.rid, 0, slots)
            req.kv.kv_allocated_len = len(slots)
        alloc_token_slots(req, tree_cache, req.extend_end)


def alloc_for_decode(reqs: Sequence[Req], tree_cache: UnifiedRadixCache) -> None:
    """Give each running request slots for its next tokens; with drafts whole pages."""
    context = tree_cache.context
    page = context.page_size
    drafts = context.num_draft_tokens
    unit = page if drafts else 1
    stops = [max(req.kv.kv_allocated_len, ceil_align(req.kv.kv_committed_len + context.alloc_reserve_per_decode, unit))
             for req in reqs]  # fmt: skip
    spare = tree_cache.rules.decode_pages * page * len(reqs)
    if drafts:
        need = sum(stops) - sum(req.kv.kv_allocated_len for req in reqs)
        spare = (need + spare if page > 1 else need) if need else 0
    tree_cache.evict_from_tree_cache(spare)
    for req, stop in zip(reqs, stops, strict=True):
        alloc_token_slots(req, tree_cache, stop)
