"""Restore points in conversations that use each feature: after every request those that a server reports are there."""

from __future__ import annotations

import pytest

from tests.unit.engines.llama_cpp.feature_conversations import CONVERSATIONS
from tests.unit.engines.llama_cpp.talk import Talk
from tests.unit.engines.restore_points import Reported, differences

ENDED = ("split_drafts", "slot_files of drafts")
"""Conversations whose first request ends the process, so that no points are left to compare."""
SAMPLED = ("shifts A b1573",)
"""Conversations of a build that lists a sampled token without its row: its slots have more tokens than are reported."""


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_reported_restore_points_are_those_of_the_server(name, monkeypatch):
    made, finished, compared = Talk.__init__, Talk.work, []

    def listen(talk, *of, **flags):
        made(talk, *of, **flags)
        talk.told = talk.log.listener = Reported()

    def compare(talk):
        finished(talk)
        if not talk.server.dead:
            ahead = {("slot", slot.id, 0) for slot in talk.server.core.slots if name.startswith(SAMPLED)}
            compared.append(differences(talk.told, talk.server, ahead))

    monkeypatch.setattr(Talk, "__init__", listen)
    monkeypatch.setattr(Talk, "work", compare)
    CONVERSATIONS[name]()
    assert compared == [[]] * len(compared) and bool(compared) is not name.startswith(ENDED)
