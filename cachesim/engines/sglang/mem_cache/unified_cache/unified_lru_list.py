"""Doubly linked list of the nodes with a part, from the most recent to the least recent.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/unified_tree_core.py UnifiedLRUList (0.5.23).
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterator, Protocol, TypeVar

from cachesim.base.errors import Crash


class Linked(Protocol):
    """A member of lists, one for each part: its neighbours in each, and its users. A locked member is not evicted."""

    lru_prev: list[Any]
    lru_next: list[Any]
    lock_ref: list[int]


N = TypeVar("N", bound=Linked)


class UnifiedLRUList(Generic[N]):
    """The list of a part. ``make_end`` returns an end of the list, which is never locked."""

    def __init__(self, component_type: int, make_end: Callable[[], N]) -> None:
        self.component_type = component_type
        self.head = make_end()
        self.tail = make_end()
        self.head.lru_next[component_type] = self.tail
        self.tail.lru_prev[component_type] = self.head

    def __contains__(self, node: N) -> bool:
        return node.lru_next[self.component_type] is not None

    def insert_mru(self, node: N) -> None:
        """Add a node as the most recent one."""
        self.insert_after(self.head, node)

    def insert_after(self, prev_node: N, node: N) -> None:
        """Add a node directly behind another one, as the less recent of both."""
        at = self.component_type
        next_node = prev_node.lru_next[at]
        assert next_node is not None
        node.lru_prev[at] = prev_node
        node.lru_next[at] = next_node
        prev_node.lru_next[at] = node
        next_node.lru_prev[at] = node

    def remove_node(self, node: N) -> None:
        """Remove a node."""
        at = self.component_type
        prev_node = node.lru_prev[at]
        next_node = node.lru_next[at]
        assert prev_node is not None and next_node is not None
        prev_node.lru_next[at] = next_node
        next_node.lru_prev[at] = prev_node
        node.lru_prev[at] = None
        node.lru_next[at] = None

    def reset_node_mru(self, node: N, prev_node: N | None = None) -> None:
        """Move a node directly behind another one, by default to the front."""
        self.remove_node(node)
        self.insert_after(prev_node or self.head, node)

    def get_lru_no_lock(self) -> N | None:
        """Return the least recent unlocked node, None without one."""
        return self.get_prev_no_lock(self.tail)

    def get_prev_no_lock(self, node: N) -> N | None:
        """Return the next unlocked node that is more recent than a node; None without one."""
        at = self.component_type
        found = node.lru_prev[at]
        while found is not None and found.lock_ref[at]:
            found = found.lru_prev[at]
        return None if found is self.head else found

    def in_order(self) -> Iterator[N]:
        """Yield unlocked nodes, the least recent first. If an eviction removed the next node, too, begin again."""
        node = self.get_lru_no_lock()
        while node is not None:
            later = self.get_prev_no_lock(node)
            yield node
            node = later if later is None or later in self else self.get_lru_no_lock()

    def members(self) -> Iterator[N]:
        """Yield the members, the most recent first. Raise Crash if two neighbours are not linked both ways."""
        at = self.component_type
        prev_node = self.head
        node = self.head.lru_next[at]
        while node is not self.tail:
            if node is None or node.lru_prev[at] is not prev_node:
                raise Crash(f"list {at} is broken behind a member")
            yield node
            prev_node = node
            node = node.lru_next[at]
