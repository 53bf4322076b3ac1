"""Copies of nodes in host memory (HiCache): written when nodes are used or evicted, dropped when it is full.

A copy is complete at once. In the real server it ends some turns later, and its node is locked until then.
"""

from __future__ import annotations

from typing import Callable

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.flags import Options
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.rules.host import DELETE, WRITE
from cachesim.engines.shared.radix_node import Node
from cachesim.engines.shared.tiered_tree import TieredTree
from cachesim.engines.shared.tree_points import FULL


class HostCopies(TieredTree):
    """The decisions about copies. Without host memory there are none."""

    rules: Rules
    opts: Options

    def use(self, node: Node) -> None:
        """Count a use of a node; copy it, and the nodes before it, if it is time."""
        policy = self.opts.hicache_write_policy
        if self.host is None or self.rules.counts_uses(policy):
            node.hits += 1
        if self.host is None or node.host is not None or not self.decide(self.rules.writes_through(policy, node)):
            return
        for one in [one for one in node.path() if one.host is None][::-1]:
            if not self._back_up(one):
                return

    def _back_up(self, node: Node) -> bool:
        """Copy a node to host memory, after dropping others if necessary; return whether there was room."""
        assert self.host is not None
        lacking = len(node.key) - self.host.available
        if lacking > 0 and self.rules.reclaims_doubles(self.opts.hicache_write_policy):
            lacking -= self._reclaim(lacking)
        leaves = self.host_leaves.in_order()
        while lacking > 0 and (leaf := next(leaves, None)) is not None:
            lacking -= self._forget(leaf, self.rules.drop_host_leaf)
        if lacking <= 0:
            self.write(node)
        return lacking <= 0

    def _reclaim(self, n: int) -> int:
        """Drop copies of nodes that are on the device, too, until ``n`` slots are free; return the freed slots."""
        freed, past = 0, list[Node]()
        for spared in (True, False):
            for node in self.doubles:
                if freed >= n:
                    break
                if node.value[FULL] is None or node.host is None:
                    past.append(node)
                elif not (spared and node in self.leaves) and node not in self.pinned:
                    freed += self.drop_copy(node, "")
                    past.append(node)
        for node in past:
            self.doubles.pop(node, None)
        return freed

    def _forget(self, node: Node, rule: Callable[[Node], Decision]) -> int:
        """Remove a leaf that is in host memory only; return its number of slots."""
        decision = rule(node)
        self.decide(decision)
        freed = self.drop_copy(node, decision.rule)
        self.remove(node)
        return freed

    def keeps_copy(self, node: Node) -> bool:
        """Return whether an evicted leaf stays in the tree with its copy, which is written if necessary."""
        if self.host is None:
            return False
        what = self.decide(self.rules.leave_device(self.opts.hicache_write_policy, node))
        if what == WRITE and not self._back_up(node):
            below, todo = list[Node](), [*node.children.values()]
            while todo:
                below.append(todo.pop())
                todo += below[-1].children.values()
            for one in reversed(below):
                self._forget(one, self.rules.drop_below)
            return False
        return bool(what != DELETE)
