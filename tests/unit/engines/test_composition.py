"""Rules at any point between two recorded rule sets: every field changes where its own change landed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

import pytest

from cachesim.engines import composition
from cachesim.engines.composition import FieldSpan, MainBranch, RuleSetPeriod, format_period
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.timeline import Commit, DatedChange, Timeline


@dataclass(frozen=True, repr=False)
class Numbers(RuleSet):
    """A version with two numbers and defaults. ``sources``: of the changes to the next version."""

    name: str
    build: str = ""
    source: str = ""
    size: int = 1
    count: int = 1
    defaults: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    inferred: tuple[str, ...] = ()


def at(number):
    return Commit(number, f"2026-01-{number:02}")


OLD = Numbers("old", ended={"size": "#2", "count": "#3, #5", "defaults.ctx": "#9"})
NEW = Numbers("new", size=2, count=3, defaults={"ctx": 512})
NEWEST = Numbers("newest", size=2, count=3, defaults={"ctx": 512, "np": 4})
WHEN = Timeline(own={"old": at(1), "new": at(10), "newest": at(20)}, landed={"#2": at(2), "#3": at(3), "#5": at(5)},
                builds=True)  # fmt: skip


@pytest.fixture
def branch():
    return MainBranch([OLD, NEW, NEWEST], WHEN)


@pytest.mark.parametrize("number, size, count, ctx, changed, base", [
    (1, 1, 1, None, [], "old"), (2, 2, 1, None, ["size"], "old"), (4, 2, 1, None, ["size"], "old"),
    (5, 2, 3, None, ["size", "count"], "old"), (9, 2, 3, None, ["size", "count"], "old"),
    (10, 2, 3, 512, [], "new"), (15, 2, 3, 512, [], "new"), (20, 2, 3, 512, [], "newest"),
])  # fmt: skip
def test_a_field_has_its_value_from_the_point_where_its_change_landed(branch, number, size, count, ctx, changed, base):
    found = branch.at(at(number))
    assert (found.rules.size, found.rules.count, found.rules.defaults.get("ctx")) == (size, count, ctx)
    assert ([change.field for change in found.changes], found.base.name) == (changed, base)
    assert (found.rules is found.base) is not bool(changed)


def test_a_change_in_parts_or_without_a_point_is_said(branch):
    assert branch.at(at(4)).notes == (
        "count: changed in parts between b3 and b5 (#3, #5): the older value is used",
        "default of ctx: changed between b1 and b10 (#9); its build is not known: the older default is used",
    )
    assert branch.at(at(3)).notes == branch.at(at(2)).notes == branch.at(at(4)).notes[1:]
    assert branch.at(at(1)).notes == branch.at(at(10)).notes == ()


def test_the_history_of_a_field_has_a_span_for_every_value(branch):
    assert branch.spans["size"] == [FieldSpan(at(1), 1, ""), FieldSpan(at(2), 2, "#2")]
    assert branch.spans["count"] == [FieldSpan(at(1), 1, ""), FieldSpan(at(5), 3, "#3, #5", after=at(3))]
    assert branch.spans["defaults.np"] == [FieldSpan(at(1), None, ""), FieldSpan(at(20), 4, "", after=at(10))]


def test_values_that_no_rule_set_has_stand_between_them():
    between = (DatedChange("size", 7, "#3"), DatedChange("size", 2, "#5"))
    when = Timeline(own=WHEN.own, landed=WHEN.landed, builds=True, load_between=lambda: between)
    branch = MainBranch([OLD, NEW], when)
    assert branch.spans["size"] == [FieldSpan(at(1), 1, ""), FieldSpan(at(3), 7, "#3", is_recorded=False),
                                    FieldSpan(at(5), 2, "#5")]  # fmt: skip
    assert [branch.at(at(number)).rules.size for number in (2, 3, 4, 5)] == [1, 7, 7, 2]
    assert [branch.at(at(number)).rules.inferred for number in (2, 3, 4, 5)] == [(), ("size",), ("size",), ()]


def test_composed_rules_name_the_next_change_of_each_field(branch):
    assert branch.at(at(2)).rules.ended == {"count": "#3, #5", "defaults.ctx": "#9", "defaults.np": ""}
    assert branch.at(at(5)).rules.ended == {"defaults.ctx": "#9", "defaults.np": ""}


def test_decisions_change_at_these_points(branch, monkeypatch):
    assert branch.points() == [at(2), at(5), at(10), at(20)]
    monkeypatch.setattr(composition, "LOG_FIELDS", {"count"})
    assert branch.points() == [at(2), at(10), at(20)] and branch.points(log=True) == [at(2), at(5), at(10), at(20)]


@pytest.mark.parametrize("name, period, text", [
    ("old", RuleSetPeriod(at(1), at(1), None), "b1+"), ("new", RuleSetPeriod(at(10), at(10), None), "b10+"),
    ("newest", RuleSetPeriod(at(20), at(20), None), "b20+"),
])  # fmt: skip
def test_the_end_of_a_rule_set_is_unknown_while_that_of_a_change_is(branch, name, period, text):
    assert branch.period(name) == period
    assert format_period(period, WHEN) == text


@pytest.mark.parametrize("ended, until", [("#2", at(2)), ("#3, #5", at(3))])
def test_a_rule_set_is_in_force_until_the_first_part_of_the_next_change(ended, until):
    older = Numbers("old", ended={"size": ended})
    assert MainBranch([older, Numbers("new", size=2)], WHEN).period("old") == RuleSetPeriod(at(1), at(1), until)


def test_lines_of_the_log_end_no_period(monkeypatch):
    older = Numbers("old", ended={"size": "#3", "count": "#2"})
    branch = MainBranch([older, Numbers("new", size=2, count=3)], WHEN)
    assert branch.period("old").until == at(2)
    monkeypatch.setattr(composition, "LOG_FIELDS", {"count"})
    assert branch.period("old").until == at(3)


def test_a_period_that_began_before_the_recording_says_both():
    assert format_period(RuleSetPeriod(at(3), at(5), None), WHEN) == "b3..b5+"
    assert format_period(RuleSetPeriod(at(3), at(5), at(9)), WHEN) == "b3..b8"
    assert format_period(RuleSetPeriod(at(3), at(5), at(9)), Timeline()) == "2026-01-03..2026-01-09"


def test_a_value_has_the_periods_in_which_it_was_in_force(branch):
    assert branch.life_of(512) == {"defaults.ctx": ["since a build between b1 and b10 (#9)"]}
    assert branch.life_of(3) == {"count": ["since a build between b3 and b5 (#3, #5)"]}
    assert branch.life_of(1) == {"size": ["until b2 (#2)"], "count": ["until a build between b3 and b5 (#3, #5)"]}
    assert branch.life_of(1, at(3)) == {"count": ["until a build between b3 and b5 (#3, #5)"]}
