"""Lines, JSON lines and the table that a watcher of a server reads."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from cachesim.tools.watch import report
from cachesim.tools.watch.report import (
    CURE,
    MARGIN,
    MOST,
    TEXT,
    JsonLines,
    LiveTable,
    TextLines,
    cause_text,
    counts_text,
    cure_text,
    output,
    row_text,
    totals_text,
)
from tests.unit.tools.table_columns import NUMBER, WHOLE, columns

ROW = {"number": 3, "conversation": 1, "slot": 0, "task": 9, "prompt": 1200, "reused": 1000, "evaluated": 200}
PLACE = {"path": "messages[1].content", "byte": 1234, "character": 5}
TOTALS = {"requests": 2, "prompt": 1200, "reused": 1000, "evaluated": 200, "at_least": ["reused"], "first_lines": [],
          "causes": [], "log": [], "left_out": []}  # fmt: skip


@pytest.mark.parametrize("fields, text", [
    ({}, "   3  conversation 1, slot 0, task 9: prompt 1,200, reused 1,000, evaluated 200"),
    ({"slot": None, "task": None, "conversation": None, "end": "whole", "status": 200},
     "   3  request: prompt 1,200, reused 1,000, evaluated 200"),
    ({"end": "client left", "status": 400, "says": "it is new", "advice": "send less"},
     "   3  conversation 1, slot 0, task 9 (client left): status 400: prompt 1,200, reused 1,000, evaluated 200; "
     "it is new; try: send less"),
    ({"says": "x" * TEXT, "flags": ["y" * (CURE - len("may help: "))]},
     f"   3  conversation 1, slot 0, task 9: prompt 1,200, reused 1,000, evaluated 200; {'x' * TEXT}; may help: "
     + "y" * (CURE - len("may help: "))),
])  # fmt: skip
def test_a_row_says_who_how_many_tokens_why_and_what_helps(fields, text):
    assert row_text({**ROW, **fields}) == text


@pytest.mark.parametrize("fields, text", [
    ({"prompt": None, "reused": None, "evaluated": None}, "prompt -, reused -, evaluated -"),
    ({"prompt": None, "estimated": 1500}, "prompt ~1,500, reused 1,000, evaluated 200"),
    ({"prompt": 7, "estimated": 1500}, "prompt 7, reused 1,000, evaluated 200"),
    ({"reused": [2000, 2000]}, "prompt 1,200, reused 2,000, evaluated 200"),
    ({"reused": [1, 2000]}, "prompt 1,200, reused 1-2,000, evaluated 200"),
    ({"reused": [1000, None], "again": 0}, "prompt 1,200, reused >=1,000, evaluated 200"),
    ({"again": 4}, "prompt 1,200, reused 1,000, evaluated 200, 4 again"),
    ({"again": [0, 4]}, "prompt 1,200, reused 1,000, evaluated 200, 0-4 again"),
])  # fmt: skip
def test_counts_may_be_unknown_estimated_or_ranges(fields, text):
    assert counts_text({**ROW, **fields}) == text


@pytest.mark.parametrize("fields, text", [
    ({}, ""), ({"says": "a turn"}, "a turn"), ({"says": "a turn", "note": "not compared"}, "not compared"),
    ({"says": "a turn", "detail": "shorter", "where": "the tools"}, "a turn (shorter) in the tools"),
    ({"says": "a date", **PLACE}, "a date (messages[1].content, character 5; byte 1,234 of the body)"),
    ({"says": "a date", **PLACE, "byte": None, "byte_at_least": 1000},
     "a date (messages[1].content, character 5; byte 1,000 or later of the body)"),
    ({"says": "a turn", **PLACE, "harmless": True}, "a turn"),
    ({"says": "a turn", "parameters": ["seed", "model"], "loss": {"says": "5 of 9"}, "refused": True,
      "causes": [{"says": "a window"}, {"says": ""}]},
     "a turn; changed: seed, model; 5 of 9; the server refused the request; a window"),
])  # fmt: skip
def test_a_cause_has_its_place_and_what_the_server_and_its_log_show(fields, text):
    assert cause_text(fields) == text


@pytest.mark.parametrize("fields, text", [
    ({}, ""), ({"advice": "put it last"}, "try: put it last"), ({"advice": "put it last", "harmless": True}, ""),
    ({"advice": "put it last", "loss": {"advice": "more slots"}, "flags": ["-np 2", "-cram 0"]},
     "try: put it last; try: more slots; may help: -np 2 -cram 0"),
    ({"advice": None, "loss": {"advice": ""}, "flags": []}, ""), ({"loss": None}, ""),
])  # fmt: skip
def test_a_cure_is_that_of_the_client_then_of_the_server_then_flags(fields, text):
    assert cure_text(fields) == text


def test_totals_without_losses_are_one_line():
    assert totals_text(TOTALS) == "2 requests: prompt 1,200, reused at least 1,000, evaluated 200 tokens"


def test_totals_rank_causes_and_name_everything_that_was_not_read():
    more = {"first_lines": ["the log begins late"], "causes": [{"requests": 12, "cause": "a date"}],
            "log": ["3 hits"], "left_out": [{"requests": 1, "why": "a refusal"}], "unread_log_bytes": 1000,
            "dropped_bytes": 0, "unread_connections": 2, "refused_connections": 3, "unsaved_requests": 4}  # fmt: skip
    assert totals_text({**TOTALS, **more}).splitlines()[1:] == [
        "the log begins late", "    12  a date", "  3 hits", "     1  left out: a refusal",
        "  1,000 bytes of the log were not read",
        "  2 connections were not analysed: not HTTP/1.1, or a part was not copied",
        "  3 connections were refused by the server", "  4 requests were not saved: the file could not be written",
    ]  # fmt: skip
    assert "  5 bytes were not analysed: the queue was full" in totals_text({**TOTALS, "dropped_bytes": 5})


def test_json_lines_have_a_schema_and_text_lines_are_the_texts_of_rows(capsys):
    for form in (JsonLines(), TextLines()):
        form.row(ROW)
        form.end(TOTALS)
    first, second, *text = capsys.readouterr().out.splitlines()
    assert json.loads(first) == {"schema": report.SCHEMA, "request": ROW}
    assert json.loads(second) == {"schema": report.SCHEMA, "totals": TOTALS}
    assert text == [row_text(ROW), totals_text(TOTALS)]


def test_the_form_follows_the_option_and_the_terminal(monkeypatch):
    assert isinstance(output(True), JsonLines) and isinstance(output(False), TextLines)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert isinstance(output(True), JsonLines) and isinstance(output(False), LiveTable)


@pytest.fixture
def table(monkeypatch):
    """Return a table on a terminal of 60 columns and MARGIN + 2 lines."""
    console = Console(file=io.StringIO(), width=60, height=MARGIN + 2, force_terminal=True, color_system="standard")
    monkeypatch.setattr(report, "stdout_console", lambda: console)
    return LiveTable()


def shown(table):
    """Return the words of each line of a table, and those that are red."""
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard", no_color=False)
    console.print(table._table())
    lines = console.file.getvalue().splitlines()[1:]
    plain = Console(file=io.StringIO(), width=60)
    plain.print(table._table())
    return [(line.split(), "\x1b[31m" in coloured)
            for line, coloured in zip(plain.file.getvalue().splitlines()[1:], lines, strict=True)]  # fmt: skip


def test_the_table_shows_the_latest_rows_that_fit_and_marks_what_costs_tokens(table, capsys):
    costly = {"harmless": False, "says": "a date"}
    for number, fields in enumerate(({}, {"again": 0}, {"again": 5}, costly), 1):
        table.row({**ROW, **fields, "number": number})
        assert shown(table)[-1][1] == (number > 2)
    assert shown(table) == [(["3", "1", "0", "1,200", "1,000", "200"], True),
                            (["4", "1", "0", "1,200", "1,000", "200", "a", "date"], True)]  # fmt: skip
    plain = Console(file=io.StringIO(), width=60)
    plain.print(table._table())
    assert {len(line) for line in plain.file.getvalue().splitlines()} == {60}            # the whole terminal
    table.end({**TOTALS, "log": ["word " * 20]})
    assert capsys.readouterr().out.splitlines() == [
        "2 requests: prompt 1,200, reused at least 1,000, evaluated", "  200 tokens",
        "  word word word word word word word word word word word", "  word word word word word word word word word"]
    assert table._live is not None and not table._live.is_started


def test_the_table_keeps_a_bounded_number_of_rows(table):
    for number in range(MOST + 5):
        table._rows.append({**ROW, "number": number})
    assert len(table._rows) == MOST and shown(table)[-1][0][0] == str(MOST + 4)


def test_a_table_without_a_row_ends_with_the_totals(table, capsys):
    table.end(TOTALS)
    assert capsys.readouterr().out.splitlines() == [
        "2 requests: prompt 1,200, reused at least 1,000, evaluated", "  200 tokens"]  # fmt: skip
    assert table._live is None


def test_a_row_is_shown_at_once(table):
    for number in (1, 2):
        table.row({**ROW, "prompt": 4000 + number})
        assert f"4,00{number}" in table._console.file.getvalue()
    table._live.stop()


def test_numbers_are_aligned_and_the_cause_gets_the_other_columns(table):
    table._rows.append(ROW)
    found = table._table()
    numbers = ("#", "conv", "slot", "prompt", "reused", "evaluated")
    assert columns(found) == [*((name, NUMBER) for name in numbers), ("cause", WHOLE)]
    assert [(column.no_wrap, column.ratio) for column in found.columns] == [*[(True, None)] * 6, (True, 1)]
    assert (found.box, found.padding, found.header_style, found.columns[-1].overflow) == (
        None, (0, 1, 0, 1), "dim", "ellipsis")  # fmt: skip


def test_a_low_terminal_shows_the_latest_row_and_the_table_changes_with_rows_only(table):
    table._console.height = MARGIN - 1
    for number in range(3):
        table.row({**ROW, "number": number})
    assert [words[0] for words, _ in shown(table)] == ["2"]
    assert (table._live.auto_refresh, table._live.vertical_overflow) == (False, "crop")
    table._live.stop()


@pytest.mark.parametrize("form", [JsonLines, TextLines])
def test_a_pipe_gets_each_row_at_once(monkeypatch, form):
    class Pipe(io.StringIO):
        read = ""

        def flush(self):
            self.read = self.getvalue()

    pipe = Pipe()
    monkeypatch.setattr("sys.stdout", pipe)
    for print_it, value in ((form().row, ROW), (form().end, TOTALS)):
        pipe.read = ""
        print_it(value)
        assert pipe.read.count("\n") and pipe.read == pipe.getvalue()
