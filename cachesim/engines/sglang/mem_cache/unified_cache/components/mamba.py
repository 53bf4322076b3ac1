"""The part of recurrent states: a node may have a state after its last token.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/components/mamba.py (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.mem_cache.unified_cache.components.listed import ListedComponent
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.restore_point_tracker import LengthCounter


class MambaComponent(ListedComponent):
    """Slots of recurrent states."""

    component_type = MAMBA

    def __init__(self, context: RuntimeContext, req_to_token_pool: HybridReqToTokenPool) -> None:
        super().__init__(context)
        self.mamba_allocator = req_to_token_pool.mamba_allocator
        self.mamba_pool = req_to_token_pool.mamba_pool
        self.lengths = LengthCounter()                     # of the prefixes before the states

    def value_len(self, node: UnifiedTreeNode) -> int:
        """Return the number of slots of a node that has a state."""
        return 1

    def available_size(self) -> int:
        """Return the number of free slots."""
        return self.mamba_allocator.available_size()

    def free_value(self, node: UnifiedTreeNode) -> None:
        """Free the slot of a node."""
        self.mamba_allocator.free(node.value[MAMBA])

    def store(self, node: UnifiedTreeNode, value: int | None) -> None:
        """Give a node without a state one, as the most recent one."""
        if node.host_value[MAMBA] is None:
            self.lengths.count(node.end, 1)
        super().store(node, value)

    def evict_component(self, node: UnifiedTreeNode) -> int:
        """Free the slot of an unlocked node, which becomes a tombstone of the part; return 1."""
        if node.host_value[MAMBA] is None:
            self.lengths.count(node.end, -1)
        return super().evict_component(node)

    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Leave the state and its copy below."""
        if child.value[MAMBA] is not None and self.rules.split_recent(MAMBA):
            self.lru_list.reset_node_mru(child)

    # Copies in host memory.

    def alloc_on_device(self, n: int) -> int | None:
        """Take a slot; None if none is free."""
        return self.mamba_allocator.alloc()

    def free_on_device(self, value: int) -> None:
        """Free a slot that no node has yet."""
        self.mamba_allocator.free(value)

    def unbacked_nodes(self, node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the node, if it has a state without a copy."""
        return [node] if node.value[MAMBA] is not None and node.host_value[MAMBA] is None else []

    def nodes_to_load(self, last_node: UnifiedTreeNode) -> list[UnifiedTreeNode]:
        """Return the node, if its state is in host memory only."""
        return [last_node] if last_node.has_host_value_only(MAMBA) else []

    def acquire_host_lock(self, node: UnifiedTreeNode) -> int | None:
        """Lock the copy of a node."""
        if node.parent is not None:
            self.count_host_lock(node, 1)
        return None

    def release_host_lock(self, node: UnifiedTreeNode, host_lock_uuid: int | None) -> None:
        """Unlock the copy of a node."""
        if node.parent is not None:
            self.count_host_lock(node, -1)

    def evict_host_component(self, node: UnifiedTreeNode) -> int:
        """Free the copy of a node; return 1."""
        if node.value[MAMBA] is None:
            self.lengths.count(node.end, -1)
        return super().evict_host_component(node)

    # States of requests.

    def select_finished_checkpoint(self, req: Req, up_to: int) -> tuple[int, int | None]:
        """Return the tokens that a finished request inserts, and the slot of the state that it hands over."""
        kv = req.kv
        remembers = self.rules.remembers_previous
        previous = kv.mamba_prev_track_seqlen if remembers and self.context.tracking_slots.places == 2 else None
        n = self.rules.give_at_end(up_to, kv.mamba_last_track_seqlen, previous, self.context.enable_mamba_extra_buffer)
        buffer = kv.mamba_ping_pong_track_buffer
        if buffer is None:
            return n, kv.mamba_pool_idx
        is_last = not remembers or n == (kv.mamba_last_track_seqlen or 0)
        return n, buffer[kv.mamba_last_track_idx if is_last else self.context.other_track_idx(kv.mamba_last_track_idx)]

    def hand_over_chunk_state(self, req: Req, fresh: int) -> int:
        """Return the slot of the state that a request gives the tree after a chunk; ``fresh``: a slot in exchange, or
        for a copy."""
        kv = req.kv
        buffer = kv.mamba_ping_pong_track_buffer
        if buffer is None:
            self.mamba_pool.copy_from(kv.mamba_pool_idx, fresh)
            return fresh
        given = buffer[kv.mamba_last_track_idx]
        assert given is not None
        buffer[kv.mamba_last_track_idx] = fresh
        return given

    def forget_slot(self, req: Req, slot: int | None) -> None:
        """Take the slot of a state from a request, because the tree has taken it over."""
        kv = req.kv
        if kv.mamba_pool_idx == slot:
            kv.mamba_pool_idx = None
        if kv.mamba_ping_pong_track_buffer:
            kv.mamba_ping_pong_track_buffer = [
                None if one == slot else one for one in kv.mamba_ping_pong_track_buffer]

    def cleanup_after_caching_req(self, req: Req, unused: int | None, is_finished: bool) -> None:
        """Free the states of a request: those that it holds if it is finished, else an ``unused`` one (None = none)."""
        kv = req.kv
        if is_finished:
            for slot in kv.mamba_slots:
                self.mamba_allocator.free(slot)
            kv.mamba_pool_idx = None
            kv.mamba_ping_pong_track_buffer = None
        elif unused is not None:
            self.mamba_allocator.free(unused)
        kv.mamba_last_track_seqlen = None
        kv.mamba_prev_track_seqlen = None
