"""Tests of recorded sessions: requests at the same moment, merged sessions, and blocks with equal pasts."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.workload.recorded_session import (
    RecordedRequest,
    WorkloadSession,
    check_pasts,
    merged,
    overlapping,
)


def asked(start, end, blocks=(), agent=""):
    return RecordedRequest(start, end, 10, 2, tuple(blocks), 3, agent)


def session(name, *requests, size=4):
    return WorkloadSession(name, "kv", size, requests)


@pytest.mark.parametrize(("times", "together"), [
    ([], []), ([(0, 5)], [False]), ([(0, 5), (4, 6)], [False, True]), ([(0, 5), (5, 6)], [False, False]),
    ([(0, 5), (1, 2), (3, 9)], [False, True, False]),        # the second was answered before the third was sent
    ([(0, 5), (1, 9), (4, 6)], [False, True, True]), ([(0, 9), (1, 2), (3, 4), (3, 8)], [False, True, False, True]),
    ([(-5, -3), (-4, 0)], [False, True]),
])  # fmt: skip
def test_requests_overlap_if_all_were_in_progress_at_the_same_moment(times, together):
    assert overlapping(tuple(asked(*time) for time in times)) == together


def test_a_single_session_stays_as_it_is():
    one = session("a", asked(0, 1, (7,)))
    assert merged([one]) is one


def test_merged_sessions_are_sorted_and_share_no_block():
    first = session("a", asked(0, 1, (1, 5)), asked(9, 10, (1, 6), "sub"))
    second = session("b", asked(4, 5, (0, 1)), asked(5, 6), size=8)
    third = session("c", asked(9, 11, (2,)))
    assert merged([first, second, third]) == WorkloadSession("a+b+c", "kv", 4, (
        asked(0, 1, (1, 5)), asked(4, 5, (7, 8)), asked(5, 6), asked(9, 10, (1, 6), "a/sub"), asked(9, 11, (11,)),
    ))  # fmt: skip


def test_a_session_without_blocks_takes_a_number():
    found = merged([session("a", asked(0, 1)), session("b", asked(1, 2, (0,))), session("c")])
    assert [one.blocks for one in found.requests] == [(), (1,)]


def test_sub_agents_are_counted_once():
    found = session("a", asked(0, 1), asked(1, 2, agent="x"), asked(2, 3, agent="y"), asked(3, 4, agent="x"))
    assert found.agents == 2 and session("b", asked(0, 1)).agents == 0


def test_equal_blocks_have_equal_pasts():
    check_pasts(session("a", asked(0, 1, (1, 2, 3)), asked(1, 2, (1, 2, 4)), asked(2, 3), asked(3, 4, (5,))), "f.json")


@pytest.mark.parametrize(("blocks", "cause"), [
    ((2,), "block 2 follows None and, in another prompt, 1"), ((1, 3), "block 3 follows 1 and, in another prompt, 2"),
    ((4, 1), "block 1 follows 4 and, in another prompt, None"),
])  # fmt: skip
def test_a_block_after_another_past_is_refused(blocks, cause):
    with pytest.raises(BadInput) as bad:
        check_pasts(session("a", asked(0, 1, (1, 2, 3)), asked(1, 2, blocks)), "f.json")
    assert str(bad.value) == f"f.json: request 1: {cause} (equal ids mean equal blocks after equal pasts)"
