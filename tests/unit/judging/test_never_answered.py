"""Tests of requests that a server never answers although it goes on: under rules of our own, which keep more blocks
free than the pool has, and in a pool that is too small for them if the maximum length is not known. The released
servers check at their start that the pool holds a request of the maximum length."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.rule import RULES
from cachesim.engines.rule_files import profile_of
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judging_observer import NOTHING
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.invariant_observer import observe_run
from cachesim.tools.search.properties import answered, warm_equals_cold
from tests.shared import forget_engines, restore_rules

VLLM = "vllm@0.33.0"
RULE_FILE = """
from dataclasses import replace

from cachesim import rules
from cachesim.engines.rule import Decision, Role, Source, rule


@rule("MY-ADMIT", Role.CONSULT, Source("me/mine", "my_rules.py", "keep_free", "1"))
def keep_free(whole: int, needed: int, watermark: int, free: int) -> Decision:
    kept = max(whole, needed) + 600
    return Decision(kept <= free, {"needed": kept, "free": free})


MINE = replace(rules("vllm@0.33.0"), name="vllm@mine", admit=keep_free)
"""
POOL = {"num_gpu_blocks": 512}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The argument that names the rules, in their folder. No rule file was run yet, and none was afterwards."""
    forget_engines(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text(RULE_FILE, "utf-8")
    before = dict(RULES)
    yield "my_rules.py:MINE"
    restore_rules(before)


def run(line, server, profile=VLLM):
    name = profile_of(profile) if profile != VLLM else profile
    return run_judged(from_line(line, profiles=(name,), server=server), name, "provenance")


def test_it_is_wrong_with_what_is_needed_and_what_is_free(mine):
    found = run("A300/B40", POOL, mine)
    verdict = found.requests[0].judged.answer
    assert (verdict.equal_cold, verdict.rung, verdict.kind) == (False, "unanswered", FaultKind.UNANSWERED)
    assert verdict.why == (
        "the server goes on and never answers; its last decision: False  (needed 622, free 511)"
    )
    assert found.broken == [0, 1] and found.reads == {0: [], 1: []}


@pytest.mark.parametrize("server", [{}, POOL])
def test_an_answered_request_is_correct(server):
    assert [one.judged.answer.kind for one in run("A300/B40", server).requests] == [None, None]


def test_commands_say_it_and_end_with_exit_code_1(capsys, mine):
    words = ["A300/B40", "-p", mine, "--set", "num_gpu_blocks=512"]
    assert main(["run", *words]) == exits.BROKEN
    out = capsys.readouterr().out
    assert "never answered at requests 0 and 1" in out and "NEVER" in out
    assert "cachesim run A300/B40 -p my_rules.py" in out, "a command that reproduces it"
    assert main(["run", *words, "--json"]) == exits.BROKEN
    [data] = json.loads(capsys.readouterr().out)["runs"]
    assert data["verdict"] == "NEVER ANSWERED" and data["requests"][0]["read_instead"] == []
    assert main(["diff", *words, "-p", VLLM]) == exits.BROKEN
    assert "never answered" in capsys.readouterr().out


def test_the_search_reports_it_as_unanswered_not_as_a_wrong_answer(mine):
    name = profile_of(mine)
    checked = observe_run(from_line("A300/B40", profiles=(name,), server=POOL), name, {})
    [finding] = answered(checked)
    assert (finding.step, finding.kind) == (0, "unanswered") and "needed 622, free 511" in finding.numbers["error"]
    assert list(warm_equals_cold(checked)) == []


def test_a_client_that_left_is_undecided(mine):
    found = run("A300>4{cancel_after=0}/B40", POOL, mine)
    assert found.requests[0].judged.answer.kind is FaultKind.CLIENT_LEFT


@pytest.mark.parametrize("leaves", ["", "{cancel_after=0}"])
def test_a_request_that_was_not_evaluated_re_evaluates_nothing(mine, leaves):
    last = run(f"A40>1/A.B200{leaves}", POOL, mine).requests[1]
    assert (last.slot, last.answer.done, last.answer.prompt_n, last.ledger) == (None, False, 0, NOTHING)


@pytest.mark.parametrize(("pool", "length", "told"), [
    ("num_gpu_blocks=16", "0", "max_model_len is not known: the pool holds a request of at most 240 tokens."),
    ("num_gpu_blocks=16", "-1", "This model's maximum context length is 240 tokens."),
    ("kv_cache_size_tokens=240", "0", "max_model_len is not known: the pool holds a request of at most "),
])  # fmt: skip
def test_a_length_that_is_not_known_refuses_nothing(capsys, pool, length, told):
    words = ["run", "P300>5/P", "--model", "A", "-p", VLLM]
    main([*words, "--set", pool, "--set", f"max_model_len={length}"])
    out = " ".join(capsys.readouterr().out.split())
    assert told in out and ("never answered at requests 0 and 1" in out) == (length == "0")
    assert main([*words, "--set", "num_gpu_blocks=21"]) == exits.HOLDS
    assert "max_model_len" not in capsys.readouterr().out
