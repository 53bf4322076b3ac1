"""Decisions of rules in whole conversations, with their numbers, and restore points (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.vllm.server import Server
from tests.unit.engines.event_lines import decided_lines, point_lines, sections
from tests.unit.engines.vllm.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_leads_to_these_decisions_and_restore_points(conversation: Callable[[], Server]) -> None:
    srv = conversation()
    assert [*decided_lines(srv.log.events), *point_lines(srv.log.events)] == EXPECTED[conversation.__name__]
