"""Tests of the report of a run: verdict first, then the sources of the tokens of each request."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.judging.run_data import run_data
from cachesim.tools.run.run_table import (
    closing_line,
    failure_block,
    failures_report,
    origins,
)
from tests.unit.tools.run.made import judgement, run
from tests.unit.tools.run.reports import FAILURE


def test_the_columns_add_up_to_the_prompt():
    made = run(judgement(cache_n=3, prompt_n=7), judgement(cache_n=4, prompt_n=6, source="block"),
               judgement(cache_n=5, prompt_n=5, source="checkpoint"))  # fmt: skip
    assert [origins(one) for one in run_data(made)["requests"]] == [(3, 0, 0, 7), (0, 0, 4, 6), (0, 5, 0, 5)]


@pytest.mark.parametrize(("runs", "failed", "colour"), [
    ([(True, True)], 0, "bold green"), ([(True, None)] * 2, 0, "bold green"),
    ([(True, None), (False, True)], 0, "bold yellow"), ([(True, None), (None, True)], 0, "bold yellow"),
    ([(True, False)], 0, "bold red"), ([(True, True)], 2, "bold red"),
])  # fmt: skip
def test_the_closing_line_is_green_only_where_all_is_well(runs, failed, colour):
    line = closing_line([{"holds": holds, "as_expected": met} for holds, met in runs], failed)
    assert str(line.style) == colour


def test_failures_are_explained_once_for_equal_outcomes_and_not_without_one():
    right = run_data(run(judgement(prompt_n=10)))
    failed = {**right, "failure": FAILURE}
    assert failures_report([right, right]) is None and failures_report([]) is None
    once = as_text(failures_report([right, failed, {**failed, "profile": "llama_cpp@b9518"}]))
    assert once == as_text(failure_block(FAILURE))
    other = {**failed, "failure": {**FAILURE, "hence": "it ends"}, "kept": 1}
    assert as_text(failures_report([failed, {**other, "verdict": "x"}])).count("source https://a.org/b#L1") == 2
