"""Statements about a log, as data."""

from __future__ import annotations

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.statements import FOLLOWS, READ, Statement, read_statement
from cachesim.tools.server_logs.lines.read_lines import ReadLine


def test_a_recognised_line_is_a_statement_with_its_finite_numbers():
    numbers = {"n": 5, "share": 0.5, "t": float("inf"), "rate": float("nan"), "name": "x"}
    line = ReadLine(7, ParsedLine(Line("batch", "x"), 1, 9, numbers), "the message", "head")
    found = read_statement(line)
    assert found == Statement(READ, "batch", (7,), 1, 9, {"n": 5, "share": 0.5, "name": "x"}, "the message", 0)
    assert found.as_data() == {"kind": "read", "what": "batch", "lines": [7], "slot": 1, "task": 9, "run": 0,
                               "numbers": {"n": 5, "share": 0.5, "name": "x"}, "says": "the message"}  # fmt: skip


def test_the_data_of_a_statement_are_lists():
    data = Statement(FOLLOWS, "request", (1, 2), None, None, {"n": [1, None]}, run=2).as_data()
    assert (data["lines"], data["numbers"], data["says"], data["run"]) == ([1, 2], {"n": [1, None]}, "", 2)
