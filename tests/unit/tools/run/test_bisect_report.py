"""Tests of the report of ``bisect``: outcomes, versions and changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Group
from rich.padding import Padding

from cachesim.base.console import as_text
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import NO_ANSWER, ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.judging.outcomes import StepOutcome
from cachesim.judging.verdict_words import WORDS, VerdictWord
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.bisect_report import (
    answer_report,
    answers,
    bisect_data,
    bisect_report,
    is_noticed,
    without_order,
)
from tests.unit.tools.run.made import shown

RIGHT, WRONG = RequestOutcome(7, True, 200), RequestOutcome(5, False, 200)
CHANGES = Change("min_step", "64", "256", "#1"), Change("rs_rm", "a", "b", "")


def course(was, now, alone=True):
    causes = [ChangedFields(CHANGES[:1], True)] if alone else [ChangedFields(CHANGES, False)]
    return RequestHistory({"x@1": was, "x@2": now}, [OutcomeChange("x@1", "x@2", was, now, causes)])


def lines(turn):
    return shown(bisect_report(from_line("A10"), [turn]))


@pytest.mark.parametrize(("outcome", "said"), [
    (RIGHT, "reuses 7, output correct"), (WRONG, "reuses 5, WRONG OUTPUT"), (None, "not run"),
    (RequestOutcome(5, None, 200), "UNDECIDED"), (RequestOutcome(0, False, 0), "SERVER DIED"),
    (RequestOutcome(0, None, 400), "REFUSED (400)"), (RequestOutcome(0, False, 500), "ERROR (500)"),
])  # fmt: skip
def test_what_became_of_a_request_before_and_after(outcome, said):
    assert f"{said} at x@2" in lines(course(RIGHT, outcome))
    assert f"{said} at x@1" in lines(course(outcome, RIGHT))
    assert f"{said} under every rule set" in lines(RequestHistory({"x@1": outcome, "x@2": outcome}))


def test_changes_that_only_do_it_together_are_told_together():
    assert "by min_step 64 -> 256 (#1)" in lines(course(RIGHT, WRONG))
    assert "by min_step 64 -> 256 (#1) together with rs_rm a -> b" in lines(course(RIGHT, WRONG, alone=False))


def test_a_proposal_is_told_with_what_it_is_compared_with():
    turn = OutcomeChange("x@1", "x@mine", WRONG, RIGHT, [])
    said = lines(RequestHistory({"x@1": WRONG, "x@mine": RIGHT}, [], [turn]))
    assert "proposed: reuses 7, output correct at x@mine" in said and "(reuses 5, WRONG OUTPUT at x@1)" in said


def test_the_data_of_a_version_that_lacks_an_option():
    data = bisect_data(from_line("A10"), [course(None, WRONG)])["requests"][0]
    assert data["turns"][0]["was"] == {"cache_n": None, "equal_cold": None, "status": None}
    assert data["turns"][0]["now"] == {"cache_n": 5, "equal_cold": False, "status": 200}
    assert [one["profile"] for one in data["outcomes"]] == ["x@1", "x@2"]


LESS = RequestOutcome(3, True, 200)


def changed(was, now, new="x@2", beside=False):
    """A history with one change, of a build or (``beside``) of a proposal."""
    turn = OutcomeChange("x@1", new, was, now, [ChangedFields(CHANGES[:1], True)])
    return RequestHistory({"x@1": was}, [] if beside else [turn], [turn] if beside else [])


def test_the_answer_begins_with_a_repaired_answer_then_the_greatest_change_of_the_reuse():
    far = RequestOutcome(90, True, 200)
    courses = [changed(RIGHT, LESS), changed(LESS, far), changed(WRONG, RIGHT), changed(RIGHT, RIGHT)]
    assert [answer.number for answer in answers(courses)] == [2, 1, 0]
    said = shown(answer_report(from_line("A10/B10/C10/D10"), courses))
    assert said[1:4] == ["request 2  C: reuses 7, output correct at x@2", "before: reuses 5, WRONG OUTPUT at x@1",
                         "by min_step 64 -> 256 (#1)"]  # fmt: skip
    assert said[-2:] == ["request 3: reuses 7, output correct under every build that runs it",
                         "1 further change of what a client observes, and the history: -v"]  # fmt: skip


def test_the_place_of_a_request_is_that_of_its_last_change():
    far, near = RequestOutcome(90, True, 200), RequestOutcome(6, True, 200)
    turns = [OutcomeChange("x@1", "x@2", WRONG, far), OutcomeChange("x@2", "x@3", RIGHT, near)]
    courses = [RequestHistory({"x@1": WRONG}, turns), changed(RIGHT, LESS)]
    assert [(answer.number, answer.weight) for answer in answers(courses)] == [(1, (False, 4)), (0, (False, 1))]


def test_a_proposal_is_in_the_answer_if_it_is_better_or_asked_for():
    better, worse = changed(LESS, RIGHT, "x@better", True), changed(RIGHT, WRONG, "x@worse", True)
    repaired = changed(WRONG, LESS, "x@repaired", True)
    assert [[turn.new for turn in one.proposed] for one in answers([better, worse, repaired])] == [
        ["x@repaired"], ["x@better"]]  # fmt: skip
    assert [one.number for one in answers([better, worse, repaired], ["x@worse"])] == [1, 2, 0]
    said = shown(answer_report(from_line("A10"), [better]))
    assert "request 0  A: reuses 3, output correct under every build that runs it" in said
    assert "proposed: reuses 7, output correct at x@better" in said


def test_equal_requests_share_a_line_in_the_answer():
    said = shown(answer_report(from_line("A10/B10"), [RequestHistory({"x@1": RIGHT, "x@2": RIGHT})] * 2))
    assert said[1] == "requests 0, 1: the same reuse and correctness under every build that runs them"


@pytest.mark.parametrize(("was", "now", "noticed"), [
    (RIGHT, WRONG, True), (RIGHT, LESS, True), (RIGHT, RIGHT, False), (None, RIGHT, False), (RIGHT, None, False),
    (RIGHT, RequestOutcome(7, True, 500), True), (RIGHT, RequestOutcome(7, None, 200), True),
])  # fmt: skip
def test_a_user_notices_reuse_correctness_and_errors_of_versions_that_ran(was, now, noticed):
    assert is_noticed(OutcomeChange("x@1", "x@2", was, now)) is noticed


@pytest.mark.parametrize(("was", "now", "shown_"), [
    (LESS, RIGHT, True), (RIGHT, LESS, False), (WRONG, LESS, True), (RequestOutcome(9, None, 200), LESS, True),
    (RIGHT, WRONG, False), (RIGHT, RequestOutcome(9, None, 200), False),
])  # fmt: skip
def test_a_proposal_is_shown_if_it_is_better_or_was_asked_for(was, now, shown_):
    turn = OutcomeChange("x@1", "x@mine", was, now)
    history = [RequestHistory({"x@1": was, "x@mine": now}, [], [turn])]
    assert [len(one.proposed) for one in answers(history)] == [1] * shown_
    assert len(answers(history, ["x@mine"])[0].proposed) == 1


def test_correctness_comes_before_tokens_and_many_tokens_before_few():
    few, many = changed(RIGHT, RequestOutcome(6, True, 200)), changed(LESS, RequestOutcome(30, True, 200))
    wrong = changed(LESS, RequestOutcome(3, False, 200))
    assert [one.number for one in answers([few, many, wrong])] == [2, 1, 0]


def test_rule_sets_without_a_place_are_named_and_a_single_rule_set_says_why():
    assert without_order(["x@a", "x@b"], True) == ["not ordered (without a date and a base): x@a, x@b\n"]
    assert without_order([], True) == [] and without_order([], False) == [
        "not compared: the engine has a single rule set\n"]


def test_an_answer_that_never_came():
    assert "NEVER ANSWERED at x@2" in lines(course(RIGHT, RequestOutcome(0, None, NO_ANSWER)))


def printed(report):
    """Return the lines of a report with their indentation, without those of the flags."""
    lines = [line.rstrip() for line in as_text(report).splitlines()]
    return [line for line in lines if not line.startswith(("flags: ", " "*20))]


def seen(outcome, **client):
    """Return an outcome with other observables than those of the report."""
    return outcome._replace(seen=StepOutcome(client))


def test_a_paragraph_has_the_oldest_outcome_then_each_change_with_its_causes():
    turn = OutcomeChange("x@1", "x@2", seen(RIGHT, tokens_cached=4), seen(WRONG, tokens_cached=5),
                         [ChangedFields(CHANGES[:1], True)])  # fmt: skip
    beside = OutcomeChange("x@2", "x@mine", WRONG, RIGHT, [ChangedFields(CHANGES[1:], True)])
    same = OutcomeChange("x@2", "x@same", seen(WRONG, cache_n=4), seen(WRONG, cache_n=5))
    course = RequestHistory({"x@1": RIGHT, "x@2": WRONG}, [turn], [beside, same])
    assert printed(bisect_report(from_line("A10", model="GA"), [course])) == [
        "try  GA",
        "0  A",
        "   reuses 7, output correct at x@1",
        "   reuses 5, WRONG OUTPUT at x@2",
        "      tokens_cached: 4 -> 5",
        "      by min_step 64 -> 256 (#1)",
        "   proposed: reuses 7, output correct at x@mine",
        "      (reuses 5, WRONG OUTPUT at x@2)",
        "      by rs_rm a -> b",
        "   proposed: reuses 5, WRONG OUTPUT at x@same",
        "      (reuses 5, WRONG OUTPUT at x@2)"]  # fmt: skip


def test_the_answer_about_a_request_is_indented_by_its_parts():
    turn = OutcomeChange("x@1", "x@2", RIGHT, LESS, [ChangedFields(CHANGES, False)])
    beside = OutcomeChange("x@2", "x@mine", LESS, RIGHT, [ChangedFields(CHANGES[1:], True)])
    course = RequestHistory({"x@1": RIGHT, "x@2": LESS}, [turn], [beside])
    assert printed(answer_report(from_line("A10", model="GA"), [course])) == [
        "try  GA",
        "request 0  A: reuses 3, output correct at x@2",
        "   before: reuses 7, output correct at x@1",
        "   by min_step 64 -> 256 (#1) together with rs_rm a -> b",
        "   proposed: reuses 7, output correct at x@mine",
        "      by rs_rm a -> b"]  # fmt: skip


def test_proposals_with_equal_outcomes_and_causes_are_shown_once():
    causes = [ChangedFields(CHANGES[:1], True)]
    some = [OutcomeChange("x@1", name, LESS, RIGHT, causes) for name in ("x@a", "x@b")]
    other = OutcomeChange("x@1", "x@c", LESS, RIGHT, [ChangedFields(CHANGES[1:], True)])
    (answer,) = answers([RequestHistory({"x@1": LESS}, [], [*some, other])])
    assert [turn.new for turn in answer.proposed] == ["x@b", "x@c"]


def test_a_rule_set_without_a_place_in_the_order_stands_apart():
    names = ["llama_cpp@b10587", "llama_cpp@pr20819"]
    outcomes = {names[0]: RIGHT, names[1]: LESS}
    lines = printed(bisect_report(from_line("A10", model="GA"), [RequestHistory(outcomes)]))
    assert lines[:2] == ["try  GA", "0  A"] and "reuses 7, output correct" in lines[2]


def test_further_changes_are_counted():
    noticed = OutcomeChange("x@2", "x@3", RIGHT, LESS)
    hidden = OutcomeChange("x@1", "x@2", RIGHT, seen(RIGHT, tokens_cached=5))
    one = RequestHistory({"x@1": RIGHT}, [hidden, noticed], [])
    last = printed(answer_report(from_line("A10"), [one]))[-1]
    assert last == "1 further change of what a client observes, and the history: -v"
    assert not printed(answer_report(from_line("A10"), [replace(one, turns=[noticed])]))[-1].endswith("-v")
    last = printed(answer_report(from_line("A10"), [replace(one, turns=[noticed, hidden, noticed])]))[-1]
    assert last.startswith("2 further changes ")


@pytest.fixture
def unordered(monkeypatch):
    """Give vLLM rule sets without a place in the order."""
    monkeypatch.setattr("cachesim.tools.run.bisect_report.without_place", lambda engine: [
        f"vllm@{name}" for name in ("a", "b", "c") if engine.name == "vllm"])  # fmt: skip


def test_rule_sets_without_a_place_are_shown_if_they_differ_from_the_newest_version(unordered):
    first, newest = RequestOutcome(1, True, 200), RequestOutcome(2, True, 200)
    outcomes = {"vllm@1": first, "vllm@2": newest, "vllm@3": None, "vllm@a": seen(newest, tokens_cached=4),
                "vllm@c": LESS}  # fmt: skip
    turns = [OutcomeChange("vllm@1", "vllm@2", first, newest), OutcomeChange("vllm@2", "vllm@3", newest, None)]
    course = RequestHistory(outcomes, turns)
    same = RequestHistory({"vllm@1": first, "vllm@a": first, "vllm@b": None})
    scenario = from_line("A10/B10", model="GA", profiles=("vllm@0.33.0",))
    assert printed(answer_report(scenario, [course, same])) == [
        "try  GA",
        "request 0  A: reuses 2, output correct at vllm@2",
        "   before: reuses 1, output correct at vllm@1",
        "   not ordered: reuses 3, output correct at vllm@c",
        "request 1  B: reuses 1, output correct under every build that runs it",
        "   not ordered: not run at vllm@b",
        "1 further change of what a client observes, and the history: -v"]  # fmt: skip
    assert printed(bisect_report(scenario, [course, same])) == [
        "try  GA",
        "0  A",
        "   reuses 1, output correct at vllm@1",
        "   reuses 2, output correct at vllm@2",
        "   not run at vllm@3",
        "   not ordered: reuses 2, output correct at vllm@a",
        "   not ordered: reuses 3, output correct at vllm@c",
        "",
        "1  B",
        "   reuses 1, output correct at vllm@1",
        "   not ordered: reuses 1, output correct at vllm@a",
        "   not ordered: not run at vllm@b"]  # fmt: skip


def test_the_newest_version_is_one_of_the_order_whichever_comes_first(unordered):
    course = RequestHistory({"vllm@b": LESS, "vllm@1": RIGHT, "vllm@a": RIGHT})
    scenario = from_line("A10", model="GA", profiles=("vllm@0.33.0",))
    assert printed(answer_report(scenario, [course]))[1:] == [
        "request 0  A: reuses 7, output correct under every build that runs it",
        "   not ordered: reuses 3, output correct at vllm@b"]  # fmt: skip


def test_a_request_may_have_run_only_under_rule_sets_without_a_place(unordered):
    course = RequestHistory({"vllm@b": LESS, "vllm@a": RIGHT})
    scenario = from_line("A10", model="GA", profiles=("vllm@0.33.0",))
    assert printed(answer_report(scenario, [course])) == [
        "try  GA", "request 0  A: no rule set has a place in the order",
        "   not ordered: reuses 7, output correct at vllm@a", "   not ordered: reuses 3, output correct at vllm@b",
        ]  # fmt: skip
    assert printed(bisect_report(scenario, [course])) == [
        "try  GA", "0  A",
        "   not ordered: reuses 7, output correct at vllm@a", "   not ordered: reuses 3, output correct at vllm@b",
        ]  # fmt: skip


def test_requests_without_a_change_are_named_once_by_their_numbers():
    course = RequestHistory({"x@1": RIGHT, "x@2": RIGHT})
    changes = [changed(RIGHT, LESS), course, changed(LESS, RIGHT, beside=True), course]
    lines = printed(answer_report(from_line("A10/B10/C10/D10", model="GA"), changes))
    assert lines == [
        "try  GA",
        "request 0  A: reuses 3, output correct at x@2",
        "   before: reuses 7, output correct at x@1",
        "   by min_step 64 -> 256 (#1)",
        "request 2  C: reuses 3, output correct under every build that runs it",
        "   proposed: reuses 7, output correct at x@2",
        "      by min_step 64 -> 256 (#1)",
        "requests 1, 3: the same reuse and correctness under every build that runs them"]  # fmt: skip


def test_the_data_of_a_change_names_its_versions_causes_and_observables():
    beside = OutcomeChange("x@2", "x@mine", WRONG, RIGHT, [])
    turn = OutcomeChange("x@1", "x@2", seen(RIGHT, tokens_cached=4), seen(WRONG, tokens_cached=5),
                         [ChangedFields(CHANGES, False)])  # fmt: skip
    history = RequestHistory({"x@1": RIGHT, "x@2": WRONG}, [turn], [beside])
    data = bisect_data(from_line("A10", model="GA"), [history])
    assert (data["scenario"], data["model"], data["unordered"]) == ("try", "GA", [])
    right, wrong = ({"cache_n": 7, "equal_cold": True, "status": 200},
                    {"cache_n": 5, "equal_cold": False, "status": 200})  # fmt: skip
    assert data["requests"] == [{
        "i": 0, "text": "A", "outcomes": [{"profile": "x@1", **right}, {"profile": "x@2", **wrong}],
        "turns": [{"old": "x@1", "new": "x@2", "build": "", "was": right, "now": wrong,
                   "differs": [{"observable": "tokens_cached", "what": "length of the slot at the end",
                                "value_a": "4", "value_b": "5"}],
                   "causes": [{"alone": False, "changes": [{**change._asdict(), "build": ""} for change in CHANGES]}]}],
        "beside": [{"old": "x@2", "new": "x@mine", "build": "", "was": wrong, "now": right, "differs": [],
                    "causes": []}]}]  # fmt: skip


@pytest.mark.parametrize(("outcome", "word"), [
    (RIGHT, VerdictWord.CORRECT), (WRONG, VerdictWord.WRONG), (RequestOutcome(5, None, 200), VerdictWord.UNDECIDED),
    (None, VerdictWord.UNDECIDED)])  # fmt: skip
def test_an_outcome_has_the_style_of_its_verdict_in_both_reports(outcome, word):
    scenario, turn = from_line("A10"), OutcomeChange("x@1", "x@2", LESS, outcome, [])
    whole = bisect_report(scenario, [RequestHistory({"x@1": LESS}, [turn])])
    styles = {text.plain: text.style for text in texts(whole)}
    assert styles[next(text for text in styles if text.endswith("at x@2"))] == WORDS[word].colour
    if outcome is not None:
        brief = answer_report(scenario, [RequestHistory({"x@1": LESS}, [], [turn])], ["x@2"])
        (style,) = [text.style for text in texts(brief) if text.plain.startswith("proposed: ")]
        assert style == WORDS[word].colour


def texts(report):
    """Return the texts of a report."""
    if isinstance(report, Group):
        return [text for part in report.renderables for text in texts(part)]
    return [report.renderable] if isinstance(report, Padding) else [report]
