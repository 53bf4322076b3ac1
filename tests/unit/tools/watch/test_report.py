"""Lines, JSON lines and the table that a watcher of a server reads."""

from __future__ import annotations

import io
import json
import re

import pytest

from cachesim.tools.watch import report
from cachesim.tools.watch.report import (
    CURE,
    MARGIN,
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

ROW = {"number": 3, "conversation": 1, "slot": 0, "task": 9, "prompt": 1200, "reused": 1000, "evaluated": 200}
PLACE = {"path": "messages[1].content", "byte": 1234, "character": 5}
TOTALS = {"requests": 2, "prompt": 1200, "reused": 1000, "evaluated": 200, "at_least": ["reused"], "first_lines": [],
          "causes": [], "log": [], "left_out": []}  # fmt: skip


def in_order(text, *parts):
    """True if a text contains these parts in this order."""
    return re.search(".*".join(map(re.escape, parts)), text, re.S) is not None


def test_a_row_has_who_how_many_tokens_why_and_what_helps():
    full = {**ROW, "end": "client left", "status": 400, "says": "it is new", "advice": "send less"}
    assert in_order(row_text(full), "3", "1", "0", "9", "client left", "400", "1,200", "1,000", "200", "it is new",
                    "send less")  # fmt: skip
    unknown = {**ROW, "slot": None, "task": None, "conversation": None, "end": "whole", "status": 200}
    assert re.findall(r"[\d,]*\d", row_text(unknown)) == ["3", "1,200", "1,000", "200"]
    long = row_text({**ROW, "says": "x" * 5_000, "flags": ["y" * 5_000]})
    assert TEXT - 9 < long.count("x") <= TEXT and CURE - 29 < long.count("y") <= CURE


@pytest.mark.parametrize("fields, numbers", [
    ({"prompt": None, "reused": None, "evaluated": None}, ["-"] * 3),
    ({"prompt": None, "estimated": 1500}, ["~1,500", "1,000", "200"]),
    ({"prompt": 7, "estimated": 1500}, ["7", "1,000", "200"]),
    ({"reused": [2000, 2000]}, ["1,200", "2,000", "200"]), ({"reused": [1, 2000]}, ["1,200", "1-2,000", "200"]),
    ({"reused": [1000, None], "again": 0}, ["1,200", ">=1,000", "200"]),
    ({"again": 4}, ["1,200", "1,000", "200", "4"]), ({"again": [0, 4]}, ["1,200", "1,000", "200", "0-4"]),
])  # fmt: skip
def test_counts_may_be_unknown_estimated_or_ranges(fields, numbers):
    words = (word.strip(",") for word in counts_text({**ROW, **fields}).split())
    assert [word for word in words if not word.isalpha()] == numbers


@pytest.mark.parametrize("fields, parts", [
    ({"says": "a turn", "detail": "shorter", "where": "the tools"}, ["a turn", "shorter", "the tools"]),
    ({"says": "a date", **PLACE}, ["a date", "messages[1].content", "5", "1,234"]),
    ({"says": "a date", **PLACE, "byte": None, "byte_at_least": 1000}, ["a date", "messages[1].content", "5", "1,000"]),
    ({"says": "a turn", "parameters": ["seed", "model"], "loss": {"says": "5 of 9"}, "refused": True,
      "causes": [{"says": "a window"}, {"says": ""}]}, ["a turn", "seed", "model", "5 of 9", "refused", "a window"]),
])  # fmt: skip
def test_a_cause_has_its_place_and_what_the_server_and_its_log_show(fields, parts):
    assert in_order(cause_text(fields), *parts)


def test_a_note_replaces_the_cause_and_a_harmless_one_has_no_place():
    assert cause_text({}) == "" and cause_text({"says": "a turn", "note": "cut"}) == "cut"
    assert cause_text({"says": "a turn", **PLACE, "harmless": True}) == "a turn"


def test_a_cure_is_that_of_the_client_then_of_the_server_then_flags():
    fields = {"advice": "put it last", "loss": {"advice": "more slots"}, "flags": ["-np 2", "-cram 0"]}
    assert in_order(cure_text(fields), "put it last", "more slots", "-np 2", "-cram 0")
    empty = {"advice": None, "loss": {"advice": ""}, "flags": []}
    for nothing in ({}, {"advice": "put it last", "harmless": True}, empty, {"loss": None}):
        assert cure_text(nothing) == ""


def test_totals_rank_causes_and_name_everything_that_was_not_read():
    [line] = totals_text(TOTALS).splitlines()
    assert re.findall(r"[\d,]*\d", line) == ["2", "1,200", "1,000", "200"] and line.count("at least") == 1
    more = {"first_lines": ["the log begins late"], "causes": [{"requests": 12, "cause": "a date"}],
            "log": ["3 hits"], "left_out": [{"requests": 1, "why": "a refusal"}], "unread_log_bytes": 5000,
            "dropped_bytes": 0, "unread_connections": 6, "refused_connections": 7, "unsaved_requests": 8}  # fmt: skip
    text = totals_text({**TOTALS, **more})
    assert len(text.splitlines()) == 9
    assert in_order(text, line, "late", "12", "a date", "3 hits", "1", "a refusal", "5,000", "6 ", "7 ", "8 ")
    assert "9,000 " in totals_text({**TOTALS, "dropped_bytes": 9_000})


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


class Terminal(io.StringIO):
    """Terminal of 60 columns. ``added``: what was written since the last time."""

    at = 0

    def isatty(self):
        return True

    def added(self):
        """Return the words of each line of the table below its head, and whether they are red."""
        text, self.at = self.getvalue()[self.at :], len(self.getvalue())
        plain = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
        lines = [(plain.sub("", line), "\x1b[31m" in line) for line in re.split("[\r\n]+", text)]
        assert all(len(line) <= 60 for line, _ in lines)
        return [(line.split(), is_red) for line, is_red in lines if line.strip() and " slot " not in line]


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that returns a table on a terminal with room for two rows, and the terminal."""
    for name, value in {"COLUMNS": "60", "LINES": str(MARGIN + 2), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    made = Terminal()

    def begin():
        monkeypatch.setattr("sys.stdout", made)          # in the test: pytest sets its own before it
        return LiveTable(), made

    return begin


def test_the_table_shows_the_latest_rows_that_fit_and_marks_what_costs_tokens(terminal):
    table, shown_on = terminal()
    costly = {"harmless": False, "says": "a date"}
    for number, fields in enumerate(({}, {"again": 0}, {"again": 5}, costly), 1):
        table.row({**ROW, **fields, "number": number})
        shown = shown_on.added()
        assert shown[-1][1] == (number > 2)
    assert shown == [(["3", "1", "0", "1,200", "1,000", "200"], True),
                     (["4", "1", "0", "1,200", "1,000", "200", "a", "date"], True)]  # fmt: skip
    table.end({**TOTALS, "log": ["word " * 20]})
    assert sum(words.count("word") for words, _ in shown_on.added()) == 20


@pytest.mark.parametrize("name, value", [("LINES", str(MARGIN - 1)), ("MOST", 1)])
def test_a_low_terminal_and_a_full_table_show_the_latest_row(name, value, terminal, monkeypatch):
    if name == "MOST":
        monkeypatch.setattr(report, name, value)
    else:
        monkeypatch.setenv(name, value)
    table, shown_on = terminal()
    for number in range(3):
        table.row({**ROW, "number": number})
        assert [words[0] for words, _ in shown_on.added()] == [str(number)]
    table.end(TOTALS)


def test_a_table_without_a_row_ends_with_the_totals(terminal):
    table, shown_on = terminal()
    table.end(TOTALS)
    text = " ".join(word for words, _ in shown_on.added() for word in words)
    assert text.endswith("200 tokens") and "\x1b" not in shown_on.getvalue()


def test_the_cause_is_cut_before_the_numbers_are(terminal):
    table, shown_on = terminal()
    table.row({**ROW, "says": "cause " * 20})
    [(words, _)] = shown_on.added()
    assert words[:6] == ["3", "1", "0", "1,200", "1,000", "200"] and words[-1].endswith("\N{HORIZONTAL ELLIPSIS}")
    table.end(TOTALS)


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
