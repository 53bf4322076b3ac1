"""Reused, evaluated and generated tokens in conversations that use each feature (feature_numbers.txt), and the restore
points that the server reports in them."""

from __future__ import annotations

import pytest

from tests.unit.engines.feature_numbers import read
from tests.unit.engines.llama_cpp.feature_conversations import CONVERSATIONS, FILE, line_of, run

EXPECTED = read(FILE)
ENDED = ("split_drafts", "slot_files of drafts")
"""Conversations whose first request ends the process, so that no points are left to compare."""


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_has_the_numbers_of_the_file_and_reports_the_actual_restore_points(name: str) -> None:
    talk = run(name)
    assert line_of(name, talk) == EXPECTED[name]
    assert not any(talk.compared) and bool(talk.compared) is not name.startswith(ENDED)
