"""Tests of errors in place of answers: broken if a cold run answers, refused if it does not; never "holds"."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.engines.base import Answer
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.profiles.b10587 import B10587
from cachesim.judging.cold_repetition import error_verdict, repeat_cold
from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict import outcome
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.run.run_jobs import exit_code
from cachesim.tools.search.invariant_observer import observe_run
from cachesim.tools.search.properties import PROPERTIES
from tests.unit.tools.run.made import why_report

CORPUS = Path(__file__).resolve().parents[3] / "scenarios"
LATE = CORPUS / "llama_cpp/error/llama-19924-resume-one-token-late-hybrid.toml"
WRONG = CORPUS / "llama_cpp/wrong-answer/llama-one-token-checkpoint-hybrid.toml"
OVERSIZED = CORPUS / "llama_cpp/error/llama-oversized-prompt-refused.toml"
FAULTY, RIGHT = "llama_cpp@b8152", "llama_cpp@b8260"


def test_an_error_that_a_cold_run_does_not_have_is_broken():
    scenario = load(LATE)
    run = run_judged(scenario, FAULTY, "provenance")
    one = run.requests[1]
    assert (one.answer.status, one.judged.answer.rung, one.judged.is_refused) == (500, "error", False)
    assert (run.broken, run.refused, run.verdict.equal_cold, run.wrong) == ([1], [], False, [])
    assert repeat_cold(scenario, 1, FAULTY).status == 200
    assert outcome(run_data(run), as_expected=True) is True
    assert outcome(run_data(run), as_expected=False) is False


def test_the_rules_of_the_run_are_those_of_the_cold_one():
    """A user's own table, under a name of the package."""
    run = run_judged(load(LATE), RIGHT, "provenance", table=PROFILES[FAULTY])
    assert run.broken == [1]


def test_a_prompt_that_no_server_takes_is_refused():
    scenario = from_line("A300/B20", model="A", server={"ctx_size": 256})
    run = run_judged(scenario, B10587.name, "provenance")
    first = run.requests[0].judged
    assert (first.equal_cold, first.is_refused, run.refused, run.broken) == (None, True, [0], [])
    assert first.answer.why.startswith("REFUSED (400): prompt of 300 tokens exceeds")
    assert run.verdict.equal_cold is None
    assert [exit_code([run_data(run)], as_expected) for as_expected in (False, True)] == [exits.UNDECIDED] * 2


def test_a_file_that_expects_the_status_settles_it(tmp_path):
    run = run_judged(load(OVERSIZED), B10587.name, "provenance")
    assert (run.refused, run.told, run.verdict.equal_cold) == ([1], [1], True)
    assert exit_code([run_data(run)], as_expected=False) == exits.HOLDS
    silent = tmp_path / OVERSIZED.name
    silent.write_text(OVERSIZED.read_text().replace("status = [200, 400, 200]\n", ""))
    run = run_judged(load(silent), B10587.name, "provenance")
    assert (run.told, run.wrong, run.verdict.equal_cold) == ([], [], None)
    assert exit_code([run_data(run)], as_expected=True) == exits.UNDECIDED
    assert main(["run", str(silent), "--complete"]) == exits.UNDECIDED
    assert "status = [200, 400, 200]" in silent.read_text()


def test_what_was_sent_together_is_repeated_together_with_the_flags_of_then():
    """The first server is too small; after the restart it is not, and the second request is sent after the first."""
    text = "A300/{restart ctx_size=1024}/A300/B20{together}"
    scenario = from_line(text, model="A", server={"ctx_size": 256})
    assert [repeat_cold(scenario, i, B10587.name).status for i in (0, 2, 3)] == [400, 200, 200]


def test_a_slot_action_that_fails_is_refused():
    run = run_judged(load(CORPUS / "llama_cpp/error/llama-27052-failed-restore-empty-slot.toml"), B10587.name,
        "provenance")
    assert run.requests[4].answer.status == 400
    assert (run.refused, run.told, run.requests[4].judged.equal_cold) == ([4], [4], None)


