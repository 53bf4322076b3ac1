"""Commands that a report prints in a pipe, pasted and run."""

from __future__ import annotations

import re
from shlex import split

import pytest

from cachesim.base import exits
from cachesim.base.layout import SCREEN, as_typed
from cachesim.cli.main import main
from tests.shared import ROOT

TOOLS = ROOT / "tests/unit/tools"
MOST_LINES = {".log": 43, ".jsonl": 2}              # five requests of a log, two bodies
COMMAND = re.compile(r"^(?:next: |[Aa]ll suggestions: | +)(cachesim .*)$", re.M)


@pytest.mark.parametrize(("words", "source"), [
    (["import"], TOOLS / "server_logs/default_verbosity.log"),
    (["import", "-p", "vllm@0.33.0"], TOOLS / "request_bodies/agent.jsonl"),
    (["run", "A60/B80/A", "-np", "1", "--cache-ram", "0", "--model", "A"], None),
    (["advise", "S40.A60/B80/S.C50/S.A", "--model", "A"], None),
])  # fmt: skip
def test_a_printed_command_runs_when_pasted(tmp_path, monkeypatch, capsys, words, source):
    """Also where the path of a file makes it longer than a line."""
    monkeypatch.chdir(tmp_path)
    if source is not None:
        file = tmp_path / ("a-folder-with-a-long-name-" * 3) / source.name
        file.parent.mkdir()
        file.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[: MOST_LINES[source.suffix]]))
        words = [*words, str(file)]
    assert main(words) in (exits.HOLDS, exits.BROKEN)
    commands = {*COMMAND.findall("\n".join(capsys.readouterr()))}
    assert commands
    for command in commands:
        assert main(split(command)[1:]) in (exits.HOLDS, exits.BROKEN, exits.UNDECIDED), command
        capsys.readouterr()


def test_a_command_longer_than_a_screen_is_not_printed():
    assert as_typed("x" * SCREEN).plain == "x" * SCREEN
    assert as_typed("x" * (SCREEN + 1), label="  ", hint="--out FOLDER").plain == (
        f"  (a command of {SCREEN + 1:,} characters: --out FOLDER)")  # fmt: skip
