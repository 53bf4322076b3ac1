"""Findings of conversations under one rule set or two, and failures of the simulator or of a rule file."""

from __future__ import annotations

import pytest

from cachesim.base.errors import CAUSE
from cachesim.engines.base import Answer, Request
from cachesim.events import Log
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import CORRECT, wrong
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.drawn_conversation import draw_conversation
from cachesim.tools.search.invariant_observer import CheckedRun, StepRecord
from cachesim.tools.search.property_failure import SIMULATOR
from cachesim.tools.search.run_properties import (
    ALL,
    INNER,
    OUTER,
    WIDE,
    CampaignCost,
    compared,
    cost,
    crashed,
    findings,
    shown,
)
from tests.unit.tools.search.test_drawn_conversation import made

NEW, OLD = "llama_cpp@b11549", "llama_cpp@b10587"
CASE = made("llama_cpp", {"A": 5}, "A", "A")


def test_costs_are_added():
    assert CampaignCost(1, 2, 3, 4, 5, 6).plus(CampaignCost(10, 20, 30, 40, 50, 60)) == CampaignCost(
        11, 22, 33, 44, 55, 66)  # fmt: skip


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


def test_a_plain_conversation_has_no_finding_under_real_properties():
    assert findings(CASE, NEW, ALL, {}) == shown(CASE, NEW, ALL, {}, "exact") == []
    found = compared(CASE, NEW, OLD, ALL, {})
    assert (found.new, found.mended, found.cost.requests, found.cost.right) == ([], [], 2, 2)


def run(*steps):
    """Return a run; each step is its number, its evaluated tokens, and what differs from a correct answer."""
    records = []
    for number, prompt_n, *more in steps:
        changed = more[0] if more else {}
        answer = Answer(number, prompt_n=prompt_n, **{"status": 200, **changed.get("answer", {})})
        records.append(StepRecord(number, Request((1, 2)), answer, changed.get("verdict", CORRECT),
                                  changed.get("state", CORRECT), (), ()))  # fmt: skip
    return CheckedRun(from_line("A2"), NEW, Log(), records)


def test_only_requests_of_both_runs_have_a_cost_with_all_their_completions():
    more = {"answer": {"children": [Answer(0, prompt_n=2), Answer(0, prompt_n=2)]}}
    assert cost(run((0, 5), (1, 7), (3, 1)), run((0, 3, more), (2, 9), (3, 2))) == CampaignCost(2, 6, 9, 2, 6, 9)
    assert cost(run((0, 5)), run()) == cost(run(), run((0, 5))) == CampaignCost()


WRONG = wrong("tokens", FaultKind.ROW, 1, layer=0, position=1)


@pytest.mark.parametrize("more", [
    {"answer": {"status": 500}}, {"answer": {"died": True}}, {"verdict": WRONG}, {"state": WRONG},
])  # fmt: skip
def test_the_cost_of_right_answers_is_that_of_answers_right_on_both_sides(more):
    for pair in ((run((0, 5)), run((0, 3, more))), (run((0, 5, more)), run((0, 3)))):
        assert cost(*pair) == CampaignCost(1, 5, 3)


def test_each_rule_set_has_the_findings_that_the_other_lacks():
    case = draw_conversation(1, "ik_llama", ("GA",))
    found, swapped = (compared(case, *pair, ("warm-equals-cold", "answered", "survives"), {})
                      for pair in (("ik_llama@1889-base", "ik_llama@main"), ("ik_llama@main", "ik_llama@1889-base")))
    assert (found.new, found.mended) == (swapped.mended, swapped.new)
    assert (found.cost.mine, found.cost.theirs) == (swapped.cost.theirs, swapped.cost.mine)


def test_a_rule_set_has_no_finding_that_it_lacks_itself():
    profile, asked = "ik_llama@1889-base", ("warm-equals-cold",)
    case = next(case for case in (draw_conversation(number, "ik_llama", ("GA",)) for number in range(20))
                if shown(case, profile, asked, {}))
    found = compared(case, profile, profile, asked, {})
    assert found.new == found.mended == [] and found.cost.mine == found.cost.theirs > 0
