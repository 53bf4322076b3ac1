"""The lines that a server logs for whole conversations (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.ik_llama.server import Server
from tests.unit.engines.event_lines import event_lines, sections
from tests.unit.engines.ik_llama.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_is_logged_line_by_line(conversation: Callable[[], Server]) -> None:
    srv = conversation()
    one_slot = len(srv.core.slots) == 1
    assert [*event_lines(srv.log.events, one_slot)] == EXPECTED[conversation.__name__]
