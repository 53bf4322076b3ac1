"""Window slots that a request gives back, and states that it keeps."""

import pytest

from cachesim.engines.sglang.rules import request as r


@pytest.mark.parametrize(("ask", "span"), [
    (r.RequestWindow(19, 0, 0, None, 8, 1, 1), (0, 11)),
    (r.RequestWindow(19, 0, 5, None, 8, 1, 1), (5, 11)),
    (r.RequestWindow(19, 0, 0, 6, 8, 1, 1), (0, 6)),
    (r.RequestWindow(19, 9, 0, None, 8, 1, 4), (9, 9)),
    (r.RequestWindow(19, 0, 0, None, 6, 4, 1), (0, 8)),
    (r.RequestWindow(19, 0, 0, None, 2, 8, 1), (0, 8)),
])  # fmt: skip
def test_the_frontier_leaves_a_window_of_pages(ask, span):
    assert r.window_frontier(ask) == span


@pytest.mark.parametrize(("ask", "span"), [
    (r.RequestWindow(19, 0, 12, None, 8, 1, 4), (12, 12)), (r.RequestWindow(19, 0, 5, None, 8, 1, 4), (5, 11)),
    (r.RequestWindow(19, 0, 0, 6, 6, 4, 4), (0, 4)),
])  # fmt: skip
def test_a_chunk_of_0_5_20_moves_the_frontier_to_the_tree(ask, span):
    assert r.raised_frontier(ask) == span


def test_states_are_freed_for_each_request_or_as_needed():
    assert [r.states_needed(1, 2, lazy) for lazy in (False, True)] == [1, 1]
    assert [r.states_for_each(1, 2, lazy) for lazy in (False, True)] == [6, 4]


@pytest.mark.parametrize(("start", "stop", "branch", "end"), [
    (0, 3, None, None), (0, 4, None, 4), (0, 11, None, 8), (3, 12, None, 11), (0, 11, 4, 4), (0, 11, 6, 8),
    (0, 8, 8, 8), (4, 12, 4, 12),
])  # fmt: skip
def test_a_chunk_keeps_one_state(start, stop, branch, end):
    assert r.track_prefill(start, stop, branch, 4).value == end


def test_decode_keeps_states_at_a_common_multiple():
    assert [n for n in range(1, 25) if r.track_decode(n - 1, n, 4, 6).value] == [12, 24]
    assert [r.track_decode(n, n + 5, 2, 2).value for n in (3, 4)] == [8, 8]        # a step with drafts: the last one


@pytest.mark.parametrize(("tracked", "previous", "n"), [
    (8, 4, 8), (12, 4, 4), (12, None, 0), (None, None, 0), (12, 11, 0),
])  # fmt: skip
def test_the_last_state_within_the_key_is_given(tracked, previous, n):
    assert r.give_at_end(10, tracked, previous, True) == n and r.give_at_end(10, tracked, previous, False) == 10


def test_a_chunk_gives_up_to_its_tracked_state():
    assert (r.give_at_chunk(10, 8, True), r.give_at_chunk(10, None, True), r.give_at_chunk(10, 8, False)) == (8, 0, 10)


@pytest.mark.parametrize(("branch", "n"), [(None, 10), (6, 6), (4, 10), (10, 10), (11, 10)])
def test_an_insertion_ends_at_a_branch_beyond_the_own_part(branch, n):
    assert r.insert_to_branch(10, branch, 4) == n


def test_pages_and_steps():
    assert r.publish_pages(11, 4).value == 8


def test_the_request_with_the_shortest_answer_is_retracted_first():
    assert r.retract_order([(5, 9), (2, 9), (5, 3), (2, 3)]).value == [2, 0, 3, 1]


def test_before_0_5_23_the_frontier_can_leave_less_than_a_window_before_the_end_of_whole_pages():
    ask = r.RequestWindow(10, 0, 0, None, 6, 4, 1)
    assert (r.window_frontier(ask), r.unrounded_frontier(ask)) == ((0, 0), (0, 4))
    assert r.unrounded_frontier(ask._replace(eviction_interval=5)) == (0, 0)


def test_the_chunk_of_a_cut_prompt_is_inserted_in_the_next_step():
    assert not r.settles_next_step() and r.settles_with_batch()


@pytest.mark.parametrize(("disabled", "chosen", "running", "new", "old"), [
    (False, True, False, True, True), (True, True, False, False, False), (False, True, True, False, False),
    (False, False, True, None, False), (True, False, True, False, False),
])  # fmt: skip
def test_steps_overlap_unless_states_are_the_running_ones(disabled, chosen, running, new, old):
    assert r.overlaps(disabled, chosen, running, drafts=False) is new
    assert r.overlaps_if_possible(disabled, chosen, running, drafts=False) is old
    assert not r.overlaps_if_possible(disabled, chosen, running, drafts=True)


def test_a_request_in_its_last_step_is_left_out_since_0_5_23():
    assert r.skips_finishing(True) and not r.skips_finishing(False) and not r.runs_finishing(True)
    assert r.leaves_each_step() and not r.leaves_at_decode()


def test_tracked_states_have_two_places_if_steps_overlap():
    assert r.tracking_slots("extra_buffer", overlaps=True, drafts=3) == (2, 2)
    assert r.tracking_slots("extra_buffer", overlaps=False, drafts=0) == (1, 1)
    assert r.tracking_slots("extra_buffer_lazy", overlaps=True, drafts=0) == (2, 1)
    assert r.tracking_slots("no_buffer", overlaps=False, drafts=0) == (0, 0)
    assert r.tracking_slots_by_drafts("extra_buffer", overlaps=False, drafts=0) == (2, 2)
    assert r.tracking_slots_by_drafts("extra_buffer", overlaps=True, drafts=3) == (1, 1)
    assert r.tracking_pair("extra_buffer", overlaps=False, drafts=0) == (2, 2)


@pytest.mark.parametrize(("buffered", "parts", "own", "kept"), [
    (False, (0, 2), 27, False), (False, (0, 2), 28, True), (True, (0, 2), 27, True), (False, (0, 1), 27, True),
])  # fmt: skip
def test_a_live_state_beyond_the_answer_is_not_given(buffered, parts, own, kept):
    assert r.keeps_stopped(own, 28, buffered, parts) == kept


def test_drafts_reserve_two_steps():
    assert [r.reserved_ahead(k) for k in (0, 1, 3)] == [1, 4, 8]
