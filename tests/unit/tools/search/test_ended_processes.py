"""Campaigns whose processes are killed or interrupted: rules of a file that send a signal to their own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from tests.shared import ROOT

RULES = """
import os
from dataclasses import replace
from pathlib import Path
from cachesim.engines.registry import rules_of
from cachesim.engines.rule import Decision, Role, rule

ORDER, BASE = Path(__file__).with_name("order"), rules_of("ik_llama@1889-base")


@rule("MY-END", Role.END, "an idea of mine")
def ends(n_decoded: int, n_predict: int) -> Decision:
    '''The process gets the signal of a file. Value: does the generation end?'''
    if ORDER.exists():
        os.kill(os.getpid(), int(ORDER.read_text()))
    return BASE.end(n_decoded, n_predict)


MINE = replace(BASE, name="ik_llama@mine", end=ends)
"""


@pytest.fixture
def fuzz(tmp_path, monkeypatch, capsys):
    """Return a function that runs a campaign, in a process of its own if its rules send it a signal. 12 conversations
    have 3 failures."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(RULES)

    def run(*words, order=None):
        (tmp_path / "order").unlink(missing_ok=True)
        argv = ["fuzz", "-p", "mine.py", "--model", "GA", "--property", "warm-equals-cold", "--out", "found", "--json",
                *words]  # fmt: skip
        if order is not None:
            (tmp_path / "order").write_text(f"{order:d}")
            done = subprocess.run([sys.executable, "-m", "cachesim", *argv], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            code = main(argv)
            out, err = capsys.readouterr()
        assert "Traceback" not in err, err
        return code, json.loads(out), err

    return run


def numbers(path):
    """Return the conversations of the scenario files."""
    return sorted(int(file.stem.split("-")[1]) for file in path.glob("found/fuzz-*.toml"))


def found(data):
    return {(one["property"], one["kind"], one["conversation"]) for one in data["failures"]}


def test_conversations_at_which_processes_die_are_named_and_earlier_findings_stay(fuzz, tmp_path):
    """The process that shrinks a failure dies, too: the failure is reported as it was found."""
    code, first, _ = fuzz("--examples", "3", "--no-shrink")
    assert (code, first["examples"], len(found(first))) == (exits.BROKEN, 3, 1)
    code, data, err = fuzz("--examples", "5", "--resume", "-j", "2", order=signal.SIGKILL)
    assert (code, data["examples"]) == (exits.CRASH, 3) and found(data) > found(first)
    [died] = [one for one in data["failures"] if one["property"] == "simulator"]
    assert (died["numbers"]["first"], died["numbers"]["last"], "toml" in died) == (3, 4, False)
    assert not any(one["shrunk"] for one in data["failures"]) and err.count("SIGKILL") == 1
    assert numbers(tmp_path) == [1]


def test_an_interrupted_campaign_keeps_its_findings_and_is_resumed(fuzz, tmp_path):
    code, first, _ = fuzz("--examples", "3", "--no-shrink")
    for number in (signal.SIGINT, signal.SIGTERM):
        code, data, _ = fuzz("--examples", "12", "--resume", order=number)
        assert (code, data["examples"], found(data)) == (128 + number, 3, found(first))
    left = tmp_path / "found" / "fuzz-9-00000000.toml"
    left.write_text("not a file of this campaign")
    code, whole, _ = fuzz("--examples", "12", "--no-shrink", "--resume")
    assert (code, whole["examples"]) == (exits.BROKEN, 12) and found(whole) > found(first)
    assert numbers(tmp_path) == sorted([9, *(one["conversation"] for one in whole["failures"])])
