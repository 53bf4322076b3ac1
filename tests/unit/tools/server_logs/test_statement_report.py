"""Sections of the report that rest on the log alone: every line as it is printed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.tools.server_logs.statement_report import (
    causes,
    follows_rows,
    headline,
    read_rows,
    request_name,
    shown_requests,
)
from cachesim.tools.server_logs.statements import TOTAL


def said(what="request", line=1, task=7, kind="follows", says="", run=0, **numbers):
    return {"kind": kind, "what": what, "lines": [line], "slot": 0, "task": task, "run": run, "numbers": numbers,
            "says": says}  # fmt: skip


def texts(rows):
    return [str(row) for row in rows]


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
    assert found == [("line 3", 3, {"lost": 1}), ("slot 0, task 7", 4, {"lost": 4, "n_tokens": 10}),
                     ("line 5", 5, {"end": 2}), ("slot 0, task 8", 9, {"lcp": 5})]  # fmt: skip


@pytest.mark.parametrize(("statements", "sentence", "style"), [
    ([said(lost=1)], "1 request evaluated 1 token of a common prefix again.", "bold red"),
    ([said(lost=1_200), said(task=8, lost=[300, 400])],
     "2 requests evaluated at least 1,500 tokens of a common prefix again.", "bold red"),
    ([said(lost=[0, 5]), said(task=8, lost=2, prompt_n=30, n_tokens=120)],
     "1 request evaluated 2 tokens of a common prefix again (25 % of 120 prompt tokens evaluated in 1 request with "
     "known lengths).", "bold red"),
    ([said(lcp=10, cache_n=10)], "No tokens of a common prefix were evaluated again.", "bold green"),
    ([said(lcp=10, cache_n=9)], "At most 1 token of a common prefix was evaluated again.", "bold green"),
    ([said(lcp=10, cache_n=9, n_tokens=10)], "No tokens of a common prefix were evaluated again.", "bold green"),
    ([said(lcp=[8, 10], cache_n=[4, 9], n_tokens=[9, 11])],
     "At most 6 tokens of a common prefix were evaluated again.", "bold green"),
    ([said(lcp=10, cache_n=8), said(task=8, lcp=4, cache_n=6)],
     "At most 2 tokens of a common prefix were evaluated again.", "bold green"),
    ([said(lcp=10)], "The log does not show whether tokens of a common prefix were evaluated again.", "bold yellow"),
    ([said(cache_n=10)],
     "The log does not show whether tokens of a common prefix were evaluated again.", "bold yellow"),
    ([said(lcp=[3, None], cache_n=2)],
     "The log does not show whether tokens of a common prefix were evaluated again.", "bold yellow"),
    ([said(end=3, prompt_n=[1, 2], n_tokens=4)],
     "The log does not show whether tokens of a common prefix were evaluated again.", "bold yellow"),
    ([said(TOTAL, task=None, says="half of 9 tokens came from the cache")], "Half of 9 tokens came from the cache.",
     "bold yellow"),
    ([], "The log shows no lengths of a request.", "bold yellow"),
])  # fmt: skip
def test_the_headline(statements, sentence, style):
    found = headline(statements)
    assert (str(found), found.style) == (sentence, style)


CAUSES = [
    said("cause", 3, 1, cause="a", lost=5, says="A"), said("cause", 9, 2, cause="b", lost=[7, None], says="B"),
    said("cause", 4, 3, cause="a", lost=50, says="A again"), said("cause", 5, 4, cause="c", says="C"),
    said("cause", 6, 4, cause="d", says="D"),
]  # fmt: skip


def test_the_most_expensive_causes_come_first():
    assert texts(causes(CAUSES, everything=False)) == [
        "Cause: slot 0, task 3: A again, line 4; likewise 1 request.",
        "Cause: slot 0, task 2: B, line 9.",
        "  1 more cause with -v",
    ]
    assert texts(causes(CAUSES, everything=True)) == [
        "Cause: slot 0, task 3: A again, line 4.",
        "Cause: slot 0, task 1: A, line 3.",
        "Cause: slot 0, task 2: B, line 9.",
        "Warning: slot 0, task 4: C; D, lines 5-6.",
    ]


@pytest.mark.parametrize(("lines", "short", "whole"), [
    ([3], "line 3", "line 3"), ([3, 4], "lines 3-4", "lines 3-4"), ([3, 5], "lines 3, 5", "lines 3, 5"),
    ([1, 5, 6], "lines 1, 5-6", "lines 1, 5-6"), ([1, 3, 5, 7], "lines 1, 3, 5, 7", "lines 1, 3, 5, 7"),
    ([1, 3, 5, 6, 8, 10], "lines 1, 3, 5-6, 8, ...", "lines 1, 3, 5-6, 8, 10"),
])  # fmt: skip
def test_lines_of_a_proof(lines, short, whole):
    proof = [{**said("cause", cause="a", lost=1, says="A"), "lines": lines}]
    assert texts(causes(proof, False)) == [f"Cause: slot 0, task 7: A, {short}."]
    assert texts(causes(proof, True)) == [f"Cause: slot 0, task 7: A, {whole}."]


def test_a_request_is_as_expensive_as_its_costliest_cause():
    two = [said("cause", 3, 1, cause="a", lost=5, says="A"), said("cause", 4, 1, cause="b", lost=90, says="B"),
           said("cause", 5, 2, cause="c", lost=50, says="C")]  # fmt: skip
    assert [row.partition(": ")[2] for row in texts(causes(two, False))] == [
        "slot 0, task 1: A; B, lines 3-4.", "slot 0, task 2: C, line 5."]  # fmt: skip
    cheap = [said("cause", 3, 1, cause="a", says="A"), said("cause", 4, 2, cause="b", lost=1, says="B"),
             said("cause", 5, 2, cause="c", says="C")]  # fmt: skip
    assert texts(causes(cheap, False)) == [
        "Cause: slot 0, task 2: B; C, lines 4-5.", "Warning: slot 0, task 1: A, line 3."]  # fmt: skip


def test_kinds_of_lines_are_counted_the_most_frequent_first():
    read = [said(kind, line, kind="read", says=f"text {line}") for line, kind in enumerate("abbcdefgh", 1)]
    assert texts(read_rows(read, False)) == [
        "kinds of lines: b 2 (line 2, ...), a 1 (line 1), c 1 (line 4), d 1 (line 5), e 1 (line 6), f 1 (line 7); "
        "2 more kinds with -v"
    ]
    assert texts(read_rows(read[:3], False)) == ["kinds of lines: b 2 (line 2, ...), a 1 (line 1)"]
    [six] = texts(read_rows(read[:7], False))
    assert six.endswith(", f 1 (line 7)")
    assert texts(read_rows(read[:2], True)) == ["line 1: text 1", "line 2: text 2"]
    assert texts(read_rows([said()], False)) == []


def printed(rows):
    out = io.StringIO()
    console = Console(file=out, width=80)
    for row in rows:
        console.print(row)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


def test_what_follows_is_a_line_of_facts_totals_and_a_table():
    statements = [said("build", says="b9231 or later"), said("option", says="x"), said("memory", says="20 MiB"),
                  said("ended", says="ended"), said(TOTAL, line=5, task=None, says="9 tokens"),
                  said(line=2, n_tokens=1_500, lost=[4, None])]  # fmt: skip
    assert printed(follows_rows(statements, False)) == [
        "b9231 or later; 20 MiB; 1 option of the server with -v",
        "9 tokens, line 5",
        " request         prompt  lost",
        " slot 0, task 7   1,500  >= 4",
    ]
    assert texts(follows_rows([*statements[:1], said("cause", line=4, says="because")], True)) == [
        "b9231 or later, line 1", "slot 0, task 7: because, line 4"]  # fmt: skip
    assert texts(follows_rows([said(kind="read")], False)) == []
    both = [said("build", kind="read", says="read"), said("build", says="b9231")]
    assert texts(follows_rows(both, True)) == ["b9231, line 1"] and texts(follows_rows(both, False)) == ["b9231"]


def test_a_total_names_its_first_lines():
    total = {**said(TOTAL, task=None, says="9 tokens"), "lines": [1, 3, 5, 7, 9]}
    assert texts(follows_rows([total], False)) == ["9 tokens, lines 1, 3, 5, 7, ..."]
    assert texts(follows_rows([total], True)) == ["9 tokens, lines 1, 3, 5, 7, 9"]


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
