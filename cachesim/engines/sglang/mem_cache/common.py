"""Exchange between a request and the prefix cache: match when it starts, release when it ends.

Source: sgl-project/sglang python/sglang/srt/mem_cache/common.py (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.base import CACHE_OFF, UNREAD
from cachesim.engines.sglang.events import Matched
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.base_prefix_cache import MatchResult
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.rules.reported import EndingRequest


def match_prefix_of_req(req: Req, tree_cache: UnifiedRadixCache, limit: int) -> MatchResult:
    """Match the first ``limit`` tokens of a request, and report how the tree changed."""
    is_eagle = tree_cache.context.is_eagle
    found = tree_cache.match_prefix(req.radix_key(is_eagle), req.extra_key, max(0, limit - is_eagle))
    tree_cache.report()
    return found


def match_kv_cache(req: Req, tree_cache: UnifiedRadixCache, limit: int, cow_mamba: bool = False) -> None:
    """Match the first ``limit`` tokens of a request. ``cow_mamba``: it starts now, and gets a copy of the state."""
    context = tree_cache.context
    if context.server_args.disable_radix_cache or req.skip_radix_cache:
        req.task.answer.unread = CACHE_OFF if context.server_args.disable_radix_cache else UNREAD
        limit = 0
    result = match_prefix_of_req(req, tree_cache, limit)
    req.last_node = result.last_device_node
    req.best_match_node = result.best_match_node
    req.prefix_len = result.last_device_node.end
    req.host_hit_length = result.host_hit_length
    req.swa_host_hit_length = result.swa_host_hit_length
    req.mamba_host_hit_length = result.mamba_host_hit_length
    req.num_matched_prefix_tokens = req.prefix_len + req.host_hit_length
    req.swa_branching_seqlen = result.swa_branching_seqlen
    if result.mamba_branching_seqlen is not None or cow_mamba:
        req.mamba_branching_seqlen = result.mamba_branching_seqlen
    if cow_mamba:
        decision = context.rules.best_hit(result.found)
        context.decide(decision, req)
        req.task.answer.deciding = req.task.answer.deciding or decision.rule
        if context.supports_mamba and result.best_match_node.value[MAMBA] is not None:
            _copy_mamba_on_write(req, tree_cache, result)
    context.log.emit(Matched(
        req.rid, limit, hit=result.found.device_hit_length, full=result.found.full_kv_hit_length,
        state_branch=result.mamba_branching_seqlen, window_branch=result.swa_branching_seqlen,
        cow=int(cow_mamba and context.supports_mamba),
    ))  # fmt: skip


def _copy_mamba_on_write(req: Req, tree_cache: UnifiedRadixCache, result: MatchResult) -> None:
    """Give a request a slot for its running state, to be copied from the state of the matched node."""
    node = result.best_match_node
    if req.kv.mamba_pool_idx is None:
        req.kv.mamba_pool_idx = tree_cache.req_to_token_pool.mamba_allocator.alloc()
    if req.kv.mamba_pool_idx is None:
        lock = tree_cache.tree_core.inc_lock_ref(node)
        req.kv.mamba_pool_idx = tree_cache.alloc_mamba_slot()
        uuid = tree_cache.rules.copy_unlock(lock.window_lock_uuid)
        tree_cache.tree_core.dec_lock_ref(lock._replace(window_lock_uuid=uuid))
    req.kv.mamba_cow_src_index = node.value[MAMBA]
    req.kv.mamba_needs_clear = False


def checkpoint_kv_cache(req: Req, tree_cache: UnifiedRadixCache) -> None:
    """Insert what a running request has computed with its prompt into the tree; its next chunk begins there."""
    tree_cache.checkpoint_into_tree(req, req.extend_end)
    req.prefix_len = req.extend_end


def release_mamba(req: Req, tree_cache: UnifiedRadixCache) -> None:
    """Free the states of a request."""
    if tree_cache.mamba is not None:
        tree_cache.mamba.cleanup_after_caching_req(req, None, is_finished=True)


def release_kv_cache(req: Req, tree_cache: UnifiedRadixCache, checkpoint: bool) -> None:
    """Free the memory of a request. ``checkpoint``: the tree takes over what it computed."""
    kv = req.kv
    if not kv.kv_allocated_len:
        release_mamba(req, tree_cache)
        return
    owned_kv_len = _owned_kv_len(req, tree_cache)
    checkpoint = checkpoint and not tree_cache.context.server_args.disable_radix_cache
    if checkpoint:
        checkpoint = _can_cache_finished_req(req, tree_cache, owned_kv_len)
    if checkpoint:
        tree_cache.checkpoint_into_tree(req, owned_kv_len, is_finished=True)
    _free_kv_row(req, tree_cache, kv.cache_protected_len, owned_kv_len)
    _free_kv_row(req, tree_cache, ceil_align(owned_kv_len, tree_cache.page_size), kv.kv_allocated_len)
    tree_cache.tree_core.dec_lock_ref(req.lock)
    req.lock = None
    if not checkpoint:
        release_mamba(req, tree_cache)
    tree_cache.req_to_token_pool.free(req.rid)
    kv.kv_allocated_len = 0


def _owned_kv_len(req: Req, tree_cache: UnifiedRadixCache) -> int:
    """Return the number of tokens up to which a request owns its slots: those that it leaves in the tree."""
    computed = req.kv.kv_committed_len
    prompt = req.num_input_tokens
    stop = prompt + req.num_output_tokens if req.is_answered else computed
    owned: int = tree_cache.rules.owned_tokens(EndingRequest(
        kv_committed_len=computed,
        num_input_tokens=prompt,
        len_through_stop=stop,
        cache_protected_len=req.kv.cache_protected_len,
        strip_thinking_cache=tree_cache.context.server_args.strip_thinking_cache,
    ))  # fmt: skip
    return owned


def _can_cache_finished_req(req: Req, tree_cache: UnifiedRadixCache, owned_kv_len: int) -> bool:
    """True if a request can leave its tokens in the tree although its answer may end inside a draft."""
    context = tree_cache.context
    return not context.num_draft_tokens or context.rules.keeps_stopped(
        owned_kv_len, req.kv.kv_committed_len, context.enable_mamba_extra_buffer, context.tree_components)


def _free_kv_row(req: Req, tree_cache: UnifiedRadixCache, start: int, stop: int) -> None:
    """Free the slots of positions start .. stop-1; those that its window has left have no window slots."""
    kv = req.kv
    gone_from = tree_cache.rules.window_gone_from(kv.cache_protected_len)
    first = min(max(start, gone_from), stop)
    live = min(max(first, kv.swa_evicted_seqlen), stop)
    pool = tree_cache.req_to_token_pool
    allocator = tree_cache.token_to_kv_pool_allocator
    allocator.free_full(pool.read(req.rid, first, live))
    allocator.free(pool.read(req.rid, start, first))
    allocator.free(pool.read(req.rid, live, stop))
