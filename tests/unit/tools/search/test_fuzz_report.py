"""Tests of the campaign report: printed commands can be typed."""

from __future__ import annotations

import pytest

from cachesim.tools.search.campaign_folder import with_failures
from cachesim.tools.search.report import fuzz_report
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
