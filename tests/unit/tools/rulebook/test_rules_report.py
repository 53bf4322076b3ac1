"""Tests of the reports on rules and profiles, on an engine with a short main line."""

from __future__ import annotations

import inspect
import io
from dataclasses import replace
from typing import NamedTuple

import pytest
from rich.console import Console

from cachesim.base.layout import WholeTable
from cachesim.tools.rulebook import rules_report
from cachesim.tools.rulebook.rules_report import RuleLife, life, rule_data, tables
from tests.unit.tools.rulebook.toy_engine import (
    COUNT,
    FIRST,
    LAST,
    SECOND,
    THIRD,
    UNUSED,
    lines_of,
    with_toy_engine,
)
from tests.unit.tools.table_columns import columns


@pytest.fixture
def toy(monkeypatch):
    return with_toy_engine(monkeypatch)


KEEP_FLAGS = (("--most", "Most entries."), ("bare", ""))
COUNT_FLAGS = (("other", ""), ("bare", ""))


def test_a_life_is_the_span_on_the_main_line_and_what_lies_beside_it(toy):
    every = tables()
    assert life(FIRST, every) == RuleLife("toy", ("toy@1", "toy@as-1"), until="toy@2", after="TOY-KEEP.2",
                                          flags=KEEP_FLAGS)  # fmt: skip
    assert life(SECOND, every) == RuleLife(
        "toy", ("toy@3", "toy@2", "toy@same"), since="toy@2", until="toy@4", before="TOY-KEEP.1", after="TOY-KEEP.3",
        proposed=(("toy@last", "TOY-KEEP.LAST"),), inferred=("toy@3",), flags=KEEP_FLAGS,
    )  # fmt: skip
    assert life(THIRD, every) == RuleLife("toy", ("toy@4",), since="toy@4", before="TOY-KEEP.2",
                                          proposed=(("toy@as-1", "TOY-KEEP.1"),), flags=KEEP_FLAGS)  # fmt: skip


def test_a_proposed_rule_replaces_the_rule_of_its_base(toy):
    assert life(LAST, tables()) == RuleLife("toy", ("toy@last",), before="TOY-KEEP.2", flags=KEEP_FLAGS)


def test_a_proposal_on_a_proposal_replaces_the_rule_of_the_main_line(toy, monkeypatch):
    more = replace(toy.profiles["toy@last"], name="toy@more")
    engine = replace(toy, profiles={"toy@more": more, **toy.profiles},
                     beside={"toy@more": "toy@last", "toy@same": "toy@3", "toy@last": "toy@3"})  # fmt: skip
    monkeypatch.setitem(rules_report.registry.ENGINES, "toy", engine)
    found = life(LAST, tables())
    assert (found.profiles, found.before, found.proposed) == (("toy@more", "toy@last"), "TOY-KEEP.2", ())
    monkeypatch.setitem(rules_report.registry.ENGINES, "toy", replace(engine, beside={}))
    assert life(LAST, tables()).before == ""                     # nothing names its base


def test_a_rule_in_a_place_that_was_empty_has_nothing_before_it(toy):
    users = ("toy@4", "toy@3", "toy@last", "toy@as-1", "toy@same")
    assert life(COUNT, tables()) == RuleLife("toy", users, since="toy@3", flags=COUNT_FLAGS)


def test_a_rule_that_nothing_uses_has_an_empty_life(toy):
    assert life(UNUSED, tables()) == RuleLife()


def test_tables_are_those_of_the_first_engine_with_the_rule(toy):
    assert [*tables()] == [*tables("no such rule")] == ["mlx_lm", "toy"]
    [(engine, fields)] = tables("TOY-KEEP.LAST").items()
    assert (engine, [*fields]) == ("toy", [*toy.profiles])
    assert fields["toy@2"] == {"keep": SECOND} and fields["toy@last"] == {"keep": LAST, "count_rule": COUNT}
    assert [*tables("ML-LRU-HAND.copy")] == ["mlx_lm"]


