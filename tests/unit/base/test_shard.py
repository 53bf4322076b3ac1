"""Tests of shards: they cover all work without overlap."""

from __future__ import annotations

from cachesim.base.shard import WHOLE, Shard


def test_parts_follow_each_other_and_are_alike():
    for total in (0, 1, 7, 100):
        spans = [Shard(i, 7).span(total) for i in range(1, 8)]
        assert [first for first, _ in spans] == [0, *(stop for _, stop in spans)][:-1]
        assert spans[-1][1] == total and len({stop - first for first, stop in spans}) <= 2
    assert (WHOLE.span(9), WHOLE.suffix, Shard(2, 3).suffix) == ((0, 9), "", ".2of3")
