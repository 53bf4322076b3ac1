"""Tests of the HTTP client's bounds; tests/hostile/test_bad_server.py runs commands against a misbehaving server."""

from __future__ import annotations

import re
import socket
import time
from threading import Event, Thread
from types import MappingProxyType

import pytest

from cachesim.base import http_client
from cachesim.base.errors import BadInput
from cachesim.base.http_client import BadReply, ConnectionLost, HttpClient, HttpReply, ReplyLate
from cachesim.base.limits import lift
from tests.hostile.bad_server import HOLD, BadServer, dripping, head, once, running, whole


@pytest.fixture
def serve():
    """Start servers that answer every request with these pieces."""
    started = []

    def start(*pieces, generate=None):
        server = BadServer(lambda reply: generate() if generate else once(*pieces), "first")
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


def fetch(server, within=5.0):
    return HttpClient(server.url).ask("GET", "/props", None, within)


def test_a_reply_is_its_status_and_its_json(serve):
    assert fetch(serve(whole({"a": [1, "é"]}))) == HttpReply(200, {"a": [1, "é"]})
    assert fetch(serve(whole({"error": "x"}, "400 No"))) == HttpReply(400, {"error": "x"})
    assert fetch(serve(whole(b"<html>", "404 Not Found"))) == HttpReply(404, None)
    chunks = head(more=b"Transfer-Encoding: chunked\r\n") + b"3\r\n[1,\r\n2\r\n2]\r\n0\r\nX: y\r\n\r\n"
    assert fetch(serve(chunks)) == HttpReply(200, [1, 2])
    assert fetch(serve(b"HTTP/1.1 100 Continue\r\n\r\n" + whole([1]))) == HttpReply(200, [1])


def test_every_request_has_a_connection_of_its_own():
    with running("two replies", "later") as server:
        client = HttpClient(server.url)
        assert [client.ask("GET", "/props", None, 5.0).body["total_slots"] for _ in range(3)] == [1, 1, 1]
        assert len(server.threads) == 4             # the listener and three connections


@pytest.mark.parametrize("text", [
    b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\nX: y\r\n", head(100), head(more=b"Transfer-Encoding: chunked\r\n") + b"0",
    head(more=b"Transfer-Encoding: chunked\r\n") + b"0\r\nX: y\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
])  # fmt: skip
def test_the_deadline_holds_at_every_stage_of_a_dripping_reply(serve, text):
    """Every byte arrives well within the time limit, the whole does not."""
    server = serve(generate=lambda: dripping(b"", text + b" " * 1000))
    start = time.monotonic()
    with pytest.raises(ReplyLate, match=r"no complete reply within 0\.2 seconds"):
        fetch(server, 0.2)
    assert time.monotonic() - start < 1.5


def test_the_deadline_holds_without_a_byte(serve):
    with pytest.raises(ReplyLate, match=r": no reply within 0\.1 seconds"):
        fetch(serve(HOLD), 0.1)
    with pytest.raises(ReplyLate, match="no reply within 0 seconds"):
        fetch(serve(whole([])), 0.0)


def test_the_deadline_holds_for_a_handshake(serve):
    server = serve(HOLD)
    with pytest.raises(ReplyLate, match=r"no reply within 0\.2 seconds"):
        HttpClient(server.url.replace("http:", "https:")).ask("GET", "/", None, 0.2)


def test_a_server_without_encryption_is_one_line():
    with running("TLS alert") as server, pytest.raises(ConnectionLost, match=r"connection failed: .*SSL") as error:
        HttpClient(server.url.replace("http:", "https:")).ask("GET", "/", None, 5.0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reply, what", [
    (head(2**24 + 1), "a reply of more than 16,777,216 bytes"),
    (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n{}", "more than 100 headers"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "headers of more than 65,536 bytes"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000, "headers of more than 65,536 bytes"),
    (whole(b"{}", more=b"Content-Encoding: gzip\r\n"), "compressed reply refused: 'gzip' was not requested"),
    (whole(b"", "302 Found", b"Location: file:///etc/passwd\r\n"), "redirect refused: status 302 to 'file:///etc/pas"),
    (whole(b"", "301 Moved", b"Location: \x1b[31m\r\n"), r"redirect refused: status 301 to '\\x1b\[31m'"),
    (b"<html>\r\n\r\n", "not a valid HTTP reply: <html>"),
    (head(more=b"Transfer-Encoding: chunked\r\n") + b"-5\r\n{}\r\n", "not a valid HTTP reply"),
    (whole(b"[" * 40 + b"]" * 40), "nested deeper than 32 levels"), (whole(b"[NaN]"), "NaN is not a JSON number"),
    (whole(b""), "found an empty reply"), (whole(b'"\xff"'), "not UTF-8 text"),
    (whole(b"data: {}"), "stream of events"),
])  # fmt: skip
def test_a_reply_beyond_a_bound_is_one_line(serve, reply, what):
    server = serve(reply)
    with pytest.raises(BadReply, match=what) as error:
        fetch(server)
    assert str(error.value).startswith(server.url) and str(error.value).isprintable()


