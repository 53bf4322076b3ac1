"""What a server does in whole conversations, and the restore points that they gain and lose (conversations.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.mlx_lm.server import Server
from tests.unit.engines.event_lines import effect_lines, point_lines, sections
from tests.unit.engines.mlx_lm.conversations import CONVERSATIONS

EXPECTED = sections(Path(__file__).with_name("conversations.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_has_these_effects(conversation: Callable[[], Server]) -> None:
    srv = conversation()
    assert [*effect_lines(srv.log.events), *point_lines(srv.log.events)] == EXPECTED[conversation.__name__]
