"""Tests of `cachesim watch` as a process: its rows, its ends, its errors, and a failure of its analysis."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.watch.command import server_address
from tests.shared import ROOT

SECONDS = 60                 # in which each process ends
LOG = ROOT / "tests/unit/tools/server_logs/verbosity_4.log"
STREAM = (b'data: {"choices":[{"delta":{"content":"Yes."}}]}\n\n'
          b'data: {"choices":[],"timings":{"prompt_n":5,"cache_n":7,"predicted_n":2}}\n\ndata: [DONE]\n\n')  # fmt: skip


LOOPBACK_6 = "[::1]" if Path("/proc/net/if_inet6").exists() and Path("/proc/net/if_inet6").read_text() else "127.0.0.1"


class Handler(BaseHTTPRequestHandler):
    """Server that streams the same answer to everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("X-Odd-CASE", "kept")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(STREAM), STREAM))

    def log_message(self, *_):
        pass


@contextmanager
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()


@contextmanager
def watching(*words, module=("cachesim",), **more):
    """Start the command; yield the process."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)         # background jobs ignore SIGINT
    with subprocess.Popen([sys.executable, "-m", *module, "watch", *words], cwd=ROOT, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                          **more) as process:  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        overdue = threading.Timer(SECONDS, process.kill)        # ends the wait for a line that does not come
        overdue.start()
        try:
            yield process
        finally:
            overdue.cancel()
            process.kill()


@contextmanager
def relaying(*words, host="127.0.0.1", **more):
    """Start a relay to a server; yield the process, and a client of the relay."""
    pytest.importorskip("h11", reason="the extra `watch` is not installed")
    with server() as to, watching("--listen", f"{host}:0", "--to", to, "--json", *words, **more) as process:
        url = json.loads(process.stdout.readline())["url"]
        assert url.startswith(f"http://{host}:") and url.endswith("/")
        yield process, http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"))


def ask(client, *texts, day=1, more=()):
    """Send a request. The reply must be unchanged, but for the headers ``more``."""
    messages = [{"role": "system", "content": f"Be brief. Date: 2026-01-0{day}"}]
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    client.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": messages[:-1]}))
    reply = client.getresponse()
    assert (reply.status, reply.read()) == (200, STREAM)
    assert reply.getheaders()[2:] == [("X-Odd-CASE", "kept"), ("Transfer-Encoding", "chunked"), *more]


def printed(process, rows):
    """The lines of so many rows, however long the analysis needs to start on a busy machine."""
    return "".join(process.stdout.readline() for _ in range(rows))


def said(process, compared=0):
    """The rows and the totals after an interrupt of all processes, as a terminal sends it, which waits for the rows of
    so many requests."""
    first = printed(process, compared)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    out = first + out
    assert process.returncode == exits.INTERRUPTED and "Traceback" not in err
    found = [json.loads(line) for line in out.splitlines()]
    assert {key for one in found for key in one} <= {"schema", "request", "totals"}, "an interrupt ends a watch"
    return [one["request"] for one in found if "request" in one], [one["totals"] for one in found if "totals" in one]


def test_a_relay_prints_rows_and_at_an_interrupt_the_totals():
    with relaying("-q") as (process, client):
        ask(client, "What is it, please?")
        ask(client, "What is it, please?", "And then?")
        ask(client, "What is it, please?", "And then?", "Why is that?", day=2)
        rows, [totals] = said(process, compared=3)
    assert [(row["cause"], row["prompt"], row["reused"]) for row in rows] == [
        ("new", 12, 7), ("extends", 12, 7), ("date", 12, 7)]  # fmt: skip
    assert totals["causes"] == [{"cause": "date", "requests": 1}]
    assert (totals["requests"], totals["unread_connections"]) == (3, 0)


@pytest.mark.long
def test_bodies_are_stored_only_where_the_user_says(tmp_path):
    with relaying("-q", "--save", str(tmp_path / "bodies.jsonl")) as (process, client):
        ask(client, "A secret, please?")
        said(process, compared=1)
    assert [file.name for file in tmp_path.iterdir()] == ["bodies.jsonl"]
    assert main(["import", str(tmp_path / "bodies.jsonl"), "-q"]) == exits.HOLDS
    with relaying("-q") as (process, client):
        ask(client, "A secret, please?")
        rows, _ = said(process, compared=1)
    assert "secret" not in json.dumps(rows)


def test_a_full_disk_ends_neither_the_rows_nor_the_relay_and_the_exit_code_says_so():
    with relaying("-q", "--save", "/dev/full") as (process, client):
        for text in ("What is it, please?", "Something else, please?"):
            ask(client, text)
        first = printed(process, rows=2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        out = first + out
    found = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == exits.BAD_INPUT and [*found[0]][-1] == "request" and len(found) == 3
    assert found[-1]["totals"]["unsaved_requests"] == 2
    assert err.count("/dev/full: no space left on device") == 1


def test_a_file_for_bodies_that_cannot_be_opened_is_reported_before_the_relay_listens(tmp_path, capsys):
    words = "watch", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:1", "--save", str(tmp_path / "no/bodies")
    assert main(words) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and "no/bodies: no such file or directory" in err


INTERRUPTED = """
import os, signal
from cachesim.cli.main import main
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
raise SystemExit(main())
"""
PATIENT = """
import sys
from cachesim.cli.main import main
from cachesim.tools.watch import relay
relay.HOLD = 60
sys.exit(main())
"""


@contextmanager
def planted(folder, text, *words, **more):
    """Start a relay with a program that changes the package first; yield the process, and a client of the relay."""
    (folder / "planted.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    with relaying(*words, module=("planted",), env=env, **more) as found:
        yield found


LATE = """
import os, sys
from cachesim.cli.main import main
from cachesim.tools.watch import command
command.GRACE = 0
os.nice = lambda number: open("BEGIN").read()
sys.exit(main())
"""


def interrupt(process, client):
    """Interrupt all processes, and wait until the relay listens no longer."""
    os.killpg(process.pid, signal.SIGINT)
    with suppress(ConnectionError):
        while True:
            socket.create_connection((client.host, client.port)).close()
            time.sleep(0.01)
    time.sleep(0.1)


@pytest.fixture
def late(tmp_path):
    """A relay after three requests, whose analysis begins when somebody writes the file."""
    begin = tmp_path / "begin"
    os.mkfifo(begin)
    with planted(tmp_path, LATE.replace("BEGIN", str(begin)), "-q") as (process, client):
        for number in range(3):
            ask(client, f"Question {number}, please?")
        interrupt(process, client)
        yield process, begin


def test_after_an_interrupt_no_further_request_is_compared(late):
    process, begin = late
    begin.write_text("begin")
    lines = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
    assert process.returncode == exits.INTERRUPTED and ["request" in one for one in lines].count(True) == 3
    assert [one["requests"] for one in lines[3]["totals"]["left_out"]] == [3]


def test_a_second_interrupt_ends_an_analysis_that_is_not_done(late):
    process, _ = late
    os.killpg(process.pid, signal.SIGINT)
    assert "totals" not in process.communicate(timeout=60)[0] and process.returncode == exits.INTERRUPTED


def test_an_interrupt_while_the_second_process_starts_is_not_its_own(tmp_path):
    with planted(tmp_path, INTERRUPTED, "-q") as (process, client):
        ask(client, "What is it, please?")
        rows, _ = said(process, compared=1)
    assert [row["cause"] for row in rows] == ["new"]


def test_the_header_carries_the_cause_until_the_analysis_is_killed_which_breaks_no_connection(tmp_path):
    with planted(tmp_path, PATIENT, "--header") as (process, client):
        process.stderr.readline()
        ask(client, "What is it, please?", more=[("x-cachesim-cause", "new")])
        ask(client, "What is it, please?", day=2, more=[
            ("x-cachesim-cause", "date; byte 84; messages[0].content; the date or time")])  # fmt: skip
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert process.stderr.readline()
        ask(client, "What is it, please?")


FAILING = """
import sys
import h11
from cachesim.cli.main import main
def next_event(self):
    raise ZeroDivisionError("planted")
