"""Tests of the advice report: which numbers, names and commands it shows."""

from __future__ import annotations

import re

import pytest

from cachesim.base.console import as_text
from cachesim.tools.advise.report import advise_report, case_note, run_names, try_sentence

OUTCOME = {"evaluated": 1000, "each": [500, 500], "wrong": [], "undecided": [], "failed": [], "corrupt": [],
           "mib": None, "predicted": []}  # fmt: skip
BUILD = {"kind": "build", "name": "llama_cpp@b11549", "text": "", "options": [], "profile": "llama_cpp@b11549",
         "build": "b11549", "date": "2026-10-01", "base": None, "released": True,
         "pull": None, "pull_case": None}  # fmt: skip
FLAG = {**BUILD, "kind": "flag", "name": "parallel", "options": [{"name": "parallel", "value": 2}], "profile": None}
PROPOSAL = {**BUILD, "kind": "proposal", "name": "llama_cpp@x", "profile": "llama_cpp@x", "base": "llama_cpp@b10587",
            "released": False}  # fmt: skip
SINCE = {"field": "ckpt_need", "old": "OLD", "new": "NEW", "source": "#24110", "build": "b9509", "date": "",
         "alone": True}  # fmt: skip
LOG = {"printed_build": None, "before": 0, "assumed": [], "is_refuted": False, "contradicted": [], "differing": [],
       "command": "cachesim import x.log"}  # fmt: skip


def advice(*changes, **more):
    return {**OUTCOME, "evaluated": 250, "changes": list(changes), "saved": 750, "share": 0.75, "bound": 200,
            "later": True, "below": None, "since": [], "alike": [], "rests_on": [],
            "profile": "llama_cpp@b11549", "command": "cachesim run x",
            **more}  # fmt: skip


def lines(*pieces, base=(), traps=(), **more):
    """Return the lines of a report, with single spaces between words."""
    data = {"scenario": "a-case", "profile": "llama_cpp@b10587", "model": "GA", "requests": 2, "prompt_tokens": 1200,
            "sizes": None, "rule_sets": 1, "base": {**OUTCOME, **dict(base)}, "bound": {"total": 200, "holds": True},
            "advice": list(pieces), "not_released": [], "notes": [], "traps": list(traps), "tried": 7,
            "proposed": [], "log": None, **more}  # fmt: skip
    return [" ".join(line.split()) for line in as_text(advise_report(data)).splitlines()]


PROPOSED = {"cause": "history", "text": "send the history of request 1 unchanged", "requests": [1], "outcome": "saves",
            "evaluated": 900, "saved": 100, "saved_most": 400, "suggestion": None, "rests_on": ["a"], "why": "",
            "command": "cachesim run x"}  # fmt: skip


@pytest.mark.parametrize(("more", "parts"), [
    ({}, ("saves 100 to 400 of 1,000", "Only if a", "cachesim run x")),
    ({"suggestion": 1}, ("saves 100 to 400 of 1,000", "(suggestion 1)")),
    ({"outcome": "saves nothing"}, ("request 1 unchanged: saves nothing.",)),
    ({"outcome": "not simulated", "why": "b"}, ("request 1 unchanged: not simulated (b).",)),
])  # fmt: skip
def test_a_proposed_change_is_printed_with_its_outcome(more, parts):
    assert shows(lines(proposed=[{**PROPOSED, **more}]), *parts)
    other = "without improvement" if more.get("outcome") else "No other improvement"
    assert shows(lines(proposed=[{**PROPOSED, **more}]), other)


def test_a_proposal_names_its_pull_request_and_a_case():
    pull = {**PROPOSAL, "pull": "a/b#24143", "pull_case": "a-case-of-it"}
    assert shows(lines(not_released=[advice(pull)]), "not released: pull request a/b#24143", "case: a-case-of-it")


def shows(found, *parts):
    """True if the lines contain these parts in this order."""
    return re.search(".*".join(map(re.escape, parts)), " ".join(found)) is not None


def test_the_case_and_its_bound_come_first():
    assert shows(lines()[1:3], "2", "1,200", "1,000", "200")
    assert shows(lines(rule_sets=3), "3 rule sets") and not shows(lines(), "rule sets")
    assert shows(lines(base={"mib": 12.5}, sizes="a model"), "12.5 MiB", "a model")
    assert shows(lines(log={**LOG, "before": 1}), "2", "1", "1,200")


def test_no_advice_says_why():
    """At the bound, above it, with a wrong answer at it, below it, and where the bound need not hold."""
    least, more, wrong, fewer, open_bound = (lines(base=base, **bound)[-1] for base, bound in (
        ({"evaluated": 200}, {}), ({"evaluated": 201}, {}), ({"evaluated": 200, "wrong": [1]}, {}),
        ({"evaluated": 199}, {}), ({"evaluated": 200}, {"bound": {"total": 200, "holds": False}})))  # fmt: skip
    assert least == fewer and more == wrong and "7" in more and len({least, more, open_bound}) == 3
    assert least not in lines(advice(FLAG), base={"evaluated": 200})
    assert not shows(lines(base={"evaluated": 300}, bound={"total": 234, "holds": False}), "234")
    assert "1 change " in lines(tried=1)[-1]


def test_a_piece_of_advice_has_its_tokens_and_its_command():
    found = lines(advice(FLAG, mib=3.0), base={"mib": 1.0}, sizes="m")
    assert shows(found, "1 1,000 -> 250", "-75%", "1.0 -> 3.0 MiB", "-np 2") and found[-1] == "cachesim run x"
    assert not shows(lines(advice(FLAG))[4:], "MiB")


