"""Tests that the command line refuses invalid input with a single line and the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from cachesim import __version__
from cachesim.base import console, exits
from cachesim.base.errors import BadInput, Crash, Terminated, Unfinished
from cachesim.cli.main import main
from tests.unit.scenarios.samples import GOOD


def refused(capsys, *argv):
    """Return the line with which a command line is refused."""
    assert main(argv) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cachesim: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["rum"], "did you mean 'run'?"),
        (["xyzzy"], "see cachesim --help"),
        (["--jsn"], "--jsn"),
        (["run", "--jsno", "x"], "did you mean '--json'?"),
        (["run"], "FILE"),
        (["run", "nowhere.toml"], "no such file"),
        (["run", ".", "-j", "many"], "-j"),
        (["run", ".", "-j", "0"], "at least 1"),
        (["run", "S40.A"], "'A' has no length"),
        (["run", "S40", "--set", "ctx_sise=3"], "did you mean 'ctx_size'?"),
        (["run", "S40", "--set", "ctx_size"], "key=value"),
        (["run", "S40", "--model", "lama"], "did you mean 'llama'?"),
        (["run", "S40", "-p", "hea"], "unknown profile 'hea' (see cachesim profiles list"),
        (["run", "S40", "-p", "llama_cpp@b10587x"], "did you mean 'llama_cpp@b10587'?"),
        (["profiles", "lst"], "did you mean 'list'?"),
        (["profiles", "diff", "a"], "2 names"),
        (["replay", "x.json", "--mode", "exacty"], "exacty"),
        (["why", "x.toml", "-1"], "expected an integer from 0 to"),
        (["why", ".", "0"], "expected a scenario file, found a folder"),
        (["run", "S40", "--model", "Qwen4-Next"], "did you mean 'qwen3-next'? see cachesim options llama_cpp"),
        (["run", "S40", "--model", "xyz", "-p", "mlx_lm@d78bf58e"], "B, D; names: cachesim options mlx_lm"),
        (["fuzz", "-p", "llama_cpp@b10587", "--examples", "0"], "--examples must be at least 1"),
        (["fuzz", "-p", "llama_cpp@b10587", "--minutes", "0"], "a number of minutes above 0"),
        (["fuzz", "-p", "llama_cpp@b10587", "--minutes", "0.5", "--examples", "3"], "exclude each other"),
    ],
    ids=str,
)
def test_bad_command_line(capsys, argv, words):
    assert words in refused(capsys, *argv)


def test_bad_file_is_one_line_with_its_place(capsys, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(GOOD.replace('id = "good"', 'id = "bad"').replace("[server]", "[server]\nctx_sise = 3"))
    told = f"{file}:9: unknown server option 'ctx_sise' (did you mean 'ctx_size'? see cachesim options llama_cpp)"
    assert told in refused(capsys, "run", str(file))


def test_strange_names_stay_in_one_line(capsys):
    assert "\\n" in refused(capsys, "run", "no\nsuch\x1b[31mfile")


def test_an_empty_folder_selects_nothing(capsys, tmp_path):
    assert main(["run", str(tmp_path)]) == exits.NOTHING
    assert "no scenario found" in capsys.readouterr().err


def test_request_number_beyond_the_end(capsys, tmp_path):
    file = tmp_path / "good.toml"
    file.write_text(GOOD)
    assert "unknown request 2 (0 to 1)" in refused(capsys, "why", str(file), "2")


def test_diff_wants_two_profiles(capsys, tmp_path):
    assert "two different profiles" in refused(capsys, "diff", "x.toml", "-p", "llama_cpp@b10587")


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"cachesim {__version__}"
    engines = [name.partition("@")[0] for name in second.split(", ")]
    assert engines == ["llama_cpp", "ik_llama", "mlx_lm", "vllm", "sglang"]


def test_json_carries_its_schema(capsys):
    console.say_json({"runs": []})
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "runs": []}


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "cachesim", "run", "A4", "--model", "A", "-q"], stdout=write,
                          stderr=subprocess.PIPE, check=False)  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (exits.BROKEN_PIPE, b"")


@pytest.mark.part(2)
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_output_can_be_written(encoding):
    """The tables have a sign that ASCII lacks, and a cut prompt has another."""
    line = "S40.A30/" + ".".join(f"Longer{word}10" for word in "WordsThanTheColumn") + ".End10"
    words = "run", line, "--model", "A"
    done = subprocess.run([sys.executable, "-m", "cachesim", *words], capture_output=True, check=False,
                          env={**os.environ, "PYTHONIOENCODING": encoding})  # fmt: skip
    out = done.stdout.decode(encoding)
    assert (done.returncode, done.stderr) == (exits.HOLDS, b"")
    cut, none = ("~", "-") if encoding == "ascii" else ("…", "·")
    assert f".{cut}." in out and ".End" in out and f" {none} " in out


def test_other_faults_of_an_encoding_are_not_hidden():
    main(["xyzzy"])
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", errors="cachesim")
    assert "a\u03b1".encode("ascii", errors="cachesim") == b"a?"


ENDED = """
import os, signal
from cachesim.cli.main import main
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.open = lambda *_, **__: os.kill(os.getpid(), number) or signal.pause()
    print(main(["explain", "LICENSE"]))
