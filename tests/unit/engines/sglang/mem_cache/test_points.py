"""Restore points that the tree gains and loses in whole conversations (conversations.txt of the engine)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from cachesim.events import Gained, Lost
from tests.unit.engines.event_lines import point_lines, sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).parents[1] / "conversations.txt")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_gains_and_loses_these_restore_points(conversation: Callable[..., Server]) -> None:
    events = conversation(listens=True).log.events
    assert [*point_lines(events)] == EXPECTED[conversation.__name__]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_tree_keeps_the_restore_points_that_were_gained_and_not_lost(conversation: Callable[..., Server]) -> None:
    srv = conversation(listens=True)
    left: dict[object, None] = {}
    for event in srv.log.events:
        if isinstance(event, Gained):
            left[event.point.key] = None
        elif isinstance(event, Lost):
            del left[event.key]
    points = srv.scheduler.tree_cache.points
    assert {*points.kept()} == {*left} == {*points.reported}
