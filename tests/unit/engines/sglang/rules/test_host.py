"""Rules of copies in host memory."""

import numpy as np
import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import (
    BACK,
    DELETE,
    DEMOTE,
    POLICIES,
    SELECTIVE,
    THROUGH,
    WRITE,
    copies_inside,
    counts_uses,
    counts_uses_on_host,
    drop_copies_inside,
    host_slots,
    leave_device,
    load_back,
    reclaims_doubles,
    writes_further_parts,
    writes_through,
)


@pytest.mark.parametrize(("tokens", "ratio", "page", "slots"), [(64, 2.0, 1, 129), (64, 0.5, 4, 36), (9, 0.0, 4, 4)])
def test_host_memory_has_a_page_more(tokens, ratio, page, slots):
    assert host_slots(tokens, ratio, page) == slots


@pytest.mark.parametrize(("policy", "first"), [(THROUGH, 1), (SELECTIVE, 2), (BACK, None)])
def test_a_node_is_copied_at_a_use(policy, first):
    found = [hits for hits in range(4) if writes_through(policy, UnifiedTreeNode(1, hit_count=hits)).value]
    assert found == ([] if first is None else list(range(first, 4)))


def test_write_back_copies_at_eviction():
    assert [leave_device(policy, UnifiedTreeNode(1)).value for policy in POLICIES] == [DELETE, DELETE, WRITE]
    copied = UnifiedTreeNode(1, host_value=[np.arange(2), None, None])
    assert {leave_device(policy, copied).value for policy in POLICIES} == {DEMOTE}
    assert [counts_uses(policy) for policy in POLICIES] == [True, True, False]
    assert [reclaims_doubles(policy) for policy in POLICIES] == [False, False, True]


def test_ten_tokens_are_loaded():
    assert (load_back(9, 0, False).value, load_back(10, 0, False).value) == (None, 10)


def test_few_tokens_are_loaded_with_a_window_or_a_state():
    assert (load_back(9, 1, False).value, load_back(0, 2, False).value) == (9, 0)


def test_nothing_is_loaded_that_another_load_has_pinned():
    assert (load_back(9, 1, True).value, load_back(20, 0, True).value) == (None, None)


def test_an_insertion_copies_further_parts_except_with_write_back():
    assert [writes_further_parts(policy, UnifiedTreeNode(1)).value for policy in POLICIES] == [True, True, False]


@pytest.mark.parametrize(("host_value", "copied"), [
    ([None, None, None], True), ([np.arange(1), None, None], False), ([None, np.arange(1), None], False),
])  # fmt: skip
def test_write_back_copies_a_node_without_a_copy_before_its_window_goes(host_value, copied):
    node = UnifiedTreeNode(1, host_value=host_value)
    assert [copies_inside(policy, SWA, node) for policy in POLICIES] == [False, False, copied]


@pytest.mark.parametrize(("part", "host_value", "gone"), [
    (SWA, [1, 1, 1], ("S", "M")), (SWA, [1, 1, None], ("S",)), (MAMBA, [1, 1, 1], ("M",)),
])  # fmt: skip
def test_the_copy_of_a_window_takes_that_of_the_state_with_it(part, host_value, gone):
    assert drop_copies_inside(part, UnifiedTreeNode(1, host_value=host_value)).value == gone


def test_release_0_5_9_counts_uses_with_host_memory_only():
    assert [counts_uses_on_host(policy) for policy in ("", *POLICIES)] == [False, True, True, False]
    assert counts_uses("")
