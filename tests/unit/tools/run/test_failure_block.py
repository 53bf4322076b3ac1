"""Tests of the explanation of a failure: Let, Then, Hence in order, and a command that reproduces it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.judging.failure_chain import explained, failure_data
from cachesim.judging.judged_run import run_judged
from cachesim.judging.reproduce_command import case_command, line_command
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.run.run_table import block_of_case, failure_block

STALE = "llama-one-token-checkpoint-hybrid"
HEAD = "llama_cpp@b10587"


def failure(name, profile=HEAD, at=None):
    run = run_judged(load(corpus_files()[name]), profile, "provenance")
    return failure_data(run, run.broken[0] if at is None else at)


def typed(command, tmp_path):
    """The exit code and the output of a command in sh, where `cachesim` is ours."""
    script = tmp_path / "cachesim"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m cachesim "$@"\n')
    script.chmod(0o755)
    place = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False,
                          env={**os.environ, **place})  # fmt: skip
    return done.returncode, done.stdout


def test_causes_come_in_the_order_of_the_requests_each_with_its_rule():
    data = failure(STALE)
    assert [one["request"] for one in data["causes"]] == [0, 1, 1, 2, 2]
    assert [one["rule"] for one in data["causes"]] == [
        "LC-NPAST-LCP", "LC-NPAST-LCP", "LC-CKPT-ERASE.ER2", "LC-CKPT-PICK.PK3", "",
    ]  # fmt: skip
    kept, read = data["causes"][2]["text"], data["causes"][4]["text"]
    assert kept == "keeps a corrupt checkpoint of 1 token: it has the recurrent state after 1 token of request 0"
    assert read == "reads the recurrent state after 1 token of request 0 in place of its own"


def test_let_then_hence_source_and_the_line():
    lines = as_text(failure_block(failure(STALE))).splitlines()
    assert lines[0].startswith("Let   request 0, A: 5 tokens, empty slot (LC-NPAST-LCP)")
    assert lines[1].startswith("Then  request 1, B: ")
    assert lines[-3].startswith("Hence logits at position 29 ")
    assert lines[-2].startswith("source https://github.com/ggml-org/llama.cpp/blob/3f545be/")
    line = "cachesim run 'A5/B40/B[:18].C12>8/B[:18].C.D9>8' -p llama_cpp@b10587 --model GGGA --set ctx_size=1024"
    assert lines[-1].startswith(line)
    assert max(map(len, lines[:-2])) <= 80


@pytest.mark.long
@pytest.mark.parametrize(("name", "profile"), [
    ("ik-1888-checkpoint-too-long-hybrid", "ik_llama@pr1888"), ("mlx-draft-last-token-missing", "mlx_lm@d78bf58e"),
    ("llama-27931-draft-removal-refused-recurrent", HEAD),
])  # fmt: skip
def test_the_line_runs_in_a_shell_and_shows_the_same(name, profile, tmp_path):
    data = failure(name, profile)
    code, out = typed(data["command"], tmp_path)
    assert code == exits.BROKEN
    assert data["hence"].partition(" depend")[0] in " ".join(out.split())
    assert data["command"] in out.splitlines(), "the line prints itself"


def test_what_a_line_cannot_say_is_run_from_its_file():
    scenario = load(corpus_files()["ik-2105-blank-skipped-in-comparison"])
    assert case_command(scenario, "ik_llama@main").startswith("cachesim run ")


def test_a_truth_value_is_typed_as_toml_has_it():
    given = {"kv_unified": True, "ctx_size": 64}
    assert line_command("A4>r2/A", HEAD, "GA", given) == (
        "cachesim run 'A4>r2/A' -p llama_cpp@b10587 --model GA --set kv_unified=true --set ctx_size=64"
    )


def test_a_case_at_which_the_simulator_fails_shows_what_was_kept():
    case = {"line": "A4/A", "model": "GA", "server": {}, "causes": ["a frame", "an error"]}
    lines = as_text(block_of_case(explained(case, "x@y", 0, "it failed"))).splitlines()
    assert lines == ["  a frame", "  an error", "cachesim run A4/A -p x@y --model GA"]
