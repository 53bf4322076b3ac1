"""The report on imported bodies."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.tools.request_bodies.report import SHOWN, bodies_report, headline, request_numbers
from tests.unit.tools.request_bodies.reports import CAUSE, DATA, FILE, PLAYED, ROW, shown


def lines(everything=False, out="", **fields):
    """Return the lines of a report without blanks at their ends."""
    return [line.rstrip() for line in as_text(bodies_report({**DATA, **fields}, out, everything)).splitlines()]


def test_reports_are_those_of_the_file():
    assert shown() == FILE.read_text("utf-8")


@pytest.mark.parametrize(("fields", "style"), [
    ({"again": 401}, "bold red"), ({"again": 400}, "bold yellow"), ({"losing": []}, "bold yellow"),
    ({"losing": [], "causes": [{**CAUSE, "harmless": True}]}, "bold green"),
    ({"losing": [], "causes": [], "requests": [{**ROW, "parameters": [{"name": "x", "matters": "perhaps"}]}]},
     "bold yellow"), ({"tokens": 0, "again": 0}, "bold yellow"),
])  # fmt: skip
def test_the_headline_is_red_if_a_tenth_of_the_tokens_is_lost(fields, style):
    assert headline({**DATA, **fields}).style == style


@pytest.mark.parametrize(("number", "end"), [(1, "0"), (12, "11"), (13, "...")])
def test_long_lists_of_requests_are_cut(number, end):
    text = request_numbers([*range(number)])
    assert text.endswith(end) and text.count(",") == number - 1


def test_the_table_has_a_row_for_each_request_and_says_how_many_are_left_out():
    rows = [line.split() for line in lines()]
    assert ["0", "1", "2,000", "0", "-", "0", "new"] in rows
    assert ["1", "1", "2,000", "1,000", "1,500", "0", "date", "(messages[0])"] in rows
    many = [{**ROW, "request": number} for number in range(SHOWN + 1)]
    last = [str(SHOWN), "1", "2,000", "0", "-", "0", "new"]
    assert last not in [line.split() for line in lines(requests=many)]
    assert last in [line.split() for line in lines(requests=many, everything=True)]
    unknown = [line.split() for line in lines(requests=[{**ROW, "simulated": None}])]
    assert ["0", "1", "2,000", "0", "-", "-", "new"] in unknown


def test_the_next_command_explains_the_worst_request_of_the_written_file():
    second, third = {**ROW, "request": 1, "not_kept": 2}, {**ROW, "request": 2, "not_kept": 2, "again": 1}
    worst = [{**ROW, "again": 9}, second, third]
    assert lines(out="my case.toml", requests=worst)[-1] == "next: cachesim why 'my case.toml' 2"
    assert lines(arguments=["--template", "t"])[-1] == "next: cachesim import a.jsonl --template t -o case.toml"
    assert not any(line.startswith("next:") for line in lines(simulation={"played": 0, "limit": "x"}))
    assert any(line.startswith("next:") for line in lines(simulation=PLAYED))
