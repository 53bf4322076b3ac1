"""Tests of requests that a server never answers although it goes on."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.invariant_observer import observe_run
from cachesim.tools.search.properties import answered, warm_equals_cold

VLLM = "vllm@0.33.0"
TOO_FEW = {"num_gpu_blocks": 12, "max_model_len": 400}


def run(line, server):
    return run_judged(from_line(line, profiles=(VLLM,), server=server), VLLM, "provenance")


def test_it_is_wrong_with_what_is_needed_and_what_is_free():
    found = run("A300/B40", TOO_FEW)
    verdict = found.requests[0].judged.answer
    assert (verdict.equal_cold, verdict.rung, verdict.kind) == (False, "unanswered", FaultKind.UNANSWERED)
    assert verdict.why == (
        "the server goes on and never answers; its last decision: the request waits: 22 blocks are needed, 11 are free"
    )
    assert found.broken == [0, 1] and found.reads == {0: [], 1: []}


@pytest.mark.parametrize("server", [{}, {**TOO_FEW, "num_gpu_blocks": 64}])
def test_an_answered_request_is_correct(server):
    assert [one.judged.answer.kind for one in run("A300/B40", server).requests] == [None, None]


def test_commands_say_it_and_end_with_exit_code_1(capsys):
    words = ["A300/B40", "-p", VLLM, "--set", "num_gpu_blocks=12", "--set", "max_model_len=400"]
    assert main(["run", *words]) == exits.BROKEN
    out = capsys.readouterr().out
    assert "never answered at requests 0 and 1" in out and "NEVER" in out
    assert "cachesim run A300/B40 -p vllm@0.33.0" in out, "a command that reproduces it"
    assert main(["run", *words, "--json"]) == exits.BROKEN
    [data] = json.loads(capsys.readouterr().out)["runs"]
    assert data["verdict"] == "NEVER ANSWERED" and data["requests"][0]["read_instead"] == []
    assert main(["bisect", *words, "-v"]) == exits.HOLDS
    assert "NEVER ANSWERED" in capsys.readouterr().out


def test_the_search_reports_it_as_unanswered_not_as_a_wrong_answer():
    checked = observe_run(from_line("A300/B40", profiles=(VLLM,), server=TOO_FEW), VLLM, {})
    [finding] = answered(checked)
    assert (finding.step, finding.kind) == (0, "unanswered") and "22 blocks are needed" in finding.numbers["error"]
    assert list(warm_equals_cold(checked)) == []


def test_a_client_that_left_is_undecided():
    found = run("A300>4{cancel_after=0}/B40", TOO_FEW)
    assert found.requests[0].judged.answer.kind is FaultKind.CLIENT_LEFT
