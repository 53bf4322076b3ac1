"""Child processes for foreign data: limits, isolation, and one error line for every end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cachesim.base import bounded_child, limits
from cachesim.base.bounded_child import BoundedChild
from cachesim.base.errors import BadInput
from cachesim.base.parser_process import SECONDS_PER_MIB
from tests.shared import ROOT

pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and the limits of Linux")
PROBE = "tests.unit.base.parser_probe"


def started(data=b"", **first):
    return BoundedChild(PROBE, "the probe", "x.bin", first, data)


def process_of(child):
    return child.ask({"do": "report"})["pid"]


def refused(**request):
    child = started()
    pid = process_of(child)
    with pytest.raises(BadInput) as error:
        child.ask(request)
    assert "\n" not in str(error.value) and not running(pid)
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
def test_the_limits_hold_while_the_data_are_parsed():
    limits.lift({"parser-time": 1})
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


@pytest.mark.parametrize("request_, key", [
    ({"do": "raise", "name": "refused"}, "bad data (try more)"), ({"do": "raise", "name": "panic"}, "Panic: over"),
    ({"do": "raise", "name": "error"}, "ValueError: x\\ny"), ({"do": "raise", "name": "memory"}, "parser-memory=N"),
    ({"do": "exit", "code": 3}, "exit code 3"), ({"do": "exit", "code": 0}, "exit code 0"),
    ({"do": "signal", "name": "SIGABRT"}, "parser-memory=N"), ({"do": "signal", "name": "SIGKILL"}, "parser-memory=N"),
    ({"do": "signal", "name": "SIGTERM"}, "SIGTERM"), ({"do": "signal", "name": "SIGXCPU"}, "parser-time=N"),
    ({"do": "garbage"}, "unreadable"), ({"do": "deep"}, "unreadable"),
])  # fmt: skip
def test_every_end_is_one_line_that_names_its_cause(request_, key):
    found = refused(**request_)
    assert (found.startswith("x.bin: ") and "the probe" in found) or key == "bad data (try more)"
    assert key in found


def test_only_an_end_at_a_limit_names_the_limit():
    for request in ({"do": "exit", "code": int(signal.SIGXCPU)}, {"do": "signal", "name": "SIGTERM"}):
        assert "--limit" not in refused(**request)


def test_a_reply_may_not_be_longer_than_allowed():
    limits.lift({"parser-output": 10_000})
    with started() as child:
        assert len(child.ask({"do": "write", "characters": 9_000})) == 9_000
    child = started()
    with pytest.raises(BadInput, match="parser-output=N"):
        child.ask({"do": "write", "characters": 12_000})


def test_a_missing_package_is_named():
    assert refused(do="raise", name="missing").startswith("the probe needs the package parts, which is not installed (")


def test_a_child_cannot_write_a_file(tmp_path):
    assert "the probe failed: OSError" in refused(do="file", name=str(tmp_path / "x"))
    assert not (tmp_path / "x").exists() or (tmp_path / "x").read_bytes() == b""


def test_waiting_for_a_reply_is_limited(monkeypatch):
    monkeypatch.setattr(bounded_child, "TICK", 0.05)
    child = started()                                    # on a busy machine a start takes longer than this limit
    monkeypatch.setattr(bounded_child, "WALL", 0.1)
    time.sleep(1.5)                                      # time between the requests does not count
    assert child.ask({"do": "", "text": "x"}) == "x"
    with pytest.raises(BadInput, match="parser-time=N"):
        child.ask({"do": "sleep"})


def test_time_and_output_grow_with_the_requests():
    limits.lift({"parser-output": 1000})
    with started() as child:
        text = "x" * (1 << 20)
        assert child.ask({"do": "", "text": text}) == text
        assert child.ask({"do": "report"})["RLIMIT_CPU"] == limits.PARSER_TIME.now + SECONDS_PER_MIB


def test_texts_come_back_unchanged():
    text = "\ud800 \udc00 \U0001f600 \0 \n \u2028 \""
    with started() as child:
        assert child.ask({"do": "", "text": text}) == text


def test_the_end_of_the_block_and_of_the_object_end_the_child():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    with started() as child:
        pid = process_of(child)
        assert running(pid)
    assert not running(pid) and descriptors() == before
    child = started()
    pid = process_of(child)
    del child
    gc.collect()
    assert not running(pid)


def test_an_interrupt_ends_the_child():
    child = started()
    pid = process_of(child)
    main = threading.main_thread().ident
    threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        child.ask({"do": "sleep"})
    assert not running(pid)


@pytest.mark.parametrize("do", ["sleep", "loop"])
def test_a_child_ends_with_its_parent(do):
    code = (f"from cachesim.base.bounded_child import BoundedChild\n"
            f"child = BoundedChild({PROBE!r}, 'x', 'x', {{}}, b'')\n"
            f"print(child.ask({{'do': 'report'}})['pid'], flush=True)\nchild.ask({{'do': {do!r}}})")  # fmt: skip
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


def test_what_a_parser_complains_of_is_not_printed(capfd):
    with started() as child:
        assert child.ask({"do": "complain", "text": "done"}) == "done"
    assert capfd.readouterr() == ("", "")
