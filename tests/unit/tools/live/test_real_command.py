"""Tests of ``cachesim real``, with stand-ins for venv, pip and the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.live.llama_server import process
from cachesim.tools.live.llama_server.real.wheels import WHEELS
from cachesim.tools.live.real_command import prepared
from tests.unit.tools.live.llama_server.real.stand_ins import replaced
from tests.unit.tools.live.real_llama import launcher
from tests.unit.tools.live.stand_in import stand_in

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Stand-ins of venv and pip, and what they installed."""
    return replaced(tmp_path, monkeypatch)


def builds(capsys, *words):
    """Return the rows of a command by build."""
    assert main(["real", *words, "--json"]) == exits.HOLDS
    return {row["build"]: row for row in json.loads(capsys.readouterr().out)["builds"]}


def test_every_build_is_listed_with_what_is_compared(capsys):
    rows = builds(capsys, "list")
    assert [*rows] == [wheel.build for wheel in WHEELS]
    assert rows["b10566"] == {"build": "b10566", "package": "xllamacpp==2026.8.10566", "installed": False,
                              "log_read": True, "bytes": None, "folder": ""}  # fmt: skip
    assert rows["b7376"]["log_read"]
    assert main(["real", "list"]) == exits.HOLDS and "xllamacpp==0.2.7" in capsys.readouterr().out


def test_only_missing_builds_are_installed_and_each_is_announced(capsys, installed):
    rows = builds(capsys, "install", "b8672")
    assert rows["b8672"]["installed"] and rows["b8672"]["bytes"] > 0 and os.path.isdir(rows["b8672"]["folder"])
    capsys.readouterr()
    assert main(["real", "install", "b11549", "b8672"]) == exits.HOLDS
    assert installed.installed == ["xllamacpp==2026.4.8672.1", "xllamacpp==2026.10.11549"]
    said = capsys.readouterr().err
    assert "xllamacpp==2026.10.11549" in said and "8672" not in said
    assert [row["installed"] for row in builds(capsys, "remove", "b8672").values()] == [False]


@pytest.mark.parametrize(("words", "said"), [
    (["instal", "b11549"], "'install'"), (["zzz"], "'zzz'"), (["install"], "0"), (["list", "b11549"], "1"),
    (["serve"], "0"), (["remove", *["b1"] * 21], "21"), (["serve", "b11549"], "-m"),
    (["serve", "b11549", "-m", "A"], "b11549"), (["install", "b11549", "--", "-np", "2"], "serve"),
    (["list", "-m", "A"], "serve"), (["list", "--log", "x"], "serve"),
])  # fmt: skip
def test_unusable_command_lines(capsys, words, said):
    assert main(["real", *words]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_words_after_the_dashes_are_flags_of_the_server():
    assert prepared(["serve", "b1", "--", "-np", "2"], ()) == ["serve", "b1", "--flag=-np", "--flag=2"]
    assert prepared(["list"], ()) == ["list"]


def serving(tmp_path, *words):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    argv = [PYTHON, "-m", "cachesim", "real", "serve", str(file), "-m", "A", "--json", *words]
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
    assert process.wait(20) == (exits.INTERRUPTED if number == signal.SIGINT else -signal.SIGKILL)
    stop = time.monotonic() + 20
    while is_running(url) and time.monotonic() < stop:
        time.sleep(0.05)
    assert not is_running(url)
    process.stdout.close()
    process.stderr.close()


def test_an_interrupt_ends_the_server_without_a_message(tmp_path, capsys, monkeypatch):
    said, slots, wait = [], [], time.sleep

    def sleep(seconds):
        """Interrupt the command when it has printed where the server answers."""
        said.append(capsys.readouterr().out)
        if "url" in said[-1]:
            with urllib.request.urlopen(f"{json.loads(said[-1])['url']}/props", timeout=5) as reply:
                slots.append(json.load(reply)["total_slots"])
            raise KeyboardInterrupt
        wait(seconds)

    monkeypatch.setattr(process.time, "sleep", sleep)
    monkeypatch.setattr(sys, "executable", PYTHON)
    server, log = stand_in(tmp_path, "version: 9713 (abc)"), tmp_path / "own.log"
    words = ["-m", "A", "--log", str(log), "--json", "--", "-np", "2", "-c", "512"]
    assert main(["real", "serve", str(server), *words]) == exits.INTERRUPTED
    found = json.loads("".join(said))
    assert (found["log"], found["build"], slots, capsys.readouterr().err) == (str(log), "b9713", [2], "")
    assert not is_running(found["url"])


def test_a_server_that_refuses_a_flag_says_so(tmp_path, capsys):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    file.write_text(file.read_text().replace("FAR=", "echo 'error: unknown flag: -x' >&2; exit 2 #"))
    assert main(["real", "serve", str(file), "-m", "A", "--", "-x"]) == exits.BAD_INPUT
    assert "unknown flag: -x" in capsys.readouterr().err


@pytest.mark.long
def test_check_starts_a_real_server(tmp_path, capsys):
    file = launcher(tmp_path, "b11549", "llama_cpp@b11549-repaired")
    words = ["check", "--real", str(file), "--layers", "A", "--flags", "-np 1 -c 512", "--only", "reuse", "--json"]
    assert main([*words, "--examples", "1", "--requests", "200"]) in (exits.HOLDS, exits.UNDECIDED)
    assert json.loads(capsys.readouterr().out)["server"]["slots"] == 1


def test_check_takes_a_url_or_a_build(capsys):
    assert main(["check"]) == exits.BAD_INPUT
    assert "--real BUILD" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ("run", "A9/A9", "--model", "A"), ("verify", "A9/A9", "--layers", "A"), ("check", "--layers", "A"),
    ("diff", "A9/A9", "--model", "A", "-p", "llama_cpp@b11549", "-p", "llama_cpp@b10587"),
    ("fuzz", "--examples", "1", "--model", "A"),
])  # fmt: skip
def test_with_a_server_that_never_starts_nothing_is_decided(tmp_path, capsys, words):
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\nif [ $1 = --version ]; then echo 'version: 11549 (abc)'; else exit 1; fi\n")
    server.chmod(0o755)
    assert main([*words, "--real", str(server)]) == exits.UNDECIDED
    said = " ".join("".join(capsys.readouterr()).split())
    assert "the server ended when it started" in said and "Traceback" not in said
