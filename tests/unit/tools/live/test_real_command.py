"""Tests of ``cachesim real``, with stand-ins for venv, pip and the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.live import real_command
from cachesim.tools.live.llama_server.real import installation
from cachesim.tools.live.llama_server.real import serving as serving_module
from cachesim.tools.live.llama_server.real.wheels import WHEELS, find_wheel
from cachesim.tools.live.real_command import add_arguments, prepared
from tests.unit.tools.live.real_llama import launcher


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_list_shows_every_build_and_what_is_compared(capsys):
    assert main(["real", "list"]) == exits.HOLDS
    out = capsys.readouterr().out
    assert "b11549  xllamacpp==2026.10.11549  no         answers and log" in out
    assert "b7376   xllamacpp==0.2.7          no         answers" in out
    assert main(["real", "list", "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["builds"][0]["installed"] is False


def test_install_and_remove(capsys, monkeypatch):
    def fill(folder, place, wheel):
        (folder / "llama-server").write_text("")

    monkeypatch.setattr(installation, "_fill", fill)
    assert main(["real", "install", "b11549", "b8672", "--json"]) == exits.HOLDS
    assert [one["installed"] for one in json.loads(capsys.readouterr().out)["builds"]] == [True, True]
    assert main(["real", "remove", "b8672", "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["builds"][0]["installed"] is False


@pytest.mark.parametrize(("words", "expected"), [
    (["instal", "b11549"], "unknown action 'instal' (did you mean 'install'?)"),
    (["install"], "real install takes one build or several, not 0"),
    (["list", "b11549"], "real list takes no build, not 1"),
    (["serve"], "real serve takes a build, not 0"),
    (["serve", "b11549"], "serve needs -m GGUF, or -m LAYERS such as GGGA"),
    (["serve", "b11549", "-m", "A"], "not installed: b11549"),
    (["install", "b11549", "--", "-np", "2"], "-m, --log and the server's flags go with serve"),
])  # fmt: skip
def test_unusable_command_lines(capsys, words, expected):
    assert main(["real", *words]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert expected in err and err.count("\n") == 1


def test_words_after_the_dashes_are_flags_of_the_server():
    assert prepared(["serve", "b1", "--", "-np", "2"], ()) == ["serve", "b1", "--flag=-np", "--flag=2"]
    assert prepared(["list"], ()) == ["list"]


def serving(tmp_path, *words):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    argv = [sys.executable, "-m", "cachesim", "real", "serve", str(file), "-m", "A", "--json", *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def is_running(url):
    try:
        with urllib.request.urlopen(f"{url}/props", timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_server_answers_and_ends_with_its_parent(tmp_path, number):
    process = serving(tmp_path, "--", "-np", "2", "-c", "512")
    url = json.loads(process.stdout.readline())["url"]
    with urllib.request.urlopen(f"{url}/props", timeout=5) as reply:
        assert json.load(reply)["total_slots"] == 2
    os.kill(process.pid, number)
    assert process.wait(20) == (exits.HOLDS if number == signal.SIGINT else -signal.SIGKILL)
    stop = time.monotonic() + 20
    while is_running(url) and time.monotonic() < stop:
        time.sleep(0.05)
    assert not is_running(url)
    process.stdout.close()
    process.stderr.close()


def test_a_server_that_refuses_a_flag_says_so(tmp_path, capsys):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    file.write_text(file.read_text().replace("PYTHONPATH", "echo 'error: unknown flag: -x' >&2; exit 2 #"))
    assert main(["real", "serve", str(file), "-m", "A", "--", "-x"]) == exits.BAD_INPUT
    assert "the server ended when it started: unknown flag: -x" in capsys.readouterr().err


@pytest.mark.long
def test_check_starts_a_real_server(tmp_path, capsys):
    file = launcher(tmp_path, "b11549", "llama_cpp@b11549-repaired")
    words = ["check", "--real", str(file), "--layers", "A", "--flags", "-np 1 -c 512", "--only", "reuse", "--json"]
    assert main([*words, "--examples", "1", "--requests", "200"]) in (exits.HOLDS, exits.UNDECIDED)
    assert json.loads(capsys.readouterr().out)["server"]["slots"] == 1


def test_check_takes_a_url_or_a_build(capsys):
    assert main(["check"]) == exits.BAD_INPUT
    assert "expected the URL of a server, or --real BUILD" in capsys.readouterr().err


class Served:
    """A server that is never started."""

    build, url, log = "b9713", "http://127.0.0.1:70", "own.log"
    seen, ending = [], None

    def __init__(self, server, model, flags, log):
        self.seen.append((server.build, model, flags, log))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.seen.append("stopped")

    def wait_ready(self):
        self.seen.append("ready")

    def wait_end(self):
        self.seen.append("ends")
        if self.ending is not None:
            raise self.ending


@pytest.fixture
def served(monkeypatch, tmp_path):
    monkeypatch.setattr(serving_module, "Serving", Served)
    monkeypatch.setattr(Served, "seen", [])
    return ["real", "serve", str(launcher(tmp_path, "b9713", "llama_cpp@b9518")), "-m", "GA"]


def test_a_server_is_served_until_it_ends(served, capsys):
    assert main(served) == exits.HOLDS
    assert Served.seen == [("b9713", "GA", [], None), "ready", "ends", "stopped"]
    assert capsys.readouterr().out == "b9713 answers at http://127.0.0.1:70, log in own.log; Ctrl-C ends it\n"


def test_an_interrupt_ends_the_server_without_an_error(served, capsys, monkeypatch):
    monkeypatch.setattr(Served, "ending", KeyboardInterrupt())
    assert main([*served, "--log", "own.log", "--json", "--", "-np", "2"]) == exits.HOLDS
    assert Served.seen[0] == ("b9713", "GA", ["-np", "2"], Path("own.log")) and Served.seen[-1] == "stopped"
    out, err = capsys.readouterr()
    where = {"url": "http://127.0.0.1:70", "log": "own.log", "build": "b9713"}
    assert (json.loads(out), err) == ({"schema": 1, **where}, "")


def test_an_interrupt_as_soon_as_the_url_is_known_is_no_error(served, monkeypatch):
    """A program that reads the URL may end the server before this process waits for it."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(real_command, "say", interrupt)
    assert main(served) == exits.HOLDS
    assert Served.seen[1:] == ["ready", "stopped"]


