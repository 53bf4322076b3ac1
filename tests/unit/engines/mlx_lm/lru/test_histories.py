"""What histories of prompt caches lead to in every version (histories.txt)."""

from __future__ import annotations

import pytest

from tests.unit.engines.event_lines import sections
from tests.unit.engines.mlx_lm.lru.histories import FILE, NAMES, lines_of

EXPECTED = sections(FILE)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_leads_to_what_the_file_states(name: str) -> None:
    assert [*lines_of(name)] == EXPECTED[name]