@pytest.mark.parametrize("reply, what", [
    (b"", "Remote end closed"), (b"HTTP/1.1 200 O", "found an empty reply"),
    (head(100) + b"{}", "closed within a reply"),
    (head(more=b"Transfer-Encoding: chunked\r\n") + b"5\r\n{}", "closed within a reply"),
])  # fmt: skip
def test_an_early_end_loses_the_connection(serve, reply, what):
    with pytest.raises(http_client.HttpFailure, match=what):
        fetch(serve(reply))


def test_nobody_listens():
    with pytest.raises(ConnectionLost, match="connection failed: Connection refused"):
        HttpClient("http://127.0.0.1:1").ask("GET", "/", None, 5.0)


def test_the_body_is_bounded_as_it_arrives(serve):
    lift({"reply": 100_000})
    assert fetch(serve(whole("x" * 80_000))).body == "x" * 80_000
    assert fetch(serve(whole("x" * 99_998))).body == "x" * 99_998, "with its quotes as long as allowed"
    for start in (head(), head(more=b"Transfer-Encoding: chunked\r\n") + b"fffffff\r\n"):
        with pytest.raises(BadReply, match="a reply of more than 100,000 bytes"):
            fetch(serve(start, *[b"x" * 10_000] * 30))


def test_surrogates_without_their_other_half_become_question_marks(serve):
    text = rb'["\ud83d\ude00", "\ud800x", "\\ud800"]'
    assert fetch(serve(whole(text))).body == ["\U0001f600", "?x", "\\ud800"]


def test_lines_of_a_stream_arrive_one_by_one_and_are_bounded(serve, monkeypatch):
    def lines(server, within=5.0):
        with HttpClient(server.url).send("POST", "/completion", {}, within) as sent:
            yield from sent.lines()

    stream = serve(head() + b"data: 1\n\ndata: \xff\r\n", HOLD)
    found = lines(stream)
    assert [next(found) for _ in range(3)] == ["data: 1", "", "data: \ufffd"]
    found.close()
    monkeypatch.setattr(http_client, "LINE_BYTES", 1000)
    assert list(lines(serve(head(), b"x" * 999 + b"\ny"))) == ["x" * 999, "y"]
    for line in (b"x" * 2000, b"x" * 1000 + b"\n"):
        with pytest.raises(BadReply, match="a line of more than 1,000 bytes"):
            list(lines(serve(head(), line)))
    lift({"reply": 50_000})
    with pytest.raises(BadReply, match="a reply of more than 50,000 bytes"):
        list(lines(serve(head(), *[b"data: {}\n\n" * 1000] * 20)))
    with pytest.raises(ReplyLate):
        list(lines(serve(generate=lambda: dripping(head(), b": ping\n")), 0.2))


def test_closing_ends_the_requests_of_other_threads(serve):
    server, begun, failed = serve(HOLD), Event(), []
    client = HttpClient(server.url)

    def ask():
        try:
            with client.send("GET", "/", None, 60.0) as sent:
                begun.set()
                sent.reply()
        except ConnectionLost as error:
            failed.append(error)

    thread = Thread(target=ask)
    thread.start()
    assert begun.wait(10)
    time.sleep(0.05)
    client.close()
    thread.join(10)
    assert not thread.is_alive() and len(failed) == 1


@pytest.mark.parametrize("url", ["nowhere", "http://", "ftp://x", "http://127.0.0.1:0", "http://[::1", "http://a b",
                                 "http://x/é", "http://x:99999", f"http://{'a' * 70}.x"])  # fmt: skip
