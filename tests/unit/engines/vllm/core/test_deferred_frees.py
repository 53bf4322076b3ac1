"""Blocks that are given back at once, or when the step that uses them is processed."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.deferred_frees import DeferredFrees


def frees(defers, scheduled=0, processed=0):
    """Return the deferred frees of a server with nine blocks, of which four are taken, and the pool."""
    manager = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4, "num_gpu_blocks": 10}, "none").scheduler
    manager = manager.kv_cache_manager
    found = DeferredFrees(manager, manager.rules, defers)
    found.sched_step_seq, found.processed_step_seq = scheduled, processed
    assert manager.block_pool.get_new_blocks(4) == [1, 2, 3, 4]
    return found, manager.block_pool


@pytest.mark.parametrize(("defers", "processed", "waiting"), [(False, 0, []), (True, 4, []), (True, 3, [4, 2, 3, 1])])
def test_copied_blocks_wait_for_the_next_step(defers, processed, waiting):
    found, pool = frees(defers, scheduled=3, processed=processed)
    found.free_copied_blocks([(1, 3), (2, 4)])
    assert (found.blocks(), pool.get_num_free_blocks()) == (waiting, 9 - len(waiting))
    found.step_processed(False)
    assert found.blocks() == waiting
    found.step_processed(True)
    assert (found.blocks(), pool.get_num_free_blocks()) == ([], 9)
