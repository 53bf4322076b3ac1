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
        super().store(node, value)
        self.lengths.count(node.end, 1)

    def evict_component(self, node: UnifiedTreeNode) -> int:
        """Free the slot of an unlocked node, which becomes a tombstone of the part; return 1."""
        self.lengths.count(node.end, -1)
        return super().evict_component(node)

    def redistribute_on_node_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Do nothing: the state stays below."""

    def select_finished_checkpoint(self, req: Req, up_to: int) -> tuple[int, int | None]:
        """Return the tokens that a finished request inserts, and the slot of the state that it hands over."""
        kv = req.kv
        previous = kv.mamba_prev_track_seqlen if self.context.tracking_slots.places == 2 else None
        n = self.rules.give_at_end(up_to, kv.mamba_last_track_seqlen, previous, self.context.enable_mamba_extra_buffer)
        buffer = kv.mamba_ping_pong_track_buffer
        if buffer is None:
            return n, kv.mamba_pool_idx
        is_last = n == (kv.mamba_last_track_seqlen or 0)
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
