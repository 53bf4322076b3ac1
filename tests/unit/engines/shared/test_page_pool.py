"""Slots are taken from the front and freed to the end, in pages."""

from cachesim.engines.shared.page_pool import PagePool


def test_a_page_is_filled_before_another_is_taken():
    pool = PagePool(16, 4)
    first = pool.extend(-1, 0, 6)
    assert first.tolist() == [4, 5, 6, 7, 8, 9] and pool.available == 8
    assert pool.extend(int(first[-1]), 6, 7).tolist() == [10] and pool.available == 8
    assert pool.extend(10, 7, 9).tolist() == [11, 12] and pool.available == 4


def test_freed_pages_join_the_end():
    pool = PagePool(12, 4)
    pool.give_back(pool.extend(-1, 0, 6))
    assert list(pool.free) == [3, 1, 2]
