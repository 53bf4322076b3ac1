"""Leaves of a tree in the order of their eviction."""

from __future__ import annotations

import heapq
from typing import Any, Callable, Iterator, Mapping

from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode

Rank = tuple[Any, float, int]
"""Place in the order of eviction, distinct from that of any other leaf; the last entry is the node's number."""
STALE = 64                      # outdated ranks that a heap may hold beside as many as there are leaves


class EvictableLeaves(dict[UnifiedTreeNode, None]):
    """A set of leaves with a heap of their ranks, some of them outdated. ``nodes_by_id``: all nodes by number."""

    def __init__(self, rank: Callable[[UnifiedTreeNode], Rank], nodes_by_id: Mapping[int, UnifiedTreeNode]) -> None:
        super().__init__()
        self.rank = rank
        self.nodes_by_id = nodes_by_id
        self.heap: list[Rank] = []

    def put(self, node: UnifiedTreeNode) -> None:
        """Add a leaf, or rank it again."""
        self[node] = None
        heapq.heappush(self.heap, self.rank(node))
        if len(self.heap) > 2 * len(self) + STALE:
            self.heap = [self.rank(leaf) for leaf in self]
            heapq.heapify(self.heap)

    def in_order(self) -> Iterator[UnifiedTreeNode]:
        """Yield leaves in the order of eviction; a leaf that is added meanwhile joins."""
        while self.heap:
            rank = heapq.heappop(self.heap)
            node = self.nodes_by_id.get(rank[2])
            if node in self:
                assert node is not None
                if rank == self.rank(node):
                    yield node
                else:
                    self.put(node)