"""
"""Runs a command that receives each signal. None is ignored: under nohup SIGHUP would be, and the process would wait
for ever."""


def test_a_signal_that_asks_us_to_end_is_its_exit_code():
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([b"130", b"143", b"129"], b"cachesim: interrupted\n" * 3)


def test_signals_are_what_they_were_when_a_command_is_over(capsys):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    main(["xyzzy"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.long
@pytest.mark.parametrize("argv", [("profiles", "list"), ("profiles", "list", "--json"), ("--help",), ("--version",)])
def test_stdout_that_cannot_be_written_is_one_line(argv):
    words = f'"{sys.executable}" -m cachesim {" ".join(argv)}'
    for end, told in ((">&-", "standard output is closed"), (">/dev/full", "cannot be written: no space left")):
        for unbuffered in ("", "1"):
            done = subprocess.run(["/bin/sh", "-c", f"{words} {end}"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONUNBUFFERED": unbuffered})  # fmt: skip
            assert done.returncode == exits.BAD_INPUT
            assert told in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.long
def test_stderr_need_not_be_read():
    words = f'"{sys.executable}" -m cachesim'
    for end in ("2>&-", "2>/dev/full"):
        for argv, code in (("xyzzy", exits.BAD_INPUT), ("profiles list", exits.HOLDS)):
            line = ["/bin/sh", "-c", f"{words} {argv} {end}"]
            done = subprocess.run(line, stdout=subprocess.PIPE, check=False)
            assert (done.returncode, bool(done.stdout)) == (code, code == exits.HOLDS)


@pytest.mark.parametrize(("codes", "code"), [
    ((), 0), ((0, 0), 0), ((5, 0), 5), ((3, 5, 0), 3), ((2, 3), 2), ((2, 1, 3), 1), ((0, 1, 70, 2), 70),
])  # fmt: skip
def test_the_code_of_several_results(codes, code):
    assert exits.worst(codes) == exits.worst(codes[::-1]) == code


ENDS = [
    (BadInput("no", file="f", line=3, hint="yes"), exits.BAD_INPUT, "f:3: no (yes)",
     {"kind": "input", "message": "no", "file": "f", "line": 3, "hint": "yes"}),
    (KeyboardInterrupt(), exits.INTERRUPTED, "interrupted", {"kind": "interrupted", "message": "KeyboardInterrupt"}),
    (Terminated(15), 143, "interrupted", {"kind": "interrupted", "message": "15"}),
    (Unfinished("2 of 3 are left", 1), 129, "interrupted: 2 of 3 are left",
     {"kind": "interrupted", "message": "2 of 3 are left"}),
    (Unfinished("all is left", None), exits.INTERRUPTED, "interrupted: all is left",
     {"kind": "interrupted", "message": "all is left"}),
]  # fmt: skip


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """Return a function that makes the reading of a file raise an error, and returns a command that reads it."""
    file = tmp_path / "a.log"
    file.write_text("a line")

    def command(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(os, "open", fail)
        return ["explain", str(file)]

    return command


@pytest.mark.parametrize("error, code, line, data", ENDS, ids=[str(code) for _, code, *_ in ENDS])
def test_every_end_is_a_line_a_code_and_data(capsys, failing, error, code, line, data):
    command = failing(error)
    assert main(command) == code
    assert capsys.readouterr() == ("", f"cachesim: {line}\n")
    assert main([*command, "--json"]) == code
    out, err = capsys.readouterr()
    whole = {"file": None, "line": None, "hint": None, **data, "code": code}
    assert (json.loads(out), err) == ({"schema": 1, "error": whole}, f"cachesim: {line}\n")


@pytest.mark.parametrize("error", [Crash("odd"), ZeroDivisionError("x")])
def test_a_fault_of_ours_is_data_too_and_has_its_traceback(capsys, failing, error):
    assert main([*failing(error), "--json"]) == exits.CRASH
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == {"kind": "crash", "code": exits.CRASH, "message": str(error), "file": None,
                                        "line": None, "hint": None}  # fmt: skip
    assert ("Traceback" in err) is not isinstance(error, Crash)


def test_json_after_two_dashes_is_not_an_option(capsys):
    assert main(["explain", "--", "zzqqzz", "--json"]) == exits.BAD_INPUT
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_that_was_ignored_stays_so(monkeypatch, failing, before):
    found = []

    def look(*_, **__):
        found.append(signal.getsignal(signal.SIGHUP))
        raise KeyboardInterrupt

    command = failing(KeyboardInterrupt())
    monkeypatch.setattr(os, "open", look)
    old = signal.signal(signal.SIGHUP, before)
    try:
        main(command)
        assert (found == [signal.SIG_IGN]) is (before is signal.SIG_IGN) and found != [signal.SIG_DFL]
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, old)


class Full:
    """A standard output that cannot be flushed."""

    def __init__(self, error, number=None):
        self.error, self.number = error, number

    def write(self, text):
        return len(text)

    def flush(self):
        raise self.error

    def fileno(self):
        if self.number is None:
            raise ValueError("not a file")
        return self.number


@pytest.mark.parametrize("argv, code", [
    (["profiles", "list"], exits.HOLDS), (["run", "A4"], exits.BROKEN_PIPE)])
def test_a_list_may_be_left_unread(monkeypatch, capsys, argv, code):
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError()))
    assert main([*argv, "-q"]) == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_full_disk_is_told_on_stderr_alone(monkeypatch, capsys, json_too):
    monkeypatch.setattr(sys, "stdout", Full(OSError(28, "No space left on device")))
    assert main(["run", "A4", *json_too]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert "no space left on device" in err and err.count("\n") == 1


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_what_stdout_does_not_take_at_the_end_goes_to_the_null_device(monkeypatch, capsys, tmp_path, error):
    """The interpreter flushes stdout once more, and would report the error again."""
    number = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(sys, "stdout", Full(error, number))
    try:
        main(["run", "A4"])
        assert os.path.samestat(os.fstat(number), os.stat(os.devnull))
    finally:
        os.close(number)


def test_a_closed_stdout_stops_the_command_before_it_starts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["run", "A4", "--json"]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert "standard output is closed" in err and err.count("\n") == 1


@pytest.mark.parametrize("argv, told", [
    (["run", "A4", "--zz"],
     "unknown option '--zz' (see cachesim run --help; for a server's flags, cachesim options ENGINE)"),
    (["run", "A4", "--jsn"], "unknown option '--jsn' (did you mean '--json'?)"),
    (["run", "A4", "--jso"], "unknown option '--jso' (did you mean '--json'?)"),
    (["--versio"], "unknown option '--versio' (did you mean '--version'?)"),
    (["run", "A4", "--ctx-siz=4"], "unknown option '--ctx-siz' (did you mean '--ctx-size'?)"),
    (["completion", "bash", "zz"], "unknown argument 'zz' (see cachesim completion --help)"),
    (["completion", "bash", "--zz"], "unknown option '--zz' (see cachesim completion --help)"),
    (["rum"], "unknown command 'rum' (did you mean 'run'?)"),
    (["qqqq"], "unknown command 'qqqq' (see cachesim --help)"),
    (["load"], "unknown command 'load' (a function of the Python package: help(cachesim.load))"),
    (["--zz"], "unknown option '--zz' (see cachesim --help)"),
])  # fmt: skip
def test_an_unknown_word_is_told_whole(capsys, argv, told):
    assert main(argv) == exits.BAD_INPUT
    assert capsys.readouterr() == ("", f"cachesim: {told}\n")


def test_a_command_runs_in_any_thread(capsys):
    found = []
    thread = threading.Thread(target=lambda: found.append(main(["run", "A5", "--model", "A", "-q"])))
    thread.start()
    thread.join()
    assert found == [exits.HOLDS]
