"""Tests of console output: stdout, stderr and JSON."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cachesim.base.console import (
    SCHEMA,
    WIDTH,
    OutputOptions,
    as_text,
    ask,
    complain,
    note,
    on_stderr,
    say,
    say_json,
    show,
    show_paged,
    stdout_console,
)
from cachesim.base.errors import BadInput, Crash
from cachesim.base.progress_bar import ProgressBar, progress
from cachesim.cli.output_options import apply_output_options, pager_of, report_crash


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def test_json_has_its_schema_and_goes_to_stdout(capsys):
    say_json({"a": 1})
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"schema": SCHEMA, "a": 1}, "")


def test_a_complaint_is_one_line_whatever_it_holds(capsys):
    complain("a\nb\x1b[31m")
    assert capsys.readouterr() == ("", "cachesim: a\\nb\\x1b[31m\n")
    complain(str(BadInput("no such key", file="x.toml", line=3, hint="y")))
    assert capsys.readouterr().err.count("\n") == 1


HOSTILE = "a\x1b[31m\x1b]0;t\x07\x9b2J\u202eb\r[bold]:smile:\ud800"
SHOWN = r"a\x1b[31m\x1b]0;t\x07\x9b2J\u202eb\r[bold]:smile:\ud800"
IN_RICH = SHOWN.replace(r"\x07", "").replace(r"\r", "")
"""rich removes these two itself."""


def test_no_output_has_control_characters_of_a_text(capsys, monkeypatch):
    say(HOSTILE)
    on_stderr(HOSTILE)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert ask(HOSTILE) == "y"
    assert capsys.readouterr() == (f"{SHOWN}\n{SHOWN}", f"{SHOWN}\n")
    complain(f"{HOSTILE}\n\t")
    assert capsys.readouterr().err == f"cachesim: {SHOWN}\\n\\t\n"
    say("a\n\tb\xa0\u200d")
    assert capsys.readouterr().out == "a\n\tb\xa0\u200d\n"


def test_no_table_has_control_characters_of_a_text(capsys):
    table = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, "red"))
    group = Group(HOSTILE, Text(HOSTILE))
    parts = [HOSTILE, Text(HOSTILE), table, Padding(group, (0, 2)), Panel(HOSTILE, title=HOSTILE)]
    for width in (80, 20):
        show(*parts, width=width)
        out = capsys.readouterr().out
        assert all(sign.isprintable() or sign == "\n" for sign in out) and max(map(len, out.splitlines())) <= width
        assert out.splitlines()[0] == IN_RICH[:width].rstrip()
    assert as_text(*parts).splitlines()[:2] == [IN_RICH, IN_RICH]


def test_escaped_characters_have_the_style_of_their_character(monkeypatch, capsys):
    OutputOptions.colour = "always"
    monkeypatch.setenv("TERM", "xterm")
    show(Text.assemble(("a\x1b", "bold"), ("[2J", "red"), "\x9b\nb"))
    assert capsys.readouterr().out == "\x1b[1ma\\x1b\x1b[0m\x1b[31m[2J\x1b[0m\\x9b\nb\n"


def test_a_traceback_has_no_control_characters(capsys):
    report_crash(ValueError(HOSTILE))
    assert SHOWN in capsys.readouterr().err.splitlines()[-2]


@pytest.mark.parametrize(("error", "traced"), [(Crash("broken"), False), (ValueError("broken"), True)])
def test_a_crash_that_says_where_it_was_needs_no_traceback(capsys, error, traced):
    try:
        raise error
    except Exception as caught:
        report_crash(caught)
    out, err = capsys.readouterr()
    assert out == "" and ("Traceback" in err) is traced
    assert err.splitlines()[-1].startswith("cachesim: broken (a fault of cachesim")


def test_what_is_shown_does_not_wait_in_a_buffer(monkeypatch):
    """A pipe has the first lines of a report while the command works on the rest."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(_Raw(written)), encoding="utf-8"))
    print("in the buffer")
    assert written.getvalue() == b""
    show("now")
    assert written.getvalue() == b"in the buffer\nnow\n"


class _Raw(io.RawIOBase):
    """Raw stream that writes to another."""

    def __init__(self, written: io.BytesIO) -> None:
        self.written = written

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        return self.written.write(data)


@pytest.fixture(autouse=True)
def without_pager():
    yield
    OutputOptions.pager = ()


