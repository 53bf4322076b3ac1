"""Changes of the tree since they were last reported.

The tree decides and changes; its cache reports the changes behind the event that caused them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.events import Decided, Event


class LostPart(NamedTuple):
    """A part that a node lost, and the rule that decided it ("" = none)."""

    node: UnifiedTreeNode
    component_type: int
    rule: str


class TreeChanges:
    """Events in their order, nodes whose restore points may have changed, and lost parts."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.touched: dict[UnifiedTreeNode, None] = {}
        self.lost: list[LostPart] = []

    def decide(self, decision: Decision) -> Any:
        """Record a decision and return its value."""
        self.events.append(Decided(None, decision.rule, decision.value, because=decision.because, case=decision.case))
        return decision.value

    def record(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    def touch(self, node: UnifiedTreeNode) -> None:
        """Note that the restore points of a node may have changed."""
        self.touched[node] = None

    def lose(self, node: UnifiedTreeNode, component_type: int, rule: str) -> None:
        """Record that a node lost a part by a rule."""
        self.lost.append(LostPart(node, component_type, rule))

    def clear(self) -> None:
        """Forget all changes."""
        self.events.clear()
        self.touched.clear()
        self.lost.clear()
