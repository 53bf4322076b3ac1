"""Order of requests that were active at the same time."""

from __future__ import annotations

from cachesim.tools.server_logs.rebuild.launch_order import (
    MOST_LOOPS,
    in_launch_order,
    last_batch,
    loops_between,
    tried_loops,
)
from tests.unit.tools.server_logs.records import logged as request_of
from tests.unit.tools.server_logs.records import read_line, tied_lines


def running(first, last, *batches, whole=True, slot=0):
    """Return a request from a line to another, with lines about batches at these numbers."""
    tied = tied_lines(*(read_line("batch", number) for number in batches))
    return request_of(slot=slot, task=first, lines=(first, last), is_whole=whole, tied=tied)


def test_a_request_that_began_before_the_log_comes_first():
    whole = running(1, 40)
    begun = running(7, 50, whole=False, slot=1)
    after = running(60, 70, whole=False)
    assert in_launch_order([whole, begun, after]) == [begun, whole, after]


def test_requests_are_launched_in_the_order_of_their_first_lines():
    long, short, last = running(2, 40), running(5, 30), running(7, 35)
    assert in_launch_order([short, last, long]) == in_launch_order([long, short, last]) == [long, short, last]


def test_each_line_about_a_batch_is_an_iteration():
    first = running(2, 40, 3, 5, 9, 12)
    assert loops_between([first], running(8, 50, 10)) == 2


def test_the_prompt_with_the_most_batches_counts():
    generating, evaluating = running(1, 40, 2), running(3, 45, 4, 6, 7)
    assert loops_between([generating, evaluating], running(8, 50)) == 3


def test_a_request_whose_beginning_is_missing_counts_from_the_first_line():
    assert loops_between([running(5, 40, 5, 6, whole=False)], running(8, 50)) == 2


def test_the_shown_number_is_tried_first_and_then_its_neighbours():
    tried = tried_loops(2, [running(1, 40, 2)])
    assert tried[:4] == [2, 1, 3, 0] and sorted(tried) == list(range(MOST_LOOPS))


def test_without_lines_about_batches_nothing_depends_on_it():
    assert tried_loops(0, [running(1, 40), running(3, 50)]) == [0]


def test_the_last_batch_is_that_before_the_release():
    assert (last_batch(running(1, 40, 2, 30, 99)), last_batch(running(1, 40))) == (30, 0)


def test_a_batch_in_the_line_of_the_launch_counts_and_one_in_the_next_launch_does_not():
    assert loops_between([running(5, 40, 4, 5, 7, 8)], running(8, 50)) == 2
    assert last_batch(running(1, 40, 39, 40)) == 39
    assert tried_loops(3, [running(1, 40), running(3, 50, 49)])[:3] == [3, 2, 4]
    assert tried_loops(3, [running(1, 40, 40)]) == [3]


def test_the_last_of_the_running_requests_was_launched_last():
    assert loops_between([running(1, 40, 2, 3, 9), running(5, 40, 6)], running(10, 50)) == 1
    assert loops_between([running(5, 40, 6), running(1, 40, 2, 3, 9)], running(10, 50)) == 3


def test_batches_of_others_before_a_request_whose_beginning_is_missing_count():
    assert loops_between([running(1, 40, 2, 3), running(5, 40, whole=False)], running(8, 50)) == 2
    assert loops_between([running(1, 40, 2, 3), running(5, 40)], running(8, 50)) == 0
