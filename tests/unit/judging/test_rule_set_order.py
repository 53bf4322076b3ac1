"""Tests of the order in which other rule sets are tried, with an engine of four versions and seven proposals."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging import rule_set_order
from cachesim.judging.rule_set_order import changed_here, newer_rule_sets, place_of, search_order


@dataclass(frozen=True, repr=False)
class Numbers(RuleSet):
    """A rule set with two numbers."""

    x: int
    y: int


LINE = {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (2, 1)}
BESIDE = {
    "7v1": ("b", "o/r#7 one", (5, 0)), "8v1": ("d", "o/r#8 one", (2, 6)), "7v2": ("b", "o/r#7 two", (6, 0)),
    "7v1-repaired": ("b", "cachesim", (5, 1)), "d-repaired": ("d", "cachesim", (2, 7)),
    "plain": ("c", "cachesim", (1, 8)), "early": ("unknown", "cachesim", (2, 9)),
}  # fmt: skip
"""Proposals: base, source, and numbers."""
APART = {"apart": (7, 0)}
"""A rule set that is neither on the main branch nor beside it."""


def numbers(name, x, y, source=""):
    return Numbers(name, "", source, x, y)


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    profiles = {name: numbers(name, *values) for name, values in (LINE | APART).items()}
    profiles |= {name: numbers(name, *values, source) for name, (_, source, values) in BESIDE.items()}
    found = SimpleNamespace(line=[*LINE], beside={name: base for name, (base, *_) in BESIDE.items()}, profiles=profiles)
    monkeypatch.setattr(rule_set_order, "engine_of", lambda profile: found)
    monkeypatch.setattr(rule_set_order, "rules_of", profiles.__getitem__)
    return found


def test_a_rule_set_has_its_own_place_that_of_its_base_or_of_the_most_similar_one(engine):
    for names, place in ((["a"], 0), (["b", "7v1", "7v2"], 1), (["c", "plain"], 2), (["d", "8v1", "early"], 3)):
        assert {place_of(name, engine.profiles[name]) for name in names} == {place}
    for values, place in (((0, 0), 0), ((1, 5), 1), ((5, 1), 2), ((2, 1), 3)):
        assert place_of("mine", numbers("mine", *values)) == place
    engine.line.clear()
    assert place_of("mine", numbers("mine", 0, 0)) == 0


def order(profile, engine, search=search_order):
    return " ".join(search(profile, engine.profiles[profile]))


def test_later_rule_sets_come_first_then_repairs_proposals_and_the_older_ones(engine):
    assert order("b", engine) == "c d 7v1-repaired d-repaired 7v1 8v1 7v2 plain early a"
    assert order("d", engine) == "7v1-repaired d-repaired 7v1 8v1 7v2 plain early c b a"
    assert order("apart", engine) == "b c d 7v1-repaired d-repaired 7v1 8v1 7v2 plain early a"


def test_later_commits_of_a_proposal_come_before_all_others(engine):
    assert order("7v1", engine) == "7v2 7v1-repaired c d d-repaired 8v1 plain early b a"
    assert order("7v2", engine) == "c d 7v1-repaired d-repaired 7v1 8v1 plain early b a"
    assert order("plain", engine) == "d 7v1-repaired d-repaired 7v1 8v1 7v2 early c b a", "it has no pull request"


def test_newer_rule_sets_are_later_ones_and_proposals_on_no_older_base(engine):
    assert order("b", engine, newer_rule_sets) == "c d 7v1-repaired d-repaired 7v1 8v1 7v2 plain"
    assert order("c", engine, newer_rule_sets) == "d d-repaired 8v1 plain"
    assert order("8v1", engine, newer_rule_sets) == "d-repaired"


def changed(profile, engine, name):
    """Return the fields that ``name`` changed itself, as seen from ``profile``."""
    rules = engine.profiles.get(profile) or numbers(profile, 2, 1)
    return "".join(field for field in "xy" if changed_here(profile, rules, name, field))


def test_a_change_belongs_to_the_rule_set_whose_neighbour_towards_the_run_has_another_value(engine):
    assert [changed("b", engine, name) for name in "acd"] == ["x", "y", "x"]
    assert [changed("d", engine, name) for name in "abc"] == ["x", "y", "x"]
    assert [changed("7v1", engine, name) for name in "abcd"] == ["x", "y", "y", "x"]
    assert changed("mine", engine, "d") == "", "the run's rule set has the place of the last one"
    assert [changed("b", engine, name) for name in ("7v1", "7v1-repaired", "8v1")] == ["x", "xy", "y"]
    assert changed("b", engine, "early") == "xy", "its base is unknown"
    assert changed("b", engine, "apart") == "x" and changed("mine", engine, "apart") == "xy"
