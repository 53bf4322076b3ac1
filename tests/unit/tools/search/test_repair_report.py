"""Tests of the repair report: cures of each change, and rule sets without failures."""

from __future__ import annotations

import pytest

from cachesim.tools.search.repair import with_failures
from cachesim.tools.search.report import repair_report
from tests.unit.tools.run.made import shown

CASE = {"conversation": "c1", "line": "A4/A", "model": "GA", "server": {"kv_unified": True, "ctx_size": 64}}
GROUP = {
    **CASE, "field": "rs_rm", "old": "R.1", "new": "R.2", "failures": 3, "cost": 0.0125, "broken": 0,
    "profile": "x@new", "findings": [{"times": 3, "property": "survives", "rule": "R.1"}], "others": [],
}  # fmt: skip
TOGETHER = {"held": 3, "broken": 0, "cost": 0.0125, "kinds": {"A": {"cost": -0.5}}}


def data(**more):
    return {
        "profile": "x@y", "files": 0, "seed": 7, "examples": 40, "failing": 3, "undecided": 0, "uncured": [],
        "properties": ["survives"], "groups": [GROUP], "together": TOGETHER, **more,
    }  # fmt: skip


@pytest.mark.parametrize(("more", "head"), [
    ({}, "x@y  seed 7, 40 conversations, 0 fail"), ({"files": 2}, "x@y  files, 40 conversations, 0 fail"),
    ({"undecided": 2}, "x@y  seed 7, 40 conversations, 0 fail, 2 undecided"),
])  # fmt: skip
def test_a_rule_set_that_holds(more, head):
    lines = shown(repair_report(with_failures(data(failing=0, groups=[], **more))))
    assert lines == [head, "nothing to repair: no failure of survives"]


def test_a_change_with_its_price_and_its_case():
    lines = shown(repair_report(with_failures(data())))
    assert lines[1] == "single changes cure 3 of 3: 1 cause"
    assert lines[3].split() == ["1", "3", "+1.25", "%", "0", "rs_rm:", "R.1", "->", "R.2"]
    assert "all changes together: 3 of 3 fixed, 0 newly failing; tokens +1.25 % (A -50.00 %)" in " ".join(lines)
    assert "cachesim run A4/A -p x@y --model GA --set kv_unified=true --set ctx_size=64" in lines


def test_what_no_single_change_cures():
    left = {**CASE, "property": "survives", "text": "it ended", "pairs": [
        [{"field": "a", "new": "R.3"}, {"field": "b", "new": "R.4"}]]}  # fmt: skip
    lines = shown(repair_report(with_failures(data(uncured=[left]))))
    assert lines[1] == "single changes cure 2 of 3: 1 cause; no single change cures 1"
    assert "-  survives: it ended" in lines and "cured by a: R.3 together with b: R.4" in lines
