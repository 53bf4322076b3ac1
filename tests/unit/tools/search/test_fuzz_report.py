"""Tests of the campaign report: printed commands can be typed."""

from __future__ import annotations

import pytest

from cachesim.tools.search.campaign_folder import with_failures
from cachesim.tools.search.report import fuzz_report, merge_report
from tests.unit.tools.run.made import shown


def failure(**more):
    return {
        "property": "survives", "rule": "a rule", "text": "it ended", "times": 3, "conversation": 5, "step": 1,
        "causes": ["request 0: nothing"], "shrunk": True, "line": "A4/A", "model": "GA",
        "server": {"kv_unified": True, "ctx_size": 64, "swa_full": False}, **more,
    }  # fmt: skip


def lines(*failures, refused=0, **groups):
    data = {"profile": "x@y", "seed": 7, "examples": 40, "refused": refused, "failures": list(failures),
            "properties": ["survives"], **groups}  # fmt: skip
    return shown(fuzz_report(with_failures(data)))


def test_a_failure_is_told_as_it_is_typed():
    found = lines(failure(), failure(shrunk=False))
    line = "cachesim run A4/A -p x@y --model GA --set kv_unified=true --set ctx_size=64 --set swa_full=false"
    assert line in found
    assert sum("(not shrunk)" in line for line in found) == 1
    assert "1      3         1  cause not searched" in found
    assert any(line.startswith("1  survives: it ended") for line in found) and "request 0: nothing" in found


@pytest.mark.parametrize(("n", "said"), [(1, "1 distinct failure"), (2, "2 distinct failures")])
def test_how_many(n, said):
    assert lines(*[failure()] * n)[-1] == said


CHANGE = {"field": "pick", "old": "R.1", "new": "R.2", "profile": "x@z"}


def test_failures_with_one_cause_are_one_block_and_the_summary_comes_last():
    two = failure(rule="another rule", line="A5/A", times=2)
    found = lines(failure(), failure(text="it stayed"), two, failure(),
                  cures=[{**CHANGE, "failures": [0, 2]}], uncured=[1], ungrouped=[3])  # fmt: skip
    heads = [line for line in found if line[:3] in ("1  ", "2  ", "3  ")]
    assert [head.split(":")[0] for head in heads[:3]] == ["1  survives", "2  survives", "3  survives"]
    also = found.index("also survives: another rule")
    assert found.index(heads[0]) < also < found.index(heads[1]) and found[also + 1].startswith("cachesim run A5/A ")
    assert found[-5:] == [
        "#  times  failures  cause", "1      5         2  cured by pick: R.1 -> R.2",
        "2      3         1  cured by no single rule change", "3      3         1  cause not searched",
        "4 distinct failures: 1 cause, 1 cured by no single rule change, 1 not grouped",
    ]  # fmt: skip
    assert found[-6] == "x@y  seed 7, 40 conversations"


def test_conversations_that_are_not_modelled_are_told():
    assert lines()[0] == "x@y  seed 7, 40 conversations"
    assert lines(refused=2)[0] == "x@y  seed 7, 40 conversations, 2 not modelled"
    assert lines()[1] == "nothing found for survives"


COST = {"requests": 9, "mine": 110, "theirs": 100, "right": 7, "right_mine": 80, "right_theirs": 0}


def test_a_comparison_with_another_rule_set_names_its_own_failures_and_both_counts():
    mended = [{"times": 4, "property": "survives", "rule": "R.1"}]
    found = lines(against="x@other", cost=COST, mended=mended)[1:]
    assert found[:2] == ["failures only under x@other", "#  times  property  rule"]
    assert found[2:5] == ["1      4  survives  R.1", "tokens evaluated in 9 requests: 110 (other: 100, +10.00 %)",
                          "in the 7 requests that both answer correctly: 80 (other: 0)"]  # fmt: skip
    assert lines(against="x@other", cost=COST, mended=[])[1] == "failures only under x@other: none"


