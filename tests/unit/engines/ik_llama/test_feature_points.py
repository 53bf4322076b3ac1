"""Restore points in conversations that use each feature: after every request those that a server reports are there."""

from __future__ import annotations

import pytest

from tests.unit.engines.ik_llama.feature_conversations import MAKERS, carried
from tests.unit.engines.restore_points import Reported, differences

RECURRENT = " SS "
"""Purely recurrent model: no length of its restore points is reported as usable."""


def compared(name, monkeypatch):
    """Return what is reported of a conversation, and the differences from the real points after each request."""
    script, make = MAKERS[name]
    client, told, found = make(), Reported(), []
    client.log.listener = told
    finished = client.work

    def compare(*most):
        finished(*most)
        if not client.server.dead:
            found.append(differences(told, client.server))

    monkeypatch.setattr(client, "work", compare)
    script(client)
    assert found
    return told, found


@pytest.mark.parametrize("name", [
    name for name, (script, _) in MAKERS.items() if script is not carried and RECURRENT not in name])  # fmt: skip
def test_the_reported_restore_points_are_those_of_the_server(name, monkeypatch):
    _, found = compared(name, monkeypatch)
    assert found == [[]] * len(found)


@pytest.mark.parametrize("name", [name for name in MAKERS if RECURRENT in name])
def test_no_length_of_a_purely_recurrent_model_is_reported_as_usable(name, monkeypatch):
    told, _ = compared(name, monkeypatch)
    assert told.points and {point.lo > point.hi for point in told.points.values()} == {True}


@pytest.mark.parametrize("name", [name for name, (script, _) in MAKERS.items() if script is carried])
def test_only_entries_behind_a_system_prompt_differ_by_it(name, monkeypatch):
    _, found = compared(name, monkeypatch)
    assert {key[0] for differing in found for key, _, _ in differing} == {"entry"}
