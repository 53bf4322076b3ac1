"""Tests of the report of ``bisect``: outcomes, versions and changes."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.bisect_report import bisect_data, bisect_report
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
