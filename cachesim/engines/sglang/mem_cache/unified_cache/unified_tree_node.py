"""Nodes of the radix tree.

A node holds up to three parts: slots of full attention, slots of the window pool for the same tokens, and one recurrent
state after its last token. A node without the value of a part is a tombstone of that part. Each part may have a copy in
host memory.
Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/unified_tree_core.py UnifiedTreeNode
(0.5.23).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Iterator

from cachesim.base.tokens import Tokens
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL


@dataclass(slots=True, eq=False, repr=False)
class UnifiedTreeNode:
    """A node. Lists have an entry for each part, whether the tree has the part or not; those of neighbours have a
    second entry for each part, in the list of its copies."""

    id: int
    last_access_time: float = 0.0
    creation_time: float = 0.0
    priority: int = 0
    hit_count: int = 0
    end: int = 0                                # tokens up to the end of its key
    key: Tokens = ()                            # its tokens
    text: Tokens = ()                           # tokens of a conversation that contains the node
    extra_key: Any = None                       # name space of its conversation
    window_lock_uuid: int | None = None         # it is the boundary of a window lock
    write_through_pending: bool = False         # a copy of it is being written
    parent: UnifiedTreeNode | None = None
    children: dict[Any, UnifiedTreeNode] = field(default_factory=dict)
    value: list[Any] = field(default_factory=lambda: [None] * 3)
    host_value: list[Any] = field(default_factory=lambda: [None] * 3)       # slots of their copies in host memory
    lock_ref: list[int] = field(default_factory=lambda: [0] * 3)
    host_lock_ref: list[int] = field(default_factory=lambda: [0] * 3)
    host_lock_uuid: list[int | None] = field(default_factory=lambda: [None] * 3)    # boundaries of locks on copies
    lru_next: list[UnifiedTreeNode | None] = field(default_factory=lambda: [None] * 6)     # the less recent ones
    lru_prev: list[UnifiedTreeNode | None] = field(default_factory=lambda: [None] * 6)     # the more recent ones

    @property
    def start(self) -> int:
        """Length of the prefix before the node [tokens]."""
        return self.end - len(self.key)

    @property
    def evicted(self) -> bool:
        """True if the node has no slots of full attention."""
        return self.value[FULL] is None

    @property
    def backuped(self) -> bool:
        """True if the slots of full attention have a copy in host memory."""
        return self.host_value[FULL] is not None

    def has_host_value_only(self, component_type: int) -> bool:
        """True if a part of the node is in host memory only."""
        return self.value[component_type] is None and self.host_value[component_type] is not None

    @property
    def has_device_child(self) -> bool:
        """True if a child has slots of full attention."""
        return any(child.value[FULL] is not None for child in self.children.values())

    def path(self) -> Iterator[UnifiedTreeNode]:
        """Yield the node and its ancestors, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def path_to(self, ancestor: UnifiedTreeNode) -> Iterator[UnifiedTreeNode]:
        """Yield the node and its ancestors before ``ancestor``."""
        for node in self.path():
            if node is ancestor:
                return
            yield node

    def __deepcopy__(self, memo: dict[int, Any]) -> UnifiedTreeNode:
        """Copy the whole tree without recursion: its nodes refer to each other in long chains. A node that has left the
        tree still refers to its parent, which may have been copied before."""
        todo = [self]
        copied = list[UnifiedTreeNode]()
        while todo:
            node = todo.pop()
            if id(node) not in memo:
                memo[id(node)] = copy.copy(node)
                copied.append(node)
                near = (node.parent, *node.children.values(), *node.lru_next, *node.lru_prev)
                todo += [other for other in near if other is not None]
        for node in copied:
            twin = memo[id(node)]
            twin.parent = memo[id(node.parent)] if node.parent is not None else None
            twin.children = {key: memo[id(child)] for key, child in node.children.items()}
            twin.lru_next = [other and memo[id(other)] for other in node.lru_next]
            twin.lru_prev = [other and memo[id(other)] for other in node.lru_prev]
            twin.value = list(node.value)
            twin.host_value = list(node.host_value)
            twin.lock_ref = list(node.lock_ref)
            twin.host_lock_ref = list(node.host_lock_ref)
            twin.host_lock_uuid = list(node.host_lock_uuid)
        own: UnifiedTreeNode = memo[id(self)]
        return own
