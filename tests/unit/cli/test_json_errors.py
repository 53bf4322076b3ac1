"""Tests that every command with --json prints its errors as JSON objects on stdout, beside the line on stderr."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main
from tests.house.checks import PACKAGE, ROOT
from tests.schemas.form import wrong

ERROR = json.loads((PACKAGE / "cli" / "error.schema.json").read_text())
DEAD = "http://127.0.0.1:1"
NOT_A_CASE = "not a file, a scenario id or a line of requests: 'nosuch'"
WRONG = {
    "run": ("run nosuch", NOT_A_CASE), "why": ("why nosuch 0", NOT_A_CASE),
    "diff": ("diff nosuch -p llama_cpp@b9518 -p llama_cpp@b10587", NOT_A_CASE), "bisect": ("bisect nosuch", NOT_A_CASE),
    "advise": ("advise nosuch", NOT_A_CASE), "lesson": ("lesson 99", "unknown lesson: '99'"),
    "explain": ("explain zzzz", "no entry for 'zzzz'"), "options": ("options nosuch", "unknown engine 'nosuch'"),
    "scenarios": ("scenarios zzzz", "no scenario contains all of: zzzz"),
    "profiles": ("profiles show nosuch", "unknown profile 'nosuch'"),
    "import": ("import nosuch", "no such file or directory"), "check": ("check nosuch", "not a server URL: 'nosuch'"),
    "verify": (f"verify nosuch --url {DEAD}", "connection failed"),
    "export": ("export nosuch --to curl", NOT_A_CASE), "fuzz": ("fuzz -p nosuch", "unknown profile 'nosuch'"),
    "shrink": ("shrink nosuch", NOT_A_CASE), "repair": ("repair nosuch", "unknown profile 'nosuch'"),
    "memory": ("memory nosuch", "unknown sizes of K/V rows and states: model 'nosuch'"),
    "merge": ("merge nosuch", "not a folder"), "workload": ("workload nosuch", "no such file or directory"),
    "real": ("real nosuch", "unknown action 'nosuch'"),
    "record": (f"record nosuch --url {DEAD}", NOT_A_CASE), "replay": ("replay nosuch", "no such file or directory"),
    "watch": ("watch", "nothing to watch"),
    "playground": ("playground --port 99999", "expected a port from 0 to 65535"),
    "completion": ("completion nosh", "invalid choice: 'nosh'"),
}  # fmt: skip
"""Command -> a line that ends with an error of the command itself, and the beginning of its message."""

NOTHING = {
    "run tests/data": "no scenario found in tests/data", "replay tests/house": "no trace left to replay",
    "diff tests/data -p llama_cpp@b9518 -p llama_cpp@b10587": "no scenario of llama_cpp found in tests/data",
    f"record tests/data --url {DEAD}": "no scenario to record", "scenarios --symptom qqq": "no scenario shows 'qqq'",
}  # fmt: skip


def refused(capsys, line, code):
    """Check that a command line ends with this code, an error object on stdout and its text on stderr; return it."""
    assert main([*line.split(), "--json"]) == code
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert set(data) == {"schema", "error"} and list(wrong(data, ERROR)) == []
    assert data["error"]["code"] == code and data["error"]["message"] in err.splitlines()[-1]
    assert main(line.split()) == code and capsys.readouterr().out == ""
    return data["error"]["message"]


@pytest.mark.part(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_is_an_object_on_stdout(capsys, monkeypatch, command):
    monkeypatch.chdir(ROOT)
    line, message = WRONG[command]
    assert message in refused(capsys, line, exits.NOTHING if command == "scenarios" else exits.BAD_INPUT)


@pytest.mark.parametrize("command", COMMANDS)
def test_so_is_an_unknown_option(capsys, command):
    assert refused(capsys, f"{command} --nonsense", exits.BAD_INPUT)


@pytest.mark.part(3)
@pytest.mark.parametrize("line", NOTHING)
def test_so_is_an_empty_selection(capsys, monkeypatch, line):
    monkeypatch.chdir(ROOT)
    assert refused(capsys, line, exits.NOTHING).startswith(NOTHING[line])


def test_of_several_errors_the_object_has_the_last_and_stderr_all(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert refused(capsys, "run nosuch nowhere.toml other", exits.BAD_INPUT).endswith("'other'")
    main(["run", "nosuch", "nowhere.toml", "other"])
    assert [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()] == [
        "cachesim: nowhere.toml: no such file or directory", f"cachesim: {NOT_A_CASE}",
        "cachesim: not a file, a scenario id or a line of requests: 'other'",
    ]  # fmt: skip


def test_runs_beside_an_error_are_the_result(capsys):
    assert main(["run", "nosuch", "S4", "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert (len(json.loads(out)["runs"]), json.loads(out)["failed"]) == (1, 1) and NOT_A_CASE in err
