"""Tests of the printed reports, part by part: causes with several failures, stored cases, changes of a repair."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.tools.search.report import fuzz_report, repair_report


def lines(report):
    return [line.rstrip() for line in as_text(report).splitlines()]


def test_a_campaign_without_a_failure_names_its_properties():
    data = {"profile": "x@1", "seed": 3, "examples": 20, "refused": 2, "failures": [],
            "properties": ["answered", "survives"]}  # fmt: skip
    assert lines(fuzz_report(data)) == ["x@1  seed 3, 20 conversations, 2 not modelled",
                                        "nothing found for answered, survives"]  # fmt: skip
    stored = {"files": 1, "failing": [], "unplayed": []}
    assert lines(fuzz_report({**data, "refused": 0, "corpus": stored}))[:2] == [
        "stored cases: 1 run, 0 fail", "x@1  seed 3, 20 conversations"]  # fmt: skip


@pytest.mark.parametrize(("files", "where"), [(["a.toml"], "files"), ([], "seed 3")])
def test_a_repair_without_a_failure_says_so(files, where):
    data = {"profile": "x@1", "files": files, "seed": 3, "examples": 1, "failing": 0, "undecided": 2,
            "properties": ["answered"]}  # fmt: skip
    assert lines(repair_report(data)) == [f"x@1  {where}, 1 conversation, 0 fail, 2 undecided",
                                          "nothing to repair: no failure of answered"]  # fmt: skip
