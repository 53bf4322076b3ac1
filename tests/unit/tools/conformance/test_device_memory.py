"""Tests of the stand-in for device memory: it shows every slot that differs from a cold run."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance import PagedMemory

PROMPT = tuple(range(10, 21))


def cold(tokens, **size):
    return PagedMemory(4, **size).evaluate([0, 1, 2, 3], 0, tokens)


@pytest.mark.parametrize("window", [None, 1, 3, 100])
def test_pieces_and_other_blocks_are_the_same_as_a_cold_run(window):
    memory = PagedMemory(4, window)
    table = [7, 3, 5]
    memory.evaluate(table, 0, PROMPT[:6])
    assert memory.evaluate(table, 6, PROMPT[6:]) == cold(PROMPT, window=window)


def test_a_shared_block_serves_both():
    memory = PagedMemory(4)
    memory.evaluate([0, 1, 2], 0, PROMPT)
    assert memory.evaluate([0, 3], 4, (5, 6)) == cold((*PROMPT[:4], 5, 6))


def test_a_block_that_was_overwritten_is_seen_as_far_as_the_window_reads():
    for window, same in ((None, False), (8, False), (4, True)):
        memory = PagedMemory(4, window)
        memory.evaluate([0, 1, 2], 0, PROMPT[:8])
        memory.evaluate([0], 0, (1, 2, 3, 4))
        assert (memory.evaluate([0, 1, 2], 8, PROMPT[8:9]) == cold(PROMPT[:9], window=window)) is same


def test_a_slot_that_was_never_written_is_seen():
    assert PagedMemory(4).evaluate([0, 1], 4, (5,)) != cold((*PROMPT[:4], 5))
    assert PagedMemory(4, 1).evaluate([0, 1], 4, (5,)) == PagedMemory(4, 1).evaluate([0], 0, (5,))


def test_copies_and_reads():
    memory = PagedMemory(4)
    memory.evaluate([0, 1], 0, PROMPT[:6])
    memory.copy(1, 9)
    assert memory.read([0, 9], 6) == memory.read([0, 1], 6) == memory.evaluate([0, 1], 6, ())
    memory.evaluate([0, 9], 5, (1,))
    assert memory.read([0, 9], 6) != memory.read([0, 1], 6)
    memory.copy(8, 9)
    assert memory.read([0, 9], 6) != memory.read([0, 1], 6)


def test_a_table_that_is_too_short():
    with pytest.raises(IndexError):
        PagedMemory(4).evaluate([0], 0, PROMPT)
