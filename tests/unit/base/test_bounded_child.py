"""Child processes for foreign data: limits, isolation, and one error line for every end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import bounded_child, limits
from cachesim.base.bounded_child import BoundedChild
from cachesim.base.errors import BadInput
from cachesim.base.parser_process import SECONDS_PER_MIB, to_line
from tests.shared import ROOT

pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and the limits of Linux")
PROBE = "tests.unit.base.parser_probe"


def started(data=b"", **first):
    return BoundedChild(PROBE, "the probe", "x.bin", first, data)


def refused(**request):
    child = started()
    with pytest.raises(BadInput) as error:
        child.ask(request)
    assert "\n" not in str(error.value) and not running(child._watch.process.pid)
    return str(error.value)


def running(pid):
    """True if the process exists and has not ended. The state of an orphan may be Z until something reaps it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_child_limits_itself_and_inherits_nothing():
    left, right = socket.socketpair()
    with left, right, started(b"12345") as child:
        found = child.ask({"do": "report"})
        assert found["RLIMIT_CPU"] == limits.PARSER_TIME.now and found["RLIMIT_AS"] == limits.PARSER_MEMORY.now << 20
        assert (found["RLIMIT_CORE"], found["RLIMIT_FSIZE"]) == (0, 0) and found["RLIMIT_NOFILE"] <= 64
        assert (found["fds"], found["loaded"], found["data"]) == ([], [], 5)
        assert found["group"] == found["pid"] != os.getpgid(0)


@pytest.mark.long
def test_the_limits_hold_while_the_data_are_parsed(monkeypatch):
    monkeypatch.setattr(limits.PARSER_TIME, "now", 1)
    with pytest.raises(BadInput, match=r"x\.bin: the probe takes too long, at most 1 CPU seconds"):
        started(do="loop")
    with pytest.raises(BadInput, match=r"x\.bin: the probe needs too much memory, at most 500 MiB"):
        started(do="allocate", size=600 << 20)


@pytest.mark.parametrize("name", ["socket", "ssl", "http.client", "urllib.request", "asyncio", "ftplib"])
def test_a_network_module_cannot_be_imported(name):
    assert refused(do="import", name=name).startswith("the probe needs the package ")


@pytest.mark.parametrize("inner, first, data, request_", [
    ("cachesim.tools.request_bodies.template_parser", {"kwargs": {}}, b"{{ messages|tojson }}{{ lipsum() }}",
     {"messages": []}),
    ("cachesim.tools.request_bodies.template_parser", {"kwargs": {}}, b"{{ raise_exception('x') }}", {}),
    ("cachesim.base.gguf_header", {}, b"GGUF\x03" + bytes(19), {"names": [], "later": False}),
    ("cachesim.tools.request_bodies.tokenizer_parser", {"gguf": False},
     b'{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}', {"text": "a b"}),
])  # fmt: skip
def test_no_parser_imports_a_network_module(inner, first, data, request_):
    for package in ("jinja2", "tokenizers"):
        pytest.importorskip(package)
    with started(data, inner=inner, **first) as child:
        if b"raise" not in data:
            assert child.ask(request_) is not None
        assert child.ask({"do": "report"})["loaded"] == []


@pytest.mark.parametrize("request_, text", [
    ({"do": "raise", "name": "refused"}, "x.bin: bad data (try more)"),
    ({"do": "raise", "name": "panic"}, "x.bin: the probe failed: Panic: over"),
    ({"do": "raise", "name": "error"}, "x.bin: the probe failed: ValueError: x\\ny"),
    ({"do": "raise", "name": "memory"}, "x.bin: the probe needs too much memory, at most 500 MiB are allowed "
                                        "(--limit parser-memory=N allows more)"),
    ({"do": "exit", "code": 3}, "x.bin: the probe ended its parser (exit code 3)"),
    ({"do": "exit", "code": 0}, "x.bin: the probe ended its parser (exit code 0)"),
    ({"do": "signal", "name": "SIGABRT"}, "x.bin: the probe ended its parser (killed by SIGABRT), probably out of "
                                          "memory, at most 500 MiB are allowed (--limit parser-memory=N allows more)"),
    ({"do": "signal", "name": "SIGTERM"}, "x.bin: the probe ended its parser (killed by SIGTERM)"),
    ({"do": "garbage"}, "x.bin: the reply of the parser of the probe is unreadable"),
    ({"do": "deep"}, "x.bin: the reply of the parser of the probe is unreadable"),
    ({"do": "write", "characters": 1 << 25}, "x.bin: the output of the probe is too long, at most 16,777,216 bytes are "
                                             "allowed (--limit parser-output=N allows more)"),
])  # fmt: skip
def test_every_end_is_one_line(request_, text):
    assert refused(**request_) == text