def test_an_invalid_address(url):
    with pytest.raises(BadInput, match="not a server URL: "):
        HttpClient(url)


def test_a_header_that_cannot_be_sent():
    with pytest.raises(BadInput, match="the header Authorization must be printable"):
        HttpClient("http://127.0.0.1:1", {"Authorization": "Bearer a\nb"})


def test_a_path_before_the_paths():
    with running("closed after each reply") as server:
        assert HttpClient(server.url + "//").url == server.url
        assert HttpClient(server.url + "/api/").ask("GET", "/props", None, 5.0).body == {"n_erased": 0}    # /api/props


def sent(method, path, body, before="", **more):
    """Return the bytes that a server receives from a request."""
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            near, _ = listener.accept()
            with near:
                text = near.recv(65536)
                length = re.search(rb"Content-Length: (\d+)", text)
                while len(text.partition(b"\r\n\r\n")[2]) < int(length[1] if length else 0):
                    text += near.recv(65536)
                near.sendall(whole([]))
            head, _, data = text.partition(b"\r\n\r\n")
            received.extend((*head.split(b"\r\n"), data))

        thread = Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert HttpClient(url + before, **more).ask(method, path, body, 5.0) == HttpReply(200, [])
        thread.join()
    first, *headers, data = received
    return first, dict(line.decode().strip().split(": ") for line in headers), data


@pytest.mark.parametrize(("body", "data"), [
    ({"a": [1, "é"]}, b'{"a": [1, "\\u00e9"]}'), (MappingProxyType({"a": 1}), b'{"a": 1}'), ([{"b": 2}], b'[{"b": 2}]'),
    ({}, b"{}"),
])  # fmt: skip
def test_a_body_is_sent_as_json_with_its_type_and_length(body, data):
    first, headers, received = sent("POST", "/x", body, "/api/")
    assert (first, received) == (b"POST /api/x HTTP/1.1", data)
    assert (headers["Content-Type"], headers["Content-Length"]) == ("application/json", str(len(data)))
    assert (headers["Accept-Encoding"], headers["Connection"]) == ("identity", "close")


def test_a_request_without_a_body_has_only_its_headers():
    first, headers, _ = sent("GET", "/x", None, headers={"Authorization": "Bearer a"})
    assert first == b"GET /x HTTP/1.1" and headers["Authorization"] == "Bearer a"
    assert not {"Content-Type", "Content-Length"} & {*headers}


@pytest.mark.parametrize(("url", "to"), [
    ("http://h", ("h", 80)), ("https://h", ("h", 443)), ("https://h:81/", ("h", 81)), ("http://H:8080/a", ("h", 8080)),
])  # fmt: skip
def test_a_scheme_has_its_port(monkeypatch, url, to):
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **more: asked.append((host, port)) or [])
    with pytest.raises(ConnectionLost):
        HttpClient(url).ask("GET", "/", None, 5.0)
    assert asked == [to]


@pytest.mark.parametrize(("coding", "accepted"), [
    (b"identity", True), (b" Identity ", True), (b"", True), (b"br", False),
])  # fmt: skip
def test_a_reply_may_say_that_it_is_not_compressed(serve, coding, accepted):
    server = serve(whole(b"[1]", more=b"Content-Encoding: " + coding + b"\r\n"))
    if accepted:
        assert fetch(server) == HttpReply(200, [1])
        return
    with pytest.raises(BadReply, match="compressed reply refused: 'br' was not requested"):
        fetch(server)


@pytest.mark.parametrize(("status", "refused"), [(299, False), (300, True), (399, True), (400, False)])
def test_a_status_from_300_to_399_is_a_redirect(serve, status, refused):
    server = serve(whole(b"[1]", f"{status} x"))
    if refused:
        with pytest.raises(BadReply, match=f"redirect refused: status {status} to ''"):
            fetch(server)
    else:
        assert fetch(server) == HttpReply(status, [1])


def test_a_reply_of_too_many_values_is_named(serve):
    lift({"values": 3})
    assert fetch(serve(whole([1, 2, 3]))).body == [1, 2, 3]
    with pytest.raises(BadReply, match=r"found b'\[1, 2, 3, 4\]': the reply: 4 values"):
        fetch(serve(whole([1, 2, 3, 4])))