def test_stored_cases_are_counted_by_file():
    one = {"file": "a.toml", "property": "survives", "rule": "R.1"}
    assert lines(corpus={"files": 3, "failing": [one, one], "unplayed": [{"file": "b", "why": "b: broken"}]})[:4] == [
        "stored cases: 3 run, 1 fails", "a.toml: survives: R.1", "a.toml: survives: R.1", "not run: b: broken"]
    two = [one, {**one, "file": "c.toml"}]
    assert lines(corpus={"files": 3, "failing": two, "unplayed": []})[0] == "stored cases: 3 run, 2 fail"
    assert lines(corpus={"files": 1, "failing": [], "unplayed": []})[0] == "stored cases: 1 run, 0 fail"


@pytest.mark.parametrize(("done", "left_out", "head"), [
    ([[0, 40]], [], ["2 files, 40 conversations"]),
    ([[0, 40]], ["c"], ["2 files, 40 conversations; 1 file skipped (no further conversations)"]),
    ([[3, 10], [12, 40]], [], ["2 files, 40 conversations", "not run: 0 .. 2, 10 .. 11"]),
    ([[at, at + 1] for at in range(0, 12, 2)], [],
     ["2 files, 40 conversations", "not run: 1 .. 1, 3 .. 3, 5 .. 5, 7 .. 7, 9 .. 9"]),
    ([[at, at + 1] for at in range(1, 12, 2)], [],
     ["2 files, 40 conversations", "not run: 0 .. 0, 2 .. 2, 4 .. 4, 6 .. 6, 8 .. 8 and 1 more ranges"]),
])  # fmt: skip
def test_a_merged_campaign_names_the_conversations_that_are_missing(done, left_out, head):
    data = {"profile": "x@y", "seed": 7, "examples": 40, "refused": 2, "failures": [], "properties": ["survives"],
            "files": ["a", "b"], "done": done, "left_out": left_out}  # fmt: skip
    assert shown(merge_report(data)) == [*head, "x@y  seed 7, 40 conversations, 2 not modelled",
                                         "nothing found for survives"]  # fmt: skip


def test_the_parts_of_a_comparison_have_their_signs():
    cost = {**COST, "mine": 90, "right_theirs": 160}
    found = lines(against="x@other", cost=cost, mended=[])
    assert found[2:4] == ["tokens evaluated in 9 requests: 90 (other: 100, -10.00 %)",
                          "in the 7 requests that both answer correctly: 80 (other: 160, -50.00 %)"]  # fmt: skip


def test_a_failure_without_a_line_has_its_causes_and_a_known_one_its_file():
    one = {name: value for name, value in failure().items() if name not in ("line", "model", "server")}
    found = lines({**one, "shrunk": False})
    assert "request 0: nothing" in found and found[0].endswith("survives: it ended")
    assert lines({**failure(shrunk=False), "known": "a.toml"})[0] == "1  survives: it ended   (also in a.toml)"
    assert lines(failure(shrunk=False))[0] == "1  survives: it ended   (not shrunk)"


def test_failures_without_a_search_for_causes_are_only_counted():
    assert lines(failure(), failure())[-1] == "2 distinct failures"
    assert lines(failure(), cures=[], uncured=[0], ungrouped=[])[-1] == (
        "1 distinct failure: 1 cured by no single rule change")  # fmt: skip
    assert lines(failure(), failure(), cures=[{**CHANGE, "failures": [0]}], uncured=[], ungrouped=[1])[-1] == (
        "2 distinct failures: 1 cause, 1 not grouped")  # fmt: skip


def test_one_file_is_not_several():
    data = {"profile": "x@y", "seed": 7, "examples": 4000, "refused": 0, "failures": [], "properties": ["survives"],
            "files": ["a"], "done": [[0, 4000]], "left_out": ["b", "c"]}  # fmt: skip
    assert shown(merge_report(data))[0] == "1 file, 4,000 conversations; 2 files skipped (no further conversations)"
