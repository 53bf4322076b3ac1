"""Tests of a conformance report: the fault in words, what all failing cases have in common, the headline."""

from __future__ import annotations

from collections import Counter

import pytest

from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance.properties import DIFFERS
from cachesim.tools.conformance.report import Finding, Report, Result
from cachesim.tools.conformance.report_builder import NEVER, VERSUS_COLD, _unfinished, in_common
from tests.conformance.naive import NaiveCache

RIGHT = Counter({(4, 1): 3, (8, 2): 2, (5, 1): 1})


@pytest.mark.parametrize(("failed", "said"), [
    ([(4, 1), (4, 3)], "all 2 failing cases have 4 tokens cached, as do 3 of 6 correct answers"),
    ([(4, 2), (8, 3)], "all 2 failing cases have a multiple of 4 tokens cached, as do 5 of 6 correct answers"),
    ([(4, 1), (7, 1)], "all 2 failing cases have 1 token not cached, as do 4 of 6 correct answers"),
    ([(4, 1), (4, 1)], "all 2 failing cases have 1 token not cached and 4 tokens cached, as do 3 of 6 correct answers"),
    ([(0, 1), (0, 2)], "all 2 failing cases have 0 tokens cached, as do 0 of 6 correct answers"),
    ([(4, 1), (7, 2)], ""), ([(4, 1)], ""), ([], ""),
])  # fmt: skip
def test_what_all_failing_cases_have_in_common_is_computed(failed, said):
    assert in_common(failed, RIGHT) == said


class Forgetful(NaiveCache):
    """Never reuses a token."""

    def find(self, prompt):
        return self.toy.empty, 0


def test_a_cache_that_never_reused_a_token_has_shown_nothing():
    results = [one for one in conform(Forgetful, max_examples=30, check=False).results if one.name in VERSUS_COLD]
    checked = [one for one in results if one.checked]
    assert checked and {(one.state, one.why) for one in checked} == {("undecided", NEVER)}


def test_answers_that_differ_and_have_something_in_common_are_one_fault():
    report = conform(NaiveCache, max_examples=30, check=False)
    first, other = (one for one in report.results if one.state == "failed")
    assert (first.name, first.fault, first.like, other.like) == ("prefix", DIFFERS, "", "prefix")
    assert first.common == other.common and first.common.startswith("all ") and "1 token not cached" in first.common
    text = str(report)
    assert f"  prefix      FAILED       {DIFFERS}\n      A1>a2/A.a[:1]\n" in text
    assert "first wrong token: generated token 0, at position 2\n" in text and f"\n      {first.common}\n" in text
    assert "\n  repeat      FAILED       same fault as prefix: A2/A\n" in text
    assert sum(one in text for one in ("again: histories=[\"A1>a2", "again: histories=[\"A2/A")) == 1


@pytest.mark.parametrize(("result", "first"), [
    (Result("append", "same", "s", "failed", finding=Finding("A4/A.B1", 1, "176", "654"), fault=DIFFERS),
     f"A4/A.B1: expected 176, got 654: {DIFFERS}"),
    (Result("limits", "books", "limits are kept", "failed", finding=Finding("A/B", 1, "1", "2")),
     "A/B: expected 1, got 2: expected: limits are kept"),
    (Result("append", "same", "s", "failed", why="accepted as failing (x), but it is ok"),
     "append: accepted as failing (x), but it is ok"),
])  # fmt: skip
def test_the_first_line_of_the_exception_is_the_case(result, first):
    undecided = Result("new", "isolation", "s", "undecided", why="too slow")
    assert str(Nonconforming(Report((undecided, result)))).splitlines()[0] == first


@pytest.mark.parametrize(("state", "why", "after"), [
    ("ok", "", ("ok", "")), ("failed", "stopped", ("failed", "")), ("undecided", "stopped", ("undecided", "")),
    ("ok", "stopped", ("undecided", "stopped; 1 check that could fail passed")),
])  # fmt: skip
def test_a_result_without_all_histories_is_undecided(state, why, after):
    found = _unfinished(Result("prefix", "drawn", "a sentence", state, decisive=1), why)
    assert (found.state, found.why) == after
