"""Entries that whole conversations find, store and remove (conversations.txt of the folder above)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.mlx_lm.events import Fetched, Inserted, Removed
from cachesim.engines.mlx_lm.server import Server
from tests.unit.engines.event_lines import effect_lines, sections
from tests.unit.engines.mlx_lm.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).parents[1] / "conversations.txt")
NAMES = ("fetched ", "inserted ", "removed ")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_finds_stores_and_removes_these_entries(conversation: Callable[[], Server]) -> None:
    events = [event for event in conversation().log.events if isinstance(event, Fetched | Inserted | Removed)]
    assert [*effect_lines(events)] == [line for line in EXPECTED[conversation.__name__] if line.startswith(NAMES)]
