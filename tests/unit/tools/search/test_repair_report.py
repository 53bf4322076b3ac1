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


def test_a_group_lists_its_findings_and_the_other_changes_that_cure_it():
    findings = [{"times": n, "property": "survives", "rule": f"R.{n}"} for n in (5, 4, 3, 2)]
    others = [{"cures": n, "field": f"f{n}", "new": "R.9", "cost": -0.5, "broken": n - 1} for n in (1, 2, 3, 4)]
    group = {**GROUP, "findings": findings, "others": others, "broken": 2, "cost": -0.001}
    lines = shown(repair_report(with_failures(data(groups=[group]))))
    assert lines[3].split()[:5] == ["1", "3", "-0.10", "%", "2"]
    at = lines.index("1  rs_rm: R.2  of x@new")
    assert lines[at + 1 : at + 4] == ["5 survives: R.5", "4 survives: R.4", "3 survives: R.3"]
    assert "2 survives: R.2" not in lines
    assert lines[-3:] == [
        "1 of them also cured by f1: R.9 (-50.00 %)", "2 of them also cured by f2: R.9 (-50.00 %, breaks 1)",
        "3 of them also cured by f3: R.9 (-50.00 %, breaks 2)"]  # fmt: skip


def test_a_case_without_a_line_is_the_number_of_its_conversation():
    group = {name: value for name, value in GROUP.items() if name not in ("line", "model", "server")}
    text = shown(repair_report(with_failures(data(groups=[group], together={**TOGETHER, "kinds": {}, "broken": 1}))))
    assert "conversation c1" in text
    assert "all changes together: 3 of 3 fixed, 1 newly failing; tokens unknown" in " ".join(text)


def test_without_a_cure_there_is_neither_table_nor_proof():
    left = {"conversation": "c2", "property": "survives", "text": "it ended", "pairs": []}
    assert shown(repair_report(with_failures(data(groups=[], together=None, failing=1, uncured=[left])))) == [
        "x@y  seed 7, 40 conversations, 1 fail", "single changes cure 0 of 1: 0 causes; no single change cures 1",
        "-  survives: it ended", "conversation c2"]  # fmt: skip


def test_a_verdict_is_green_only_if_every_failure_is_cured():
    left = {**CASE, "property": "survives", "text": "it ended", "pairs": []}
    reports = [repair_report(with_failures(data(**more))) for more in ({}, {"uncured": [left]})]
    styles = [str(one.renderables[1].style) for one in reports]
    assert styles == ["bold green", "bold yellow"]
