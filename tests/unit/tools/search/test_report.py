"""Tests of the printed reports, part by part: causes with several failures, stored cases, changes of a repair."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.tools.search.report import _case, _cause, _change, _corpus, _left, fuzz_report, repair_report

FAILURE = {"property": "answered", "text": "it fell", "rule": "R.1", "causes": ["request 0: 4 of 9 tokens reused"],
           "command": "cachesim run A1", "shrunk": True}
CASE = {**FAILURE, "line": "A1", "failure": None}


def lines(report):
    return [line.rstrip() for line in as_text(report).splitlines()]


def test_the_first_failure_of_a_cause_has_its_chain_and_each_other_its_rule_and_command():
    others = [{**CASE, "property": "survives", "rule": f"R.{n}", "command": f"cachesim run A{n}"} for n in (2, 3)]
    assert lines(_cause(7, "cured by f: a -> b", [CASE, *others])) == [
        "7  answered: it fell", "  cured by f: a -> b", "  request 0: 4 of 9 tokens reused", "cachesim run A1",
        "  also survives: R.2", "cachesim run A2", "  also survives: R.3", "cachesim run A3"]  # fmt: skip


@pytest.mark.parametrize(("failure", "head"), [
    (CASE, "1  answered: it fell"), ({**CASE, "shrunk": False}, "1  answered: it fell   (not shrunk)"),
    ({**FAILURE, "shrunk": False}, "1  answered: it fell"),
    ({**CASE, "known": "a.toml"}, "1  answered: it fell   (also in a.toml)"),
    ({**CASE, "known": "a.toml", "shrunk": False}, "1  answered: it fell   (also in a.toml)"),
])  # fmt: skip
def test_a_case_that_is_known_or_not_shrunk_is_marked(failure, head):
    found = lines(_cause(1, "what", [failure]))
    assert (found[0], found[2]) == (head, "  request 0: 4 of 9 tokens reused")
    assert (FAILURE["command"] in found) == ("line" in failure)


@pytest.mark.parametrize(("failing", "text", "style"), [
    ([], "stored cases: 9 run, 0 fail", "bold green"), (["a"], "stored cases: 9 run, 1 fails", "bold red"),
    (["a", "a"], "stored cases: 9 run, 1 fails", "bold red"), (["a", "b"], "stored cases: 9 run, 2 fail", "bold red"),
])  # fmt: skip
def test_stored_cases_are_counted_by_file(failing, text, style):
    found = [{"file": name, "property": "answered", "rule": "R.1"} for name in failing]
    report = _corpus({"files": 9, "failing": found, "unplayed": [{"why": "b.toml: not TOML"}]})
    head, *rest = report.renderables
    assert (head.plain, head.style) == (text, style)
    assert [line.plain for line in rest] == [*(f"  {name}: answered: R.1" for name in failing),
                                             "  not run: b.toml: not TOML"]  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "text"), [
    (110, 100, "110 (other: 100, +10.00 %)"), (99, 100, "99 (other: 100, -1.00 %)"), (5, 0, "5 (other: 0)"),
])  # fmt: skip
def test_a_count_has_that_of_the_other_rule_set_beside_it(mine, theirs, text):
    assert _change(mine, theirs) == text


def test_a_campaign_without_a_failure_names_its_properties():
    data = {"profile": "x@1", "seed": 3, "examples": 20, "refused": 2, "failures": [],
            "properties": ["answered", "survives"]}  # fmt: skip
    assert lines(fuzz_report(data)) == ["x@1  seed 3, 20 conversations, 2 not modelled",
                                        "nothing found for answered, survives"]  # fmt: skip
    stored = {"files": 1, "failing": [], "unplayed": []}
    assert lines(fuzz_report({**data, "refused": 0, "corpus": stored}))[:2] == [
        "stored cases: 1 run, 0 fail", "x@1  seed 3, 20 conversations"]  # fmt: skip


def change(name):
    return {"field": name, "new": f"{name}.NEW"}


def test_a_failure_that_no_single_change_cures_has_some_pairs_that_do():
    pairs = [(change(f"f{n}"), change("g")) for n in range(5)]
    plain = {"property": "answered", "text": "it fell", "conversation": "12", "pairs": pairs}
    (report, *rest) = [[line for part in _left([one]) for line in lines(part)] for one in (plain, {**plain, **CASE})]
    cured = [f"   cured by f{n}: f{n}.NEW together with g: g.NEW" for n in range(3)]
    assert report == ["-  answered: it fell", "   conversation 12", *cured]
    assert rest == [["-  answered: it fell", "  request 0: 4 of 9 tokens reused", "cachesim run A1", *cured]]
    assert len(_case(CASE)) == 1


@pytest.mark.parametrize(("files", "where"), [(["a.toml"], "files"), ([], "seed 3")])
def test_a_repair_without_a_failure_says_so(files, where):
    data = {"profile": "x@1", "files": files, "seed": 3, "examples": 1, "failing": 0, "undecided": 2,
            "properties": ["answered"]}  # fmt: skip
    assert lines(repair_report(data)) == [f"x@1  {where}, 1 conversation, 0 fail, 2 undecided",
                                          "nothing to repair: no failure of answered"]  # fmt: skip