@pytest.mark.parametrize(("change", "more", "parts"), [
    (BUILD, {}, ["b11549", "2026-10-01", "llama_cpp@b11549"]),
    ({**BUILD, "date": "b11549"}, {}, ["b11549", "llama_cpp@b11549"]),
    (PROPOSAL, {}, ["llama_cpp@x", "llama_cpp@b10587"]),
    ({**FLAG, "kind": "client", "text": "do this"}, {}, ["-np 2", "do this"]),
    ({**FLAG, "kind": "client", "options": [], "text": "do this"}, {}, ["do this"]),
    (BUILD, {"since": [SINCE]}, ["#24110", "b9509", "OLD", "NEW"]),
    (BUILD, {"since": [SINCE, {**SINCE, "source": "", "build": ""}]}, ["#24110", "b9509", "ckpt_need", "OLD", "NEW"]),
    (FLAG, {"bound": 240}, ["-np 2", "240"]), (PROPOSAL, {"alike": ["a-b", "c-d"]}, ["a-b, c-d"]),
    (FLAG, {"wrong": [0], "since": [SINCE], "alike": ["a-b"]}, ["-np 2", "#24110", "a-b", "WRONG: 1 of 2", "run x"]),
])  # fmt: skip
def test_a_change_is_said_as_it_is_made_with_what_is_known_of_it(change, more, parts):
    assert shows(lines(advice(change, **more))[3:], *parts)


def test_builds_and_causes_of_different_kinds_differ():
    later, only, alone, together = (lines(advice(BUILD, **more))[4:] for more in (
        {}, {"later": False}, {"since": [SINCE] * 2}, {"since": [{**SINCE, "alone": False}] * 2}))  # fmt: skip
    assert later != only and alone != together
    assert lines(advice({**BUILD, "date": None})) == lines(advice({**BUILD, "date": "b11549"}))
    assert not shows(lines(advice({**BUILD, "date": None})), "2026-10-01")


def test_what_is_wrong_is_said_in_words():
    found = lines(base={"wrong": [0, 1], "failed": [1], "undecided": [1]})
    assert shows(found, "WRONG: 2 of 2", "NO ANSWER: 1 of 2") and not shows(found, "UNDECIDED")
    assert shows(lines(base={"undecided": [0, 1], "failed": [1]}), "UNDECIDED: 2 of 2")
    mends = lines(advice(FLAG, wrong=[0], corrupt=[1]), base={"wrong": [0, 1]})
    assert shows(mends, "corrected: 1 ", "corrupt")
    assert not shows(lines(advice(FLAG), base={"corrupt": [1]}), "corrupt")
    assert shows(lines(traps=[advice(FLAG, wrong=[1])]), "WRONG: 1 of 2")


@pytest.mark.parametrize(("more", "is_tie"), [({}, True), ({"evaluated": 251}, False), ({"wrong": [1]}, False)])
def test_the_second_of_two_equal_suggestions_is_called_a_tie(more, is_tie):
    found = lines(advice(FLAG), advice(BUILD, **more))
    assert [line for line in found if "tie" in line.split()] == [line for line in found[6:] if " 1: " in line][:is_tie]
    assert any("tie" in line.split() for line in found) is is_tie


@pytest.mark.parametrize(("printed", "differs"), [(None, False), (10587, False), (9713, True)])
def test_another_build_than_the_simulated_one_is_named(printed, differs):
    assert shows(lines(log={**LOG, "printed_build": printed}), "9713", "llama_cpp@b10587") is differs


def test_assumed_options_stand_once_and_other_conditions_at_their_suggestion():
    found = lines(advice(FLAG, rests_on=["-ub 64 was set", "a default -b"]), log={**LOG, "assumed": ["-ub 64 was set"]})
    assert shows(found, "-ub 64 was set", "1 1,000 -> 250", "a default -b")
    assert " ".join(found).count("-ub 64 was set") == 1
    assert shows(lines(log={**LOG, "assumed": ["-ub 64 was set", "-np 2 was set"]}), "-ub 64 was set and -np 2 was set")
    assert shows(lines(assumes="a template"), "a template")


@pytest.mark.parametrize(("numbers", "parts"), [
    ({"contradicted": [3]}, ["line 3"]), ({"contradicted": [1, 2, 3, 4, 5, 6, 7]}, ["line 1, 2, 3, 4, 5, 6, ..."]),
    ({"differing": [0, 4]}, ["request 0, 4"]),
])  # fmt: skip
def test_a_contradicted_log_has_no_advice(numbers, parts):
    found = lines(log={**LOG, "is_refuted": True, **numbers})
    assert shows(found, *parts, "cachesim import x.log") and not shows(found, "1,000")


def test_rule_sets_without_a_release_are_listed_apart():
    found = lines(not_released=[advice(PROPOSAL)])
    assert shows(found, "- 1,000 -> 250") and found[4] not in lines()


def test_the_best_suggestion_is_a_sentence_and_two_runs_are_named():
    best = {"advice": [advice(FLAG, evaluated=1250)], "base": {"evaluated": 3470}, "profile": "llama_cpp@b10587"}
    assert shows([try_sentence(best)], "-np 2", "3,470", "1,250") and try_sentence({**best, "advice": []}) == ""
    now, better = run_names(best)
    assert "3470" in now and shows([better], "-np 2", "1250")
    assert run_names({**best, "advice": []}) == [now]


def test_a_case_in_a_line_has_its_tokens_and_its_answers():
    data = {"scenario": "a-case", "profile": "llama_cpp@b10587", "requests": 2, "prompt_tokens": 12_000}
    right, wrong = (case_note({**data, "base": {**OUTCOME, "wrong": found}}) for found in ([], [1]))
    assert all(shows([text], "a-case", "llama_cpp@b10587", "1,000", "12,000") for text in (right, wrong))
    assert right != wrong
