"""HTTP server on the loopback with named misbehaviours, and a tiny well-behaved llama-server to precede them.

``running(name, stage)`` yields its URL. Until the stage it answers like a llama-server with the model A; from then on
every request gets the misbehaviour. A misbehaviour is a generator of bytes to send, seconds to wait, and how the
connection ends.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import zlib
from contextlib import contextmanager, suppress
from functools import partial

STAGES = ("first", "completion", "later")
"""The misbehaviour begins with the first request, with the first completion, or with the first request after it."""
RESET, HOLD = "reset", "hold"
"""Ends of a connection besides closing it: a TCP reset; keep it open and send nothing."""
DRIP = 0.02                  # seconds between two bytes
JSON = b"Content-Type: application/json\r\n"
VOCABULARY = 320


CHUNKED = b"Transfer-Encoding: chunked\r\n"


def head(length=None, status="200 OK", more=b""):
    size = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"HTTP/1.1 " + status.encode() + b"\r\n" + JSON + size + more + b"\r\n"


def whole(body, status="200 OK", more=b""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(len(data), status, more) + data


def good(path, body, asked):
    """Return the body of a tiny llama-server's reply."""
    if path == "/completion":
        prompt, count = body.get("prompt", [1]), body.get("n_predict", 1)
        said = [(sum(prompt) + place) % VOCABULARY for place in range(count)]
        likely = [{"id": place, "logprob": -1.0 - place} for place in range(4)]
        return {
            "id_slot": 0, "tokens_evaluated": len(prompt), "tokens_cached": len(prompt) + count - 1, "tokens": said,
            "truncated": False, "stop_type": "limit", "content": "a" * count,
            "timings": {"cache_n": 0, "prompt_n": len(prompt), "predicted_n": count},
            "completion_probabilities": [{"top_logprobs": likely}] * count,
        }  # fmt: skip
    known = {
        "/props": {"total_slots": 1, "model_path": "/models/tiny-A.gguf", "build_info": "b11549-x",
                   "default_generation_settings": {"n_ctx": 2048}, "modalities": {"vision": True}},
        "/v1/models": {"data": [{"id": "tiny", "meta": {"n_vocab": VOCABULARY}}]},
        "/lora-adapters": [{"id": 0, "path": "/models/a.gguf", "scale": 0.0, "alora_invocation_tokens": []}],
        "/slots": [{"id": 0, "id_task": asked, "n_prompt_tokens": 0, "is_processing": False}],
    }  # fmt: skip
    return known.get(path, {"n_erased": 0})


# Misbehaviours. Each gets the good reply to its request.


def for_ever(start, piece):
    yield start
    while True:
        yield piece


def dripping(start, text, end=HOLD):
    yield start
    while True:
        for byte in text:
            yield bytes([byte])
            yield DRIP
    yield end


def once(*pieces):
    yield from pieces


def field(place, value):
    """Return a misbehaviour that replaces a field, given by its keys; replies without it are good."""

    def misbehave(reply):
        changed = json.loads(json.dumps(reply))
        inner = changed
        try:
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]]
        except (KeyError, IndexError, TypeError):
            return once(whole(reply))
        if value == "missing":
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        return once(whole(changed))

    return misbehave


def coded(data, coding):
    return lambda reply: once(whole(data, more=b"Content-Encoding: %s\r\n" % coding))


def text(data, status="200 OK", more=b""):
    return lambda reply: once(whole(data, status, more))


def raw(*pieces):
    return lambda reply: once(*pieces)


def chunked(*pieces):
    return lambda reply: once(head(more=CHUNKED), *pieces)


def stream(generate):
    """Return a misbehaviour of event streams."""
    return lambda reply: generate(head(more=b"Content-Type: text/event-stream\r\n"))


def duplicates(reply):
    data = json.dumps(reply).encode()
    return once(whole(b'{"tokens": "x", ' + data[1:] if data.startswith(b"{") else data))


def surrogates(reply):
    return once(whole({**reply, "content": "\ud800", "model_alias": "\udfff"} if isinstance(reply, dict) else reply))


