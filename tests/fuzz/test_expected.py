"""Tests that a search finds nothing where properties should hold. They take minutes: only with ``-m slow``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzz import __main__ as campaign
from tests.fuzz import expected
from tests.fuzz.expected import HOLD, LLAMA, unexpected
from tests.shared import ROOT

EXAMPLES = 300


def test_the_table_names_what_exists():
    """Ask another process: in this process other tests may have registered rule sets."""
    code = "from cachesim.engines.registry import profiles; print(*profiles())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    names = there.stdout.split()
    assert {one.profile for one in HOLD} <= set(names)
    assert set(LLAMA) == {name for name in names if name.startswith("llama_cpp@")}
    assert all(one.models for one in HOLD)


@pytest.mark.slow
@pytest.mark.parametrize("hold", HOLD, ids=lambda one: f"{one.profile}-{''.join(one.kinds)}-{len(one.properties)}")
def test_nothing_is_found_where_nothing_should_be(hold):
    found = [(case and repr(case.scenario(hold.profile)), finding) for case, finding in unexpected(hold, 0, EXAMPLES)]
    assert found == []


@pytest.mark.parametrize("broken", ["draw_conversation", "findings"])
def test_a_crash_of_the_simulator_is_counted_and_the_others_are_played(monkeypatch, broken):
    plain, calls = getattr(expected, broken), []

    def now_and_then(*args, **more):
        calls.append(args)
        if len(calls) == 2:
            raise ZeroDivisionError("as a test")
        return plain(*args, **more)

    monkeypatch.setattr(expected, broken, now_and_then)
    row = next(i for i, one in enumerate(HOLD) if one.profile == "llama_cpp@b10587" and one.kinds == ("A",))
    monkeypatch.setattr(campaign, "HELD", 4)
    news = campaign.hold(row, 0)
    assert len(calls) == 4
    assert [(one.finding.name, one.finding.text, one.case is None) for one in news] == [
        ("simulator", "as a test", broken == "draw_conversation"),
    ]
    if broken == "draw_conversation":
        assert "ZeroDivisionError" in campaign.told_of(news[0]) and "in now_and_then" in campaign.told_of(news[0])
