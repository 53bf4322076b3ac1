"""What the importer states about excerpts agrees with the full logs that they were cut from."""

from __future__ import annotations

import pytest

from tests.logs.__main__ import tally_of
from tests.logs.cuts import CUTS
from tests.logs.excerpts import excerpts, log_of, source_of
from tests.logs.tally import Tally, report

SAMPLE = range(40)  # sources, some hundred excerpts


@pytest.fixture(scope="module")
def tally() -> Tally:
    return tally_of(SAMPLE, shared=False)


@pytest.mark.long
def test_no_statement_is_false(tally):
    assert sum(tally.excerpts.values()) > 200 and tally.said["read"] > 3000
    assert not tally.false, report(tally, 5)


@pytest.mark.long
def test_every_number_of_a_line_is_stated(tally):
    assert tally.coverage >= 0.95, report(tally, 5)


@pytest.mark.long
def test_causes_in_the_excerpt_are_named(tally):
    share = tally.shares()["all"]
    assert share.due > 100 and share.named >= 0.85 * share.due, report(tally, 5)


@pytest.mark.long
def test_few_statements_cannot_be_judged(tally):
    assert tally.lines["unjudged"] < 0.02 * sum(tally.said.values())


def test_an_excerpt_follows_from_its_number():
    first, second = (list(excerpts(1, shared=False)) for _ in range(2))
    assert [one.lines for one in first] == [one.lines for one in second] and len(first) >= 4


def test_every_cut_occurs():
    cuts = {one.cut.split()[0] for number in (0, 1, 2, 4, 5) for one in excerpts(number, shared=False)}
    assert cuts >= set(CUTS) - {"wrapped", "prefixed", "grep"} and "grep" in cuts and "wrapped" in cuts


@pytest.mark.parametrize("number", [0, 1, 5])
def test_lines_of_a_full_log_belong_to_its_tasks(number):
    log = log_of(source_of(number), shared=False)
    assert log is not None and log.tasks
    for line in log.lines:
        if line.task is not None and line.task in log.tasks:
            assert log.tasks[line.task].step in line.steps
