"""Rules that pull requests mended, and the repairs of open faults."""

import pytest

from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import reported as r
from cachesim.engines.sglang.rules.request import RequestWindow


@pytest.mark.parametrize(("rule", "strips", "published", "own"), [
    (r.owned_prompt, False, 20, 47), (r.owned_prompt, True, 20, 20), (r.owned_prompt, True, 41, 20),
    (r.owned_run, False, 20, 49), (r.owned_run, True, 41, 20),
    (r.owned_all, True, 41, 49), (r.owned_published, True, 20, 20), (r.owned_published, True, 41, 41),
    (r.owned_published, False, 41, 47),
])  # fmt: skip
def test_a_request_with_stripped_reasoning_leaves_its_prompt(rule, strips, published, own):
    ask = r.EndingRequest(
        kv_committed_len=49,
        num_input_tokens=20,
        len_through_stop=47,
        cache_protected_len=published,
        strip_thinking_cache=strips,
    )
    assert rule(ask) == own


def test_a_cut_prompt_reserves_its_rest_and_its_answer():
    assert [r.reserve_chunk(rest, 7) for rest in (0, 30)] == [7, 0]
    assert [r.reserve_rest(rest, 7) for rest in (0, 30)] == [7, 37]


@pytest.mark.parametrize(("length", "n", "flat", "chunks", "taken"), [
    (16, 21, 0, 0, 16), (16, 21, 13, 1, 11), (16, 16, 13, 1, 16), (16, 21, 16, 2, 16), (8, 9, 30, 2, 0),
])  # fmt: skip
def test_the_second_request_of_a_batch_gets_a_state_on_the_grid_of_the_batch(length, n, flat, chunks, taken):
    ask = r.TrackedState(
        len_to_track=length,
        extend_seq_len=n,
        query_start_loc=flat,
        track_ssm_src_offset=chunks,
        state_chunk_size=8,
    )
    assert (r.taken_on_flat_grid(ask), r.taken_at_own(ask)) == (taken, length)


def test_a_copy_unlocks_as_far_as_it_locked():
    assert r.unlock_to_mark(3) == 3 and r.unlock_to_root(3) is None


def test_a_run_goes_on_behind_a_tombstone_only_if_it_is_short():
    live, dead = UnifiedTreeNode(1), UnifiedTreeNode(2)
    live.key = dead.key = (1, 2, 3)
    live.value[SWA] = ()
    parts = (FULL, SWA)
    assert [r.accept_unreset(run, dead, parts, 8) for run in (5, 8)] == [(5, False), (0, False)]
    assert [r.accept_unreset(run, live, parts, 8) for run in (4, 5)] == [(7, False), (8, True)]


def test_the_frontier_without_a_page_reaches_the_end():
    assert r.frontier_without_page(RequestWindow(29, 0, 16, None, 4, 8, 1)) == (16, 24)
    assert r.frontier_without_page(RequestWindow(29, 0, 24, None, 4, 8, 1)) == (24, 24)
