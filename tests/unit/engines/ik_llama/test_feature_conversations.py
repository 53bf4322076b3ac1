"""Reused, evaluated and generated tokens in conversations that use each feature (feature_numbers.txt), and the restore
points that the server reports in them."""

from __future__ import annotations

import pytest

from tests.unit.engines.feature_numbers import read
from tests.unit.engines.ik_llama.feature_conversations import FILE, MAKERS, carried, line_of, run

EXPECTED = read(FILE)
RECURRENT = " SS "
"""Purely recurrent model: no length of its restore points is reported as usable."""


@pytest.mark.parametrize("name", MAKERS)
def test_a_conversation_has_the_numbers_of_the_file_and_reports_the_actual_restore_points(name: str) -> None:
    client = run(name)
    assert line_of(name, client) == EXPECTED[name]
    differing = {key[0] for found in client.compared for key, _, _ in found}
    if RECURRENT in name:
        assert client.told.points and all(point.lo > point.hi for point in client.told.points.values())
    else:
        assert client.compared and differing == ({"entry"} if MAKERS[name][0] is carried else set())
