"""Restore points in conversations that use each feature: after every request those that a server reports are there."""

from __future__ import annotations

import pytest

from tests.unit.engines.ik_llama.feature_conversations import MAKERS, carried
from tests.unit.engines.restore_points import Reported, differences

STATES_ONLY = " SS "
"""Model whose cache has no restore points. The entries of ``carried`` begin after a system prompt."""


@pytest.mark.parametrize("name", [
    name for name, (script, _) in MAKERS.items() if script is not carried and STATES_ONLY not in name])  # fmt: skip
def test_the_reported_restore_points_are_those_of_the_server(name, monkeypatch):
    script, make = MAKERS[name]
    client, told, compared = make(), Reported(), []
    client.log.listener = told
    finished = client.work

    def compare(*most):
        finished(*most)
        if not client.server.dead:
            compared.append(differences(told, client.server))

    monkeypatch.setattr(client, "work", compare)
    script(client)
    assert compared == [[]] * len(compared) and compared
