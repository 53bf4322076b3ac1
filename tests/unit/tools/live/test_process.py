"""Tests of a server's process: its start and end, its log, and the messages about its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.log_events import entries
from cachesim.tools.live.llama_server import process
from cachesim.tools.live.llama_server.process import (
    TAIL,
    Logbook,
    Process,
    ProcessEnd,
    ServerEnded,
    events_of,
    fatal_lines,
    free_port,
    version_text,
)


@pytest.mark.parametrize(("text", "found"), [
    ("a.cpp:7: GGML_ASSERT(x) failed\n", ["a.cpp:7: GGML_ASSERT(x) failed"]),
    ("/src/ggml/ggml.c:12: fatal error \nbt\nlib/kv-cache.cpp:9: no room",
     ["ggml.c:12: fatal error", "kv-cache.cpp:9: no room"]),
    ("0.1 I srv: see a.cpp:7: this is no message\n", []), ("", []), ("\xff\xfe a.cpp:7: x\na.cpp: 7\n", []),
])  # fmt: skip
def test_messages_of_failures_are_read_from_the_end_of_a_log(tmp_path, text, found):
    (log := tmp_path / "log").write_bytes(text.encode("latin-1"))
    assert list(fatal_lines(log)) == found


def test_what_lies_far_before_the_end_is_not_read(tmp_path):
    (log := tmp_path / "log").write_text("a.cpp:1: long ago\n" + TAIL * "." + "\nb.cpp:2: now\n")
    assert list(fatal_lines(log)) == ["b.cpp:2: now"]
    log.write_text("a.cpp:1: x\n" + "." * (TAIL - 11))
    assert list(fatal_lines(log)) == ["a.cpp:1: x"]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that writes a program in the working folder and returns its bare name."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        file = Path("own-server")
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    return write


def test_the_version_of_a_program_in_the_working_folder(program):
    assert version_text(program("echo out $1; echo err >&2; exit 3")) == "out --version\nerr\n"
    with pytest.raises(BadInput, match="cannot be run: ") as bad:
        version_text(Path("other"))
    assert bad.value.file == "other"


def test_a_program_that_does_not_end_has_no_version(program, monkeypatch):
    monkeypatch.setattr(process, "VERSION_WITHIN", 0.02)
    with pytest.raises(BadInput, match="cannot be run"):
        version_text(program("exec sleep 9"))


def test_a_program_in_the_working_folder_is_started_and_its_end_is_reported(program, tmp_path):
    binary, log = program("echo $1 $2; echo a.cpp:7: no memory >&2; exit 3"), tmp_path / "log"
    with Process(lambda port: [binary, port, Path("x")], log, 8080) as running:
        assert (running.port, running.url) == (8080, "http://127.0.0.1:8080")
        with pytest.raises(ServerEnded, match=r"a\.cpp:7: no memory") as ended:
            running.wait(lambda: False, 60, "loading")
    assert ended.value.died == running.died() == ProcessEnd(3, ("a.cpp:7: no memory",))
    assert log.read_text() == "8080 x\na.cpp:7: no memory\n"


def test_a_file_that_is_not_executable_is_refused(tmp_path):
    (tmp_path / "text").write_text("")
    with pytest.raises(BadInput, match="not an executable file") as bad:
        Process(lambda port: [tmp_path / "text"], tmp_path / "log")
    assert bad.value.file == str(tmp_path / "text")


def test_a_log_is_read_line_by_line_as_it_grows(tmp_path):
    (file := tmp_path / "log").write_bytes(b"")
    book = Logbook(file)
    assert list(book.read()) == []
    line = "0.00.123.456 I srv  load: line %d"
    with file.open("a") as stream:
        stream.write(line % 1 + "\n" + line % 2)
        stream.flush()
        first = list(book.read())
        stream.write("2\n" + line % 3 + "\n")
        stream.flush()
        others = list(book.read())
    assert [entry.text for entry in (*first, *others)] == ["line 1", "line 22", "line 3"]
    assert (len(first), list(book.read())) == (1, [])


def test_a_server_runs_in_a_process_group_of_its_own(program, tmp_path):
    with Process(lambda port: [program("exec sleep 60")], tmp_path / "log") as running:
        assert os.getpgid(running.group) == running.group != os.getpgid(0)


def test_a_free_port_is_one_on_which_a_server_can_listen():
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
    assert 1_023 < port < 1 << 16


def test_only_messages_that_report_an_event_have_one():
    texts = ("srv  load: a line", "slot  release: id  0 | task 7 | stop processing: n_tokens = 9, truncated = 0")
    said = [entry for text in texts for entry in entries(f"0.00.000.001 I {text}")]
    assert [event["ev"] for event in events_of(said, True)] == ["release"] and len(said) == 2


def is_running(group):
    """True if a process of a group runs for some time yet."""
    for _ in range(500):
        found = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True).stdout.splitlines()
        if not any(words[0] == str(group) and not words[1].startswith("Z") for words in map(str.split, found)):
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(("text", "code"), [
    ("exit 0", 0), ("exit 3", 3), ("exit 128", 128), ("kill -ABRT $$", -6), ("kill -9 $$", -9)])  # fmt: skip
def test_a_process_that_ended_has_its_exit_code_or_its_signal(program, tmp_path, text, code):
    with Process(lambda port: [program(text)], tmp_path / "log") as running:
        with pytest.raises(ServerEnded) as ended:
            running.wait(lambda: False, 60, "loading")
        assert ended.value.died == running.died() == ProcessEnd(code, ()) and running.returncode == code


def test_a_condition_that_holds_at_the_end_of_the_process_is_met(program, tmp_path):
    with Process(lambda port: [program("exit 0")], tmp_path / "log") as running:
        running.wait(lambda: running.returncode is not None, 60, "ending")
        answers = iter([False, True])
        running.wait(lambda: next(answers), 60, "loading")
        assert running.died() == ProcessEnd(0, ())


def test_a_wait_that_takes_too_long_names_the_log(program, tmp_path):
    looks = []
    with Process(lambda port: [program("exec sleep 60")], tmp_path / "log") as running:
        with pytest.raises(BadInput, match="loading") as bad:
            running.wait(lambda: looks.append(1), 0.02, "loading")
        assert (bad.value.file, running.returncode, running.died().returncode) == (str(tmp_path / "log"), None, 0)
        assert len(looks) > 1
        running.wait(lambda: len(looks) > 1, 0, "loading")


@pytest.mark.parametrize("ends", ["stop", "terminate"])
@pytest.mark.parametrize("text", ["sleep 600 & sleep 600", "trap '' TERM; sleep 600 & while :; do sleep 600; done"])
def test_a_process_ends_with_its_whole_group(program, tmp_path, monkeypatch, ends, text):
    """Also one that ignores SIGTERM."""
    monkeypatch.setattr(process, "END_WITHIN", 0.3)
    running = Process(lambda port: [program(text)], tmp_path / "log")
    assert running.returncode is None
    getattr(running, ends)()
    assert not is_running(running.group) and running.returncode is not None
    running.stop()


def test_the_process_ends_with_ours_and_its_temporary_folder_goes(tmp_path):
    """A killed process cannot clean up: the pipe breaks, and the guard ends the server."""
    (folder := tmp_path / "temporary").mkdir()
    (parent := tmp_path / "parent.py").write_text(
        "import os, pathlib, sys\nfrom cachesim.tools.live.llama_server.process import Process\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "p = Process(lambda port: ['/bin/sleep', '600'], folder / 'log', folder=folder)\n"
        "print(p.group, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, str(parent)], capture_output=True, text=True, cwd=Path(__file__).parents[4])
    assert done.returncode == -signal.SIGKILL and not is_running(int(done.stdout))
    assert not folder.exists()


def test_a_temporary_folder_stays_while_this_process_runs(program, tmp_path):
    """The next server of a recording needs it."""
    (folder := tmp_path / "temporary").mkdir()
    running = Process(lambda port: [program("exec sleep 60")], folder / "log", folder=folder)
    running.stop()
    running.stop()
    assert (folder / "log").exists()
