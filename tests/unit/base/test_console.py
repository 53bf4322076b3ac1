"""Tests of console output: stdout, stderr, JSON and progress bars."""

from __future__ import annotations

import io
import json
import sys

import pytest

from cachesim.base.console import SCHEMA, complain, progress, say_json
from cachesim.base.errors import BadInput, Crash
from cachesim.cli.output_options import report_crash


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stderr", "total", "shown"), [
    (Terminal(), 3, True), (Terminal(), 2, True), (Terminal(), 1, False), (Terminal(), None, True),
    (io.StringIO(), 3, False), (None, 3, False),
])  # fmt: skip
def test_progress_is_shown_on_a_terminal_if_there_is_enough_work(monkeypatch, stderr, total, shown):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    items = list(range(total or 3))
    assert list(progress(iter(items), total, "playing")) == items
    assert bool(stderr is not None and "playing" in stderr.getvalue()) is shown


def test_json_has_its_schema_and_goes_to_stdout(capsys):
    say_json({"a": 1})
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"schema": SCHEMA, "a": 1}, "")


def test_a_complaint_is_one_line_whatever_it_holds(capsys):
    complain("a\nb\x1b[31m")
    assert capsys.readouterr() == ("", "cachesim: a\\nb\\x1b[31m\n")
    complain(str(BadInput("no such key", file="x.toml", line=3, hint="y")))
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("error", "traced"), [(Crash("broken"), False), (ValueError("broken"), True)])
def test_a_crash_that_says_where_it_was_needs_no_traceback(capsys, error, traced):
    try:
        raise error
    except Exception as caught:
        report_crash(caught)
    out, err = capsys.readouterr()
    assert out == "" and ("Traceback" in err) is traced
    assert err.splitlines()[-1].startswith("cachesim: broken (a fault of cachesim")
