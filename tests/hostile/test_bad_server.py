"""Tests of ``check``, ``verify --url`` and ``record --url`` with a server that misbehaves."""

from __future__ import annotations

import json
import time
from itertools import product
from pathlib import Path

import pytest

from cachesim.cli.main import main
from tests.hostile.bad_server import FIELDS, HARMLESS, MISBEHAVIOURS, STAGES, VALUES, WRONG_FIELDS, running
from tests.hostile.forked_commands import forking

WITHIN = 0.3                 # time limit of a reply [seconds]
GOOD_WITHIN = 1.0            # where good replies come first, which a busy machine sends late [seconds]
SECONDS = 2.0                # time limit of a check
LATEST = 15.0                # wall time of a command: time limits, parsing of 16 MiB, and a busy machine
LINES = ("S5>1/S.A3>1", "S5>1/S.A3>9{cancel_after=2}/S.B3>1")      # the second reads a stream of events
COMMANDS = ("check", "verify", "record")
CODES = {"check": {1, 2, 3}, "verify": {1, 2, 3}, "record": {0, 2}}
MEMORY = 512                 # MiB


def words(command, url, folder, within=WITHIN, seconds=SECONDS, line=LINES[0]):
    """Return the command line."""
    if command == "check":
        return ["check", url, "--timeout", str(within), "--seconds", str(seconds), "--requests", "60", "--yes"]
    out = ["--out", str(folder / "out.json")] if command == "record" else []
    return [command, line, "--url", url, "--layers", "A", "--timeout", str(within), *out]


def judge(command, name, code, out, err, folder, server):
    """Assert that a command ended as it should."""
    text = out + err
    assert "Traceback" not in text and "\x1b" not in text and "\x9b" not in text, text[-2000:]
    assert code in CODES[command] | ({0} if harmless(name) else set()), (code, text[-2000:])
    if code == 2:
        assert err.splitlines()[-1].startswith("cachesim: ") and len(err.splitlines()) <= 4, err[-2000:]
    files = list(folder.iterdir())
    assert [file.name for file in files] == ["out.json"] * (command == "record" and code == 0)
    for file in files:
        json.loads(file.read_text("utf-8"))


def harmless(name):
    return name in HARMLESS or name in WRONG_FIELDS      # a field may be optional


def run_here(command, name, stage, folder, capsys, line=LINES[0]):
    with running(name, stage) as server:
        start = time.monotonic()
        within = GOOD_WITHIN if stage == "later" else WITHIN
        code = main(words(command, server.url, folder, within=within, line=line))
        seconds = time.monotonic() - start
    out, err = capsys.readouterr()
    judge(command, name, code, out, err, folder, server)
    assert seconds < LATEST, seconds
    assert server.asked and (name in WRONG_FIELDS or bool(server.completed) == (stage == "later"))
    return code, err


ALL = list(MISBEHAVIOURS)
SLOW = ("5,000,000 values", "2,000,000 tokens")          # their parsing takes a second
QUICK = [(name, COMMANDS[at % 3], STAGES[at // 3 % 3]) for at, name in enumerate(ALL) if name not in SLOW]


@pytest.mark.part(3)
@pytest.mark.parametrize("name, command, stage", QUICK)
def test_a_misbehaving_server_is_one_line_or_a_finding(name, command, stage, tmp_path, capsys):
    run_here(command, name, stage, tmp_path, capsys)


def one_of(number, at):
    """Return the marks of a test of which ``make long`` runs one of so many, ``-m slow`` the others."""
    return [pytest.mark.slow] * bool(at % number)


STAGED = [pytest.param(name, command, stage, marks=one_of(9, row + 4 - column - 3 * depth))
          for (row, name), (column, command), (depth, stage)
          in product(enumerate(ALL), enumerate(COMMANDS), enumerate(STAGES))]  # fmt: skip
"""Every misbehaviour with every command at every stage; ``make long`` has each with a command at a stage, which is not
that of ``QUICK``."""
STREAMED = [(name, ("verify", "record")[row % 2]) for row, name in enumerate([*ALL, "tokens is text"])]
WATCHED = ("first", "completion")
MEASURED = [pytest.param(name, command, stage, marks=one_of(3, row + column) or one_of(2, row + depth))
            for (row, name), (column, command), (depth, stage)
            in product(enumerate(ALL), enumerate(COMMANDS), enumerate(WATCHED))]  # fmt: skip
"""Every misbehaviour with every command at two stages; ``make long`` has each with one command at one of them."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "command", "stage"), STAGED)
def test_every_misbehaviour_at_every_stage(name, command, stage, tmp_path, capsys):
    run_here(command, name, stage, tmp_path, capsys)


@pytest.mark.long
@pytest.mark.parametrize(("name", "command"), STREAMED)
def test_every_misbehaviour_in_a_stream(name, command, tmp_path, capsys):
    run_here(command, name, "later", tmp_path, capsys, LINES[1])


@pytest.mark.part(3)
@pytest.mark.parametrize("at, name", list(enumerate(FIELDS)))
def test_a_field_of_another_type(at, name, tmp_path, capsys):
    what = list(VALUES)[at % len(VALUES)]
    run_here(COMMANDS[at % 3], f"{name} is {what}", "first", tmp_path, capsys)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_every_field_of_every_type(name, command, tmp_path, capsys):
    run_here(command, name, "first", tmp_path, capsys)


@pytest.fixture(scope="module")
def forks():
    """Return a process that runs each command in a child."""
    with forking() as process:
        yield process


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which is not here")
@pytest.mark.parametrize(("name", "command", "stage"), MEASURED)
def test_memory_and_time_of_every_misbehaviour(name, command, stage, tmp_path, tmp_path_factory, forks):
    output = tmp_path_factory.mktemp("output")
    with running(name, stage) as server:
        start = time.monotonic()
        ended = forks.run(words(command, server.url, tmp_path), output)
        seconds = time.monotonic() - start
    judge(command, name, ended.code, ended.out, ended.err, tmp_path, server)
    assert seconds < 2 * LATEST and 0 < ended.mib < MEMORY
