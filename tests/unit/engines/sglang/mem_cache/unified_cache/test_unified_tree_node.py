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


def test_a_copy_shares_no_list_with_its_original():
    root = UnifiedTreeNode(0)
    node = root.children[1] = UnifiedTreeNode(1, parent=root, key=(1,), end=1)
    node.value, node.host_value = [[7], None, 3], [None, [5], None]
    node.lock_ref, node.host_lock_ref, node.host_lock_uuid = [1, 2, 0], [0, 1, 2], [None, 4, None]
    twin = copy.deepcopy(node)
    lists = ("value", "host_value", "lock_ref", "host_lock_ref", "host_lock_uuid", "lru_next", "lru_prev", "children")
    assert [getattr(twin, name) for name in lists] == [getattr(node, name) for name in lists]
    assert not [name for name in lists if getattr(twin, name) is getattr(node, name)]
