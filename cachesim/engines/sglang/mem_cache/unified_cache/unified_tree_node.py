"""Nodes of the radix tree.

A node holds up to three parts: slots of full attention, slots of the window pool for the same tokens, and one recurrent
state after its last token. A node without the value of a part is a tombstone of that part.
Source: sgl-project/sglang python/sglang/srt/mem_cache/unified_cache/unified_tree_core.py UnifiedTreeNode
(0.5.23).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Iterator

from cachesim.base.tokens import Tokens

LETTERS = "FSM"


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A node: ``key`` are its tokens, the last of which ends at ``end`` of the prefix. ``text``: tokens of a
    conversation that contains the node, up to its end or further."""

    id: int
    access: float = 0.0
    created: float = 0.0
    priority: int = 0
    hits: int = 0
    end: int = 0
    key: Tokens = ()
    text: Tokens = ()
    space: Any = None                           # name space of its conversation
    mark: int | None = None                     # boundary of a window lock
    parent: Node | None = None
    children: dict[Any, Node] = field(default_factory=dict)
    value: list[Any] = field(default_factory=lambda: [None] * 3)      # slots, window slots, slot of the state
    host: Any = None                            # slots of its copy in host memory
    lock: list[int] = field(default_factory=lambda: [0] * 3)
    older: list[Node | None] = field(default_factory=lambda: [None] * 3)
    newer: list[Node | None] = field(default_factory=lambda: [None] * 3)

    @property
    def start(self) -> int:
        """Length of the prefix before the node [tokens]."""
        return self.end - len(self.key)

    def path(self) -> Iterator[Node]:
        """Yield the node and its ancestors, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        """Copy the whole tree without recursion: its nodes refer to each other in long chains."""
        todo, twins = [self], dict[int, tuple[Node, Node]]()
        while todo:
            node = todo.pop()
            if id(node) not in twins:
                twins[id(node)] = node, copy.copy(node)
                near = (node.parent, *node.children.values(), *node.older, *node.newer)
                todo += [other for other in near if other is not None]
        for node, twin in twins.values():
            memo[id(node)] = twin
            twin.parent = twins[id(node.parent)][1] if node.parent is not None else None
            twin.children = {key: twins[id(child)][1] for key, child in node.children.items()}
            twin.older = [other and twins[id(other)][1] for other in node.older]
            twin.newer = [other and twins[id(other)][1] for other in node.newer]
            twin.value, twin.lock = list(node.value), list(node.lock)
        return twins[id(self)][1]
