"""The radix tree over prefixes: match, insertion, eviction, and what requests leave in it.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_radix_cache.py UnifiedRadixCache (0.5.23).
"""

from __future__ import annotations

from math import inf
from typing import Any, Sequence

import numpy as np

from cachesim.base.errors import NotInBuild, ProcessAborted
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.rule import Decision
from cachesim.engines.sglang import events as req_events
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOTS, Slots
from cachesim.engines.sglang.mem_cache.base_prefix_cache import (
    EvictParams,
    InsertParams,
    InsertResult,
    MatchResult,
)
from cachesim.engines.sglang.mem_cache.hicache_controller import HiCacheController
from cachesim.engines.sglang.mem_cache.load_back import LoadBack
from cachesim.engines.sglang.mem_cache.memory_pool import MemoryPools
from cachesim.engines.sglang.mem_cache.pool_host import host_pool_group
from cachesim.engines.sglang.mem_cache.tree_points import TreePoints
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import (
    FULL,
    LETTERS,
    MAMBA,
    NUM_COMPONENT_TYPES,
    SWA,
)
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import DELETE, DEMOTE
from cachesim.engines.sglang.rules.tree import PrefixMatch
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.events import Event

REFRESH_STEP = 0.00001          # time between a node and its parent after a match


def sum_by_part(freed: Sequence[int], more: Sequence[int]) -> list[int]:
    """Return the sums of two numbers of slots for each part of the memory."""
    return [one + other for one, other in zip(freed, more, strict=True)]


