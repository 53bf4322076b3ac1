"""Blocks that are given back at once, or when the step that uses them is processed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.vllm.core.deferred_frees import DeferredFrees


def frees(defers, safe):
    """Return the deferred frees of a manager that notes what is freed. ``safe``: the rule's answer."""
    freed = []
    pool = SimpleNamespace(free_blocks=lambda blocks: freed.append(list(blocks)))
    manager = SimpleNamespace(block_pool=pool, free=lambda request: freed.append(request),
                              pop_blocks_for_free=lambda request: request.blocks)  # fmt: skip
    rules = SimpleNamespace(free_now=lambda fence, processed: safe(fence, processed))
    return DeferredFrees(manager, rules, defers), freed


@pytest.mark.parametrize(("defers", "processed", "freed", "queued"), [
    (False, 0, [[1, 5, 2, 6]], []), (True, 4, [[1, 5, 2, 6]], []), (True, 3, [], [(4, [6, 2, 5, 1])]),
])  # fmt: skip
def test_copied_blocks_wait_for_the_next_step(defers, processed, freed, queued):
    found, given = frees(defers, lambda fence, done: fence <= done)
    found.sched_step_seq, found.processed_step_seq = 3, processed
    found.free_copied_blocks([(1, 5), (2, 6)])
    assert (given, [tuple(one) for one in found.queue]) == (freed, queued)


def test_without_blocks_nothing_waits():
    found, given = frees(True, lambda fence, done: False)
    found.free_copied_blocks([])
    found.free_request_blocks(SimpleNamespace(last_sched_seq=1, blocks=[]))
    assert (given, [*found.queue]) == ([], [])


@pytest.mark.parametrize(("last", "at_once"), [(2, True), (3, False)])
def test_blocks_of_a_request_wait_for_the_last_step_that_writes_them(last, at_once):
    found, given = frees(True, lambda fence, done: fence <= done)
    found.sched_step_seq, found.processed_step_seq = 5, 2
    request = SimpleNamespace(last_sched_seq=last, blocks=[7, 8])
    assert found.can_be_freed(request) is at_once
    found.free_request_blocks(request)
    assert (given, [tuple(one) for one in found.queue]) == (([request], []) if at_once else ([], [(5, [7, 8])]))


def test_blocks_are_given_back_in_the_order_of_their_steps_the_last_ones_first():
    found, given = frees(True, lambda fence, done: fence <= done)
    for number in (1, 2):
        found.step_scheduled(True)
        found.step_scheduled(False)
        found.free_request_blocks(SimpleNamespace(last_sched_seq=number, blocks=[10 * number, 10 * number + 1]))
    assert (found.sched_step_seq, found.blocks(), given) == (2, [10, 11, 20, 21], [])
    found.step_processed(False)
    assert (found.processed_step_seq, given) == (0, [])
    found.step_processed(True)
    assert (given, found.blocks()) == ([[11, 10]], [20, 21])
    found.step_processed(True)
    assert (given, found.blocks()) == ([[11, 10], [21, 20]], [])
