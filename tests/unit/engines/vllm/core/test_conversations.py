"""Blocks that whole conversations look up, get, free and evict (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.vllm.server import Server
from tests.unit.engines.event_lines import decided_lines, effect_lines, point_lines, sections
from tests.unit.engines.vllm.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))
DECISIONS = sections(Path(__file__).parents[1] / "conversations.txt")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_uses_blocks_in_this_order(conversation: Callable[[], Server]) -> None:
    srv = conversation()
    assert [*effect_lines(srv.log.events)] == EXPECTED[conversation.__name__]


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_leads_to_these_decisions(conversation: Callable[[], Server]) -> None:
    events = conversation().log.events
    assert [*decided_lines(events), *point_lines(events)] == DECISIONS[conversation.__name__]