def test_a_rule_as_data_has_all_that_is_known_of_it(toy):
    line = inspect.getsourcelines(SECOND)[1]
    assert rule_data("TOY-KEEP.2", SECOND, tables()) == {
        "rule": "TOY-KEEP.2", "role": "drop", "decides": "Keep the second entry; return it. The others go.",
        "source": "org/toy toy.c keep_second (b12), since #7",
        "link": "https://github.com/org/toy/blob/b12/toy.c", "since": "#7", "until": "",
        "code": "def keep_second(held):\n    return held[1:2]\n", "builds": [],
        "profiles": ["toy@3", "toy@2", "toy@same"],
        "in_force": {"since": "toy@2", "until": "toy@4", "inferred": ["toy@3"]},
        "instead": {"before": "TOY-KEEP.1", "after": "TOY-KEEP.3",
                    "proposed": [{"profile": "toy@last", "rule": "TOY-KEEP.LAST"}]},
        "flags": [{"flag": "--most", "help": "Most entries."}, {"flag": "bare", "help": ""}], "grades": [],
        "shown_in": [], "file": f"{SECOND.__module__.replace('.', '/')}.py:{line}",
    }  # fmt: skip


def test_the_code_of_a_rule_without_a_description_is_whole(toy):
    assert rule_data("TOY-KEEP.1", FIRST, tables())["code"] == "def keep_first(held):\n    return held[:1]\n"


DATA = {
    "rule": "TOY-KEEP.2", "role": "drop", "decides": "Keeps the second entry. The others go.", "source": "org/toy",
    "link": "https://x/y", "code": "return 1\n", "profiles": ["toy@2", "toy@3"], "builds": ["until b7", "since b9"],
    "in_force": {"since": "toy@2", "until": "toy@4", "inferred": ["toy@2", "toy@3"]},
    "instead": {"before": "TOY-KEEP.1", "after": "TOY-KEEP.3",
                "proposed": [{"profile": "toy@p", "rule": "TOY-P"}, {"profile": "toy@q", "rule": "TOY-Q"}]},
    "flags": [{"flag": "--most", "help": "Most entries."}, {"flag": "bare", "help": ""}],
    "grades": [{"case": "one", "grade": "read"}, {"case": "two", "grade": "recorded"}], "shown_in": ["a", "b"],
    "file": "toy.py:3",
}  # fmt: skip
BARE = {
    **DATA, "link": "", "profiles": [], "builds": [], "in_force": {"since": "", "until": "", "inferred": []},
    "instead": {"before": "", "after": "", "proposed": []}, "flags": [], "grades": [], "shown_in": [],
}  # fmt: skip


def test_the_report_of_a_rule_has_a_row_for_each_fact():
    assert lines_of(rules_report.rule_report(DATA)) == [
        "TOY-KEEP.2  (drop)", "Keeps the second entry. The others go.",
        " used by   toy@2, toy@3 (inferred in toy@2, toy@3)",
        " builds    until b7; since b9",
        " before    TOY-KEEP.1, until toy@2",
        " after     TOY-KEEP.3, since toy@4",
        " proposed  TOY-P (toy@p), TOY-Q (toy@q)",
        " flag      --most: Most entries.",
        " flag      bare",
        " evidence  one: read, two: recorded",
        " shown in  a, b",
        " source    org/toy",
        " link      https://x/y",
        " code      toy.py:3",
        "return 1",
    ]  # fmt: skip


def test_the_report_of_a_rule_leaves_out_what_is_not_known():
    assert lines_of(rules_report.rule_report(BARE))[2:4] == [" source  org/toy", " code    toy.py:3"]
    replaced = {**BARE, "profiles": ["toy@p"], "instead": {**BARE["instead"], "before": "TOY-1"}}
    assert lines_of(rules_report.rule_report(replaced))[2:4] == [" used by  toy@p", " before   TOY-1"]


