"""Secrets in each place of requests and replies reach the server, but nothing that `watch` writes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from cachesim.cli.main import main
from tests.shared import ROOT

pytest.importorskip("h11", reason="the extra `watch` is not installed")
MARK = "MARKED"              # in each secret
HEADERS = (
    "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token", "Referer", "User-Agent",
    "Origin", "X-Forwarded-For", "Forwarded", "From", "Via", "X-Request-Id", "Content-Type", "Accept", "If-Match",
    "OpenAI-Organization", "Idempotency-Key", "Traceparent", f"X-{MARK}-name",
)  # fmt: skip
OF_REPLY = ("Set-Cookie", "WWW-Authenticate", "Location", "Server", "X-Request-Id", "Content-Type", "ETag", "Warning")
TARGETS = (
    "/v1/chat/completions?api_key={}", "http://{}:{}@host/v1/chat/completions?key={}", "/v1/chat/completions#{}",
    "/v1/chat/completions?a=b&sig={}#{}", "http://{}.example/v1/chat/completions",
)  # fmt: skip
FIELDS = ("api_key", "x-api-key", "authorization", "password", "token", "hf_token", "access_key", "private_key",
          "session", "session_id", "bearer", "cookie", "client_secret", "credentials")  # fmt: skip
REPLY = json.dumps({
    "choices": [{"message": {"role": "assistant", "content": "Yes."}}], "timings": {"prompt_n": 5, "cache_n": 7},
    "token": f"{MARK}-reply", "error": {"message": f"a wrong key {MARK}-error"},
})  # fmt: skip


def bodies():
    """Return bodies of requests, with other secrets in each."""
    for number in range(8):
        secrets = {name: f"{MARK}-{name}-{number}" for name in FIELDS}
        messages = [{"role": "system", "content": f"Be brief, at 09:0{number}."}, {"role": "user", "content": "Why?"}]
        server = {"type": "mcp", "server_url": f"https://{MARK}:{MARK}@host/mcp?key={MARK}",
                  "headers": {"X-Own": f"{MARK}-{number}"}}  # fmt: skip
        yield json.dumps({"model": "m", "messages": messages, **secrets, "metadata": [secrets], "tools": [server],
                          "extra": {"headers": {"X-Own": MARK}, "auth": {"user": MARK}}})  # fmt: skip
    yield json.dumps({"messages": 5, "prompt": "a", "api_key": MARK})
    yield json.dumps({"messages": [5], "headers": {"Authorization": MARK}})
    yield json.dumps({"prompt": {"a": 1}, "password": MARK})
    yield f'{{"messages": [], "api_key": "{MARK}", '
    yield f"api_key={MARK}&prompt=a"
    yield f'["{MARK}"]'


def requests():
    """Return requests as bytes, with secrets in all headers."""
    for number, body in enumerate(bodies()):
        target = TARGETS[number % len(TARGETS)].replace("{}", f"{MARK}-target")
        lines = [f"POST {target} HTTP/1.1", f"Host: {MARK}.host", *(f"{name}: {MARK}-{name}" for name in HEADERS)]
        yield "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


def broken():
    """Return requests that are not HTTP, or do not end, with secrets."""
    yield f"{MARK} {MARK}\r\nAuthorization: {MARK}\r\n\r\n".encode()
    yield f"POST /{'a' * 70_000}?key={MARK} HTTP/1.1\r\nCookie: {MARK}\r\n\r\n".encode()
    yield f'POST /completion?{MARK} HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{{"api_key": "{MARK}"'.encode()
    yield f"POST /v1?{MARK} HTTP/1.1\r\nHost: {MARK} {MARK}\r\nContent-Length: {MARK}\r\n\r\n".encode()


@contextmanager
def server(received):
    """Start a server that answers each connection once, with secrets in its headers; yield its port."""
    head = ["HTTP/1.1 200 OK", *(f"{name}: {MARK}-{name}" for name in OF_REPLY), f"Content-Length: {len(REPLY)}"]
    reply = "\r\n".join([*head, "Connection: close", "", REPLY]).encode()

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(0.5)
                data = b""
                while not _is_whole(data):
                    try:
                        piece = connection.recv(1 << 16)
                    except TimeoutError:
                        break
                    if not piece:
                        break
                    data += piece
                received.append(data)
                connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _is_whole(data):
    head, found, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
    return bool(found and lengths and lengths[0].strip().isdigit() and len(body) >= int(lengths[0]))


def talk(port, request):
    """Send a request; return the reply."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        reply = b""
        while piece := connection.recv(1 << 16):
            reply += piece
    return reply


def cause(reply):
    """Return the value of the header that the relay adds, b"" without one."""
    lines = reply.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return b"".join(line for line in lines if line.startswith(b"x-cachesim-cause"))


@contextmanager
def ended(process):
    """Kill the process at the end, also where a test fails in between: else the test would wait for it for ever."""
    with process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("words", [("--json", "-v"), ("-v",)])
def test_no_secret_is_written(words, tmp_path):
    received, saved = [], tmp_path / "bodies.jsonl"
    with server(received) as port:
        to = f"http://127.0.0.1:{port}"
        relay = subprocess.Popen(
            [sys.executable, "-m", "cachesim", "watch", "--listen", "127.0.0.1:0", "--to", to, "--header", "--save",
             saved, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
        with ended(relay):
            first = relay.stderr.readline()
            here = int(first.partition(b"127.0.0.1:")[2].partition(b"/")[0])
            end = time.monotonic() + 60
            while not (warm := cause(talk(here, next(requests())))) and time.monotonic() < end:
                time.sleep(0.05)
            received.clear()
            causes = [warm, *(cause(talk(here, request)) for request in requests())]
            for request in broken():
                talk(here, request)
            relay.send_signal(signal.SIGINT)
            out, err = relay.communicate(timeout=60)
    assert len(received) == len(causes) + 3 and all(MARK.encode() in one for one in received)
    stored = saved.read_bytes()
    assert stored.count(b"\n") >= 8 and b"Be brief" in stored and b"09:07" in stored
    assert out.count(b"time") >= 7
    assert MARK.lower().encode() not in (first + out + err + stored + b"".join(causes)).lower()


@pytest.mark.parametrize("url", [
    "http://{0}:{0}@127.0.0.1:1", "http://127.0.0.1:1/?key={0}", "http://127.0.0.1:1#{0}", "https://{0}@h",
    "{0}:{0}@h", "http://{0}:{0}@h:99999", "http://u:{0}@h h",
])  # fmt: skip
def test_an_error_names_no_secret_of_a_url(url, capsys):
    words = "watch", "--listen", "127.0.0.1:0", "--save", "/dev/null/bodies"       # so that it never begins
    assert main([*words, "--to", url.format(MARK)]) == 2
    assert MARK not in "".join(capsys.readouterr())
