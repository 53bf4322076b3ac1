"""Copies of radix nodes."""

import copy
import sys

from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node


def test_a_long_chain_is_copied_with_its_links():
    root = node = Node(0)
    for number in range(1, 2 * sys.getrecursionlimit()):
        node.children[number] = Node(number, parent=node, key=(number,), end=number)
        node = node.children[number]
    node.value[0], node.newer[1] = [7], root
    twin = copy.deepcopy(node)
    assert [one.id for one in twin.path()] == [one.id for one in node.path()]
    assert twin.newer[1] is not root and twin.newer[1].children[1].parent is twin.newer[1]
    twin.lock[0] += 1
    assert node.lock == [0, 0, 0] and twin.start == node.start
