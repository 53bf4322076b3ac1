"""Tests of folding: equal outcomes under other rules are shown together, everything observable keeps runs apart."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import pytest

import cachesim
from cachesim.judging.equal_outcomes import fold, short_names
from cachesim.judging.run_data import run_data
from cachesim.judging.why_data import answer_data


@cache
def runs():
    """Return the runs of a case by profile. They are made when a test asks for them, not when tests are collected."""
    case = cachesim.load("llama-24143-entry-removed-dense")
    return {name: cachesim.judge(case, name, mode="provenance") for name in case.profiles}


def names(groups):
    return [[one["profile"].partition("@")[2] for one in group] for group in groups]


def test_rule_sets_with_equal_outcomes_are_folded_in_order():
    want = [["b9518", "b10587", "b11549"], ["pr24143-on-b9518", "pr24143-on-b10587"]]
    assert names(fold([run_data(run) for run in runs().values()])) == want
    assert names(fold([answer_data(run, 3, is_compared=True) for run in runs().values()])) == want
    assert len(fold([answer_data(run, 0, is_compared=True) for run in runs().values()])) == 1


@pytest.mark.parametrize("change", [
    lambda data: data["requests"][1].update(cache_n=3),
    lambda data: data["requests"][2].update(entry_tokens=[1]),
    lambda data: data["lost"][0].update(event="evicted"),
    lambda data: data.update(verdict="UNDECIDED"),
    lambda data: data.update(as_expected=False),
    lambda data: data.update(as_expected=None),
])  # fmt: skip
def test_whatever_can_be_observed_keeps_runs_apart(change):
    one = run_data(runs()["llama_cpp@b9518"])
    other = deepcopy(one)
    assert len(fold([one, other])) == 1
    change(other)
    assert len(fold([one, other])) == 2
    assert len(fold([other, deepcopy(other)])) == (2 if other["as_expected"] is False else 1)


def test_rule_sets_of_an_engine_are_named_in_short():
    assert short_names(["llama_cpp@b9518", "llama_cpp@b10587"]) == "llama_cpp@b9518, b10587"
