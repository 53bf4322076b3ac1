"""Order of requests that were active at the same time, and of those of a slot."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.rebuild.request_order import (
    MOST_LOOPS,
    chain_requests,
    in_launch_order,
    last_batch,
    loops_between,
    tried_loops,
)
from tests.unit.tools.server_logs.records import logged, read_line, tied_lines


def neighbours(*requests):
    """Return the numbers of the previous and the next request of each request's slot."""
    number = {None: None, **{id(request): at for at, request in enumerate(requests)}}
    return [(number[link.before and id(link.before)], number[link.following and id(link.following.logged)])
            for link in chain_requests(requests)]  # fmt: skip


def test_a_request_has_the_neighbours_of_its_slot():
    assert neighbours(logged(0, 1), logged(1, 2), logged(0, 3), logged(0, 4)) == [
        (None, 2), (None, None), (0, 3), (2, None)]  # fmt: skip
    assert neighbours() == []


def test_a_request_that_names_no_slot_has_none():
    assert neighbours(logged(0, 1, is_named=False), logged(0, 2, is_named=False)) == [(None, None)] * 2


def test_a_slot_holds_what_the_previous_request_left():
    first, second, third = chain_requests([logged(0, 1, end=(90, 95)), logged(0, 2), logged(0, 3)])
    assert (first.held, str(second.held), third.held) == (None, "90 to 95", None)


@pytest.mark.parametrize(("reused", "kept"), [
    ((50, 70, 30, 40), [None, 50, 50, 30]), ((0, 70), [None, 0]), ((None, 70, 40), [None, None, 70]),
])  # fmt: skip
def test_a_slot_keeps_the_fewest_tokens_that_a_request_reused(reused, kept):
    link, *_ = chain_requests([logged(0, number, cache_n=cache_n) for number, cache_n in enumerate(reused)])
    assert [step.kept for step in link.walk()] == kept
    later = [step.logged for step in link.walk_later()]
    assert later == [step.logged for step in link.walk()][1:]


@pytest.mark.parametrize(("cache_n", "lcp", "is_resumed"), [
    (40, 50, True), (50, 50, False), (0, 50, False), (None, 50, False), (40, None, False), (40, (45, 50), True),
    (45, (45, 50), False),
])  # fmt: skip
def test_a_request_that_reuses_less_than_it_shares_resumes_within_it(cache_n, lcp, is_resumed):
    [link] = chain_requests([logged(0, 1, cache_n=cache_n, lcp=lcp)])
    assert [step.is_resumed_within for step in link.walk()] == [is_resumed]


@pytest.mark.parametrize(("reused", "is_kept"), [((50, 50), True), ((50, 51), False), ((50, None), False)])
def test_reused_tokens_are_from_before_if_all_requests_between_kept_them(reused, is_kept):
    link, *_ = chain_requests([logged(0, number, cache_n=cache_n) for number, cache_n in enumerate(reused)])
    assert [step.is_kept for step in link.walk()] == [True, is_kept]


def running(first, last, *batches, whole=True, slot=0):
    """Return a request from a line to another, with lines about batches at these numbers."""
    tied = tied_lines(*(read_line("batch", number) for number in batches))
    return logged(slot=slot, task=first, lines=(first, last), is_whole=whole, tied=tied)


def test_a_request_that_began_before_the_log_comes_first():
    whole = running(1, 40)
    begun = running(7, 50, whole=False, slot=1)
    after = running(60, 70, whole=False)
    assert in_launch_order([whole, begun, after]) == [begun, whole, after]


def test_requests_are_launched_in_the_order_of_their_first_lines():
    long, short, last = running(2, 40), running(5, 30), running(7, 35)
    assert in_launch_order([short, last, long]) == in_launch_order([long, short, last]) == [long, short, last]


@pytest.mark.parametrize(("task", "following", "loops"), [
    (0, 9, 8), (9, 10, 0), (9, 9, 0), (9, 4, 0), (None, 4, 0), (4, None, 0),
])  # fmt: skip
def test_task_ids_count_the_iterations_between_two_arrivals(task, following, loops):
    assert loops_between(logged(0, task), logged(1, following)) == loops


def test_the_shown_number_is_tried_first_and_then_its_neighbours():
    tried = tried_loops(2, [running(1, 40, 2)])
    assert tried[:4] == [2, 1, 3, 0] and sorted(tried) == list(range(MOST_LOOPS))
    assert {40, 41, 39} < {*tried_loops(40, [running(1, 40, 2)])}


def test_without_lines_about_batches_nothing_depends_on_it():
    assert tried_loops(0, [running(1, 40), running(3, 50)]) == [0]


def test_the_last_batch_is_that_before_the_release():
    assert (last_batch(running(1, 40, 2, 30, 99)), last_batch(running(1, 40))) == (30, 0)


def test_a_release_ends_the_batches_of_a_request():
    assert last_batch(running(1, 40, 39, 40)) == 39
    assert tried_loops(3, [running(1, 40), running(3, 50, 49)])[:3] == [3, 2, 4]
    assert tried_loops(3, [running(1, 40, 40)]) == [3]
