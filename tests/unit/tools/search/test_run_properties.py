"""Findings of conversations under one rule set or two, and failures of the simulator or of a rule file."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.errors import CAUSE, BadInput
from cachesim.tools.search import run_properties
from cachesim.tools.search.property_failure import SIMULATOR, USERS_RULE, PropertyFailure
from cachesim.tools.search.run_properties import (
    ALL,
    INNER,
    OUTER,
    WIDE,
    CampaignCost,
    compared,
    cost,
    crashed,
    examined,
    failed,
    findings,
    shown,
    tokens,
    told,
)
from tests.unit.tools.search.test_drawn_conversation import made

NEW, OLD = "llama_cpp@b11549", "llama_cpp@b10587"
CASE = made("llama_cpp", {"A": 5}, "A", "A")


def finding(name="survives", step=1, kind="crash", stored=""):
    return PropertyFailure(name, step, kind, {"error": "it"}, "R.1", stored)


def step(number, prompt_n=5, status=200, died=False, right=True, state=True, children=()):
    answer = SimpleNamespace(prompt_n=prompt_n, status=status, died=died, children=list(children))
    return SimpleNamespace(number=number, answer=answer, verdict=SimpleNamespace(equal_cold=right),
                           state=SimpleNamespace(equal_cold=state))  # fmt: skip


def run(*steps, unset=False):
    return SimpleNamespace(steps=list(steps), unset=unset)


def test_the_tokens_of_further_completions_count():
    child = SimpleNamespace(prompt_n=2)
    assert (tokens(step(0, 5)), tokens(step(0, 5, children=[child, child]))) == (5, 9)


def test_only_requests_of_both_runs_have_a_cost():
    assert cost(run(step(0, 5), step(1, 7), step(3, 1)), run(step(0, 3), step(2, 9), step(3, 2))) == CampaignCost(
        2, 6, 5, 2, 6, 5)  # fmt: skip
    assert cost(run(step(0)), run()) == cost(run(), run(step(0))) == CampaignCost()


@pytest.mark.parametrize("wrong", [
    {"status": 500}, {"died": True}, {"right": False}, {"right": None}, {"state": False}, {"state": None},
])  # fmt: skip
def test_the_cost_of_right_answers_is_that_of_answers_right_on_both_sides(wrong):
    for pair in ((step(0, 5), step(0, 3, **wrong)), (step(0, 5, **wrong), step(0, 3))):
        assert cost(*map(run, pair)) == CampaignCost(1, 5, 3)


def test_costs_are_added():
    assert CampaignCost(1, 2, 3, 4, 5, 6).plus(CampaignCost(10, 20, 30, 40, 50, 60)) == CampaignCost(
        11, 22, 33, 44, 55, 66)  # fmt: skip


@pytest.fixture
def given(monkeypatch):
    """Give the findings and the run of each rule set, or the exception that its run raises."""
    results = {}

    def observe(scenario, profile, judges, table, mode):
        found = results[profile]
        if isinstance(found, Exception):
            raise found
        return found[1]

    monkeypatch.setattr(run_properties, "observe_run", observe)
    monkeypatch.setattr(run_properties, "examined", lambda case, profile, *_, **__: results[profile][0])
    return results


@pytest.mark.parametrize(("known", "is_new"), [
    (finding(), False), (finding(step=0), False), (finding(step=2), True), (finding(kind="x"), True),
    (finding(stored="entry"), True), (finding(name="answered"), True), (finding()._replace(deciding="R.2"), False),
])  # fmt: skip
def test_a_finding_is_new_unless_the_other_fails_alike_and_not_later(given, known, is_new):
    given |= {NEW: ([finding()], run(step(0, 5))), OLD: ([known], run(step(0, 3)))}
    found = compared(CASE, NEW, OLD, ALL, {})
    assert (found.new, found.cost) == ([finding()] * is_new, CampaignCost(1, 5, 3, 1, 5, 3))
    assert compared(CASE, OLD, NEW, ALL, {}).mended == [finding()] * is_new


def test_a_run_that_reads_an_unset_number_is_not_compared(given):
    for unset in (NEW, OLD):
        given |= {name: ([finding()], run(step(0), unset=name == unset)) for name in (NEW, OLD)}
        given[OLD if unset == NEW else NEW] = ([], run(step(0)))
        assert compared(CASE, NEW, OLD, ALL, {}) == ([], [], CampaignCost())


def test_a_crash_under_one_rule_set_is_its_finding_without_a_cost(given):
    given |= {NEW: IndexError("as a test"), OLD: ([finding()], run(step(0)))}
    found = compared(CASE, NEW, OLD, ALL, {})
    assert ([one.name for one in found.new], found.mended, found.cost) == ([SIMULATOR], [finding()], CampaignCost())
    given[NEW] = BadInput("not supported")
    with pytest.raises(BadInput, match="not supported"):
        compared(CASE, NEW, OLD, ALL, {})


def test_a_conversation_that_is_not_supported_is_not_a_failure(monkeypatch):
    assert failed(BadInput("no")) is None
    with pytest.raises(BadInput, match="no"):
        told(BadInput("no"))
    monkeypatch.setattr(run_properties, "findings", lambda *_, **__: [finding()])
    assert shown(CASE, NEW, ALL, {}) == [finding()]

    def fails(*_, **__):
        raise error

    monkeypatch.setattr(run_properties, "findings", fails)
    error = ValueError("as a test")
    assert [one.name for one in shown(CASE, NEW, ALL, {})] == [SIMULATOR]
    error = BadInput("no")
    with pytest.raises(BadInput, match="no"):
        shown(CASE, NEW, ALL, {})


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError


def deep(n):
    if not n:
        raise ValueError("x" * (CAUSE + 9))
    deep(n - 1)


def test_a_crash_has_the_innermost_function_of_the_package_and_its_frames():
    found = crashed(raised(CampaignCost().plus, 5))
    assert (found.name, found.kind, found.deciding, found.step) == (SIMULATOR, "TypeError", "plus", 0)
    assert len(found.causes) == 2 and found.causes[0].startswith("test_run_properties.py:")
    assert found.causes[1].startswith("cachesim/tools/search/run_properties.py:")
    assert " in plus: return " in found.causes[1]
    assert found.numbers == {"error": str(raised(CampaignCost().plus, 5))}


def test_a_long_traceback_and_a_long_message_are_shortened():
    found = crashed(raised(deep, OUTER + INNER - 2))
    assert len(found.causes) == OUTER + INNER and not any("left out" in line for line in found.causes)
    found = crashed(raised(deep, OUTER + INNER - 1))
    assert len(found.causes) == OUTER + INNER + 1 and found.causes[OUTER] == "... 1 frames left out ..."
    found = crashed(raised(deep, OUTER + INNER + 3))
    assert len(found.causes) == OUTER + INNER + 1 and found.causes[OUTER] == "... 5 frames left out ..."
    assert "in raised: " in found.causes[0] and 'raise ValueError("x"' in found.causes[-1]
    assert len(found.numbers["error"]) <= CAUSE and max(map(len, found.causes)) <= WIDE
    assert (found.deciding, crashed(raised(deep, 0)).deciding) == ("deep", "deep")
    assert crashed(KeyError()).numbers == {"error": "KeyError"} and crashed(KeyError()).deciding == ""


def test_a_failing_rule_of_a_file_is_named_with_its_place(monkeypatch):
    monkeypatch.setattr(run_properties, "locate_fault", lambda error: BadInput("it fell", file="a/mine.py", line=7))
    found = failed(ZeroDivisionError("x"))
    assert found == PropertyFailure(USERS_RULE, 0, "ZeroDivisionError", {"error": "a/mine.py:7: it fell"}, "mine.py:7")


def test_properties_are_examined_in_their_order_and_only_those_that_are_asked_for(monkeypatch):
    def property_named(name):
        return lambda run: [finding(name, step=len(run.steps))]

    monkeypatch.setattr(run_properties, "PROPERTIES", {name: property_named(name) for name in ("a", "b")})
    monkeypatch.setattr(run_properties, "LEDGER_PROPERTIES", {"c": property_named("c"), "d": property_named("d")})
    monkeypatch.setattr(run_properties, "run_judged", lambda *_, **__: run(step(0), step(1)))
    monkeypatch.setattr(run_properties, "monotone", lambda scenario, profile: [finding("monotone", step=9)])
    monkeypatch.setattr(run_properties, "observe_run", lambda *_: run(step(0)))

    def found(*names, observed=None):
        return [(one.name, one.step) for one in examined(CASE, NEW, names, observed)]

    assert found("b", "d", "monotone", "a", observed=run(step(0))) == [("b", 1), ("a", 1), ("d", 2), ("monotone", 9)]
    assert found("a", "c") == [("c", 2)] and found("a", observed=run(step(0), unset=True)) == []
    assert [one.name for one in findings(CASE, NEW, ("c", "a"), {})] == ["a", "c"]
    monkeypatch.setattr(run_properties, "observe_run", lambda *_: pytest.fail("ran"))
    assert [one.name for one in findings(CASE, NEW, ("c",), {})] == ["c"]


def test_a_plain_conversation_has_no_finding_under_real_properties():
    assert findings(CASE, NEW, ALL, {}) == shown(CASE, NEW, ALL, {}, "exact") == []
    found = compared(CASE, NEW, OLD, ALL, {})
    assert (found.new, found.mended, found.cost.requests, found.cost.right) == ([], [], 2, 2)