def test_a_family_is_listed_with_first_sentences():
    report = rules_report.family_report([DATA, {"rule": "TOY-COUNT", "decides": "Counts e.g.them"}])
    assert lines_of(report) == [
        " rule        decides", " TOY-KEEP.2  Keeps the second entry.", " TOY-COUNT   Counts e.g.them",
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "first"), [
    ("One. Two. Three.", "One."), ("One v1.2 and on", "One v1.2 and on"), ("One.", "One."), ("", ""),
])  # fmt: skip
def test_a_first_sentence_ends_at_a_full_stop_before_a_blank(text, first):
    assert rules_report.first_sentence(text) == first


def test_the_list_of_profiles_begins_with_the_latest(toy):
    spans = {"toy@3": (), "toy@4": ("b7 to b8", "b9 +")}
    known = {name: toy.profiles[name] for name in ("toy@4", "toy@3")}
    report = rules_report.list_report(known, {"toy@latest": "toy@4"}, {"toy@3": "not tried"}, spans)
    assert columns(report.renderables[0]) == [("profile", "folded"), ("in force", "folded"), ("source", "folded")]
    assert [column.no_wrap for column in report.renderables[0].columns] == [True, True, False]
    assert lines_of(report) == [
        " profile     in force  source",
        " toy@latest  4         = toy@4, the newest recorded; the default",
        " toy@4       b7 to b8  org/toy 4",
        "             b9 +",
        " toy@3       (3)       org/toy 3 [not tried]",
        "+: or later. In brackets: the build that a proposal is based on.",
    ]  # fmt: skip


def test_differences_are_a_row_for_each_field():
    report = rules_report.differences_report("toy@1", "toy@2", [("keep", "TOY-KEEP.1", "TOY-KEEP.2"), ("n", "3", "4")])
    assert lines_of(report) == [" field  toy@1 -> toy@2", " keep   TOY-KEEP.1 -> TOY-KEEP.2", " n      3 -> 4"]
    assert lines_of(rules_report.differences_report("toy@1", "toy@2", [])) == ["no differences"]


class Form(NamedTuple):
    """A value of a profile with named parts."""

    unit: int
    page: int


def test_values_that_differ_are_printed_as_words_and_each_entry_has_a_row():
    fields = [("ends", False, True), ("kinds", ["a"], ["a", "b"]), ("form", None, Form(unit=576, page=256)),
              ("least", {"x": 1, "y": 2}, {"x": 1})]  # fmt: skip
    assert lines_of(rules_report.differences_report("toy@1", "toy@2", fields)) == [
        " field    toy@1 -> toy@2",
        " ends     no -> yes",
        " kinds    a -> a, b",
        " form     - -> unit 576, page 256",
        " least.y  2 -> -",
    ]


def test_a_long_word_of_a_fact_is_printed_whole():
    console = Console(file=io.StringIO(), width=40, no_color=True)
    console.print(rules_report.rule_report({**BARE, "source": "x" * 60}))
    lines = console.file.getvalue().splitlines()
    assert "".join(line.strip() for line in lines if "xxx" in line) == f"source  {'x' * 60}"


def test_names_of_rules_are_never_wrapped_and_facts_anywhere():
    table = next(part for part in rules_report.rule_report(DATA).renderables if isinstance(part, WholeTable))
    assert columns(table) == [("", "whole"), ("", "folded")] and not table.show_header
    code = rules_report.rule_report(DATA).renderables[-1]
    assert (code.code, code.background_color, code.word_wrap) == ("return 1\n", "default", True)
    assert columns(rules_report.family_report([DATA])) == [("rule", "whole"), ("decides", "text")]
    assert columns(rules_report.differences_report("a", "b", [("n", "3", "4")])) == [
        ("field", "whole"), ("a -> b", "text")]  # fmt: skip