def test_try_says_refused_and_why(capsys):
    assert main(["run", "A300", "--model", "A", "--set", "ctx_size=256"]) == exits.UNDECIDED
    out = " ".join(capsys.readouterr().out.split())
    assert "refused (400) at request 0, 0 tokens re-evaluated" in out and "OK" not in out.replace("0 OK", "")
    assert "REFUSED (400): prompt of 300 tokens exceeds the context of 256 (--ctx-size)" in out
    assert main(["run", "A300", "--model", "A", "--set", "ctx_size=256", "--json"]) == exits.UNDECIDED
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert (run["holds"], run["refused"], run["requests"][0]["refused"]) == (None, [0], True)


@pytest.mark.long
@pytest.mark.parametrize("file, number, profile, code, said", [
    (WRONG, 2, B10587.name, exits.BROKEN,
     "wrong answer, 17 tokens re-evaluated (known bug, as expected) logits at position 29 differ from a cold run's"),
    (WRONG, 1, B10587.name, exits.HOLDS, "correct answer, 0 tokens re-evaluated"),
    (LATE, 1, FAULTY, exits.BROKEN, "error 500 where a cold run answers: Invalid input batch."),
    (OVERSIZED, 1, B10587.name, exits.HOLDS,
     "(as expected) REFUSED (400): prompt of 260 tokens exceeds the context of 256 (--ctx-size)"),
    (OVERSIZED, 1, "llama_cpp@b9765", exits.UNDECIDED, "REFUSED (400): prompt of 260 tokens exceeds"),
])  # fmt: skip
def test_why_tells_the_verdict_first(capsys, file, number, profile, code, said):
    words = ["why", str(file), str(number), "-p", profile]
    assert main(words) == code
    first = " ".join(capsys.readouterr().out.split()).partition(" rule decision")[0]
    assert said in first
    assert main([*words, "--json"]) == code
    data = json.loads(capsys.readouterr().out)["why"][0]
    assert data["equal_cold"] is (None if data["refused"] else code == exits.HOLDS)


@pytest.mark.long
def test_why_under_several_rule_sets_ends_1_if_one_is_wrong():
    assert main(["why", str(LATE), "1", "-p", FAULTY, "-p", RIGHT]) == exits.BROKEN


def test_a_state_that_is_wrong_behind_a_right_answer_is_called_that():
    data = answer_data(run_judged(from_line("A20", model="A"), B10587.name, "provenance"), 0, is_compared=True)
    wrong = {"verdict": "CORRUPT STATE", "equal_cold": False, "rung": "bits", "fault": "a row"}
    text = as_text(why_report({**data, **wrong}))
    assert text.splitlines()[1:3] == ["corrupt state left behind, 0 tokens re-evaluated", "  a row [bits]"]


@pytest.mark.parametrize("a, b, code", [
    (FAULTY, RIGHT, exits.BROKEN), (RIGHT, FAULTY, exits.BROKEN), (RIGHT, "llama_cpp@b7789", exits.HOLDS),
])  # fmt: skip
def test_diff_ends_1_where_an_answer_is_wrong(capsys, a, b, code):
    assert main(["diff", str(LATE), "-p", a, "-p", b]) == code
    assert ("error 500 where a cold run answers" in capsys.readouterr().out) == (code == exits.BROKEN)


def test_fuzz_finds_the_error_once():
    found = observe_run(load(LATE), FAULTY, {})
    assert [one.text for one in PROPERTIES["answered"](found)] == ["Invalid input batch."]
    assert list(PROPERTIES["warm-equals-cold"](found)) == []


@pytest.mark.parametrize(("status", "said"), [
    (400, "REFUSED (400): no"), (499, "REFUSED (499): no"), (500, "REFUSED (500), on an empty server too: no"),
    (503, "REFUSED (503), on an empty server too: no"),
])  # fmt: skip
def test_a_server_that_fails_has_not_refused(status, said):
    """A step that the scenario does not list cannot be repeated on a fresh server."""
    verdict = error_verdict(from_line("A1"), 1, Answer(1, status=status, error="no"), B10587.name)
    assert (verdict.equal_cold, verdict.why) == (None, said)
