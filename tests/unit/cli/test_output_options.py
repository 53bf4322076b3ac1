"""Tests of -q, -v, --color, --json and $COLUMNS in every command, on any encoding and in any pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cachesim.base import exits
from cachesim.base.console import WIDTH, OutputOptions
from cachesim.base.errors import BadInput, Crash
from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main
from cachesim.cli.output_options import apply_output_options, report_crash, wants_json

LINE = ("run", "S40.A30/S.B30", "--model", "A")


def told(*argv, **env):
    """A process of its own: exit code, stdout and stderr."""
    done = subprocess.run([sys.executable, "-m", "cachesim", *argv], capture_output=True, check=False,
                          env={**os.environ, **env})  # fmt: skip
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_and_takes_them(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert all(word in out for word in ("--json", "-q, --quiet", "-v, --verbose", "--color WHEN"))


def test_quiet_leaves_notes_out(capsys):
    assert main([*LINE, "-p", "b9700"]) == exits.HOLDS
    assert "b9700 ->" in capsys.readouterr().err
    assert main([*LINE, "-p", "b9700", "-q"]) == exits.HOLDS
    assert capsys.readouterr().err == ""
    assert main(["run", "S4", "-p", "nothing@x", "-q"]) == exits.BAD_INPUT
    assert capsys.readouterr().err.startswith("cachesim: unknown profile")


def test_color_decides_whether_colours_are_printed(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    main([*LINE, "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out                             # before the environment
    monkeypatch.delenv("NO_COLOR", raising=False)
    for argv, coloured in {("--color", "always"): True, ("--color", "never"): False, ("--color=auto",): False,
                           (): False}.items():  # fmt: skip
        main([*LINE, *argv])
        assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_unknown_colour_mode(capsys):
    assert main([*LINE, "--color", "sometimes"]) == exits.BAD_INPUT
    assert "--color: expected one of auto, always, never, found 'sometimes'" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("columns", ["60", "100", "no", "-3", ""])
def test_columns_count_in_a_pipe_too(columns):
    out = told("profiles", "list", COLUMNS=columns)[1]
    wide = int(columns) if columns.isdigit() else 80
    assert wide - 2 <= max(map(len, out.splitlines())) <= wide


def test_manners_of_one_command_line_are_not_those_of_the_next(capsys):
    main([*LINE, "-q", "--color", "always"])
    main(list(LINE))
    assert (OutputOptions.quiet, OutputOptions.colour) == (False, "auto")


@pytest.mark.parametrize(("argv", "error"), [
    (("run", "S40", "-p", "nothing@x"), {"kind": "input", "code": 2, "message": "unknown profile 'nothing@x'"}),
    (("run", "nowhere.toml"), None),
    (("xyzzy",), {"kind": "input", "message": "unknown command 'xyzzy'"}),
    (("run", "S40", "--set", "ctx_sise=3"), {"message": "unknown server option 'ctx_sise'"}),
    (("why", "nowhere.toml", "0"), {"kind": "input"}),
])  # fmt: skip
def test_an_error_is_an_object_where_json_is_asked_for(capsys, argv, error):
    code = main([*argv, "--json"])
    out, err = capsys.readouterr()
    assert code == exits.BAD_INPUT and err
    if error is not None:
        data = json.loads(out)
        assert data["schema"] == 1 and error.items() <= data["error"].items()
        assert set(data["error"]) == {"kind", "code", "message", "file", "line", "hint"}


@pytest.mark.long
@pytest.mark.parametrize("command", [
    "profiles show llama_cpp@b10587", "options llama_cpp", "scenarios", "profiles list",
])  # fmt: skip
def test_a_list_of_which_the_beginning_is_read_is_no_error(command):
    words = f'"{sys.executable}" -m cachesim {command}'
    done = subprocess.run(["/bin/bash", "-c", f"set -o pipefail; {words} | head -1"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (exits.HOLDS, b"")


@pytest.mark.long
@pytest.mark.parametrize("argv", [
    ("profiles", "list"), ("options", "llama_cpp"), (*LINE,), ("scenarios",), ("run", "llama-lesson-attention"),
    ("why", "S40.A30/S.B30", "1", "--model", "A"), ("bisect", "S40.A30/S.B30"), (),
    ("profiles", "show", "llama_cpp@b10587"),
    ("diff", "S40.A30/S.B30", "-p", "b9518", "-p", "b10587"), ("explain", "LC-TRIM"),
], ids=str)  # fmt: skip
def test_any_command_writes_ascii(argv):
    code, out, err = told(*argv, PYTHONIOENCODING="ascii")
    assert code in (exits.HOLDS, exits.BROKEN) and "Traceback" not in err
    assert out.isascii() and out


@pytest.mark.parametrize(("line", "wanted"), [
    ("run A20 --json", True), ("run A20", False), ("run A20 -- --json", False), ("try --json -- x", True), ("", False),
])  # fmt: skip
def test_json_is_asked_for_before_two_dashes(line, wanted):
    assert wants_json(line.split()) is wanted


@pytest.mark.parametrize(("line", "quiet", "colour"), [
    ("run x", False, "auto"), ("run -q x", True, "auto"), ("run --quiet", True, "auto"), ("run -- -q", False, "auto"),
    ("run --color never", False, "never"), ("run --color=always -q", True, "always"), ("x --color", False, ""),
])  # fmt: skip
def test_manners_are_those_of_the_command_line(line, quiet, colour):
    if not colour:
        with pytest.raises(BadInput, match="expected one of auto, always, never, found ''"):
            apply_output_options(line.split())
        return
    apply_output_options(line.split())
    assert (OutputOptions.quiet, OutputOptions.colour) == (quiet, colour)
    apply_output_options(["run"])


@pytest.mark.parametrize(("columns", "width"), [
    ("60", 60), ("1", 1), ("9999", 9_999), ("10000", WIDTH), ("0", WIDTH), ("-3", WIDTH), ("no", WIDTH), ("", WIDTH),
    ("\u0663", WIDTH), ("\u00b2", WIDTH), (None, WIDTH),
])  # fmt: skip
def test_columns_are_those_of_the_environment_if_they_can_be(monkeypatch, columns, width):
    monkeypatch.delenv("COLUMNS", raising=False) if columns is None else monkeypatch.setenv("COLUMNS", columns)
    apply_output_options(["run"])
    assert OutputOptions.columns == width


@pytest.mark.parametrize(("pager", "less", "words"), [
    (None, None, ["less", "-FRX"]), (None, "-S", ["less"]), (None, "", ["less"]), ("more", None, ["more"]),
    ("/usr/bin/less", None, ["/usr/bin/less", "-FRX"]), ("less -S", None, ["less", "-S"]), ("", None, []),
    ("less '", None, []), ("'my pager' -x", None, ["my pager", "-x"]),
])  # fmt: skip
def test_the_pager_is_that_of_the_environment(monkeypatch, pager, less, words):
    for name, value in (("PAGER", pager), ("LESS", less)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    apply_output_options(["run"])
    assert OutputOptions.pager == words


@pytest.mark.parametrize(("line", "colour"), [
    ("run --colour never", "never"), ("run --colour=always", "always"), ("run --color never --color always", "always"),
    ("run --colours never", "auto"), ("run -- --color never", "auto"), ("run color never", "auto"),
])  # fmt: skip
def test_the_last_colour_mode_counts(line, colour):
    apply_output_options(line.split())
    assert OutputOptions.colour == colour
    apply_output_options(["run"])


def test_a_crash_is_reported_with_its_traceback_unless_it_explains_itself(capsys):
    end = " (a fault of cachesim: please open an issue with this output)\n"
    report_crash(Crash("the cells disagree"))
    assert capsys.readouterr() == ("", f"cachesim: the cells disagree{end}")
    try:
        raise KeyError("gone")
    except KeyError as error:
        report_crash(error)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(f"\nKeyError: 'gone'\ncachesim: 'gone'{end}")
    report_crash(MemoryError())
    assert capsys.readouterr().err == f"MemoryError\ncachesim: MemoryError{end}"
