"""Restore points that all requests share, joined to the changes of each request."""

from __future__ import annotations

import pytest

from cachesim.tools.picture.event_stream import SlotContents
from cachesim.tools.picture.walk_recorder import with_points


@pytest.mark.parametrize(("points", "changes"), [
    ([], [(5, ()), (9, ())]), ([(0, "a"), (5, "b")], [(5, "b"), (9, "b")]),
    ([(6, "a")], [(5, ()), (6, "a"), (9, "a")]), ([(4, "a"), (9, "b"), (12, "c")], [(5, "a"), (9, "b"), (12, "c")]),
])  # fmt: skip
def test_the_points_of_all_requests_are_known_from_the_first_event_of_a_request_on(points, changes):
    own = [(5, SlotContents(1)), (9, SlotContents(2))]
    found = [*with_points(own, points)]
    assert [(k, each.checkpoints) for k, each in found] == changes
    assert [each.tokens for k, each in found] == [1 if k < 9 else 2 for k, _ in found]