def paged(monkeypatch, pager):
    """Return what ``show_paged`` prints itself on a terminal with this $PAGER."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stdin", Terminal())
    OutputOptions.pager = pager
    show_paged(Text("a long list"))
    return terminal.getvalue()


def test_a_terminal_shows_pages_and_a_pipe_does_not(monkeypatch, tmp_path, capsys):
    program = tmp_path / "pager"
    program.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/read\ncat >> {tmp_path}/read\n")
    program.chmod(0o755)
    OutputOptions.pager = [str(program), "-R"]
    show_paged(Text("a short list"))
    assert capsys.readouterr().out == "a short list\n" and not (tmp_path / "read").exists()
    assert paged(monkeypatch, [str(program), "-R"]) == ""
    assert (tmp_path / "read").read_text().startswith("-R\na long list")


@pytest.mark.parametrize("pager", [[], ["/no/such/program"]])
def test_without_a_pager_the_text_is_printed(monkeypatch, pager):
    assert "a long list" in paged(monkeypatch, pager)


@pytest.mark.parametrize(("command", "is_configured", "words"), [
    ("less", False, ["less", "-FRX"]), ("/usr/bin/less", False, ["/usr/bin/less", "-FRX"]), ("less", True, ["less"]),
    ("less -S", False, ["less", "-S"]), ("most", False, ["most"]), ("", False, []), ("'", False, []),
])  # fmt: skip
def test_words_of_a_pager(command, is_configured, words):
    assert pager_of(command, is_configured) == words


def test_ctrl_c_waits_for_the_pager(monkeypatch, tmp_path):
    """A pager that goes on after Ctrl-C keeps the terminal until the reader leaves it."""
    program = tmp_path / "pager"
    program.write_text(f"#!/bin/sh\nkill -INT $PPID; sleep 0.15; kill -INT $PPID\ncat > {tmp_path}/left\n")
    program.chmod(0o755)
    assert paged(monkeypatch, [str(program)]) == ""
    assert (tmp_path / "left").read_text() == "a long list\n"


class Keyboard:
    """Standard input with these bytes; without bytes Ctrl-C is typed."""

    def __init__(self, data):
        self.buffer = self
        self.data = data

    def readline(self):
        if self.data is None:
            raise KeyboardInterrupt
        return self.data


@pytest.mark.parametrize(("data", "line", "out"), [
    (b" Yes \n", "yes", "go? "), (b"", None, "go? \n"), (b"no", "no", "go? \n"), (b"\xff\n", "\ufffd", "go? "),
    (b"\n", "", "go? "),
])  # fmt: skip
def test_a_typed_line_is_returned(monkeypatch, capsys, data, line, out):
    monkeypatch.setattr(sys, "stdin", Keyboard(data))
    assert ask("go? ") == line and capsys.readouterr() == (out, "")
    monkeypatch.setattr(sys, "stdin", io.StringIO(data.decode(errors="replace")))
    assert ask("go? ") == line


def test_an_interrupt_while_a_line_is_typed_ends_the_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Keyboard(None))
    with pytest.raises(KeyboardInterrupt):
        ask("go? ")
    assert capsys.readouterr().out == "go? \n"


def test_without_stderr_nothing_is_printed_there(monkeypatch, capsys):
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError

    for stderr in (None, Closed()):
        monkeypatch.setattr(sys, "stderr", stderr)
        complain("x")
        on_stderr("x")
        assert list(progress([1, 2], 2, "what")) == [1, 2] and not ProgressBar().is_shown
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet, shown", [(False, "cachesim: a note\n"), (True, "")])
def test_notes_are_not_shown_if_only_results_are_wanted(capsys, quiet, shown):
    apply_output_options(["run", *["-q"] * quiet])
    note("a note")
    assert capsys.readouterr() == ("", shown)


def test_a_text_that_is_wider_than_the_console_is_whole():
    table = Table.grid()
    table.add_column(no_wrap=True, min_width=2 * WIDTH)
    table.add_row("x" * 2 * WIDTH)
    assert as_text(table, Text("y  "), Text("z")) == f"{'x' * 2 * WIDTH}\ny\nz"


@pytest.mark.parametrize(("colour", "is_terminal", "variable", "coloured"), [
    ("auto", False, "", False), ("auto", True, "", True), ("auto", True, "1", False), ("always", False, "", True),
    ("always", False, "1", True), ("always", True, "1", True), ("never", True, "", False), ("never", False, "", False),
])  # fmt: skip
def test_text_is_coloured_as_asked_or_on_a_terminal(monkeypatch, colour, is_terminal, variable, coloured):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", variable)
    if not variable:
        monkeypatch.delenv("NO_COLOR")
    OutputOptions.colour = colour
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    show(Text("red", "red"))
    assert stream.getvalue() == ("\x1b[31mred\x1b[0m\n" if coloured else "red\n")


@pytest.mark.parametrize(("width", "columns", "found"), [(None, 80, 80), (None, 50, 50), (30, 50, 30)])
def test_a_pipe_has_as_many_columns_as_asked(monkeypatch, width, columns, found):
    monkeypatch.setenv("COLUMNS", str(columns))
    apply_output_options(["run"])
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    show(Text("x" * 90), width=width)
    assert len(sys.stdout.getvalue().splitlines()[0]) == stdout_console(width).width == found


@pytest.mark.parametrize("colour", ["always", "never"])
def test_a_pipe_has_no_blanks_at_line_ends(monkeypatch, colour):
    """A reader compares, greps and pastes lines of a pipe as they would be typed."""
    OutputOptions.colour = colour
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(Text("a", "red"), "in the table", style="bold")
    show(Padding(Text("word " * 30, "red"), (0, 4)), table, Text("between words"))
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in sys.stdout.getvalue().splitlines()]
    assert lines[-2:] == ["a  in the table", "between words"]
    assert all(line == line.rstrip() for line in lines)


def test_no_line_breaks_between_a_flag_and_its_value(monkeypatch):
    """A flag that a sentence names can be pasted, also at the end of a line."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    sentence = f"{'x' * 60} such as --cache-ram 20992 -v"
    show(Padding(Text(sentence), (0, 0, 0, 2)), Text(f"{'-' * 70} (-np 4)"), width=80)
    show(Text("--a-flag-of-a-server and-its-value"), width=20)
    assert sys.stdout.getvalue().split("\n") == [
        f"  {'x' * 60} such as", "  --cache-ram 20992 -v", f"{'-' * 70} (-np 4)", "--a-flag-of-a-server",
        "and-its-value", "",
    ]  # fmt: skip


def test_a_text_for_other_uses_has_neither_colours_nor_trailing_blanks(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    OutputOptions.colour = "always"
    assert as_text(Text("red  ", "red"), Padding("x", (1, 2, 0, 2))) == "red\n\n  x"
