"""Sections of the report that rest on the log alone: every line as it is printed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.server_logs.report.shown_requests import request_name, shown_requests
from cachesim.tools.server_logs.report.statement_report import causes, follows_rows
from tests.unit.tools.server_logs.report_sentences import said


@pytest.mark.parametrize(("key", "name"), [
    ((0, 1, 7, None), "slot 1, task 7"), ((1, 0, 7, None), "run 2, slot 0, task 7"), ((0, None, None, 12), "line 12"),
])  # fmt: skip
def test_names_of_requests(key, name):
    assert request_name(key) == name


def test_requests_have_the_numbers_of_their_statements_in_the_order_of_the_log():
    found = shown_requests([
        said(line=9, task=8, lcp=5), said("cause", line=4, lost=[3, None]), said(line=6, lost=4, n_tokens=10),
        said("cause", line=7, lost=99, cause="x"), said("cause", line=1, task=9, cause="x"),
        said(line=2, kind="read", lcp=1), said("option", line=3, lost=1, task=None), said(line=5, task=None, end=2),
    ])  # fmt: skip
    assert [one.is_named for one in found] == [False, True, False, True]
    assert [one[:3] for one in found] == [
        ("line 3", 3, {"lost": 1}), ("slot 0, task 7", 4, {"lost": 4, "n_tokens": 10}),
        ("line 5", 5, {"end": 2}), ("slot 0, task 8", 9, {"lcp": 5})]  # fmt: skip


@pytest.mark.parametrize(("statements", "style"), [
    ([said(lost=1)], "bold red"), ([said(lcp=10, cache_n=9, n_tokens=10)], "bold green"),
    ([said(lcp=10)], "bold yellow"), ([], "bold yellow")])  # fmt: skip
def test_the_headline_has_the_colour_of_its_verdict(statements, style):
    assert headline(statements).style == style


@pytest.mark.parametrize(("lines", "short", "whole"), [
    ([3], "line 3", "line 3"), ([3, 4], "lines 3-4", "lines 3-4"), ([3, 5], "lines 3, 5", "lines 3, 5"),
    ([1, 5, 6], "lines 1, 5-6", "lines 1, 5-6"), ([1, 3, 5, 7], "lines 1, 3, 5, 7", "lines 1, 3, 5, 7"),
    ([1, 3, 5, 6, 8, 10], "lines 1, 3, 5-6, 8, ...", "lines 1, 3, 5-6, 8, 10"),
])  # fmt: skip
def test_lines_of_a_proof(lines, short, whole):
    proof = [{**said("cause", cause="a", lost=1, says="A"), "lines": lines}]
    for everything, named in ((False, short), (True, whole)):
        [row] = causes(proof, everything)
        assert str(row).endswith(f", {named}.")


def tasks(statements):
    """Return the tasks whose causes are shown, in their order."""
    return [int(str(row).partition("task ")[2].partition(":")[0]) for row in causes(statements, False)]


def test_a_request_is_as_expensive_as_its_costliest_cause():
    two = [said("cause", 3, 1, cause="a", lost=5, says="A"), said("cause", 4, 1, cause="b", lost=90, says="B"),
           said("cause", 5, 2, cause="c", lost=50, says="C")]  # fmt: skip
    cheap = [said("cause", 3, 1, cause="a", says="A"), said("cause", 4, 2, cause="b", lost=1, says="B"),
             said("cause", 5, 2, cause="c", says="C")]  # fmt: skip
    assert (tasks(two), tasks(cheap)) == ([1, 2], [2, 1])


def printed(rows):
    out = io.StringIO()
    console = Console(file=out, width=80)
    for row in rows:
        console.print(row)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


def test_the_table_has_the_three_costliest_requests_in_the_order_of_the_log():
    lost = {1: 5, 2: 1, 3: 9, 4: [7, 8], 5: 0}
    rows = printed(follows_rows([said(line=task, task=task, lost=value) for task, value in lost.items()], False))
    assert [row.split() for row in rows[1:]] == [
        ["slot", "0,", "task", "1", "5"], ["slot", "0,", "task", "3", "9"], ["slot", "0,", "task", "4", "7-8"],
        ["2", "more", "with", "-v"]]  # fmt: skip
    assert printed(follows_rows([said(lcp=1), said(task=8, line=2, held=3)], False)) == [
        " request         held  common", " slot 0, task 7     -       1", " slot 0, task 8     3       -"]  # fmt: skip


def test_requests_that_lost_tokens_are_red_and_the_others_counted_in_grey():
    (table,) = follows_rows([said(task=task, lost=lost) for task, lost in enumerate((0, 5, 9, 7, [0, 3]))], False)
    assert [row.style for row in table.rows] == ["red", "red", "red", "dim"]
    (table,) = follows_rows([said(task=task, lost=lost) for task, lost in enumerate((0, 5, [0, 3]))], False)
    assert [row.style for row in table.rows] == ["", "red", ""]
    (table,) = follows_rows([*(said(task=task, lcp=1) for task in range(3)), said(task=3, lost=1)], False)
    assert [row.style for row in table.rows] == ["", "", "red", "dim"]


@pytest.mark.parametrize(("width", "lines"), [
    (80, [" request         prompt  common  lost", " slot 0, task 7   1,500      20     5"]),
    (37, ["slot 0, task 7  prompt 1,500", "  common 20  lost 5"]),
    (34, ["slot 0, task 7  prompt 1,500", "  common 20  lost 5"]),
    (24, ["slot 0, task 7", "  prompt 1,500", "  common 20  lost 5"]),
])  # fmt: skip
def test_a_narrow_table_keeps_its_names_whole(width, lines):
    console = Console(file=io.StringIO(), width=width)
    for row in follows_rows([said(lost=5, n_tokens=1500, lcp=20)], False):
        console.print(row)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == lines