class UnifiedRadixCache:
    """The prefix cache of a server. ``cache_controller``: host memory, None = there is none; ``load_back``: what
    requests load from it."""

    def __init__(self, context: RuntimeContext, pools: MemoryPools) -> None:
        self.context = context
        self.rules = context.rules
        self.log = context.log
        self.page_size = context.page_size
        self.req_to_token_pool = pools.req_to_token_pool
        self.token_to_kv_pool_allocator = pools.token_to_kv_pool_allocator
        self.tree_core = UnifiedTreeCore(context, pools)
        self.changes = self.tree_core.changes
        self.swa = self.tree_core.swa
        self.mamba = self.tree_core.mamba
        self.points = TreePoints(context, self.tree_core)
        self.cache_controller: HiCacheController | None = None
        self.load_back: LoadBack | None = None
        if context.server_args.enable_hierarchical_cache:
            if not self.rules.hosts_parts and context.tree_components != (FULL,):
                raise NotInBuild(f"HiCache for windows and states is not modelled for {self.rules.name}",
                                 hint="a model of full attention, or sglang@0.5.23")  # fmt: skip
            self.cache_controller = HiCacheController(context, self.tree_core, host_pool_group(context, pools))
            self.load_back = LoadBack(
                context,
                self.tree_core,
                controller=self.cache_controller,
                req_to_token_pool=pools.req_to_token_pool,
                cache=self,
            )

    def report(self, head: Event | None = None) -> None:
        """Log an event, then the changes of the tree that it caused."""
        if head is not None:
            self.log.emit(head)
        for event in self.changes.events:
            self.log.emit(event)
        self.changes.events.clear()
        self.points.update()

    def schedulable_size(self, component_type: int) -> int:
        """Return the slots of a part that are free or can be evicted."""
        return self.tree_core.components[component_type].schedulable_size()

    # Match.

    def match_prefix(self, key: Tokens, extra_key: Any, limit: int) -> MatchResult:
        """Return the longest usable prefix among the first ``limit`` tokens. It splits a node that the tokens leave,
        and makes the used nodes recent."""
        core = self.tree_core
        page = self.page_size
        components = self.context.tree_components
        window = self.context.swa_retain_window
        has_copies = self.cache_controller is not None
        most = limit // page * page
        node = core.root_node
        best = node
        last_device_node = node
        at = 0
        run = window
        run_with_copies = window
        while at < most and (child := node.children.get((extra_key, key[at : at + page]))):
            same = _match_len(child, key, at, most, page)
            is_whole = same == len(child.key)
            node = child if is_whole else core.split_node(child, same)
            at += same
            run, fits = self.rules.accept_node(run, node, components, window)
            if fits and not (has_copies and node.evicted):
                last_device_node = node
            if has_copies:
                run_with_copies, fits = self.rules.accept_copy(run_with_copies, node, components, window)
            if fits:
                best = node
            if not is_whole:
                break
        if most:
            self._touch_path(best)
        found = PrefixMatch(limit, last_device_node.end, at)
        return self._match_result(found, last_device_node, best) if most else MatchResult(found, last_device_node, best)

    def _match_result(self, found: PrefixMatch, last_device_node: UnifiedTreeNode, best: UnifiedTreeNode,
                      ) -> MatchResult:  # fmt: skip
        """Return the result of a match, with the tokens that are in host memory only and the branches."""
        host_hit_length = 0
        swa_host_hit_length = 0
        mamba_host_hit_length = 0
        if last_device_node is not best:
            core = self.tree_core
            core.update_evictable_leaf_sets(next((one for one in best.path() if not one.evicted), core.root_node))
            host_hit_length = sum(len(one.key) for one in best.path_to(last_device_node) if one.backuped)
        if self.cache_controller is not None:
            if self.swa is not None:
                swa_host_hit_length = sum(len(one.key) for one in self.swa.nodes_to_load(best))
            if self.mamba is not None:
                mamba_host_hit_length = len(self.mamba.nodes_to_load(best))
        reach = found._replace(device_hit_length=found.device_hit_length + host_hit_length)
        grid = self.context.server_args.state_grid
        return MatchResult(
            found,
            last_device_node,
            best_match_node=best,
            host_hit_length=host_hit_length,
            swa_host_hit_length=swa_host_hit_length,
            mamba_host_hit_length=mamba_host_hit_length,
            mamba_branching_seqlen=None if self.mamba is None else self.rules.branch_point(reach, grid),
            swa_branching_seqlen=None if self.swa is None else self.rules.branch_point(reach, self.page_size),
        )  # fmt: skip

    def _touch_path(self, best: UnifiedTreeNode) -> None:
        """Make the node of a match recent, and the path to it."""
        core = self.tree_core
        self._refresh_lru(best, is_insert=False)
        time = core.get_and_increase_time_counter()
        for node in (*best.path(), core.root_node):
            node.last_access_time = time
            time -= REFRESH_STEP
        core.update_evictable_leaf_sets(best)

    def _refresh_lru(self, node: UnifiedTreeNode, is_insert: bool) -> None:
        """Make windows and states at the end of a path most recent."""
        for component in self.tree_core.components.values():
            component.refresh_lru(node, is_insert)

    # Insertion.

    def insert(self, params: InsertParams) -> InsertResult:
        """Insert the tokens of a request. Slots of tokens that the tree had before are freed."""
        core = self.tree_core
        page = self.page_size
        node = core.root_node
        node.last_access_time = core.get_and_increase_time_counter()
        node.priority = max(node.priority, params.priority)
        if not params.limit:
            return InsertResult(node, 0, None if self.mamba is None else True)
        at = 0
        held = iter(params.held)
        passed_by = [one for one in (self.swa, self.mamba) if one is not None and one.refreshes_passed()]
        while at < params.limit:
            child = next(held, None)
            is_held = child is not None
            child = child or node.children.get((params.extra_key, params.key[at : at + page]))
            if child is None:
                break
            child.last_access_time = core.get_and_increase_time_counter()
            for component in passed_by:
                component.refresh_passed(child)
            is_equal = is_held and child.end <= params.limit
            same = len(child.key) if is_equal else _match_len(child, params.key, at, most=params.limit, page=page)
            node = child if same == len(child.key) else core.split_node(child, same)
            node.priority = max(node.priority, params.priority)
            if node.value[FULL] is None:
                core.unevict_node_on_insert(node, params.value[at : at + same].copy())
                self._recover_after_unevict(node, at, params)
            elif params.prev_prefix_len < at + same:
                self._free_overlap(node, at, same, params)
            at += same
            self._count_hit(node, at, params)
        prefix_len = at
        is_new = at < params.limit
        if is_new:
            node = self._add_leaf(node, at, params)
        exists = self._commit_mamba(node, params.mamba_value, is_new) if self.mamba is not None else None
        if not passed_by:
            self._refresh_lru(node, is_insert=True)
        self._end_insert(node, prefix_len, is_new, params)
        core.update_evictable_leaf_sets(node)
        return InsertResult(node, prefix_len, exists)

    def _recover_after_unevict(self, node: UnifiedTreeNode, at: int, params: InsertParams) -> None:
        """Give a node that got slots of a request the window slots that the request still has."""
        if self.swa is None:
            return
        live = self.rules.live_from(params.swa_evicted_seqlen, at, node.end)
        if live is not None:
            if live > at:
                self.tree_core.split_node(node, live - at)
            self.swa.commit_insert_component_data(node)

    def _free_overlap(self, node: UnifiedTreeNode, at: int, n: int, params: InsertParams) -> None:
        """Free the request's own slots of tokens that a node has, except those that revive its window. A node whose
        slots all belonged to the tree before needs no call."""
        taken = n
        evicted = params.swa_evicted_seqlen
        if self.swa is not None and node.value[SWA] is None:
            live = self.rules.live_from(evicted, at, at + n)
            if live is not None:
                if live > at:
                    self.tree_core.split_node(node, live - at)
                self.swa.recover_from_incoming(node, params.value[live : at + n].copy())
                self.changes.touch(node)
                taken = live - at
        first = max(0, params.prev_prefix_len - at)
        if first < taken:
            dead = min(max(evicted - at - first, 0), taken - first)
            self.token_to_kv_pool_allocator.free_full(params.value[at + first : at + first + dead])
            self.token_to_kv_pool_allocator.free(params.value[at + first + dead : at + taken])

    def _add_leaf(self, parent: UnifiedTreeNode, at: int, params: InsertParams) -> UnifiedTreeNode:
        """Add a leaf for the rest of the tokens; the tokens without window slots become a node of their own."""
        core = self.tree_core
        leaf = core.add_new_node(parent, params.key[at : params.limit], extra_key=params.extra_key,
                                 priority=params.priority, text=params.text)  # fmt: skip
        leaf.value[FULL] = params.value[at : params.limit].copy()
        core.full.count_value(leaf)
        self.changes.record(ev.Grown(leaf.id, parent.id, len(leaf.key)))
        core.update_evictable_leaf_sets(leaf)
        core.update_evictable_leaf_sets(parent)
        core.record_store(leaf)
        if self.swa is None:
            return leaf
        live = self.rules.live_from(params.swa_evicted_seqlen, at, params.limit)
        if live is not None:
            if live > at:
                core.split_node(leaf, live - at)
            older = self.rules.capped_leaf(len(leaf.key), self.context.swa_retain_window, self.page_size)
            with_window = [core.split_node(leaf, older), leaf] if older else [leaf]
            for node in with_window:
                self.swa.commit_insert_component_data(node)
                self.changes.touch(node)
        return leaf

    def _commit_mamba(self, node: UnifiedTreeNode, state: int | None, is_new: bool) -> bool:
        """Store the request's state in a node without one; return True if it had one."""
        assert self.mamba is not None
        core = self.tree_core
        is_kept = self.changes.decide(self.rules.keep_state(node.value[MAMBA] is not None, node.end))
        if is_kept:
            self.mamba.store(node, state)
            self.changes.touch(node)
        else:
            self.mamba.lru_list.reset_node_mru(node)
        if not is_new:
            node.last_access_time = core.get_and_increase_time_counter()
        if is_kept:
            self._evict_excess_path_states(node)
        return not is_kept

    def _evict_excess_path_states(self, tail: UnifiedTreeNode) -> None:
        """Drop the states of a path beyond the limit, the shallowest first."""
        most = self.context.server_args.mamba_max_states_per_path
        holders = [node for node in tail.path() if node.value[MAMBA] is not None]
        held = len(holders)
        for node in holders[:0:-1]:
            if held <= most or most < 0:
                break
            decision = self.rules.drop_excess(held, most, node)
            if node in self.tree_core.evictable_device_leaves:      # its child is in host memory only
                continue
            if self.changes.decide(decision):
                self.tree_core.evict_component(node, MAMBA, decision.rule)
                held -= 1

    def _end_insert(self, node: UnifiedTreeNode, prefix_len: int, is_new: bool, params: InsertParams) -> None:
        """Count an insertion as a use of its new leaf, or copy what an older end lacks in host memory. The server
        counts the leaf's tokens from where the tree ended before, although a window may have split the new ones."""
        if is_new:
            self._count_hit(node, prefix_len + len(node.key), params)
        elif self.cache_controller is not None:
            self.cache_controller.backup_after_insert(node)

    def _count_hit(self, node: UnifiedTreeNode, end: int, params: InsertParams) -> None:
        """Count an insertion as a use of a node that is taken to end after ``end`` tokens, if it is one; the node may
        be due for a copy in host memory."""
        if not self.rules.counts_hit(end, params.inserted_len, params.chunked):
            return
        controller = self.cache_controller
        if self.rules.counts_uses("" if controller is None else controller.write_policy):
            node.hit_count += 1
        if controller is not None:
            controller.backup_after_hit(node)

    # Eviction.

    def evict(self, params: EvictParams) -> list[int]:
        """Evict until so many further slots of each part are available; return the numbers of freed slots."""
        components = self.tree_core.components
        stops_when_enough = self.rules.evict_stop()
        wanted = {part: component.available_size() + params[part] if stops_when_enough else inf
                  for part, component in components.items()}
        freed = [0] * NUM_COMPONENT_TYPES
        held = list[UnifiedTreeNode]()
        for part, component in components.items():
            quota = self.rules.evict_quota(part, params[part], freed[part], component.evictable_size)
            if not params[part] or not quota or component.available_size() >= wanted[part]:
                continue
            for node in component.victims():
                if node in held:
                    continue
                gone: list[int] | None
                if node not in self.tree_core.evictable_device_leaves:
                    gone = self._evict_inside(node, part)
                elif self.cache_controller is None:
                    gone = self._evict_leaf(node, part)
                else:
                    gone = self._leave_device(node, part, self.cache_controller)
                if gone is None:
                    held.append(node)
                else:
                    freed = sum_by_part(freed, gone)
                if freed[part] >= quota or component.available_size() >= wanted[part]:
                    break
        for node in held:
            self.tree_core.update_evictable_leaf_sets(node)
        return freed

    def _leave_device(self, node: UnifiedTreeNode, part: int, controller: HiCacheController) -> list[int] | None:
        """Evict a leaf to its copy in host memory, which is written if necessary, or delete it; return what each part
        freed, None if the leaf stays on the device."""
        decision = self.rules.leave_device(controller.write_policy, node)
        what = self.changes.decide(decision)
        if what == DELETE:
            return self._evict_leaf(node, part)
        if what == DEMOTE or controller.backup_for_write_back(node):
            return self.tree_core.demote(node, decision.rule)
        drop = self.rules.drop_leaf(part, node)
        freed = controller.drop_subtree_no_host(node, drop.rule)
        if freed is not None:
            self.changes.decide(drop)
        return freed

    def _evict_leaf(self, node: UnifiedTreeNode, part: int) -> list[int]:
        """Evict a leaf, whichever part asked for it, and ancestors that do not stay without it; return what each part
        freed."""
        core = self.tree_core
        decision = self.rules.drop_leaf(part, node)
        self.changes.decide(decision)
        parent = node.parent
        assert parent is not None
        freed = core.delete_leaf(node, decision.rule)
        if parent in core.evictable_device_leaves and not self.rules.stays_above(parent, self.context.tree_components):
            freed = sum_by_part(freed, self._evict_leaf(parent, part))
        return freed

    def _evict_inside(self, node: UnifiedTreeNode, part: int) -> list[int]:
        """Make an inner node a tombstone of a part, and of the parts that go with it; return what each part freed. The
        node is copied to host memory first if necessary, and if there is room."""
        controller = self.cache_controller
        if controller is not None and self.rules.copies_inside(controller.write_policy, part, node):
            controller.backup_inside(node, part)
        decision: Decision = self.rules.drop_inside(part, node)
        freed = [0] * NUM_COMPONENT_TYPES
        for letter in self.changes.decide(decision):
            kind = LETTERS.index(letter)
            freed[kind] = self.tree_core.evict_component(node, kind, decision.rule)
        return freed

    def evict_for_alloc(self, params: EvictParams) -> None:
        """Evict for an allocation that lacks so many slots of each part."""
        if any(params):
            freed = self.evict(params)
            self.report(ev.MadeRoom(list(params), freed))

    # Requests.

    def alloc_mamba_slot(self, req: Req | None = None) -> int:
        """Take a slot for a state; evict one if necessary. ``req``: a running request that needs it; its lock does
        not protect a state any longer if it tracks lazily."""
        allocator = self.req_to_token_pool.mamba_allocator
        if not allocator.available_size():
            unlocks = self.rules.state_unlock(self.context.enable_mamba_extra_buffer_lazy)
            if req is not None and req.lock is not None and unlocks:
                req.lock = self.tree_core.release_state(req.lock)
            self.evict_for_alloc(EvictParams(mamba_num=1))
        slot = allocator.alloc()
        if slot is None:
            raise ProcessAborted("Can not alloc mamba cache", "no-state-slot")
        return slot

    def evict_from_tree_cache(self, num_tokens: int) -> None:
        """Evict until so many slots are free, of full attention and of the window."""
        allocator = self.token_to_kv_pool_allocator
        lacking = 0 if self.swa is None else max(0, num_tokens - self.swa.available_size())
        self.evict_for_alloc(EvictParams(max(0, num_tokens - allocator.full_available_size()), lacking))

    def check_hicache_events(self) -> None:
        """End the copies to and from host memory."""
        if self.cache_controller is not None:
            self.cache_controller.check_writes()
            self.cache_controller.check_loads()

    def _num_keys(self, num_tokens: int) -> int:
        """Return the keys of so many tokens: pairs of adjacent tokens with EAGLE drafts, else tokens."""
        return max(0, num_tokens - 1) if self.context.is_eagle else num_tokens

    def checkpoint_into_tree(self, req: Req, up_to: int, is_finished: bool = False) -> None:
        """Insert the first ``up_to`` tokens of a request into the tree, and move its lock to where they end."""
        up_to, state = self._prepare_for_caching_req(req, self._num_keys(up_to), is_finished)
        ends_at_branch = (up_to == req.swa_branching_seqlen and up_to > req.kv.cache_protected_len
                          and self.mamba is None)  # fmt: skip
        if self.swa is not None and not is_finished:
            self.swa.free_out_of_window_slots(req, self.rules.chunk_frontier, up_to - 1)
        result = self._publish(req, up_to, state, is_finished) if up_to else None
        if ends_at_branch:
            req.swa_branching_seqlen = None
            if self.swa is not None and not is_finished:
                pre_len = req.extend_end - 2 if self.context.is_eagle else req.extend_end - 1
                self.swa.free_out_of_window_slots(req, self.rules.chunk_frontier, pre_len)
        if self.mamba is not None:
            is_taken = result is not None and not result.mamba_exist
            if is_taken and is_finished:
                self.mamba.forget_slot(req, state)
            self.mamba.cleanup_after_caching_req(req, None if is_taken else state, is_finished)

    def _prepare_for_caching_req(self, req: Req, up_to: int, is_finished: bool) -> tuple[int, int | None]:
        """Return the number of tokens to insert, and the slot of the state for the tree."""
        kv = req.kv
        if self.mamba is None:
            return self.rules.insert_to_branch(up_to, req.swa_branching_seqlen, kv.cache_protected_len), None
        if is_finished:
            return self.mamba.select_finished_checkpoint(req, up_to)
        is_buffered = self.context.enable_mamba_extra_buffer
        up_to = self.rules.give_at_chunk(up_to, kv.mamba_last_track_seqlen, is_buffered)
        if is_buffered and kv.mamba_last_track_seqlen is None:
            return 0, None
        return up_to, self.mamba.hand_over_chunk_state(req, self.alloc_mamba_slot(req))

    def _publish(self, req: Req, up_to: int, state: int | None, is_finished: bool) -> InsertResult:
        """Insert whole pages of a request; its row then has the slots of the tree."""
        context = self.context
        kv = req.kv
        page_aligned_len = context.decide(self.rules.publish_pages(up_to, self.page_size), req)
        if self.page_size > 1:
            for end in {kv.cache_protected_len, page_aligned_len}:
                context.decline(req, end, self.rules.publish_pages)
        if kv.cache_protected_len > page_aligned_len and not (is_finished and self.rules.frees_published()):
            raise ProcessAborted(f"AssertionError: cache_protected_len={kv.cache_protected_len}, {page_aligned_len=}",
                                 "published-more")  # fmt: skip
        result = self._insert_req(req, page_aligned_len, state, is_finished)
        if result.prefix_len < kv.swa_evicted_seqlen:
            context.decline(req, result.prefix_len, self.rules.live_from)
        kv.cache_inserted_len = max(kv.cache_inserted_len, page_aligned_len)
        node = self._held_node(req, result, is_finished)
        slots = self.tree_core.collect_full_device_indices(node, start=kv.cache_protected_len)
        self.req_to_token_pool.write(req.rid, kv.cache_protected_len, slots)
        req.lock = self.tree_core.move_lock(req.lock, node)
        req.last_node = node
        kv.cache_protected_len = node.end
        return result

    def _held_node(self, req: Req, inserted: InsertResult, is_finished: bool) -> UnifiedTreeNode:
        """Return the node that a request holds after an insertion. Raise ProcessAborted if the request matches its
        tokens again, and finds fewer than the tree had before: the window before their end is dead."""
        rematches = self.rules.rematches_at_end if is_finished else self.rules.rematches
        if not rematches:
            return inserted.last_device_node
        found = self.match_prefix(req.radix_key(self.context.is_eagle), req.extra_key, inserted.last_device_node.end)
        self.report()
        node = found.last_device_node
        if node.end < inserted.prefix_len:
            raise ProcessAborted(f"AssertionError: new_prefix_len={inserted.prefix_len}, len(new_indices)={node.end}",
                                 "matched-less")  # fmt: skip
        return node

    def _insert_req(self, req: Req, up_to: int, state: int | None, is_finished: bool) -> InsertResult:
        """Insert tokens of a request; in a tree of full attention only, end a node where the prompt ends."""
        kv = req.kv
        is_eagle = self.context.is_eagle
        params = InsertParams(
            key=req.radix_key(is_eagle), extra_key=req.extra_key, limit=up_to,
            value=self.req_to_token_pool.read(req.rid, 0, up_to), text=req.text(),
            prev_prefix_len=kv.cache_protected_len, swa_evicted_seqlen=kv.swa_evicted_seqlen,
            inserted_len=kv.cache_inserted_len, priority=req.priority, mamba_value=state, chunked=req.is_chunked,
            held=() if req.lock is None else list(req.lock.node.path())[::-1],
        )  # fmt: skip
        result = self._insert_and_report(params)
        prompt = (req.num_input_tokens - is_eagle) // self.page_size * self.page_size
        boundary = 0
        if is_finished or self.rules.ends_retracted_prompts:
            boundary = self.rules.prompt_boundary(prompt, up_to, len(self.context.tree_components))
        if boundary:
            params.limit = boundary
            params.prev_prefix_len = boundary
            params.inserted_len = boundary
            params.chunked = True
            params.priority += 1
            self._insert_and_report(params)
        return result

    def _insert_and_report(self, params: InsertParams) -> InsertResult:
        result = self.insert(params)
        exists = None if result.mamba_exist is None else int(result.mamba_exist)
        self.report(req_events.Inserted(params.limit, protected=params.prev_prefix_len,
                                        frontier=params.swa_evicted_seqlen, known=result.prefix_len,
                                        exists=exists))  # fmt: skip
        return result

    # Invariants.

    def check(self, own: Sequence[Slots], states: Sequence[int]) -> None:
        """Raise Crash unless the tree is consistent, and every slot is free, in the tree, or in one of these of
        requests, and every state."""
        self.tree_core.check()
        nodes = list(self.tree_core.nodes())
        slots = [node.value[FULL] for node in nodes if not node.evicted]
        self.token_to_kv_pool_allocator.check(np.concatenate([NO_SLOTS, *own, *slots]))
        if self.cache_controller is not None:
            for part, pool in self.cache_controller.mem_pool_host.items():
                pool.check_host([node.host_value[part] for node in nodes if node.host_value[part] is not None])
        if self.mamba is not None:
            held = [node.value[MAMBA] for node in nodes if node.value[MAMBA] is not None]
            self.req_to_token_pool.mamba_allocator.check([*states, *held])


def _match_len(child: UnifiedTreeNode, key: Tokens, at: int, most: int, page: int) -> int:
    """Return how many tokens of a node, in whole pages, are those of a key behind its first ``at``, up to ``most``."""
    if child.text is key and child.end <= most:         # the node was cut out of this list
        return len(child.key)
    part = key[at : min(most, at + len(child.key))]
    if part == child.key:
        return len(part)
    return common_prefix(child.key, part) // page * page
