"""Leaves of a tree in the order of their eviction."""

from __future__ import annotations

import heapq
from typing import Any, Callable, Iterator, Mapping

from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node


class LeafOrder(dict[Node, None]):
    """A set of leaves with a heap of their ranks. ``arena``: nodes by their number, the last entry of a rank."""

    def __init__(self, rank: Callable[[Node], tuple[Any, float, int]], arena: Mapping[int, Node]) -> None:
        super().__init__()
        self.rank, self.arena = rank, arena
        self.heap: list[tuple[Any, float, int]] = []        # with outdated ranks

    def put(self, node: Node) -> None:
        """Add a leaf, or rank it again."""
        self[node] = None
        heapq.heappush(self.heap, self.rank(node))
        if len(self.heap) > 2 * len(self) + 64:
            self.heap = [self.rank(leaf) for leaf in self]
            heapq.heapify(self.heap)

    def in_order(self) -> Iterator[Node]:
        """Yield leaves in the order of eviction; a leaf that is added meanwhile joins."""
        while self.heap:
            rank = heapq.heappop(self.heap)
            node = self.arena.get(rank[2])
            if node in self:
                assert node is not None
                if rank == self.rank(node):
                    yield node
                else:
                    self.put(node)