def test_a_missing_package_is_named():
    assert refused(do="raise", name="missing").startswith("the probe needs the package parts, which is not installed (")


def test_a_child_cannot_write_a_file(tmp_path):
    assert "the probe failed: OSError" in refused(do="file", name=str(tmp_path / "x"))
    assert not (tmp_path / "x").exists() or (tmp_path / "x").read_bytes() == b""


def test_waiting_is_limited(monkeypatch):
    monkeypatch.setattr(bounded_child, "TICK", 0.1)
    child = started()                                    # on a busy machine a start takes longer than this limit
    monkeypatch.setattr(bounded_child, "WALL", 0.05)
    with pytest.raises(BadInput) as error:
        child.ask({"do": "sleep"})
    assert "the probe takes more than 0.05 times its CPU limit, at most 8 CPU seconds" in str(error.value)


@pytest.mark.parametrize("waiting, late", [(True, True), (False, False)])
def test_only_the_time_spent_on_a_request_counts(waiting, late):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    watch = bounded_child._Watch(ended, 1)
    watch.waiting = waiting
    ticks = iter([False] * (bounded_child.WALL + 1) + [True])
    watch.closed = SimpleNamespace(wait=lambda seconds: next(ticks))
    watch.run()
    assert watch.late == late


def test_time_and_output_grow_with_the_requests(monkeypatch):
    monkeypatch.setattr(limits.PARSER_OUTPUT, "now", 1000)
    with started() as child:
        text = "x" * (1 << 20)
        assert child.ask({"do": "", "text": text}) == text
        assert child.ask({"do": "report"})["RLIMIT_CPU"] == limits.PARSER_TIME.now + SECONDS_PER_MIB


def test_the_parent_waits_only_for_a_reply():
    with started() as child:
        for _ in range(2):
            assert child.ask({"do": "", "text": "x"}) == "x" and child._watch.waiting is False
        assert not child._watch.late and child._watch.daemon


def test_texts_come_back_unchanged():
    text = "\ud800 \udc00 \U0001f600 \0 \n \u2028 \""
    with started() as child:
        assert child.ask({"do": "", "text": text}) == text


def test_the_end_of_the_block_and_of_the_object_end_the_child():
    with started() as child:
        pid = child._watch.process.pid
        assert running(pid)
    assert not running(pid)
    child = started()
    pid = child._watch.process.pid
    del child
    gc.collect()
    assert not running(pid)


