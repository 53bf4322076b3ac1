"""Steps of the scheduler in whole conversations (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import effect_lines, sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS, is_step

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_is_scheduled_in_these_steps(conversation: Callable[..., Server]) -> None:
    events = [event for event in conversation().log.events if is_step(event)]
    assert [*effect_lines(events)] == EXPECTED[conversation.__name__]