def test_only_missing_builds_are_installed_and_each_is_announced(capsys, monkeypatch):
    made = []
    monkeypatch.setattr(installation, "is_installed", lambda wheel: wheel.build == "b8672")
    monkeypatch.setattr(installation, "install", made.append)
    monkeypatch.setattr(installation, "installed_bytes", lambda wheel: 3 << 20)
    assert main(["real", "install", "b11549", "b8672"]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert [wheel.build for wheel in made] == ["b11549"]
    assert err == "cachesim: installing xllamacpp==2026.10.11549\n"
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["b11549", "xllamacpp==2026.10.11549", "no", "answers", "and", "log"],
        ["b8672", "xllamacpp==2026.4.8672.1", "3", "MiB", "answers"]]  # fmt: skip
    place = installation.environment_of(find_wheel("b8672"))
    assert "".join(line.strip() for line in out.splitlines()[3:]) == str(place)


def test_a_build_as_data(capsys):
    assert main(["real", "list", "--json"]) == exits.HOLDS
    rows = json.loads(capsys.readouterr().out)["builds"]
    assert [row["build"] for row in rows] == [wheel.build for wheel in WHEELS]
    assert next(row for row in rows if row["build"] == "b10566") == {
        "build": "b10566", "package": "xllamacpp==2026.8.10566", "installed": False, "log_read": True, "bytes": None,
        "folder": ""}  # fmt: skip


def test_a_word_that_resembles_no_action_is_refused_with_all_of_them(capsys):
    assert main(["real", "zzz"]) == exits.BAD_INPUT
    assert "unknown action 'zzz' (list, install, remove or serve)" in capsys.readouterr().err
    assert main(["real", "remove", *["b1"] * 21]) == exits.BAD_INPUT
    assert "real remove takes one build or several, not 21" in capsys.readouterr().err
    for word in (["-m", "A"], ["--log", "x"]):
        assert main(["real", "list", *word]) == exits.BAD_INPUT
        assert "go with serve" in capsys.readouterr().err


def test_the_usage_names_the_value_of_each_option():
    parser = ArgumentParser(prog="real")
    add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[-m GGUF|LAYERS]", "[--flag WORD]", "[--log FILE]", "[--install]", "[--json]"):
        assert text in usage
    assert usage.endswith(" list|install|remove|serve [BUILD ...]")
    args = parser.parse_args(["list"])
    assert (args.builds, args.model, args.flags, args.log, args.install) == ([], "", [], None, False)


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []
