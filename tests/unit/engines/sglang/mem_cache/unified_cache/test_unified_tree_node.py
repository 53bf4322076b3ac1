"""Copies of radix nodes."""

import copy
import sys

from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode


def test_a_long_chain_is_copied_with_its_links():
    root = node = UnifiedTreeNode(0)
    for number in range(1, 2 * sys.getrecursionlimit()):
        node.children[number] = UnifiedTreeNode(number, parent=node, key=(number,), end=number)
        node = node.children[number]
    node.value[0], node.lru_prev[1] = [7], root
    twin = copy.deepcopy(node)
    assert [one.id for one in twin.path()] == [one.id for one in node.path()]
    assert twin.lru_prev[1] is not root and twin.lru_prev[1].children[1].parent is twin.lru_prev[1]
    twin.lock_ref[0] += 1
    assert node.lock_ref == [0, 0, 0] and twin.start == node.start
