"""Tests of the HTTP client: a single server, and a limit on requests."""

from __future__ import annotations

import time
from threading import Event

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http, NoConnection, NoReply, NotJson
from cachesim.tools.conformance.protocol import Failed
from cachesim.tools.conformance.timeouts import TIMEOUTS
from tests.hostile.bad_server import running
from tests.unit.tools.conformance.http_check.stand_in import drop, serving


@pytest.fixture
def client():
    made = []

    def make(url, most=100, key=""):
        made.append(Http(url, 20.0, most, key))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_proxy_in_the_environment_is_not_asked(client, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(lambda body: (200, {"said": body})) as url:
        assert client(url).post("/completion", {"a": 1}) == (200, {"said": {"a": 1}})


def test_a_key_is_sent_as_a_bearer_token(client):
    def complete(_):
        def write(handler):
            handler.reply(200, {"key": handler.headers.get("Authorization")})

        return write

    with serving(complete) as url:
        assert client(url, key="abc").post("/x", {}) == (200, {"key": "Bearer abc"})
        assert client(url).post("/x", {}) == (200, {"key": None})


def test_what_is_not_there_is_none_and_what_is_no_json_is_said(client):
    with serving(lambda body: (500, b"<html>")) as url:
        http = client(url + "/")
        assert http.get("/props")["total_slots"] == 1 and http.get("/nowhere") is None
        assert http.post("/x", {}) == (500, None)
    with serving(lambda body: (200, b"<html>")) as url, pytest.raises(NotJson, match="expected JSON"):
        client(url).post("/x", {})


def test_a_lost_connection_differs_from_a_bad_reply(client):
    with serving(drop) as url, pytest.raises(NoConnection, match="connection failed"):
        client(url).post("/x", {})
    with pytest.raises(NoConnection, match="connection failed"):
        client("http://127.0.0.1:1").get("/props")
    with serving(lambda body: (200, b"<html>")) as url, pytest.raises(Failed) as bad:
        client(url).post("/x", {})
    assert bad.type is NotJson


def test_so_many_requests_are_sent_and_no_more(client):
    with serving(lambda body: (200, {})) as url:
        http = client(url, most=2)
        http.post("/x", {})
        assert (http.sent, http.is_spent, http.stopped) == (1, False, "")
        http.get("/props")
        assert (http.sent, http.is_spent, http.stopped) == (2, True, "stopped after 2 requests")
        with pytest.raises(Exhausted, match="stopped after 2 requests"):
            http.post("/x", {})
        assert http.sent == 2


def test_after_three_missed_replies_no_more_requests_are_sent(client):
    http = client("http://127.0.0.1:1")
    http.missed = TIMEOUTS - 1
    assert (http.is_spent, http.stopped) == (False, "")
    http.missed = TIMEOUTS
    assert (http.is_spent, http.stopped) == (True, f"stopped after {TIMEOUTS} missed replies")


def test_a_hang_up_closes_the_connection_behind_so_many_events(client):
    ended = Event()

    def stream(_):
        def write(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                for _ in range(10_000):
                    handler.wfile.write(b"data: {}\n\n")
                    handler.wfile.flush()
            except OSError:
                ended.set()
            handler.close_connection = True

        return write

    with serving(stream) as url:
        client(url).hang_up("/completion", {"stream": True}, 2)
    with serving(lambda body: (200, {})) as url:
        client(url).hang_up("/completion", {}, 2)                # an answer without events ends by itself
    assert ended.wait(60)
    with pytest.raises(Failed, match="connection failed"):
        client("http://127.0.0.1:1").hang_up("/completion", {}, 1)


@pytest.mark.parametrize("url", ["nowhere", "http://", "ftp://x", "http://127.0.0.1:0", "http://[::1"])
def test_an_address_that_is_none(url):
    with pytest.raises(BadInput, match="not a server URL: "):
        Http(url, 1.0, 1)


def test_all_requests_together_have_a_time_limit():
    with running("dripping headers", "completion") as server:
        http = Http(server.url, 5.0, 100, seconds=0.3)
        assert http.get("/props")["total_slots"] == 1 and http.stopped == ""
        with pytest.raises(Exhausted, match=r"stopped after 0\.3 seconds"):
            http.post("/completion", {})                         # not a late reply: the check ended
        assert http.is_spent and http.sent == 2
        with pytest.raises(Exhausted):
            http.get("/props")
        assert http.sent == 2
        http.close()


def test_a_late_reply_before_the_end_of_the_check():
    late = pytest.raises(NoReply, match=r"no complete reply within 0\.1 seconds")
    with running("dripping headers") as server, late:
        Http(server.url, 0.1, 100, seconds=60.0).get("/props")


def test_a_halted_client_sends_nothing_more_and_names_the_first_reason(client):
    with serving(lambda body: (200, {"a": 1})) as url:
        http = client(url)
        assert http.post("/x", {}) == (200, {"a": 1})
        http.halt("the first reason")
        http.halt("another")
        assert http.is_spent and http.stopped == "the first reason" and http.sent == 1
        with pytest.raises(Exhausted, match="the first reason"):
            http.post("/x", {})


def test_missed_replies_are_counted_until_one_arrives():
    def complete(body):
        if body["late"]:
            time.sleep(0.4)
        return 200, {}

    with serving(complete) as url:
        http = Http(url, 0.15, 100)
        for late in (True, True, False, True, True):
            if not late:
                http.post("/completion", {"late": False})
                continue
            with pytest.raises(NoReply):
                http.post("/completion", {"late": True})
            assert http.stopped == ""
        with pytest.raises(NoReply):
            http.post("/completion", {"late": True})
        assert (http.stopped != "", http.sent) == (True, 6)
        http.close()
