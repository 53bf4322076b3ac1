"""Doubly linked list of members, from the most recent to the least recent, for caches that evict by recency.

A member may be in several lists: list ``part`` uses its places ``newer[part]``, ``older[part]`` and ``lock[part]``.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterator, Protocol, TypeVar

from cachesim.base.errors import Crash


class Linked(Protocol):
    """A member of lists. ``lock``: number of users by list; a locked member is not evicted."""

    newer: list[Any]
    older: list[Any]
    lock: list[int]


N = TypeVar("N", bound=Linked)


class Recency(Generic[N]):
    """A list of members. ``make`` returns an end of the list, which is never locked."""

    def __init__(self, part: int, make: Callable[[], N]) -> None:
        self.part, self.head, self.tail = part, make(), make()
        self.head.older[part], self.tail.newer[part] = self.tail, self.head

    def __contains__(self, node: N) -> bool:
        return node.older[self.part] is not None

    def add(self, node: N, newer: N | None = None) -> N:
        """Add a node directly behind the ``newer`` node, by default as the most recent; return it."""
        newer = newer or self.head
        older = newer.older[self.part]
        assert older is not None
        node.newer[self.part], node.older[self.part] = newer, older
        newer.older[self.part] = older.newer[self.part] = node
        return node

    def remove(self, node: N) -> None:
        """Remove a node."""
        newer, older = node.newer[self.part], node.older[self.part]
        assert newer is not None and older is not None
        newer.older[self.part], older.newer[self.part] = older, newer
        node.newer[self.part] = node.older[self.part] = None

    def refresh(self, node: N, newer: N | None = None) -> N:
        """Move a node directly behind the ``newer`` node, by default to the front; return it."""
        self.remove(node)
        return self.add(node, newer)

    def unlocked(self, after: N | None = None) -> N | None:
        """Return the least recent unlocked node, or the next one more recent than ``after``; None if there is none."""
        node = (after or self.tail).newer[self.part]
        while node is not None and node.lock[self.part]:
            node = node.newer[self.part]
        return None if node is self.head else node

    def members(self) -> Iterator[N]:
        """Yield the members, the most recent first. Raises Crash if two neighbours are not linked both ways."""
        newer, node = self.head, self.head.older[self.part]
        while node is not self.tail:
            if node is None or node.newer[self.part] is not newer:
                raise Crash(f"list {self.part} is broken behind a member")
            yield node
            newer, node = node, node.older[self.part]
