"""Interrupted commands print what is finished."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.rule import RULES
from tests.shared import forget_engines, restore_rules
from tests.unit.tools.run.stopping_rules import stopping_rules

LINE = ["S40.A30/S.B30/S.A", "--model", "A"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No file of rules was run yet, and none was when the test is over."""
    forget_engines(monkeypatch)
    before = dict(RULES)
    yield
    restore_rules(before)


def test_the_requests_that_are_answered_are_shown(capsys, tmp_path):
    assert main(["run", *LINE, "-p", stopping_rules(tmp_path, 2), "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    (run,) = json.loads(out)["runs"]
    assert [one["text"] for one in run["requests"]] == ["S.A", "S.B"]
    assert run["as_expected"] is None and run["mismatches"] == []
    assert "0 of 1 runs" in err and "2 of 3 requests" in err


def test_runs_that_are_over_come_first(capsys, tmp_path):
    words = ["-p", "llama_cpp@b9518", "-p", stopping_rules(tmp_path, 1)]
    assert main(["run", *LINE, *words, "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert [(one["profile"], len(one["requests"])) for one in data["runs"]] == [
        ("llama_cpp@b9518", 3), ("llama_cpp@stop", 1)]  # fmt: skip
    assert data["failed"] == 0 and "1 of 2 runs" in err and "1 of 3 requests" in err


def test_another_signal_has_its_exit_code(capsys, tmp_path):
    assert main(["run", *LINE, "-p", stopping_rules(tmp_path, 1, "Terminated(15)")]) == 128 + 15
    assert "1 of 3 requests" in capsys.readouterr().err


def test_before_any_request_nothing_is_shown(capsys, tmp_path):
    assert main(["run", *LINE, "-p", stopping_rules(tmp_path, 0), "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert json.loads(out)["runs"] == [] and "0 of 1 runs" in err


def test_files_that_failed_are_counted_with_the_runs(capsys, tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3")
    words = [*LINE[:1], str(tmp_path / "bad.toml"), *LINE[1:], "-p", stopping_rules(tmp_path, 0), "--json"]
    assert main(["run", *words]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] == 1 and "1 of 1 runs" in err


def test_why_prints_the_answer_before_it_compares_versions(capsys, tmp_path):
    loss = ["A60/B60/A", "2", "--model", "A", "--set", "parallel=1", "--set", "cache_ram=0"]
    assert main(["why", *loss, "-p", stopping_rules(tmp_path, 20)]) == exits.INTERRUPTED
    out, _ = capsys.readouterr()
    assert "59 tokens" in out and "kept" not in out


def test_a_folder_that_is_interrupted_shows_its_part(capsys, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(
            f"id='{name}'\ntitle='t'\nwhy='w'\nsource=['x']\nengine='llama_cpp'\nmodel='A'\n"
            "profiles=['llama_cpp@b10587']\n[words]\nA=5\n[[request]]\nprompt='A'\n")  # fmt: skip
    words = ["-p", "llama_cpp@b9518", "-p", stopping_rules(tmp_path, 1)]
    assert main(["diff", str(folder), *words, "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert [one["scenario"] for one in json.loads(out)["files"]] == ["one"] and "1 of 2" in err


@pytest.mark.parametrize("command", [["run", *LINE], ["why", LINE[0], "1", *LINE[1:]]], ids=["run", "why"])
def test_a_rule_set_that_fails_is_named_and_the_others_are_reported(capsys, tmp_path, command):
    words = ["-p", stopping_rules(tmp_path, 0, "ValueError('as a test')"), "-p", "llama_cpp@b9518"]
    assert main([*command, *words, "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert [one["profile"] for one in data.get("runs") or data["why"]] == ["llama_cpp@b9518"]
    assert "stop.py:" in err and "as a test" in err and "llama_cpp@stop" in err


def test_a_killed_worker_is_reported_and_the_others_finish(capsys, tmp_path):
    rules = stopping_rules(tmp_path, 0, "os.kill(os.getpid(), 9)")
    words = ["run", *LINE, "-p", rules, "-p", "llama_cpp@b9518", "-j", "2", "--json"]
    assert main(words) == exits.CRASH
    out, err = capsys.readouterr()
    assert "SIGKILL" in err
    data = json.loads(out)
    assert (data["failed"], [one["profile"] for one in data["runs"]]) == (1, ["llama_cpp@b9518"])
