"""What conversations with windows, states and host memory do to the tree (conversations.txt of the folder above)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import effect_lines, sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS, is_step

EXPECTED = sections(Path(__file__).parents[1] / "conversations.txt")


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_each_component_changes_its_part_of_the_tree(conversation: Callable[..., Server]) -> None:
    events = [event for event in conversation().log.events if not is_step(event)]
    assert [*effect_lines(events)] == EXPECTED[conversation.__name__]
