"""Reused, evaluated and generated tokens in conversations that use each feature (feature_numbers.txt), and the restore
points that the server reports in them."""

from __future__ import annotations

import pytest

from tests.unit.engines.feature_numbers import read
from tests.unit.engines.mlx_lm.feature_conversations import FILE, MAKERS, line_of, run

EXPECTED = read(FILE)


@pytest.mark.parametrize("name", MAKERS)
def test_a_conversation_has_the_numbers_of_the_file_and_reports_the_actual_restore_points(name: str) -> None:
    client = run(name)
    assert line_of(name, client) == EXPECTED[name]
    assert client.compared and not any(client.compared)
