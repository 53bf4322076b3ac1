"""Tests of the campaign of ``cachesim check``, with the simulator in place of the real server."""

from __future__ import annotations

import pytest

from tests.live import check_campaign
from tests.unit.tools.conformance.http_check.stand_in import Simulated, serving

PROPS = {"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}}


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(check_campaign, "PER", 40)
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.ROUNDS", 1)


@pytest.mark.long
@pytest.mark.parametrize("spoil, code", [(0, 0), (7, 1)])
def test_alarms_are_those_of_the_simulator_and_spoilt_answers_are_not(short, capsys, spoil, code):
    with serving(Simulated("llama_cpp@b11549", "GA", spoil=spoil).complete, PROPS) as url:
        done = check_campaign.compare(url, 0, 3, "GA", 1)
    counts = done["counts"]
    assert counts["requests"] >= 40 and counts["ours"] and counts["cached differs"] == 0
    assert bool(counts["not ours"]) == bool(spoil) == bool(done["wrong"])
    assert check_campaign.judged([done]) == code and "alarms that ours does not give" in capsys.readouterr().out
    assert check_campaign.table([done]).splitlines()[1].split()[:2] == ["GA", "1"]
