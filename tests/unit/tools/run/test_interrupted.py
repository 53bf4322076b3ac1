"""Tests of Ctrl-C in ``try`` and ``run``: finished results are printed."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import Terminated
from cachesim.cli.main import main
from cachesim.judging.judging_observer import JudgingObserver

LINE = "S40.A30/S.B30/S.A"


@pytest.fixture
def stop(monkeypatch):
    """Interrupts when so many requests of all runs are judged."""

    def behind(count, error=KeyboardInterrupt):
        seen = []
        judge = JudgingObserver.answered

        def answered(self, *what):
            judge(self, *what)
            seen.append(what)
            if len(seen) == count:
                raise error(15) if error is Terminated else error

        monkeypatch.setattr(JudgingObserver, "answered", answered)

    return behind


def test_the_requests_that_are_answered_are_shown(capsys, stop):
    stop(2)
    assert main(["run", LINE, "--model", "A", "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    (run,) = json.loads(out)["runs"]
    assert [one["text"] for one in run["requests"]] == ["S.A", "S.B"]
    assert "interrupted: 0 of 1 runs finished, and 2 of 3 requests of the next" in err


def test_runs_that_are_over_come_first(capsys, stop):
    stop(4)
    assert main(["run", LINE, "--model", "A", "-p", "b9518", "-p", "b10587"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert "llama_cpp@b9518" in out and "llama_cpp@b10587" in out
    assert "1 of 2 runs finished, and 1 of 3 requests of the next" in err


def test_another_signal_keeps_its_code(capsys, stop):
    stop(1, Terminated)
    assert main(["run", LINE, "--model", "A"]) == 128 + 15
    assert "1 of 3 requests" in capsys.readouterr().err


def test_files_as_lines(capsys, stop):
    stop(6)
    assert main(["run", "llama-24143-entry-removed-dense", "--json"]) == exits.INTERRUPTED
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [len(run["requests"]) for run in runs] == [4, 2]
    assert runs[1]["as_expected"] is None and runs[1]["mismatches"] == []


def test_before_any_request_nothing_is_shown(capsys, monkeypatch):
    def begins(*what):
        raise KeyboardInterrupt

    monkeypatch.setattr(JudgingObserver, "begins", begins)
    assert main(["run", LINE, "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert json.loads(out)["runs"] == [] and "0 of 1 runs finished" in err
