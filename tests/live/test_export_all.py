"""Tests of the campaign of exported cases: shown, not showable and failed. With a stand-in for the server."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from cachesim.scenarios.corpus import named
from cachesim.scenarios.from_notation import from_line
from tests.live.export_all import (
    FAILED,
    NOT_SHOWABLE,
    SHOWN,
    Case,
    code_of,
    faulty_scenarios,
    look,
    other_requests,
    table,
)  # fmt: skip

pytestmark = pytest.mark.long
FAKE = Path(__file__).parents[1] / "unit" / "tools" / "live" / "fake_llama.py"
PROFILE = "llama_cpp@b11549"


@pytest.fixture
def played(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.live.export_all.DELAYS", (0.0, 0.0))

    def play(line, mode, **server):
        binary = tmp_path / "llama-server"
        binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" --fake {mode} "$@"\n')
        binary.chmod(0o755)
        return look(from_line(line, model="A", server=server or None), PROFILE, binary, tmp_path)

    return play


def test_shown_and_failed(played):
    assert played("S5>2/B3>1/S>2", "remembers").outcome == SHOWN
    assert played("S5>2/B3>1/S>2", "well").outcome == FAILED
    assert played("S5>2", "stillborn").why == "exit code 2"


def test_what_no_real_server_can_be_told_is_not_showable(played):
    race = played("S5>2/B3>1/C4>1{together+1}", "well", parallel=2)
    assert (race.outcome, race.why) == (NOT_SHOWABLE, "a race")
    drafts = played("S5>r2{drafts=1:1}", "well", spec_type="ngram-simple")
    assert (drafts.outcome, drafts.why) == (NOT_SHOWABLE, "forced drafts")
    task = played("S5{task=embedding}", "well")
    assert task.outcome == NOT_SHOWABLE and "embedding" in task.why


def test_a_loss_is_shown_if_the_server_reuses_as_few_tokens(played):
    assert played("S40.A20>1/S.B9>1/S.A.C5>1", "well", parallel=1, cache_ram=0).outcome != SHOWN
    lossy = played("S5>2/A30>1/S.C4>1", "well", parallel=1)
    assert (lossy.outcome, lossy.why) == (FAILED, "exit code 0")


def test_a_fault_at_another_request_is_told(played):
    found = played("S5>2/S>2/A3>1", "remembers")
    assert found.outcome == SHOWN and "wrong at [1], expected []" in found.why and "another cache_n at 1" in found.why


def test_what_a_script_printed():
    class Script:
        broken, asks = [2], ()

    assert "wrong at [1]" in other_requests(Script, "1  3 (3)  4 (4)  DIFFERS from a cold run: NO ANSWER")


def test_enough_must_be_shown_and_none_may_fail():
    good, other, bad = Case("a", SHOWN), Case("b", NOT_SHOWABLE, "a race"), Case("c", FAILED, "exit code 0")
    assert code_of([good] * 4 + [other]) == 0
    assert code_of([good] * 3 + [other] * 2) == 1
    assert code_of([good] * 9 + [bad]) == 1
    assert list(table([good] * 4 + [other]))[-1] == "5 faulty cases: 4 shown (80%), 1 not showable, 0 failed"


def test_the_cases_are_those_that_are_wrong_or_lose_tokens_under_the_rule_set(tmp_path):
    """The second loses nothing, and what the last loses no rule set reuses."""
    for name in ("llama-one-token-checkpoint", "llama-slot-file-edit-dense", "llama-24143-entry-removed-dense",
                 "llama-17118-failed-load-window"):  # fmt: skip
        shutil.copy(named(name), tmp_path)
    assert {one.id for one in faulty_scenarios(tmp_path, PROFILE)} == {
        "llama-one-token-checkpoint", "llama-24143-entry-removed-dense"}
    for name in ("llama-slot-file-edit-dense", "llama-17118-failed-load-window"):
        (tmp_path / named(name).name).unlink()
    assert [one.id for one in faulty_scenarios(tmp_path, PROFILE, only_losses=True)] == [
        "llama-24143-entry-removed-dense"]
