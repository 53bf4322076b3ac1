"""Tests of the report of ``bisect``: outcomes, versions and changes."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.judging.outcomes import StepOutcome
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.bisect_report import (
    answer_report,
    answers,
    bisect_data,
    is_noticed,
)
from tests.unit.tools.run.made import shown

RIGHT, WRONG = RequestOutcome(7, True, 200), RequestOutcome(5, False, 200)
CHANGES = Change("min_step", "64", "256", "#1"), Change("rs_rm", "a", "b", "")


def test_the_data_of_a_version_that_lacks_an_option():
    turn = OutcomeChange("x@1", "x@2", None, WRONG, [])
    data = bisect_data(from_line("A10"), [RequestHistory({"x@1": None, "x@2": WRONG}, [turn])])["requests"][0]
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
    assert said[1].startswith("request 2 ") and said[1].endswith("x@2") and said[2].endswith("x@1")


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


def seen(outcome, **client):
    """Return an outcome with other observables than those of the report."""
    return outcome._replace(seen=StepOutcome(client))


def test_proposals_with_equal_outcomes_and_causes_are_shown_once():
    causes = [ChangedFields(CHANGES[:1], True)]
    some = [OutcomeChange("x@1", name, LESS, RIGHT, causes) for name in ("x@a", "x@b")]
    other = OutcomeChange("x@1", "x@c", LESS, RIGHT, [ChangedFields(CHANGES[1:], True)])
    (answer,) = answers([RequestHistory({"x@1": LESS}, [], [*some, other])])
    assert [turn.new for turn in answer.proposed] == ["x@b", "x@c"]


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
