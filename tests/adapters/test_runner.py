"""Tests of the runner: missing packages are skipped with a message, stand-ins run instead, fixed faults are errors."""

from __future__ import annotations

import pytest

from tests.adapters import __main__ as runner
from tests.adapters.table import Adapter

ADAPTER = Adapter("mlx_lm_lru", "here", ("llama", "gemma3"), ("mlx-lm==0.32.2",))


@pytest.fixture
def commands(monkeypatch):
    """Record the commands that run; set the exit code of commands that contain a word."""
    run, ends = [], {}

    def output(command, seconds):
        run.append(command)
        return next((end for word, end in ends.items() if word in command), (0, "OK: 15 ok"))

    monkeypatch.setattr(runner, "output", output)
    return run, ends


def test_a_planted_fault_is_looked_for_in_the_environment_of_its_adapter(commands, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    assert runner.run_planted(ADAPTER, tmp_path) == 0
    assert commands[0][-1][1:] == ["-m", "tests.adapters.planted", "mlx_lm_lru"]
    commands[1]["tests.adapters.planted"] = 1, "mlx_lm_lru: a fault: NOT FOUND"
    assert runner.run_planted(ADAPTER, tmp_path) == 1
    commands[1]["mlx-lm==0.32.2"] = 1, "ERROR: No matching distribution"
    assert runner.run_planted(ADAPTER, tmp_path / "other") == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["OK: 15 ok", "mlx_lm_lru: a fault: NOT FOUND"]


def test_an_environment_is_made_once(commands, tmp_path, capsys):
    (tmp_path / "here").mkdir()
    for _ in range(2):
        assert runner.run(ADAPTER, tmp_path) == 0
    assert [command[-1] for command in commands[0]] == [str(tmp_path / "here"), "mlx-lm==0.32.2", *ADAPTER.kinds * 2]
    assert "mlx_lm_lru gemma3: OK: 15 ok (" in capsys.readouterr().out


@pytest.mark.long
def test_what_cannot_be_had_is_skipped_with_a_word_and_its_stand_in_tried(commands, tmp_path, capfd):
    commands[1]["mlx-lm==0.32.2"] = 1, "Looking\nERROR: No matching distribution"
    assert runner.run(ADAPTER, tmp_path) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[0].startswith("mlx_lm_lru: skipped, mlx-lm==0.32.2 cannot be installed: ERROR: No matching")
    assert said[1] == "  FixedCache: OK"


def test_an_environment_that_is_too_large_is_not_used(commands, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").write_bytes(b"12345")
    monkeypatch.setattr(runner, "BYTES", 4)
    assert runner.environment(ADAPTER, tmp_path) == ("", "its environment has 0.0 GiB")


def test_a_report_that_is_not_as_expected_is_shown(commands, tmp_path, capsys):
    commands[1]["gemma3"] = 1, "8 faults\nFAILED: 1 failed"
    (tmp_path / "here").mkdir()
    assert runner.run(ADAPTER, tmp_path) == 1
    assert "8 faults\nFAILED: 1 failed\n" in capsys.readouterr().out


def test_a_command_that_does_not_start_or_end():
    assert runner.output(["/nowhere/at/all"], 5)[0] == 1
    assert runner.output(["sleep", "60"], 0)[1] == "no end within 0 seconds"
