"""Restore points that parts of the tree gain and lose in whole conversations (conversations.txt of the engine)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import point_lines, sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).parents[2] / "conversations.txt")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_gains_and_loses_these_restore_points(conversation: Callable[..., Server]) -> None:
    events = conversation(listens=True).log.events
    assert [*point_lines(events)] == EXPECTED[conversation.__name__]