h11.Connection.next_event = next_event
sys.exit(main())
"""


def test_a_failing_analysis_breaks_no_connection(tmp_path):
    with planted(tmp_path, FAILING, host=LOOPBACK_6) as (process, client):
        lines = [process.stderr.readline()]                                    # the address
        for number in range(3):
            ask(client, f"Question {number}, please?")
            if not number:
                lines += [process.stderr.readline(), process.stderr.readline()]
        assert "ZeroDivisionError: planted" in "".join(lines)
        ask(client, "And a last one, please?")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == exits.INTERRUPTED


def test_a_pipe_prints_each_row_at_once_and_ends_with_its_last_line():
    lines = LOG.read_text().splitlines(keepends=True)
    with watching("-", "--json") as process:
        process.stdin.write("".join(lines[:110]))
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["request"]["task"] for _ in range(2)] == [0, 9]
        out, err = process.communicate("".join(lines[110:]), timeout=60)
    found = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == exits.HOLDS and err == "" and len(found) == 6
    assert found[-1]["totals"]["requests"] == 7


def test_a_table_on_a_terminal_of_80_columns_shows_the_rows_and_the_totals(monkeypatch):
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    for name in ("COLUMNS", "NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written = bytearray()

    def read():
        with suppress(OSError):           # the end of a terminal
            while data := os.read(terminal, 1 << 16):
                written.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with open(inside, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        patched.setattr(sys, "stderr", stream)
        code = main(["watch", "--once", str(LOG)])
    reader.join()
    os.close(terminal)
    assert code == exits.HOLDS and b"\x1b[" in written
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip() for line in written.decode().splitlines()]
    assert max(map(len, shown)) <= 80
    begin = len(shown) - 1 - shown[::-1].index(" #  conv  slot  prompt  reused  evaluated  cause")
    assert [line.split()[:6] for line in shown[begin + 1 : begin + 3]] == [
        ["1", "-", "1", "120", "0", "120"], ["2", "-", "1", "150", "116", "34"]]  # fmt: skip
    assert any("\N{HORIZONTAL ELLIPSIS}" in line for line in shown[begin + 1 : begin + 3])
    assert any("674" in line for line in shown[begin + 3 :])


def test_a_followed_log_prints_each_row_at_once(tmp_path):
    lines = LOG.read_text().splitlines(keepends=True)
    file = tmp_path / "log"
    file.write_text("".join(lines[:100]))
    with watching(str(file), "--json") as process:
        assert json.loads(process.stdout.readline())["request"]["task"] == 0
        with file.open("a") as stream:
            stream.writelines(lines[100:110])
        assert json.loads(process.stdout.readline())["request"]["task"] == 9
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert json.loads(out.splitlines()[0])["totals"]["requests"] == 2 and process.returncode == exits.INTERRUPTED


def test_a_finished_log_as_text(capsys):
    assert main(["watch", "--once", str(LOG)]) == exits.HOLDS
    out = capsys.readouterr().out.splitlines()
    assert re.findall(r"\d+", out[1])[:7] == ["2", "1", "9", "150", "116", "34", "4"]         # slot, task, counts
    assert out[1].endswith("-ctxcp -cms") and len(out) > 7
    assert re.findall(r"\d+", out[7]) == ["7", "790", "116", "674"]


def relayed(listen="127.0.0.1:0", to="http://127.0.0.1:1"):
    """Return arguments of a relay that cannot save bodies, so that it never begins."""
    return "--listen", listen, "--to", to, "--save", "/dev/null/bodies"


@pytest.mark.parametrize("words, named", [
    ((), "--listen"), (("a", "--log", "b"), "--log"), (("--listen", "127.0.0.1:0"), "--to"),
    (("--to", "http://127.0.0.1:1"), "--listen"), (("missing.log",), "missing.log"), (("a", "--save", "b"), "--save"),
    (("a", "--header"), "--header"),
    *((relayed(listen=text), repr(text)) for text in (
        "example.org:80", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:-1", "127.0.0.1:65536",
        "127.0.0.1:\u0663", "h:1")),
    *((relayed(listen=f"{host}:80"), repr(host.strip("[]"))) for host in ("0.0.0.0", "192.168.0.1", "[::]")),
    *((relayed(to=url), repr(url)) for url in (
        "https://h:80", "http://h:80/v1", "http://a:b", "here",
        "h:80", "http://x:0", "http://h:65536", "http://x..y", "http://.x", f"http://{'a' * 300}", "http://a b")),
])  # fmt: skip
def test_unusable_arguments_are_named(words, named, capsys):
    assert main(["watch", *words]) == exits.BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert named[:30] in line


@pytest.mark.parametrize("url, shown", [
    ("http://u:p@h:1", "http://(redacted)@h:1"), ("http://@h:80", "http://(redacted)@h:80"),
    ("http://h:80?x", "http://h:80?(redacted)"), ("u:p@h", "(redacted)@h"),
])  # fmt: skip
def test_a_url_is_named_without_its_secrets(url, shown, capsys):
    assert main(["watch", *relayed(to=url)]) == exits.BAD_INPUT
    assert repr(shown) in capsys.readouterr().err


def test_a_port_in_use(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["watch", "--listen", f"127.0.0.1:{port}", "--to", "http://127.0.0.1:1"]) == exits.BAD_INPUT
    assert f"port {port}: " in capsys.readouterr().err


@pytest.mark.parametrize(("url", "address"), [
    ("http://h", ("h", 80)), ("http://h:1/", ("h", 1)), ("http://h:65535//", ("h", 65535)), ("HTTP://H:8", ("h", 8)),
    ("http://[::1]:8080", ("::1", 8080)),
])  # fmt: skip
def test_the_url_of_a_server_has_an_address(url, address):
    assert server_address(url) == address


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "h11", None)
    assert main(["watch", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:1"]) == exits.BAD_INPUT
    assert "extra `watch` (pip install" in capsys.readouterr().err


def test_a_log_needs_no_package(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("cachesim.tools.watch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h11", None)
    assert main(["watch", "--once", str(LOG)]) == exits.HOLDS
    assert capsys.readouterr().out
