"""Campaigns whose processes are killed or interrupted: rules of a file that send a signal to their own process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from cachesim.base import exits
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


def fuzz(folder, *words, order=None):
    """Run a campaign in a process that may get a signal. 7 conversations have 2 failures."""
    (folder / "order").unlink(missing_ok=True)
    if order is not None:
        (folder / "order").write_text(f"{order:d}")
    argv = [sys.executable, "-m", "cachesim", "fuzz", "-p", "mine.py", "--model", "GA", "--property",
            "warm-equals-cold", "--out", "found", "--json", *words]  # fmt: skip
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return the folder of a campaign of 3 conversations, and its exit code and results."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "mine.py").write_text(RULES)
    code, data, _ = fuzz(folder, "--examples", "3", "--no-shrink")
    return folder, code, data


@pytest.fixture
def campaign(begun, tmp_path):
    """Return a copy of the folder, and the results."""
    return shutil.copytree(begun[0], tmp_path / "campaign"), begun[2]


def numbers(path):
    """Return the conversations of the scenario files."""
    return sorted(int(file.stem.split("-")[1]) for file in path.glob("found/fuzz-*.toml"))


def found(data):
    return {(one["property"], one["kind"], one["conversation"]) for one in data["failures"]}


def test_conversations_at_which_processes_die_are_named_and_earlier_findings_stay(begun, campaign):
    """The process that shrinks a failure dies, too: the failure is reported as it was found."""
    folder, first = campaign
    assert (begun[1], first["examples"], len(found(first))) == (exits.BROKEN, 3, 1)
    code, data, err = fuzz(folder, "--examples", "5", "--resume", "-j", "2", order=signal.SIGKILL)
    assert (code, data["examples"]) == (exits.CRASH, 3) and found(data) > found(first)
    [died] = [one for one in data["failures"] if one["property"] == "simulator"]
    assert (died["numbers"]["first"], died["numbers"]["last"], "toml" in died) == (3, 4, False)
    assert not any(one["shrunk"] for one in data["failures"]) and err.count("SIGKILL") == 1
    assert numbers(folder) == [1]


def test_an_interrupted_campaign_keeps_its_findings_and_is_resumed(campaign):
    folder, first = campaign
    code, data, _ = fuzz(folder, "--examples", "7", "--resume", order=signal.SIGINT)
    assert (code, data["examples"], found(data)) == (exits.INTERRUPTED, 3, found(first))
    left = folder / "found" / "fuzz-9-00000000.toml"
    left.write_text("not a file of this campaign")
    code, whole, _ = fuzz(folder, "--examples", "7", "--no-shrink", "--resume")
    assert (code, whole["examples"]) == (exits.BROKEN, 7) and found(whole) > found(first)
    assert numbers(folder) == sorted([9, *(one["conversation"] for one in whole["failures"])])
