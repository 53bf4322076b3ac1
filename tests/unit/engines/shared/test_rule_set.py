"""Versions as tables of rules: their values by path, differences, mixtures and orders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Mapping

import pytest

from cachesim.engines.rule import RULES, Decision, Role, Source, rule
from cachesim.engines.shared.rule_set import (
    Change,
    RuleSet,
    changed_by,
    differences,
    instead_of,
    is_table,
    newest_first,
    rule_sets_in,
)


def made(name, since="", until="", pull=0):
    """A rule that decides nothing, outside the registry."""
    before = dict(RULES)
    try:
        @rule(name, Role.PICK, Source("a/b", "c.py", name, "b1", pull=pull), since, until)
        def decided() -> Decision:
            """Nothing."""
            return Decision(None, {})
    finally:
        RULES.clear()
        RULES.update(before)
    return decided


OLD, NEW, PULLED = made("R.OLD", until="#7 (b9)"), made("R.NEW", since="#8, #9"), made("R.PULLED", pull=5)


@dataclass(frozen=True)
class Inner:
    """An inner table."""

    limit: int = 3
    pick: object = OLD


@dataclass(frozen=True, repr=False)
class Toy(RuleSet):
    """A rule set with a rule, a number, a mapping, a set and an inner table."""

    pick: object = OLD
    most: int = 4
    inner: Inner = Inner()
    defaults: Mapping[str, object] = field(default_factory=lambda: {"ctx": 8, "np": 1})
    silent: frozenset = frozenset({"warn"})
    inferred: tuple = ()
    ended: Mapping[str, str] = field(default_factory=dict)


TOY = Toy("toy@one", "b1", "a/b#12, a change")


def test_values_are_addressed_by_path():
    assert TOY.leaves() == {"pick": OLD, "most": 4, "defaults.ctx": 8, "defaults.np": 1, "silent.warn": True,
                            "inner.limit": 3, "inner.pick": OLD}  # fmt: skip
    assert replace(TOY, defaults={"ctx": frozenset()}).leaves().keys() & {"defaults.ctx"} == set()
    many = replace(TOY, silent=frozenset(f"kind{number}" for number in range(40)))
    members = [path for path in many.leaves() if path.startswith("silent.")]
    assert members == sorted(members)                 # a set has another order in each process
    assert TOY.rules_by_field == {"pick": OLD, "inner.pick": OLD}
    assert is_table(TOY.inner) and not is_table(Inner) and not is_table(4)


def test_changed_values_may_lie_in_inner_tables():
    found = TOY.changed({"most": 5, "inner.limit": 6, "inner.pick": NEW})
    assert (found.most, found.inner, found.pick) == (5, Inner(6, NEW), OLD)
    assert TOY.changed({}) is TOY
    assert TOY.changed({"inner.limit": 6}).most == 4


def test_values_by_path_are_added_replaced_and_removed():
    found = TOY.with_leaves({"defaults.ctx": 9, "defaults.np": None, "defaults.new": 1, "silent.warn": None,
                             "silent.batch": True, "silent.error": True, "inner.limit": 7, "most": 1})  # fmt: skip
    assert (found.defaults, found.silent) == ({"ctx": 9, "new": 1}, {"batch", "error"})
    assert (found.inner.limit, found.most, found.pick) == (7, 1, OLD)
    assert (TOY.defaults, TOY.silent) == ({"ctx": 8, "np": 1}, {"warn"})


def test_changes_are_listed_with_their_sources_and_without_those_of_the_log():
    newer = replace(TOY, name="toy@two", pick=NEW, most=5, inner=Inner(3, NEW), defaults={"ctx": 9}, silent=frozenset())
    older = replace(TOY, ended={"defaults.ctx": "#3", "most": "#4"})
    assert older.changes(newer) == [
        Change("pick", "R.OLD", "R.NEW", "#7"), Change("most", "4", "5", "#4"), Change("defaults.ctx", "8", "9", "#3"),
        Change("defaults.np", "1", "not set", ""), Change("inner.pick", "R.OLD", "R.NEW", "#7")]  # fmt: skip
    assert [one.field for one in older.changes(newer, log=True) if one.field.startswith("silent")] == ["silent.warn"]
    assert older.changes(replace(older, name="toy@same", source="other")) == []


@pytest.mark.parametrize(("ended", "a", "b", "source"), [
    ({}, OLD, NEW, "#7"), ({}, PULLED, NEW, "#8"), ({}, OLD, PULLED, "#5"), ({}, PULLED, OLD, ""), ({}, 3, 4, ""),
    ({"x": "#1"}, OLD, NEW, "#1"), ({"x": "#1"}, 3, 4, "#1"), ({}, NEW, OLD, ""), ({}, OLD, None, ""),
])  # fmt: skip
def test_a_change_is_that_of_the_table_then_of_the_newer_rule_then_of_the_older(ended, a, b, source):
    assert changed_by(ended, "x", a, b) == source


def test_the_source_of_an_inner_change_is_that_of_its_rules_first():
    older = replace(TOY, ended={"pick": "#1", "limit": "#2"})
    newer = replace(TOY, inner=Inner(4, NEW))
    assert older.source_of(newer, "inner.pick") == "#7"
    assert older.source_of(newer, "inner.limit") == "#2"
    assert replace(older, ended={"inner.pick": "#6"}).source_of(newer, "inner.pick") == "#6"


def test_a_mixture_has_whole_fields_and_single_entries_of_the_newer_version():
    newer = replace(TOY, most=9, defaults={"ctx": 9, "new": 2}, inner=Inner(8), silent=frozenset({"error"}))
    found = TOY.mixed(newer, ["most", "defaults.new", "inner.limit", "silent.error", "defaults.np"])
    assert (found.most, found.defaults, found.inner.limit) == (9, {"ctx": 8, "new": 2}, 8)
    assert found.silent == {"warn", "error"}
    assert TOY.mixed(newer, ["defaults"]).defaults == {"ctx": 9, "new": 2}
    with pytest.raises(AttributeError):
        TOY.mixed(newer, ["unknown"])


def test_fields_never_observed_are_added_once_and_in_order():
    found = replace(TOY, inferred=("most",)).described({"pick", "most", "inner.limit", "unknown"}, {"most": "#1"})
    assert (found.inferred, found.ended) == (("most", "inner.limit", "pick"), {"most": "#1"})


def test_differences_leave_out_what_describes_the_version():
    assert differences(TOY, replace(TOY, name="toy@two", build="b2", source="x", most=5)) == [("most", 4, 5)]


def test_public_rule_sets_are_found_in_the_order_of_definition():
    other = replace(TOY, name="toy@other")
    assert rule_sets_in(Toy, {"B": TOY, "_A": other, "n": 3}, {"A": other}) == {"toy@one": TOY, "toy@other": other}
    assert rule_sets_in(Toy, {"_A": other}) == {}


def test_the_newest_comes_first_and_a_sibling_after_its_base():
    found = {name: replace(TOY, name=name) for name in ("a", "b", "side", "c")}
    assert [*newest_first(found, ["a", "b", "c"], {"side": "b"})] == ["c", "b", "side", "a"]
    assert newest_first(found, ["a", "b", "c"], {"side": "b"})["side"].name == "side"
    with pytest.raises(KeyError):
        newest_first(found, ["a", "b", "c"], {})


def test_a_proposed_rule_names_the_place_of_the_released_one():
    assert instead_of(OLD) == Source("a/b", "c.py", "R.OLD", "b1", note="proposed by cachesim, not tried on a GPU")
