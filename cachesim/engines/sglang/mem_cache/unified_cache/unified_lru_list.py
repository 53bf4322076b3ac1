"""Doubly linked list of the nodes with a part, from the most recent to the least recent.

Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/unified_tree_core.py UnifiedLRUList (0.5.23).
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterator, Protocol, TypeVar

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import NUM_COMPONENT_TYPES


class Linked(Protocol):
    """A member of lists, two for each part: its neighbours in each, and its users. A locked member is not evicted."""

    lru_prev: list[Any]
    lru_next: list[Any]
    lock_ref: list[int]
    host_lock_ref: list[int]


N = TypeVar("N", bound=Linked)


class UnifiedLRUList(Generic[N]):
    """The list of a part, or of its copies in host memory (``use_host_ptr``). ``make_end`` returns an end of the list,
    which is never locked. ``pt``: place of the neighbours in a member."""

    def __init__(self, component_type: int, make_end: Callable[[], N], use_host_ptr: bool = False) -> None:
        self.component_type = component_type
        self.use_host_ptr = use_host_ptr
        self.pt = component_type + NUM_COMPONENT_TYPES if use_host_ptr else component_type
        self.head = make_end()
        self.tail = make_end()
        self.head.lru_next[self.pt] = self.tail
        self.tail.lru_prev[self.pt] = self.head

    def __contains__(self, node: N) -> bool:
        return node.lru_next[self.pt] is not None

    def insert_mru(self, node: N) -> None:
        """Add a node as the most recent one."""
        self.insert_after(self.head, node)

    def insert_after(self, prev_node: N, node: N) -> None:
        """Add a node directly behind another one, as the less recent of both."""
        at = self.pt
        next_node = prev_node.lru_next[at]
        assert next_node is not None
        node.lru_prev[at] = prev_node
        node.lru_next[at] = next_node
        prev_node.lru_next[at] = node
        next_node.lru_prev[at] = node

    def remove_node(self, node: N) -> None:
        """Remove a node."""
        at = self.pt
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
        at = self.pt
        part = self.component_type
        found = node.lru_prev[at]
        while found is not None and (found.host_lock_ref if self.use_host_ptr else found.lock_ref)[part]:
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
        at = self.pt
        prev_node = self.head
        node = self.head.lru_next[at]
        while node is not self.tail:
            if node is None or node.lru_prev[at] is not prev_node:
                raise Crash(f"list {at} is broken behind a member")
            yield node
            prev_node = node
            node = node.lru_next[at]
