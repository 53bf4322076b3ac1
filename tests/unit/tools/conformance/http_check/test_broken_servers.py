"""Tests that a server which answers without a model never passes."""

from __future__ import annotations

import pytest

from tests.unit.tools.conformance.http_check.broken_servers import BROKEN, checked

CODES = {
    "an empty text": 2, "an empty object": 2, "a constant answer": 3, "a constant text": 3,
    "the answer to the previous request": 1, "a random answer": 1, "an error for every second request": 2,
    "a refusal of every request": 1, "wrong types": 2, "empty objects after 20 answers": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.ROUNDS", 1)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_server_never_passes(name):
    code, out, err = checked(name, "--only", "noise", "--only", "same")
    assert code == CODES[name], out + err
    assert not out.startswith("OK") and "Traceback" not in err


def test_equal_answers_leave_every_comparing_property_undecided():
    _, out, _ = checked("a constant answer", "--only", "same", "--only", "noise")
    assert "  append      UNDECIDED    all answers that were compared are equal" in out
    assert "  steady      UNDECIDED    all answers that were compared are equal" in out


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["a random answer", "the answer to the previous request"])
def test_cold_answers_that_differ_are_blamed_on_no_rule_of_a_cache(name):
    _, out, _ = checked(name, "--only", "same", "--only", "noise", "--requests", "70")
    assert "  steady      FAILED" in out and "  repeatable  UNDECIDED    two cold runs of a request differ" in out
    assert "gives a wrong answer on" not in out and "cachesim why" not in out
    assert all(f"  {name:<12}UNDECIDED" in out for name in ("append", "branch", "prefix", "repeat"))
