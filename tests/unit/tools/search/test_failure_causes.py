"""Tests of the causes of failures: the smallest change that cures, a budget in runs, and no grouping by text."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from cachesim.judging.rule_exchange import variants
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search import failure_causes
from cachesim.tools.search.campaign import CampaignPlan
from cachesim.tools.search.failure_causes import EACH, PART, run_budget, with_causes
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.rule_mutations import MutationSearch, others_of, run_mutated

PROFILE = "llama_cpp@b11549"
PLAN = CampaignPlan(PROFILE, tuple(PROPERTIES), (), "provenance", 0)
STALE = ("A1.|B5/A.C1/A{together}", "GA"), ("A1.B1.|C3/A.D1", "HH")
WINDOW, LARGE = ("A9.|B1/A", "W8 W8"), ("A130/A{n_cmpl=2}", "C W8")
SERVER = {"ctx_size": 256, "parallel": 2, "kv_unified": True, "slot_prompt_similarity": 0.0}


def failure(case, shrunk=True, **more):
    line, model = case
    return {"property": "stored-equals-cold", "text": "equal text", "rule": "equal", "shrunk": shrunk, "line": line,
            "model": model, "server": SERVER if case is LARGE else {}, **more}  # fmt: skip


def causes(*failures, examples=1000, plan=PLAN, in_time=lambda: True):
    return with_causes({"examples": examples, "failures": list(failures)}, plan, in_time)


def changes(data):
    return [(one["field"], one["new"], one["failures"]) for one in data["cures"]]


def test_failures_are_grouped_by_the_smallest_change_that_cures_them_and_not_by_their_text():
    data = causes(failure(STALE[0]), failure(WINDOW), failure(STALE[1], text="another text"))
    assert changes(data) == [("ckpt_erase", "LC-CKPT-ERASE.REWRITTEN", [0, 2]),
                             ("ckpt_create", "LC-CKPT-CREATE.CR8", [1])]  # fmt: skip
    assert (data["uncured"], data["ungrouped"]) == ([], [])


def test_the_change_of_a_cause_cures_its_failures():
    data = causes(failure(STALE[0]), failure(WINDOW))
    search, known = MutationSearch(PROFILE, PLAN.properties), variants(PROFILE)
    for one in data["cures"]:
        change = next(variant for variant in known if (variant.field, variant.new) == (one["field"], one["new"]))
        for number in one["failures"]:
            line, model = (STALE[0], WINDOW)[number]
            case = from_line(line, model=model, profiles=(PROFILE,))
            assert run_mutated(case, search, {}).found and run_mutated(case, search, {}, [change]).found == ()


def test_smaller_changes_are_tried_first():
    line, model = LARGE
    case = from_line(line, model=model, profiles=(PROFILE,), server=SERVER)
    search, known, tried = MutationSearch(PROFILE, PLAN.properties), variants(PROFILE), []
    matter = run_mutated(case, search, {}, others=others_of(known)).matter
    plain = failure_causes.run_mutated

    def run(*args, **more):
        tried.extend(known.index(change) for change in (args[3] if len(args) > 3 else ()))
        return plain(*args, **more)

    with patch.object(failure_causes, "run_mutated", run):
        causes(failure(LARGE, property="answered"))
    counts = [matter[i] for i in tried]
    assert len(tried) > 2 and counts == sorted(counts) and counts[0] < counts[-1]


def test_what_no_change_cures_is_a_group_of_its_own():
    with patch.object(failure_causes, "variants", lambda profile: variants(profile)[:1]):
        data = causes(failure(STALE[0]), failure(STALE[1]))
    assert (data["cures"], data["uncured"], data["ungrouped"]) == ([], [0, 1], [])


def test_the_work_is_limited_to_a_share_of_the_campaign():
    assert run_budget({"examples": 150, "failures": [failure(WINDOW), failure(WINDOW, shrunk=False)]}) == (
        150 // PART + EACH)
    runs, plain = [], failure_causes.run_mutated

    def run(*args, **more):
        runs.append(args)
        return plain(*args, **more)

    with patch.object(failure_causes, "run_mutated", run):
        data = causes(*[failure(WINDOW, shrunk=False)] * 9, examples=130)
    assert len(runs) == run_budget({"examples": 130, "failures": []}) == 13
    assert changes(data) == [("ckpt_create", "LC-CKPT-CREATE.CR8", [0])]
    assert data["ungrouped"] == [*range(1, 9)]


@pytest.mark.parametrize(("case", "more"), [
    (failure(STALE[0]), {"in_time": lambda: False}),
    (failure(STALE[0], property="monotone"), {"plan": PLAN._replace(properties=(*PLAN.properties, "monotone"))}),
    (failure(("A4/A", "A")), {}),                                   # holds: only exact mode shows it
    ({"property": "simulator", "shrunk": False}, {}),
])  # fmt: skip
def test_what_cannot_be_examined_is_not_grouped(case, more):
    data = causes(case, **more)
    assert (data["cures"], data["uncured"], data["ungrouped"]) == ([], [], [0])
