"""Statements about a log, as data."""

from __future__ import annotations

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.statements import FOLLOWS, READ, Statement, conclusion, read_statement
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from tests.unit.tools.server_logs.records import read_line


def test_a_recognised_line_is_a_statement_with_its_finite_numbers():
    numbers = {"n": 5, "share": 0.5, "t": float("inf"), "rate": float("nan"), "name": "x"}
    line = ReadLine(7, ParsedLine(Line("batch", "x"), 1, 9, numbers), "the message", "head")
    found = read_statement(line)
    assert found == Statement(READ, "batch", (7,), 1, 9, {"n": 5, "share": 0.5, "name": "x"}, "the message", 0)
    assert found.as_data() == {"kind": "read", "what": "batch", "lines": [7], "slot": 1, "task": 9, "run": 0,
                               "first_line": None, "numbers": {"n": 5, "share": 0.5, "name": "x"},
                               "says": "the message"}  # fmt: skip


def test_the_data_of_a_statement_are_lists():
    data = Statement(FOLLOWS, "request", (1, 2), None, None, {"n": [1, None]}, run=2).as_data()
    assert (data["lines"], data["numbers"], data["says"], data["run"]) == ([1, 2], {"n": [1, None]}, "", 2)


def test_a_conclusion_names_its_lines_and_what_it_is_about():
    about = read_line("release", slot=3, task=9)
    found = conclusion("request", [4, 7], {"lost": 5}, "5 tokens lost", about=about)
    assert (found.kind, found.lines, found.slot, found.task) == ("follows", (4, 7), 3, 9)
    of_server = conclusion("option", [1], {"parallel": 2}, "parallel = 2")
    assert (of_server.slot, of_server.task, of_server.as_data()["lines"]) == (None, None, [1])
