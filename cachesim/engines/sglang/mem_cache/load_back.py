"""Loads from host memory (HiCache): what a match found there comes back to the device before its request starts.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_radix_cache.py init_load_back, load_back (0.5.23).
"""

from __future__ import annotations

from typing import Protocol

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams
from cachesim.engines.sglang.mem_cache.hicache_controller import HiCacheController, OngoingLoadBack, PoolTransfer
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, NUM_COMPONENT_TYPES
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext


class Evicting(Protocol):
    """A cache that makes room on the device, and reports how the tree changed."""

    def evict_for_alloc(self, params: EvictParams) -> None:
        """Evict for an allocation that lacks so many slots of each part."""

    def alloc_mamba_slot(self) -> int:
        """Take a slot for a state; evict one if necessary."""

    def report(self) -> None:
        """Log the changes of the tree."""


class LoadBack:
    """The loads of requests that start."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore, controller: HiCacheController,
                 req_to_token_pool: HybridReqToTokenPool, cache: Evicting) -> None:  # fmt: skip
        self.context = context
        self.rules = context.rules
        self.tree_core = tree_core
        self.controller = controller
        self.req_to_token_pool = req_to_token_pool
        self.cache = cache

    def init_load_back(self, req: Req) -> int:
        """Copy the matched parts of a request that are in host memory only to the device; return the tokens by which
        its prefix is longer then, 0 if nothing was copied."""
        last_node = req.best_match_node
        assert last_node is not None and req.last_node is not None
        if self.load_back(req, last_node):
            return last_node.end - req.last_node.end
        if self.context.supports_mamba and self.rules.takes_state_of_prefix():
            self._take_state_of(req, req.last_node)
        return 0

    def _take_state_of(self, req: Req, node: UnifiedTreeNode) -> None:
        """Let a request start with the state of a node, at the root with none."""
        kv = req.kv
        kv.mamba_cow_src_index = node.value[MAMBA]
        if kv.mamba_cow_src_index is not None and kv.mamba_pool_idx is None:
            kv.mamba_pool_idx = self.cache.alloc_mamba_slot()
        kv.mamba_needs_clear = kv.mamba_cow_src_index is None

    def load_back(self, req: Req, last_node: UnifiedTreeNode) -> bool:
        """Copy what a match at a node needs from host memory to the device; return True if it was done."""
        core = self.tree_core
        host_lock = core.inc_host_lock_ref(last_node)
        lock = core.inc_lock_ref(last_node)
        slot = self._prepare_load_back(req, last_node)
        parts = self._load_back_transfers(req, last_node)
        core.dec_lock_ref(lock)
        if parts is None:
            core.dec_host_lock_ref(host_lock)
            if slot is not None:
                self.req_to_token_pool.mamba_allocator.free(slot)
                req.kv.mamba_pool_idx = None
        else:
            self.controller.commit_load_back(last_node, parts)
            self.controller.ongoing_load_back.append(OngoingLoadBack(core.inc_lock_ref(last_node), host_lock))
        self.cache.report()
        return parts is not None

    def _prepare_load_back(self, req: Req, last_node: UnifiedTreeNode) -> int | None:
        """Give a request without a slot for its running state one, if the state comes from host memory; return it."""
        if req.kv.mamba_pool_idx is not None or not last_node.has_host_value_only(MAMBA):
            return None
        req.kv.mamba_pool_idx = self.cache.alloc_mamba_slot()
        return req.kv.mamba_pool_idx

    def _load_back_transfers(self, req: Req, last_node: UnifiedTreeNode) -> list[PoolTransfer] | None:
        """Return the parts of a load with slots of the device; None if they are too small, or there is no room."""
        parts = self.controller.loaded_parts(last_node, req.kv.mamba_pool_idx)
        tokens = sum(len(node.key) for node in parts[0].nodes)
        further = sum(not part.is_of_request for part in parts[1:])
        decision = self.rules.load_back(tokens, further, self.controller.is_pinned(last_node, parts))
        req.task.answer.deciding = decision.rule
        if self.context.decide(decision, req) is None:
            return None
        self._make_room(FULL, tokens)
        return self.controller.load(parts, self._make_room)

    def _make_room(self, component_type: int, n: int) -> None:
        """Evict from a part until ``n`` of its slots are free."""
        lacking = max(0, n - self.tree_core.components[component_type].available_size())
        asked = [0] * NUM_COMPONENT_TYPES
        asked[component_type] = lacking
        self.cache.evict_for_alloc(EvictParams(*asked))
