"""Tests of the report of ``explain``: each kind of entry as whole text."""

from __future__ import annotations

import pytest

from cachesim.tools.rulebook.explain_report import MOST, explain_report, line_report, log_report
from tests.unit.tools.rulebook.toy_engine import lines_of

LINE = {
    "engine": "llama_cpp", "since": 0, "until": 0, "also": [], "text": "erased 3", "slot": None, "task": None,
    "says": "entries are removed", "verdict": "", "numbers": {}, "causes": [], "flags": [], "rules": [],
}  # fmt: skip
WHOLE = {
    **LINE, "since": 9, "until": 12, "also": ["ik_llama", "vllm"], "slot": 0, "task": 7, "verdict": "fits",
    "numbers": {"n": 3, "mib": 0.5}, "causes": ["full", "too large"], "flags": ["-np", "-c"], "rules": ["A-B", "A-C"],
}  # fmt: skip


def test_a_line_has_a_row_for_each_thing_that_is_known():
    assert lines_of(line_report(WHOLE)) == [
        "log line of llama_cpp (since b9 until b12); the same line in ik_llama, vllm", "  erased 3",
        " says     entries are removed",
        " verdict  fits",
        " here     slot 0, task 7, n = 3, mib = 0.5",
        " causes   full; too large",
        " flags    -np  -c",
        " rules    A-B  A-C",
    ]  # fmt: skip
    assert lines_of(line_report(LINE)) == ["log line of llama_cpp", "  erased 3", " says  entries are removed"]
    assert lines_of(line_report({**LINE, "since": 9}))[0] == "log line of llama_cpp (since b9)"
    assert lines_of(line_report({**LINE, "until": 9}))[0] == "log line of llama_cpp (until b9)"


def log(**given):
    return {"file": "a.log", "engine": "llama_cpp", "lines": 2, "known": 1, "kinds": [], "verdicts": [], "ordinary": [],
            **given}  # fmt: skip


def test_a_log_has_an_entry_for_each_kind_of_line():
    kinds = [{**LINE, "line": 4, "times": 1}, {**LINE, "line": 7, "times": 1200, "text": "kept"}]
    ordinary = [{"is": "HTTP access line", "times": 1200}, {"is": "timing", "times": 1}]
    assert lines_of(log_report(log(lines=2500, known=1201, kinds=kinds, ordinary=ordinary))) == [
        "a.log: a log of llama_cpp, 1,201 of 2,500 lines known, 2 kinds", "",
        "erased 3  line 4", " says  entries are removed", "",
        "kept  line 7, 1,200 times", " says  entries are removed", "",
        "not about the cache: HTTP access line (1,200), timing (1)",
    ]  # fmt: skip
    assert lines_of(log_report(log(file="", lines=1, kinds=kinds[:1])))[0] == (
        "lines: a log of llama_cpp, 1 of 1 line known, 1 kind")  # fmt: skip
    assert lines_of(log_report(log())) == ["a.log: a log of llama_cpp, 1 of 2 lines known, 0 kinds"]


@pytest.mark.parametrize(("number", "shown", "more"), [
    (0, 0, ""), (1, 0, ""), (2, 2, ""), (MOST, MOST, ""), (MOST + 1, MOST, "... and 1 more with --json"),
    (MOST + 2, MOST, "... and 2 more with --json"),
])  # fmt: skip
def test_several_verdicts_of_a_log_are_listed_up_to_a_limit(number, shown, more):
    verdicts = [{"line": at, "verdict": f"fits {at}"} for at in range(number)]
    rows = [f"line {at}: fits {at}" for at in range(shown)]
    assert lines_of(log_report(log(verdicts=verdicts)))[2:] == rows + ([more] if more else [])


@pytest.mark.parametrize(("engine", "end"), [("", ""), ("vllm", ", printed by vllm")])
def test_an_ordinary_line_is_not_about_the_cache(engine, end):
    report = explain_report({"found": "ordinary", "ordinary": {"is": "HTTP access line", "engine": engine}})
    assert lines_of(*report) == [f"not about the cache: HTTP access line{end}"]


def test_a_term_has_its_synonyms():
    term = {"name": "slot", "also": ["id_slot", "lane"], "text": "A place."}
    assert lines_of(*explain_report({"found": "term", "term": term})) == [
        "term of the glossary", "slot  (also: id_slot, lane)", "A place."]  # fmt: skip
    assert lines_of(*explain_report({"found": "term", "term": {**term, "also": []}}))[1:] == ["slot", "A place."]


def test_a_line_and_a_log_are_their_reports():
    assert lines_of(*explain_report({"found": "line", "line": WHOLE})) == lines_of(line_report(WHOLE))
    assert lines_of(*explain_report({"found": "log", "log": log()})) == lines_of(log_report(log()))


def found(number):
    """Data of a search with this number of rows of each kind."""
    return {
        "found": "text", "lines": [{"form": f"line {i}", "says": "is logged"} for i in range(number)],
        "terms": [{"name": f"term {i}", "text": "is defined"} for i in range(number)],
        "flags": [{"flag": f"--flag-{i}", "help": "is set"} for i in range(number)],
        "rules": [{"rule": f"RULE-{i}", "decides": "decides"} for i in range(number)],
    }  # fmt: skip


def test_related_entries_are_a_table_of_each_kind():
    assert lines_of(*explain_report(found(1))) == [
        "no exact match; related entries:", " log lines", " line 0     is logged", " terms", " term 0  is defined",
        " flags", " --flag-0  is set", " rules", " RULE-0  decides",
    ]  # fmt: skip


def test_a_kind_without_entries_has_no_table():
    only = {**found(0), "rules": [{"rule": "RULE-0", "decides": "decides"}]}
    assert lines_of(*explain_report(only)) == ["no exact match; related entries:", " rules", " RULE-0  decides"]


@pytest.mark.parametrize(("number", "end"), [
    (MOST, f" RULE-{MOST - 1}  decides"), (MOST + 1, " ... and 1 more"), (MOST + 3, " ... and 3 more"),
])  # fmt: skip
def test_a_table_ends_with_the_number_of_entries_that_are_left_out(number, end):
    lines = lines_of(*explain_report(found(number)))
    assert lines[-1] == end and len(lines) == 1 + 4 * (1 + MOST + (number > MOST))
