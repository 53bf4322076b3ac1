"""Tests of ``.github/actions/check`` and ``.pre-commit-hooks.yaml``: their commands are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from cachesim.cli.main import main
from tests.unit.tools.conformance.http_check.stand_in import Simulated, serving

ROOT = Path(__file__).resolve().parents[2]
ACTION, HOOKS = ROOT / ".github/actions/check/action.yml", ROOT / ".pre-commit-hooks.yaml"


def fields(file, key):
    """Return the values of a key whose value is a plain text on its line."""
    return re.findall(rf"^[ -]*{key}: (.+)$", file.read_text("utf-8"), re.MULTILINE)


def environment(tmp_path, **values):
    """Return the environment in which a runner starts a step, with ``cachesim`` of this interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, words in (("cachesim", "-m cachesim"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    outer = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **outer, "GITHUB_ACTION_PATH": str(ACTION.parent), **values}


def step(command, tmp_path, **values):
    """Run a step as a runner does."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
    return subprocess.run(words, cwd=tmp_path, env=environment(tmp_path, **values), capture_output=True, text=True)


def defaults():
    """Return the inputs of the action with a default, by name."""
    text = ACTION.read_text("utf-8")
    return dict(re.findall(r"^  (\w+):\n    description: .+\n    default: (.+)$", text, re.MULTILINE))


def test_every_variable_of_the_check_is_an_input():
    inputs = re.findall(r"^  (\w+):$", ACTION.read_text("utf-8").partition("runs:")[0], re.MULTILINE)
    used = re.findall(r"^ +([A-Z]+): \$\{\{ inputs\.(\w+) \}\}$", ACTION.read_text("utf-8"), re.MULTILINE)
    assert inputs == ["url", "options", "junit", "undecided"] and [name for _, name in used] == inputs
    assert all(variable == name.upper() for variable, name in used)
    install, check = fields(ACTION, "run")
    assert all(f"${variable}" in check or f"/${variable}" in check for variable, _ in used)
    assert "${{" not in install + check            # an input is data, not a part of a script


@pytest.mark.long
@pytest.mark.parametrize("limit, undecided, code", [("9", "fail", 3), ("9", "pass", 0), ("none", "pass", 2)])
def test_the_check_of_the_action_runs(tmp_path, limit, undecided, code):
    check = fields(ACTION, "run")[1]
    options = f"{defaults()['options']} --only reuse --requests {limit}"
    values = {"OPTIONS": options, "JUNIT": defaults()["junit"], "UNDECIDED": undecided,
              "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}  # fmt: skip
    with serving(Simulated("llama_cpp@b11549-repaired", "A").complete) as url:
        done = step(check, tmp_path, URL=url, **values)
    assert done.returncode == code, done.stderr
    if code != 2:
        assert parse(tmp_path / "cachesim-check.xml").getroot().tag == "testsuites"
        assert (tmp_path / "summary.md").read_text("utf-8").startswith("### cachesim check http")


def test_options_of_the_action_are_words_that_no_file_name_replaces(tmp_path):
    (tmp_path / "parallel").write_text("")
    values = {"OPTIONS": "--only p*  --history A4/A", "JUNIT": "x.xml", "UNDECIDED": "fail"}
    done = step(fields(ACTION, "run")[1], tmp_path, URL="http://127.0.0.1:1", GITHUB_STEP_SUMMARY="x.md", **values)
    assert done.returncode == 2 and "unknown section 'p*'" in done.stderr


@pytest.mark.long
def test_the_install_of_the_action_runs(tmp_path):
    install = fields(ACTION, "run")[0]
    assert install.startswith("python -m pip install ")
    done = step(f"{install} --no-deps --no-build-isolation --target {tmp_path / 'site'}", tmp_path, PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/cachesim/__main__.py").exists()


@pytest.mark.parametrize("entry, code", [(fields(HOOKS, "entry")[0], 0), (fields(HOOKS, "entry")[1], 1)])
def test_the_hooks_run_scenarios(entry, code, capsys):
    words = shlex.split(entry)
    assert words[0] == "cachesim"
    wrong = ROOT / "scenarios/llama_cpp/wrong-answer/llama-one-token-checkpoint-hybrid.toml"
    assert main([*words[1:], str(wrong)]) == code, capsys.readouterr()


def test_a_hook_fails_for_a_file_that_is_no_scenario(tmp_path, capsys):
    (tmp_path / "x.toml").write_text("id = 1\n")
    for entry in fields(HOOKS, "entry"):
        assert main([*shlex.split(entry)[1:], str(tmp_path / "x.toml")]) == 2
    assert "x.toml" in capsys.readouterr().err


def test_the_hooks_take_scenario_files_only():
    for pattern in fields(HOOKS, "files"):
        found = [name for name in ("scenarios/a/b.toml", "x/scenarios/b.toml", "pyproject.toml", "scenarios/a.md")
                 if re.search(pattern, name)]  # fmt: skip
        assert found == ["scenarios/a/b.toml", "x/scenarios/b.toml"]
