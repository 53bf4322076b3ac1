"""Is the README true? Its examples are run, its picture is drawn again, its links and commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from cachesim.cli import COMMANDS
from tests.docs.examples import LIMITS, PICTURE, README, ROOT, examples, limits_table, picture, run
from tests.replay.test_full import RECORDED as FULL
from tests.replay.test_history import RECORDED as OLDER

TEXT = README.read_text()


@pytest.mark.parametrize(("command", "output"), examples(TEXT), ids=lambda text: text[:40])
def test_example_prints_what_it_says(command, output):
    assert run(command) == output


def test_there_are_examples():
    assert examples(TEXT)


def test_picture_is_todays_run():
    assert PICTURE.read_text() == picture()


def test_the_limits_are_those_of_the_table():
    assert LIMITS.findall(TEXT) == [limits_table()]


def typed(case="scenarios/llama_cpp/seed-24143-dense.toml", root="."):
    """The commands of the symptom table, with a file in place of FILE; those aside that need a server or write."""
    log = f"{root}/tests/unit/logs/default_verbosity.log"
    trace = f"{root}/tests/data/llama_cpp/qwen35mtp-seed1889-mtp-n1.json"
    return [
        command.replace("FILE...", trace).replace("FILE", case).replace("server.log", log)
        for command in re.findall(r"^\|.*\| [^`|]*`(cachesim [^`]+)`", TEXT, re.M)
        if "http:" not in command and "--html" not in command
    ]


def complaints(err):
    """Lines on stderr that are no hint."""
    return [line for line in err.splitlines() if not line.startswith("next: ")]


def test_the_symptom_table_has_commands():
    assert len(typed()) == 11


@pytest.mark.parametrize("command", typed())
def test_a_command_of_the_symptom_table_runs(command):
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode in (0, 1), complaints(done.stderr.decode())) == (True, [])
    assert len(done.stdout.splitlines()) >= 3


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_commands_exist():
    named = set(re.findall(r"`cachesim ([a-z]+)", TEXT))
    assert named <= set(COMMANDS)


def test_the_figures_are_those_that_the_replay_tests_demand():
    older = {**{name: rest[1:] for name, rest in OLDER.items()},
             **{name: rest[:2] for name, rest in FULL.items() if "history" in name}}  # fmt: skip
    steps, events = (sum(figure[k] for figure in older.values()) for k in (0, 1))
    assert f"| 741 | {steps:,} | {events:,} | {steps:,} |" in TEXT
    for files, name in ((409, "llama_cpp"), (84, "ik_llama")):
        steps, events = FULL[name][:2]
        assert f"| {files} | {steps:,} | {events:,} | {steps:,} |" in TEXT


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`?make ([a-z]+)\b", TEXT)) <= targets
