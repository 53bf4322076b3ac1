"""What conversations that use each feature lead to: log, restore points, answers (feature_conversations.txt)."""

from __future__ import annotations

import pytest

from tests.unit.engines.event_lines import sections
from tests.unit.engines.mlx_lm.feature_conversations import FILE, MAKERS, lines_of

EXPECTED = sections(FILE)


@pytest.mark.parametrize("name", MAKERS)
def test_a_conversation_leads_to_what_the_file_states(name: str) -> None:
    assert [*lines_of(name)] == EXPECTED[name]
