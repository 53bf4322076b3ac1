"""Tests of a server's process: its start and end, its log, and the messages about its end."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

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
    StoppedAtEnd,
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
    with pytest.raises(BadInput, match=r"cannot be run: .* timed out after 0\.02 seconds"):
        version_text(program("exec sleep 9"))


def test_a_program_in_the_working_folder_is_started_and_its_end_is_reported(program, tmp_path):
    binary, log = program("echo $1 $2; echo a.cpp:7: no memory >&2; exit 3"), tmp_path / "log"
    with Process(lambda port: [binary, port, Path("x")], log, 8080) as running:
        assert (running.port, running.url) == (8080, "http://127.0.0.1:8080")
        with pytest.raises(ServerEnded, match=r"the server ended with 3: a\.cpp:7: no memory") as ended:
            running.wait(lambda: False, 60, "loading")
    assert ended.value.died == running.died() == ProcessEnd(3, ("a.cpp:7: no memory",))
    assert log.read_text() == "8080 x\na.cpp:7: no memory\n"


def test_a_condition_that_holds_at_the_end_of_the_process_is_met(program, tmp_path):
    answers = iter([False, True])
    with Process(lambda port: [program("exit 0")], tmp_path / "log") as running:
        running._popen.wait()
        running.wait(lambda: next(answers), 60, "loading")
        assert running.returncode == 0 and running.died() == ProcessEnd(0, ())
        assert str(ServerEnded(running.died())) == "the server ended with 0: no message"


def test_a_wait_that_takes_too_long_names_the_log(program, tmp_path):
    with Process(lambda port: [program("exec sleep 60")], tmp_path / "log") as running:
        with pytest.raises(BadInput, match="loading took longer than 0 s") as bad:
            running.wait(lambda: False, 0, "loading")
        assert (bad.value.file, running.returncode, running.died().returncode) == (str(tmp_path / "log"), None, 0)
        running.stop()
        assert running.returncode == -9
        running.stop()


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


class StubbornGroup:
    """A process that does not end when its pipe is closed; its group must be killed a few times."""

    def __init__(self, calls):
        self.pid, self.calls, self.stdin = 70, calls, self

    def close(self):
        self.calls.append("close")

    def wait(self, within):
        self.calls.append(within)
        if within == process.GUARD_WITHIN:
            raise process.subprocess.TimeoutExpired("server", within)

    def poll(self):
        self.calls.append("poll")

    def send_signal(self, number):
        self.calls.append(number)


@pytest.mark.parametrize("ends", ["stop", "terminate"])
def test_a_process_that_does_not_end_is_killed_with_its_group(monkeypatch, ends):
    calls, kills = [], iter([True, True, False])
    monkeypatch.setattr(process, "_kill", lambda group: calls.append(group) or next(kills))
    found = object.__new__(Process)
    found._popen = StubbornGroup(calls)
    getattr(found, ends)()
    stopped = ["close", process.GUARD_WITHIN, 70, "poll", 70, "poll", 70, process.END_WITHIN]
    assert calls == [process.signal.SIGTERM, process.END_WITHIN] * (ends == "terminate") + stopped


def test_a_group_that_has_ended_is_not_killed(monkeypatch):
    def end(group, number):
        if (group, number) != (70, process.signal.SIGKILL):
            raise ProcessLookupError

    monkeypatch.setattr(process.os, "killpg", end)
    assert (process._kill(70), process._kill(71)) == (True, False)


@pytest.mark.parametrize(("code", "found"), [
    (None, None), (0, 0), (3, 3), (128, 128), (129, -1), (134, -6), (137, -9), (-9, -9)])
def test_a_return_code_above_128_is_a_signal(code, found):
    made = object.__new__(Process)
    made._popen = SimpleNamespace(poll=lambda: code)
    assert made.returncode == found


def test_a_server_runs_in_a_process_group_of_its_own(program, tmp_path):
    with Process(lambda port: [program("exec sleep 60")], tmp_path / "log") as running:
        assert os.getpgid(running.group) == running.group != os.getpgid(0)


def test_a_free_port_is_one_on_which_a_server_can_listen():
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
    assert 1_023 < port < 1 << 16


@pytest.mark.parametrize("error", [None, ValueError])
def test_what_was_started_is_stopped_at_the_end(error):
    class Started(StoppedAtEnd):
        stops = 0

        def stop(self):
            self.stops += 1

    one = Started()
    try:
        with one as entered:
            assert entered is one and one.stops == 0
            if error:
                raise error
    except ValueError:
        assert error
    assert one.stops == 1


def test_only_messages_that_report_an_event_have_one():
    texts = ("srv  load: a line", "slot  release: id  0 | task 7 | stop processing: n_tokens = 9, truncated = 0")
    said = [entry for text in texts for entry in entries(f"0.00.000.001 I {text}")]
    assert [event["ev"] for event in events_of(said, True)] == ["release"] and len(said) == 2


def test_a_wait_looks_again_after_a_pause(monkeypatch):
    answers, pauses = iter([False, False, True]), []
    made = object.__new__(Process)
    made._popen = SimpleNamespace(poll=lambda: None)
    monkeypatch.setattr(process.time, "sleep", pauses.append)
    made.wait(lambda: next(answers), 60, "loading")
    assert pauses == [process.POLL] * 2


def test_a_wait_may_last_as_long_as_allowed(monkeypatch, tmp_path):
    (tmp_path / "log").write_text("")
    made, times, looks = object.__new__(Process), iter([7.0, 9.0, 12.0, 12.1]), []
    made._popen, made.log = SimpleNamespace(poll=lambda: None), tmp_path / "log"
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    with pytest.raises(BadInput, match="loading took longer than 5 s"):
        made.wait(lambda: looks.append(1), 5, "loading")
    assert len(looks) == 3


def test_between_two_kills_of_a_group_is_a_pause(monkeypatch):
    pauses, kills = [], iter([True, True, False])
    monkeypatch.setattr(process, "_kill", lambda group: next(kills))
    monkeypatch.setattr(process.time, "sleep", pauses.append)
    found = object.__new__(Process)
    found._popen = StubbornGroup([])
    found.stop()
    assert pauses == [process.POLL] * 2
