"""Tests of the sessions that come with cachesim: nothing but the names of blocks is lost."""

import pytest

from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession
from cachesim.tools.workload.shipped_sessions import packed, shipped_sessions, unpacked
from tests.shared import SHARED
from tests.workloads.ship import selected, text_of

RECORDED = SHARED / "workloads" / "agent_sessions"


def renamed(requests):
    """Return requests whose blocks are numbered in the order of their first use; ends are rounded."""
    number = {}
    return [one._replace(end=round(one.end, 6), blocks=tuple(number.setdefault(block, len(number) + 1)
                                                            for block in one.blocks)) for one in requests]  # fmt: skip


def test_a_session_is_what_it_was():
    pasts = ((1, 2, 3), (1, 2, 3, 4), (1, 2, 7), (1, 2, 3, 4, 8), (), (1, 2, 7, 9))
    requests = tuple(RecordedRequest(i, i + 0.5, 4 * len(past) + 2, i + 1, past, 3) for i, past in enumerate(pasts))
    rows = packed(WorkloadSession("s", "test", 4, requests))
    assert [row[4:7] for row in rows] == [[-1, 0, 3], [0, 3, 4], [1, 2, 3], [1, 4, 5], [-1, 0, 0], [2, 3, 4]]
    assert renamed(unpacked("s", 4, rows).requests) == renamed(requests)


def test_ten_sessions_come_with_cachesim():
    shipped_sessions.cache_clear()
    sessions = shipped_sessions()
    assert shipped_sessions() is sessions and {one.block_size for one in sessions} == {64}
    assert [one.name for one in sessions] == sorted(one.name for one in sessions) and len(sessions) == 10
    requests = [request for one in sessions for request in one.requests]
    assert (len(requests), sum(one.n_prompt for one in requests)) == (249, 14_644_636)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are absent")
@pytest.mark.long
def test_they_are_the_recorded_sessions():
    for mine, recorded in zip(shipped_sessions(), selected(str(RECORDED)), strict=True):
        assert (mine.name, mine.block_size) == (recorded.name, recorded.block_size)
        assert list(mine.requests) == renamed(recorded.requests)
    assert text_of(str(RECORDED)).encode() == shipped_bytes()


def shipped_bytes():
    from importlib import resources

    return resources.files("cachesim.tools.workload").joinpath("agent_sessions.json").read_bytes()
