"""A free list behaves like a list from which any entry can be removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.sglang.mem_cache.allocator import PagedTokenToKVPoolAllocator
from cachesim.engines.shared.free_list import MOST, FreeList, pool_size

N = 6
STEPS = st.lists(st.tuples(st.sampled_from(("pop", "remove", "prepend", "append")), st.integers(0, N - 1)), max_size=40)


@given(STEPS)
def test_it_keeps_the_order_of_a_list(steps):
    ours, plain = FreeList(N), list(range(N))
    for what, number in steps:
        gone = [one for one in range(N) if one not in plain][: number + 1]
        if what == "pop" and plain:
            assert ours.pop() == plain.pop(0)
        elif what == "remove" and number in plain:
            ours.remove(number)
            plain.remove(number)
        elif what == "prepend":
            ours.prepend(gone)
            plain[:0] = gone
        elif what == "append":
            ours.append(gone)
            plain += gone
        assert (list(ours), len(ours)) == (plain, len(plain))


def test_a_pool_that_memory_cannot_hold_is_refused():
    assert pool_size(MOST) == MOST
    for make in (pool_size, FreeList, lambda n: PagedTokenToKVPoolAllocator(2 * n, 2)):
        with pytest.raises(BadInput, match="a pool of 8,388,609 entries, at most 8,388,608 are simulated"):
            make(MOST + 1)
