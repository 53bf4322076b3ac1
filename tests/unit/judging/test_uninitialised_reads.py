"""Tests of runs that read a number that was never written: every value that matters is tried, differing outcomes are
undecided."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.base import Answer, Request
from cachesim.events import Compared, Log
from cachesim.judging import judged_run
from cachesim.judging.compare_answer import RequestVerdict
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judgement import Judgement
from cachesim.judging.judging_observer import NOTHING
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict import CORRECT, Verdict
from cachesim.judging.verdict_words import VerdictWord
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import SilentObserver
from cachesim.tools.run.run_jobs import exit_code
from tests.unit.tools.run.made import judgement, run

D8 = Path(__file__).resolve().parents[3] / "scenarios/ik_llama/re-processed/ik-checkpoint-n-tokens-uninitialised.toml"
WRONG = Verdict(VerdictWord.WRONG, "bits")


def asking(tried, *thresholds):
    """Return a function that runs with a value of number (1, 0), which is compared with each count, as long as the
    answer is no. It adds the value to ``tried``."""
    def play(values):
        log = Log()
        log.mark()
        for held in thresholds:
            log.emit(Compared(0, (1, 0), held))
            if held > values.get((1, 0), 0):
                break
        made = run(judgement(), log=log)
        tried.append(values.get((1, 0), 0))
        return made

    return play


def test_the_values_that_matter_are_0_and_every_count_that_was_asked_about():
    tried = []
    assert len(judged_run.run_every_case(asking(tried, 80, 90, 100))) == 4
    assert sorted(tried) == [0, 80, 90, 100]
    assert len(judged_run.run_every_case(asking([]))) == 1


def test_a_run_whose_outcome_depends_on_it_is_never_green():
    found = run_judged(load(D8), "ik_llama@main", "provenance")
    assert (found.unsettled, found.verdict.equal_cold, found.wrong) == ([5], None, [])
    assert "cache_n 229 or 103" in found.requests[5].judged.answer.why
    assert exit_code([run_data(found)], as_expected=False) == exits.UNDECIDED
    assert exit_code([run_data(found)], as_expected=True) == exits.HOLDS


@pytest.mark.long
def test_no_report_shows_one_case_as_the_outcome(capsys):
    commands = {("why", str(D8), "5", "-p", "ik_llama@main"): exits.UNDECIDED, ("bisect", str(D8)): exits.HOLDS}
    for words, code in commands.items():
        assert main([*words]) == code
        out = " ".join(capsys.readouterr().out.split())
        assert "other outcomes are possible here" in out or "UNDECIDED by 2026-05-06, ik_llama@1743" in out
    assert main(["run", str(D8), "-p", "ik_llama@main"]) == exits.UNDECIDED
    assert "undecided at request" in capsys.readouterr().out


def test_a_file_that_allows_one_of_the_outcomes_only_is_not_met(tmp_path):
    text = D8.read_text().replace("{ either = [103, 229] }", "229").replace("{ either = [11, 137] }", "11")
    (tmp_path / D8.name).write_text(text)
    found = run_judged(load(tmp_path / D8.name), "ik_llama@main", "provenance")
    assert [(m.what, m.got) for m in found.wrong] == [("cache_n", 103), ("prompt_n", 137)]
    (tmp_path / D8.name).write_text(D8.read_text().replace("undecided = [5]", ""))
    found = run_judged(load(tmp_path / D8.name), "ik_llama@main", "provenance")
    assert [(m.what, m.got) for m in found.wrong] == [("undecided", [5])]


def test_positions_leave_nothing_to_chance():
    found = run_judged(load(D8), "ik_llama@1716", "provenance")
    assert (found.unsettled, found.verdict.equal_cold) == ([], True)


def test_too_many_cases_leave_everything_behind_the_first_question_undecided(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judged_run, "MOST", 1)
    found = run_judged(load(D8), "ik_llama@main", "provenance")
    assert found.unsettled == [5]


def case(*requests):
    """A run of these requests, each (tokens kept, verdict); in the first of them the number is asked for."""
    log = Log()
    for number, _ in enumerate(requests):
        log.mark()
        if not number:
            log.emit(Compared(0, (1, 0), 5))
    judgements = [
        Judgement(Request(()), Answer(0, reused={"slot": kept}), RequestVerdict(verdict, CORRECT, [], True), NOTHING,
                  [])
        for kept, verdict in requests
    ]
    return run(*judgements, log=log)


@pytest.mark.parametrize(("first", "second", "left"), [
    ((3, CORRECT), (3, CORRECT), True), ((3, CORRECT), (4, CORRECT), None), ((3, WRONG), (3, CORRECT), None),
    ((3, CORRECT), (3, WRONG), None), ((3, WRONG), (3, WRONG), False), ((3, WRONG), (4, WRONG), False),
])  # fmt: skip
def test_what_is_wrong_in_every_case_stays_wrong_and_what_differs_is_undecided(first, second, left):
    cases = [case((0, CORRECT), first), case((0, CORRECT), second)]
    assert judged_run.settle(cases) == ([1] if left is None else [])
    judged = cases[0].requests[1].judged
    assert judged.equal_cold is left
    assert judged.is_refused is (left is not None), "what is undecided for this reason is not refused"


def test_the_request_that_asks_is_settled_itself_where_there_are_too_many_cases(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judged_run, "MOST", 1)
    assert judged_run.settle([case((0, CORRECT), (3, CORRECT))] * 2) == [1]


def test_a_further_observer_sees_the_first_value_only():
    class Begun(SilentObserver):
        def __init__(self):
            self.steps = []

        def begins(self, number, step):
            self.steps.append(number)

    watcher = Begun()
    found = run_judged(load(D8), "ik_llama@main", "provenance", watcher=watcher)
    assert found.unsettled and found.watcher is watcher and watcher.steps == [*range(len(found.requests))]
