"""What whole conversations do to the tree (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import effect_lines, sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS, is_step

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_changes_the_tree_in_this_order(conversation: Callable[..., Server]) -> None:
    events = [event for event in conversation().log.events if not is_step(event)]
    assert [*effect_lines(events)] == EXPECTED[conversation.__name__]
