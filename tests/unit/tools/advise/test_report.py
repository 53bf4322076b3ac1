"""Tests of the advice report."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.tools.advise.report import advise_report, case_note, try_sentence

OUTCOME = {"evaluated": 1000, "each": [500, 500], "wrong": [], "undecided": [], "failed": [], "corrupt": [],
           "mib": None, "predicted": []}  # fmt: skip
BUILD = {"kind": "build", "name": "llama_cpp@b11549", "text": "", "options": [], "profile": "llama_cpp@b11549",
         "build": "b11549", "date": "2026-10-01", "base": None, "released": True}  # fmt: skip
FLAG = {**BUILD, "kind": "flag", "name": "parallel", "options": [{"name": "parallel", "value": 2}], "profile": None}
PROPOSAL = {**BUILD, "kind": "proposal", "name": "llama_cpp@x", "profile": "llama_cpp@x", "base": "llama_cpp@b10587",
            "released": False}  # fmt: skip
SINCE = {"field": "ckpt_need", "old": "OLD", "new": "NEW", "source": "#24110", "build": "b9509", "date": "",
         "alone": True}  # fmt: skip


def advice(*changes, **more):
    return {**OUTCOME, "evaluated": 250, "changes": list(changes), "saved": 750, "share": 0.75, "bound": 200,
            "later": True, "since": [], "alike": [], "rests_on": [],
            "profile": "llama_cpp@b11549", "command": "cachesim run x",
            **more}  # fmt: skip


def report(*pieces, base=(), traps=(), **more):
    """Return the text of a report with single spaces between words."""
    data = {"scenario": "a-case", "profile": "llama_cpp@b10587", "model": "GA", "requests": 2, "prompt_tokens": 1200,
            "sizes": None, "rule_sets": 1, "base": {**OUTCOME, **dict(base)}, "bound": {"total": 200, "holds": True},
            "advice": list(pieces), "not_released": [], "notes": [], "traps": list(traps), "tried": 7,
            "log": None, **more}  # fmt: skip
    return " ".join(as_text(advise_report(data)).split())


def test_the_case_and_its_bound_come_first():
    text = report()
    assert "2 requests, 1,200 prompt tokens: 1,000 evaluated; lower bound for any server: 200" in text
    assert "MiB: n/a (--sizes names a model)" in text and "rule sets" not in text
    assert "newest of its 3 rule sets with re-evaluated tokens or wrong answers" in report(rule_sets=3)
    assert "peak memory: 12.5 MiB (a model)" in report(base={"mib": 12.5}, sizes="a model")


@pytest.mark.parametrize(("base", "tried", "says"), [
    ({"evaluated": 200}, 7, "The server already evaluates only what any server must evaluate."),
    ({"evaluated": 201}, 7, "7 changes tried, without improvement."),
    ({"evaluated": 200, "wrong": [1]}, 1, "1 change tried, without improvement."),
    ({"evaluated": 199}, 7, "The server already evaluates only what any server must evaluate."),
])
def test_no_advice_says_why(base, tried, says):
    assert says in report(base=base, tried=tried) and says not in report(advice(FLAG), base=base, tried=tried)


def test_a_bound_that_need_not_hold_is_not_told():
    """Texts that the log does not show are simulated as new: a server may have to evaluate less."""
    text = report(base={"evaluated": 200}, bound={"total": 200, "holds": False})
    assert "No advice: texts that the log does not show are simulated as new." in text
    assert "2 requests, 1,200 prompt tokens: 200 evaluated" in text and "lower bound" not in text
    assert "7 changes tried" in report(base={"evaluated": 201}, bound={"total": 200, "holds": False})


def test_requests_before_the_log_begins_are_told():
    text = report(log={**LOG, "before": 1})
    assert "2 requests (1 of them before the log begins, assumed), 1,200 prompt tokens" in text


def test_a_piece_of_advice_has_its_tokens_and_its_command():
    text = report(advice(FLAG, mib=3.0), base={"mib": 1.0}, sizes="m")
    assert "1 1,000 -> 250 tokens (-75%), 1.0 -> 3.0 MiB -np 2 " in text and text.endswith("cachesim run x")
    assert "MiB" not in report(advice(FLAG)).partition("1,000 -> ")[2]


@pytest.mark.parametrize(("change", "more", "says"), [
    (BUILD, {}, "build b11549 (2026-10-01) or later: llama_cpp@b11549"),
    (BUILD, {"later": False}, "build b11549 (2026-10-01); later builds do not have it: llama_cpp@b11549"),
    ({**BUILD, "date": None}, {}, "build b11549 or later:"),
    ({**BUILD, "date": "b11549"}, {}, "build b11549 or later:"),
    (PROPOSAL, {}, "not released: llama_cpp@x, made on llama_cpp@b10587"),
    ({**FLAG, "kind": "client", "text": "do this"}, {}, "-np 2; client: do this"),
    ({**FLAG, "kind": "client", "options": [], "text": "do this"}, {}, " client: do this"),
])  # fmt: skip
def test_a_change_is_said_as_it_is_made(change, more, says):
    assert says in report(advice(change, **more))


@pytest.mark.parametrize(("since", "says"), [
    ([SINCE], "Changed by #24110 (b9509), OLD -> NEW."),
    ([SINCE, {**SINCE, "source": "", "build": ""}], "Changed by #24110 (b9509), OLD -> NEW or ckpt_need, OLD -> NEW."),
    ([{**SINCE, "alone": False}] * 2, "#24110 (b9509), OLD -> NEW together with #24110 (b9509), OLD -> NEW."),
])
def test_the_changes_behind_a_build_are_named(since, says):
    assert says in report(advice(BUILD, since=since))


def test_other_requests_and_others_that_do_the_same_are_noted():
    assert "The requests change; their lower bound is 240 tokens." in report(advice(FLAG, bound=240))
    assert "The requests change" not in report(advice(FLAG))
    assert "Equivalent: a, b." in report(advice(PROPOSAL, alike=["a", "b"]))
    assert "Equivalent" not in report(advice(FLAG))


def test_what_is_wrong_is_said_in_words():
    text = report(base={"wrong": [0, 1], "failed": [1], "undecided": [1]})
    assert "WRONG: 2 of 2 answers; NO ANSWER: 1 of 2 answers" in text and "UNDECIDED" not in text
    assert "UNDECIDED: 2 of 2 answers" in report(base={"undecided": [0, 1], "failed": [1]})
    mends = report(advice(FLAG, wrong=[0], corrupt=[1]), base={"wrong": [0, 1]})
    assert "corrected: 1 answer; stored state is corrupt, but was not used yet" in mends
    assert "right now" not in report(advice(FLAG)) and "corrupt" not in report(advice(FLAG), base={"corrupt": [1]})
    assert "WRONG: 1 of 2 answers" in report(traps=[advice(FLAG, wrong=[1])])


LOG = {"printed_build": None, "before": 0, "assumed": [], "is_refuted": False, "contradicted": [], "differing": [],
       "command": "cachesim import x.log"}  # fmt: skip


def test_the_second_of_two_equal_suggestions_is_called_a_tie():
    text = report(advice(FLAG), advice(BUILD))
    assert text.count("A tie with suggestion 1: as many tokens.") == 1 and text.index("A tie") > text.index("2 1,000")
    assert "A tie" not in report(advice(FLAG), advice(BUILD, evaluated=251))
    assert "A tie" not in report(advice(FLAG), advice(BUILD, wrong=[1]))


@pytest.mark.parametrize(("printed", "differs"), [(None, False), (10587, False), (9713, True)])
def test_another_build_than_the_simulated_one_is_named(printed, differs):
    line = f"the log prints build {printed}; simulated is llama_cpp@b10587"
    assert (line in report(log={**LOG, "printed_build": printed})) is differs


def test_assumed_options_stand_once_and_other_conditions_at_their_suggestion():
    text = report(advice(FLAG, rests_on=["-ub 64 was set", "the server has the default -b 2048"]),
                  log={**LOG, "assumed": ["-ub 64 was set"], "before": 1})  # fmt: skip
    assert "2 requests (1 of them before the log begins, assumed)" in text
    assert "every number holds only if -ub 64 was set, which the log does not show" in text
    assert "Only if the server has the default -b 2048: the log does not show it." in text
    assert text.count("-ub 64 was set") == 1


@pytest.mark.parametrize(("numbers", "says"), [
    ({"contradicted": [3]}, "numbers of the log (line 3)"),
    ({"contradicted": [1, 2, 3, 4, 5, 6, 7]}, "numbers of the log (line 1, 2, 3, 4, 5, 6, ...)"),
    ({"differing": [0, 4]}, "the reused tokens of the log (request 0, 4)"),
])
def test_a_contradicted_log_has_no_advice(numbers, says):
    text = report(log={**LOG, "is_refuted": True, **numbers})
    assert f"No advice: the simulation contradicts {says}. Shown by: cachesim import x.log" in text


def test_rule_sets_without_a_release_are_listed_apart():
    text = report(not_released=[advice(PROPOSAL)])
    assert "No advice: only rule sets that are not released evaluate fewer tokens or correct answers." in text
    assert "- 1,000 -> 250 tokens (-75%)" in text


def test_what_a_suggestion_rests_on_is_said_and_the_best_one_in_a_sentence():
    text = "suggestions for the client hold only if the template is that of the model"
    assert text in report(assumes="the template is that of the model") and "hold only if" not in report()
    best = {"advice": [advice(FLAG, evaluated=1250)], "base": {"evaluated": 3470}, "profile": "llama_cpp@b10587"}
    assert try_sentence(best) == "Try: -np 2 (3,470 -> 1,250 tokens evaluated)"
    assert try_sentence({**best, "advice": []}) == ""


def test_a_case_in_a_line_has_its_tokens_and_its_answers():
    data = {"scenario": "a-case", "profile": "llama_cpp@b10587", "requests": 2, "prompt_tokens": 12_000}
    head = "a-case under llama_cpp@b10587: 1,000 of 12,000 prompt tokens evaluated; "
    right, wrong = (case_note({**data, "base": {**OUTCOME, "wrong": found}}) for found in ([], [1]))
    assert right.startswith(head) and wrong.startswith(head) and right != wrong


def test_without_an_assumption_every_number_holds():
    assert "every number holds only if" not in report(advice(FLAG), log={**LOG, "assumed": []})
    text = report(advice(FLAG), log={**LOG, "assumed": ["-ub 64 was set", "-np 2 was set"]})
    assert "every number holds only if -ub 64 was set and -np 2 was set, which the log does not show" in text