def bomb(times):
    data = zlib.compress(bytes(10**7), 9)
    for _ in range(times):
        data = gzip.compress(data)
    return data


def many_tokens(reply):
    if not isinstance(reply, dict) or "tokens" not in reply:
        return once(whole(reply))
    return once(whole({**reply, "tokens": [7] * 2_000_000}))


ESCAPES = "\x1b[31m\x1b]0;t\x07\x9b\n"
HUGE = 10**400
DEEP = b"[" * 1_000_000
REDIRECT = partial(whole, b"{}", "302 Found")

MISBEHAVIOURS = {
    "endless body": lambda reply: for_ever(head(), b" " * 65536),
    "body of 10 GB": lambda reply: for_ever(head(10**10), b" " * 65536),
    "endless chunks": lambda reply: for_ever(head(more=CHUNKED), b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "length too large": raw(head(1000) + b"{}"),
    "length too small": raw(head(5) + b'{"total_slots": 1}'),
    "two lengths": raw(head(5, more=b"Content-Length: 500\r\n") + b"{}"),
    "negative length": raw(head(-5) + b"{}"),
    "length of 10^30": raw(head(10**30) + b"{}"),
    "length that is not a number": raw(head(more=b"Content-Length: many\r\n") + b"{}"),
    "gzip bomb": coded(bomb(1), b"gzip"),
    "nested gzip": coded(bomb(4), b"gzip, gzip, gzip, gzip"),
    "deflate garbage": coded(b"\xff" * 500, b"deflate"),
    "brotli": coded(b"\x0b\x02\x80{}\x03", b"br"),
    "gzip not announced": text(gzip.compress(b"{}")),
    "nesting of 1,000,000": text(DEEP),
    "objects nested 100,000 deep": text(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "5,000,000 values": text(b"[" + b"0," * 5_000_000 + b"0]"),
    "NaN": text(b'{"total_slots": NaN, "tokens": [NaN]}'),
    "Infinity": text(b'{"total_slots": Infinity}'),
    "1e999": text(b'{"total_slots": 1e999}'),
    "integer of 10,000 digits": text(b'{"total_slots": ' + b"9" * 10_000 + b"}"),
    "integer of 4,000 digits": text(b'{"total_slots": ' + b"9" * 4_000 + b"}"),
    "invalid UTF-8": text(b'{"total_slots": 1, "model_alias": "\xff\xfe"}'),
    "UTF-16": text('{"total_slots": 1}'.encode("utf-16")),
    "lone surrogates": surrogates,
    "escapes in names": text({"total_slots": 0, "model_alias": ESCAPES, "build_info": ESCAPES, "model_path": ESCAPES}),
    "escapes in an error": text({"error": {"message": ESCAPES, "code": ESCAPES}}, "400 Bad Request"),
    "wrong content type": lambda reply: once(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\n\r\n",
                                             json.dumps(reply).encode()),
    "HTML": text(b"<html>\x1b[31m</html>"),
    "empty body": text(b""),
    "array": text(b"[]"),
    "array of null": text(b"[null]"),
    "null": text(b"null"),
    "string": text(b'"x"'),
    "true": text(b"true"),
    "empty object": text(b"{}"),
    "error with status 200": text({"error": ["x"]}),
    "errors of other types": text({"error": {"message": [1], "code": {}, "type": HUGE}}, "400 Bad Request"),
    "error that is a list": text([1], "400 Bad Request"),
    "status 401": text({}, "401 Unauthorized"),
    "status 500": text({"error": "boom"}, "500 Internal Server Error"),
    "status 204": raw(head(status="204 No Content")),
    "status 101": raw(head(status="101 Switching Protocols")),
    "status 999": text({}, "999 X"),
    "status 99": raw(b"HTTP/1.1 99 X\r\n\r\n"),
    "status that is not a number": raw(b"HTTP/1.1 OK 200\r\n\r\n{}"),
    "reason of 1 MB": raw(b"HTTP/1.1 200 " + b"x" * 10**6 + b"\r\n\r\n{}"),
    "HTTP/0.9": raw(b"<html>hello</html>"),
    "HTTP/9.9": raw(b"HTTP/9.9 200 OK\r\n\r\n{}"),
    "binary garbage": raw(bytes(range(256)) * 100),
    "TLS alert": raw(b"\x15\x03\x01\x00\x02\x02\x0a"),
    "empty reply": raw(),
    "reset before the reply": raw(RESET),
    "reset within the status line": raw(b"HTTP/1.1 2", RESET),
    "reset within the headers": raw(b"HTTP/1.1 200 OK\r\nContent-", RESET),
    "reset within the body": raw(head(100) + b'{"a', RESET),
    "silent": raw(HOLD),
    "silent after the headers": raw(head(100), HOLD),
    "dripping status line": lambda reply: dripping(b"", b"HTTP/1.1 200 OK "),
    "dripping headers": lambda reply: dripping(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "dripping body": lambda reply: dripping(head(10**6), b" "),
    "dripping chunk size": lambda reply: dripping(head(more=CHUNKED), b"0"),
    "dripping chunks": lambda reply: dripping(head(more=CHUNKED), b"1\r\n \r\n"),
    "dripping trailer": lambda reply: dripping(head(more=CHUNKED) + b"0\r\n", b"X: y\r\n"),
    "dripping events": stream(lambda start: dripping(start, b": ping\n\n")),
    "endless events": stream(lambda start: for_ever(start, b'data: {"a": 1}\n\n' * 100)),
    "event of 100 MB": stream(lambda start: for_ever(start + b"data: ", b"x" * 65536)),
    "events without JSON": stream(lambda start: once(start, b"data: [[[\n\ndata: \xff\n\n")),
    "events of other types": stream(lambda start: once(start, b'data: [1]\n\ndata: {"tokens": "x"}\n\n')),
    "events with nesting": stream(lambda start: once(start, b"data: " + b"[" * 500_000 + b"\n\n")),
    "endless headers": lambda reply: for_ever(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 100),
    "10,000 headers": text(b"{}", more=b"X: y\r\n" * 10_000),
    "101 headers": text(b"{}", more=b"X: y\r\n" * 101),
    "header of 1 MB": text(b"{}", more=b"X: %b\r\n" % (b"y" * 10**6)),
    "headers without a colon": raw(b"HTTP/1.1 200 OK\r\nnonsense\r\n\xff\xfe\r\n\r\n{}"),
    "100 Continue without end": lambda reply: for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "redirect to a file": raw(REDIRECT(b"Location: file:///etc/passwd\r\n")),
    "redirect to another host": raw(REDIRECT(b"Location: http://192.0.2.1/\r\n")),
    "redirect to itself": raw(REDIRECT(b"Location: /props\r\n")),
    "redirect without a target": raw(REDIRECT(b"")),
    "redirect with escapes": raw(REDIRECT(b"Location: \x1b[31m" + b"x" * 5000 + b"\r\n")),
    "chunk size that is not a number": chunked(b"zz\r\n{}\r\n"),
    "negative chunk size": chunked(b"-5\r\n{}\r\n"),
    "chunk size of 10^30": chunked(b"%x\r\n{}" % 10**30),
    "endless trailers": lambda reply: for_ever(head(more=CHUNKED) + b"0\r\n", b"X: y\r\n" * 100),
    "two replies": lambda reply: once(whole(reply) + whole({"other": 1})),
    "closed after each reply": lambda reply: once(whole(reply)),
    "duplicate keys": duplicates,
    "2,000,000 tokens": many_tokens,
}
"""Misbehaviours by name."""

HARMLESS = {"closed after each reply", "two replies", "wrong content type", "duplicate keys", "lone surrogates"}
"""Misbehaviours that leave the content of a reply usable."""

VALUES = {"missing": "missing", "null": None, "negative": -1, "2^63": 2**63, "10^400": HUGE, "text": "x", "list": [],
          "object": {}, "true": True, "fraction": 1.5, "list of null": [None], "text of 1 MB": "y" * 10**6,
          "NUL": "/models/tiny-A\0.gguf", "list of 10^400": [HUGE], "digits": "b²"}  # fmt: skip
"""Values that replace a field."""
FIELDS = {
    "total_slots": ("total_slots",), "model_path": ("model_path",), "build_info": ("build_info",),
    "n_ctx": ("default_generation_settings", "n_ctx"), "settings": ("default_generation_settings",),
    "data": ("data",), "model": ("data", 0), "meta": ("data", 0, "meta"), "n_vocab": ("data", 0, "meta", "n_vocab"),
    "modalities": ("modalities",), "vision": ("modalities", "vision"), "adapter id": (0, "id"), "scale": (0, "scale"),
    "invocation tokens": (0, "alora_invocation_tokens"),
    "slot": (0,), "id_task": (0, "id_task"), "n_erased": ("n_erased",), "id_slot": ("id_slot",),
    "tokens_evaluated": ("tokens_evaluated",), "tokens_cached": ("tokens_cached",), "tokens": ("tokens",),
    "token": ("tokens", 0), "truncated": ("truncated",), "stop_type": ("stop_type",), "content": ("content",),
    "timings": ("timings",), "cache_n": ("timings", "cache_n"), "prompt_n": ("timings", "prompt_n"),
    "predicted_n": ("timings", "predicted_n"), "probabilities": ("completion_probabilities",),
    "place": ("completion_probabilities", 0), "top_logprobs": ("completion_probabilities", 0, "top_logprobs"),
    "likely": ("completion_probabilities", 0, "top_logprobs", 0),
    "id": ("completion_probabilities", 0, "top_logprobs", 0, "id"),
    "logprob": ("completion_probabilities", 0, "top_logprobs", 0, "logprob"),
}  # fmt: skip
"""Fields that are read, by their keys in a reply."""
WRONG_FIELDS = {f"{name} is {what}": field(place, value)
                for name, place in FIELDS.items() for what, value in VALUES.items()}  # fmt: skip
"""Misbehaviours of a single field."""


class BadServer:
    """Accepts connections until ``stop``. ``asked``: requests so far; ``completed``: answered completions."""

    def __init__(self, misbehave, stage):
        self.misbehave, self.stage = misbehave, stage
        self.asked = self.completed = 0
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def stop(self):
        self.ended.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self.threads)

    def _accept(self):
        while not self.ended.is_set():
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, connection):
        connection.settimeout(10)
        with connection, suppress(OSError, ValueError):
            while request := self._read(connection):
                self.asked += 1
                path, body = request
                reply = good(path, body, self.asked)
                if self._bad(path):
                    self._send(connection, self.misbehave(reply))
                    return
                self.completed += path == "/completion"
                connection.sendall(self._events(reply) if body.get("stream") else whole(reply))
                if body.get("stream"):
                    return

    def _bad(self, path):
        return self.stage == "first" or self.completed > 0 or (self.stage == "completion" and path == "/completion")

    def _events(self, reply):
        lines = b"".join(b'data: {"tokens": [%d]}\n\n' % token for token in reply["tokens"])
        return head(more=b"Connection: close\r\n") + lines

    def _read(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
            if data.startswith(b"\x16"):                  # a TLS handshake
                return "", {}
        above, _, rest = data.partition(b"\r\n\r\n")
        lengths = [line.partition(b":")[2] for line in above.lower().split(b"\r\n") if b"content-length" in line]
        length = int(lengths[0]) if lengths else 0
        while len(rest) < length:
            rest += connection.recv(65536)
        return above.split()[1].decode().partition("?")[0], json.loads(rest or b"{}")

    def _send(self, connection, pieces):
        for piece in pieces:
            if isinstance(piece, bytes):
                connection.sendall(piece)
            elif piece == HOLD:
                self._hold(connection)
            elif piece == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            elif self.ended.wait(piece):
                return
        connection.shutdown(socket.SHUT_WR)

    def _hold(self, connection):
        """Wait until the client closes or the server stops."""
        connection.settimeout(0.05)
        while not self.ended.is_set():
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    return


@contextmanager
def running(name, stage="first"):
    """Yield a server with a misbehaviour."""
    server = BadServer({**MISBEHAVIOURS, **WRONG_FIELDS}[name], stage)
    try:
        yield server
    finally:
        server.stop()
