"""Rules of copies in host memory."""

import numpy as np
import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.host import (
    BACK,
    DELETE,
    DEMOTE,
    POLICIES,
    SELECTIVE,
    THROUGH,
    WRITE,
    counts_uses,
    counts_uses_on_host,
    host_slots,
    leave_device,
    load_back,
    reclaims_doubles,
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
    assert {leave_device(policy, UnifiedTreeNode(1, host_value=np.arange(2))).value for policy in POLICIES} == {DEMOTE}
    assert [counts_uses(policy) for policy in POLICIES] == [True, True, False]
    assert [reclaims_doubles(policy) for policy in POLICIES] == [False, False, True]


def test_ten_tokens_are_loaded():
    assert (load_back(9).value, load_back(10).value) == (None, 10)


def test_release_0_5_9_counts_uses_with_host_memory_only():
    assert [counts_uses_on_host(policy) for policy in ("", *POLICIES)] == [False, True, True, False]
    assert counts_uses("")