def test_an_interrupt_ends_the_child(monkeypatch):
    child = started()
    monkeypatch.setattr(child, "_exchange", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        child.ask({"do": ""})
    assert not running(child._watch.process.pid)


@pytest.mark.parametrize("do", ["sleep", "loop"])
def test_a_child_ends_with_its_parent(do):
    code = (f"from cachesim.base.bounded_child import BoundedChild\n"
            f"child = BoundedChild({PROBE!r}, 'x', 'x', {{}}, b'')\n"
            f"print(child._watch.process.pid, flush=True)\nchild.ask({{'do': {do!r}}})")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert running(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        for _ in range(40):
            if not running(pid):
                break
            time.sleep(0.05)
        assert not running(pid)


def test_a_child_that_cannot_start_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(BadInput, match=r"^x\.bin: failed to start the child process that parses the probe: no such"):
        started()


class Ticks:
    """Stand-in for the event that ends a watch: set after so many ticks."""

    def __init__(self, most, each=lambda tick: None):
        self.most, self.each, self.ticks = most, each, 0

    def wait(self, seconds):
        assert seconds == bounded_child.TICK
        self.each(self.ticks)
        self.ticks += 1
        return self.ticks > self.most


@pytest.mark.parametrize("allowed, killed_at", [(1.0, 7), (2.0, 13), (0.5, 4), (9.0, None)])
def test_a_child_is_killed_after_its_waiting_time(monkeypatch, allowed, killed_at):
    """Six seconds for each allowed CPU second, in ticks of a second."""
    killed = []
    monkeypatch.setattr(bounded_child, "_kill", killed.append)
    watch = bounded_child._Watch("process", allowed)
    watch.closed, watch.waiting = Ticks(20), True
    watch.run()
    assert (watch.late, killed) == (killed_at is not None, ["process"] * (killed_at is not None))
    assert watch.closed.ticks == (killed_at or 21)


def test_only_time_in_which_the_parent_waits_counts(monkeypatch):
    monkeypatch.setattr(bounded_child, "_kill", lambda process: None)
    watch = bounded_child._Watch("process", 1.0)
    watch.closed = Ticks(40, lambda tick: setattr(watch, "waiting", tick % 4 == 0))
    watch.run()
    assert watch.late and watch.closed.ticks == 25


@pytest.mark.parametrize("ended, killed", [(None, [(7, signal.SIGKILL)]), (0, []), (-9, [])])
def test_a_child_that_ended_is_not_killed(monkeypatch, ended, killed):
    """The number of its group may be that of another one by now."""
    seen = []

    def kill(*group):
        seen.append(group)
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", kill)
    bounded_child._kill(SimpleNamespace(pid=7, poll=lambda: ended))
    assert seen == killed


def test_what_a_parser_complains_of_is_not_printed(capfd):
    with started() as child:
        assert child.ask({"do": "complain", "text": "done"}) == "done"
    assert capfd.readouterr() == ("", "")


def quiet(room=0, reply=b"", code=0, late=False):
    """Return a child that never ran: it has sent this reply, or ended with this code."""
    child = object.__new__(BoundedChild)
    child.what, child.file, child._room, child.close = "the probe", "x.bin", room, lambda: None
    child._watch = SimpleNamespace(allowed=0, late=late, process=SimpleNamespace(wait=lambda: code))
    child._exchange = lambda line, data: reply
    return child


def test_a_reply_may_be_as_long_as_its_room():
    """A request adds eight bytes of room for each of its own."""
    reply, line = b'{"result": 7}\n', to_line({"do": 1})
    assert quiet(len(reply) - 8 * len(line), reply).ask({"do": 1}) == 7
    with pytest.raises(BadInput, match="the output of the probe is too long"):
        quiet(len(reply) - 8 * len(line) - 1, reply).ask({"do": 1})


@pytest.mark.parametrize(("code", "late", "text"), [
    (-signal.SIGXCPU, False, "x.bin: the probe takes too long, at most"),
    (-signal.SIGXCPU, True, "x.bin: the probe takes more than 6 times its CPU limit, at most"),
    (-signal.SIGKILL, False, "x.bin: the probe ended its parser (killed by SIGKILL), probably out of memory, at most"),
    (signal.SIGXCPU, False, f"x.bin: the probe ended its parser (exit code {int(signal.SIGXCPU)})"),
])  # fmt: skip
def test_the_end_of_a_child_is_told_by_its_signal(code, late, text):
    with pytest.raises(BadInput) as error:
        quiet(code=code, late=late).ask({})
    assert str(error.value).startswith(text)


def test_a_child_that_ended_leaves_no_open_pipe():
    child = started()
    process = child._watch.process
    child.close()
    assert (process.stdin.closed, process.stdout.closed, process.poll() is None) == (True, True, False)
