"""Requests that exported programs send, and how they read and compare the replies."""

from __future__ import annotations

import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from cachesim.tools.live.llama_server.client import GREEDY
from cachesim.tools.live.llama_server.export import talk as module
from cachesim.tools.live.llama_server.export.talk import ServerTalk, answers, difference, places, tokens_of


@pytest.mark.parametrize(("body", "found"), [
    ({}, []), ({"completion_probabilities": []}, []),
    ({"completion_probabilities": [{"probs": [{"tok_str": "a", "prob": 1.0}, {"tok_str": "b", "prob": 0}]}]},
     [{"a": 0.0, "b": -math.inf}]),
    ({"completion_probabilities": [{"top_logprobs": [{"id": 5, "logprob": -0.5}, {"id": 6}]},
                                   {"top_probs": [{"id": 7, "logprob": -1.0}]}, {}]}, [{5: -0.5}, {7: -1.0}, {}]),
])  # fmt: skip
def test_the_likeliest_tokens_of_each_generated_token(body, found):
    assert places(body) == found


@contextmanager
def replying(status=200, data=b"{}"):
    """Run a server with one reply; yield a client of it, and the requests so far."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.command, self.path, json.loads(body)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield ServerTalk(f"http://127.0.0.1:{server.server_port}/", within=30, delay=0), got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("status", "data", "found"), [
    (200, b'{"tokens": [1]}', (200, {"tokens": [1]})), (500, b'{"error": 1}', (500, {"error": 1})),
    (503, b"no json", (503, None)),
])  # fmt: skip
def test_a_reply_has_its_status_and_its_body(status, data, found):
    with replying(status, data) as (talk, got):
        assert talk.request("GET", "/props") == found
        talk.ask(3, [5, 6], n_predict=2)
        assert talk.came == {3: found} and talk.disconnected == set()
    sent = {"prompt": [5, 6], "n_predict": 2, **GREEDY}
    assert got == [("GET", "/props", None), ("POST", "/completion", sent)] and talk.sent == {3: sent}


def test_without_a_server_there_is_no_answer():
    assert ServerTalk("http://127.0.0.1:1", within=5).request("GET", "/props") == (0, None)


def test_a_request_after_a_change_of_the_adapters_names_their_scales_for_the_cold_run():
    scales = [{"id": 0, "scale": 0.5}]
    with replying() as (talk, got):
        talk.adapters(scales)
        talk.ask(1, [5])
        assert talk.cold(1, talk) == (200, {})
    assert got[0] == ("POST", "/lora-adapters", scales) and "lora" not in got[1][2]
    assert got[2][2] == {"prompt": [5], "lora": scales, "cache_prompt": False, "id_slot": 0, **GREEDY}


STREAM = b'data: {"tokens": [7]}\n\ndata: {"tokens": [8, 9]}\n\ndata: {"content": ""}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(("after", "seen"), [(0, []), (1, [7]), (2, [7, 8, 9]), (9, [7, 8, 9])])
def test_a_client_hangs_up_after_so_many_tokens(monkeypatch, after, seen):
    waited = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    with replying(data=STREAM) as (talk, got):
        talk.delay = 0.07
        talk.ask(2, [5], hang_up=after)
    assert talk.came == {2: (0, {"tokens": seen})} and talk.disconnected == {2}
    assert waited == [0.07 if after == 0 else 0, 0.3] and all(one[2]["stream"] for one in got)


def test_requests_together_follow_each_other_by_iterations(monkeypatch):
    waited, done = [], []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    ServerTalk("http://x", delay=0.5).together((0, lambda: done.append("a")), (3, lambda: done.append("b")))
    assert waited == [0, 1.5] and sorted(done) == ["a", "b"]


def test_a_slot_action_that_fails_names_the_missing_flag(capsys):
    for status, says in ((200, ""), (501, "slot 2, save: HTTP 501 (the server needs --slot-save-path)\n")):
        with replying(status) as (talk, got):
            talk.slot(2, "save", filename="a")
        assert got == [("POST", "/slots/2?action=save", {"filename": "a"})] and capsys.readouterr().out == says


@pytest.mark.parametrize(("body", "completion", "at", "start", "stop", "word"), [
    ({"tokens": [7, 8, 9]}, 0, 0, 0, 2, [7, 8, 3, 4]), ({"tokens": [7, 8, 9]}, 0, 1, 2, 4, [1, 2, 8, 9]),
    ({"tokens": [7]}, 0, 0, 1, 3, [1, 7, 3, 4]), ({"tokens": [7]}, 1, 0, 1, 3, [1, 2, 3, 4]),
    ([{"tokens": [5]}, {"tokens": [6]}], 1, 0, 0, 1, [6, 2, 3, 4]), ({"tokens": None}, 0, 0, 0, 1, [1, 2, 3, 4]),
    (None, 0, 0, 0, 1, [1, 2, 3, 4]),
])  # fmt: skip
def test_generated_tokens_become_part_of_a_word(body, completion, at, start, stop, word):
    talk, heard = ServerTalk("http://x"), [1, 2, 3, 4]
    talk.came[0] = 200, body
    talk.hear(0, completion, at, heard, start, stop)
    assert heard == word


def answer(*tokens, **more):
    return {"tokens": list(tokens), **more}


def scored(*places_, tokens):
    """Return an answer with the log-probabilities of tokens at each place."""
    return {"tokens": tokens, "completion_probabilities": [
        {"top_logprobs": [{"id": token, "logprob": value} for token, value in place.items()]} for place in places_]}


@pytest.mark.parametrize(("warm", "cold", "text"), [
    ((200, answer(1)), (200, answer(1)), "same as cold"), ((500, None), (503, None), "cold: HTTP 503, warm: 500"),
    ((200, answer(1)), (0, None), "cold: HTTP 000, warm: 200"),
    ((0, None), (200, answer(1)), "DIFFERS from a cold run: NO ANSWER"),
    ((500, {"error": {"message": "full"}}), (200, answer(1)), "DIFFERS from a cold run: HTTP 500 full"),
    ((500, None), (200, answer(1)), "DIFFERS from a cold run: HTTP 500 "),
    ((500, {"error": {}}), (200, answer(1)), "DIFFERS from a cold run: HTTP 500 "),
    ((500, {}), (200, answer(1)), "DIFFERS from a cold run: HTTP 500 "),
    ((200, {}), (200, answer(1)), "an answer that cannot be read"),
    ((200, {"content": "a"}), (200, {"content": "a"}), "same as cold"),
    ((200, [answer(1), answer(2)]), (200, answer(1)), "DIFFERS from a cold run: token 0 is 2, not 1"),
    ((200, [answer(1), answer(1)]), (200, answer(1)), "same as cold"),
])  # fmt: skip
def test_an_answer_is_compared_with_that_of_a_cold_run(warm, cold, text):
    talk = ServerTalk("http://x")
    talk.came[0] = warm
    assert talk.verdict(0, cold, 0.01) == text


@pytest.mark.parametrize(("warm", "cold", "text"), [
    (answer(1, 2), answer(1, 3), "DIFFERS from a cold run: token 1 is 2, not 3"),
    (answer(1, 2), answer(1), "DIFFERS from a cold run: 2 tokens, not 1"), (answer(), answer(), "same as cold"),
    (scored({1: -1.0}, tokens=[1]), scored({1: -1.25}, tokens=[1]), "same as cold"),
    (scored({1: -1.0}, tokens=[1]), scored({1: -1.5}, tokens=[1]), "DIFFERS from a cold run: log-probabilities by 0.5"),
    (scored({1: -1.0, 2: -1.0}, tokens=[1]), scored({1: -1.0, 2: -1.0}, tokens=[2]), "same as cold"),
    (scored({1: -1.0, 2: -1.0}, tokens=[1]), scored({1: -1.5, 2: -1.0}, tokens=[2]),
     "DIFFERS from a cold run: log-probabilities by 0.5, token 0 is 1, not 2"),
    (scored({1: -1.0}, tokens=[1]), scored({2: -1.0}, tokens=[2]), "DIFFERS from a cold run: token 0 is 1, not 2"),
    (scored({1: -1.0}, {5: -1.0}, tokens=[1, 5]), scored({1: -1.0, 2: -1.0}, {5: -9.0}, tokens=[2, 5]), "same as cold"),
])  # fmt: skip
def test_log_probabilities_count_up_to_the_first_different_token(warm, cold, text):
    assert difference(warm, cold, 0.25) == text


def test_completions_and_tokens_of_an_answer():
    assert answers([1, 2]) == [1, 2] and answers([]) == answers(None) == [{}] and answers({"a": 1}) == [{"a": 1}]
    assert tokens_of({"completion_probabilities": [{"content": "a"}, {}]}) == ["a", None]
    assert tokens_of(answer(3, completion_probabilities=[{"content": "a"}])) == [3] and tokens_of({}) == []


def test_scales_of_adapters_are_sent_and_kept_for_cold_runs():
    scales = [{"id": 0, "scale": 0.5}]
    with replying() as (talk, got):
        talk.adapters(scales)
        talk.ask(0, [1, 2], n_predict=3)
    assert got[0] == ("POST", "/lora-adapters", scales) and talk.scales == {"lora": scales}
    assert got[1] == ("POST", "/completion", {"prompt": [1, 2], "n_predict": 3, **GREEDY})
    assert talk.sent[0] == {"lora": scales, "prompt": [1, 2], "n_predict": 3, **GREEDY}


def test_a_cold_request_keeps_only_what_determines_the_answer():
    with replying(data=b'{"tokens": [1]}') as (talk, got):
        talk.sent[3] = {"prompt": [1, 2], "n_predict": 3, "cache_prompt": True, "id_slot": 4, "lora": [], "n": 1}
        assert talk.cold(3, talk) == (200, {"tokens": [1]})
    assert got == [("POST", "/completion", {"prompt": [1, 2], "n_predict": 3, "lora": [], "cache_prompt": False,
                                            "id_slot": 0, **GREEDY})]  # fmt: skip


def test_the_answer_of_a_client_that_hangs_up_is_what_it_received(monkeypatch):
    talk = ServerTalk("http://127.0.0.1:1")
    monkeypatch.setattr(talk, "disconnect", lambda body, tokens: [7] * tokens)
    talk.ask(2, [1], hang_up=2, n_predict=9)
    assert talk.came == {2: (0, {"tokens": [7, 7]})} and talk.disconnected == {2}


@pytest.mark.parametrize("error", [None, OSError])
def test_the_connection_of_a_request_is_closed(monkeypatch, error):
    talk, closed = ServerTalk("http://127.0.0.1:1"), []

    def request(*_):
        if error:
            raise error

    reply = SimpleNamespace(status=200, read=lambda: b"[5]")
    connection = SimpleNamespace(request=request, getresponse=lambda: reply, close=lambda: closed.append(1))
    monkeypatch.setattr(talk, "connect", lambda: connection)
    assert talk.request("GET", "/props") == ((0, None) if error else (200, [5])) and closed == [1]


def test_a_talk_has_a_minute_for_a_reply_and_has_sent_nothing():
    talk = ServerTalk("http://127.0.0.1:1")
    assert (talk.url, talk.within, talk.delay) == ("http://127.0.0.1:1", 60, 0.05)
    assert (talk.sent, talk.came, talk.disconnected, talk.scales) == ({}, {}, set(), {})


def test_a_connection_has_the_address_and_the_time_of_the_talk():
    connection = ServerTalk("http://127.0.0.1:8080/", 7.5).connect()
    assert (connection.host, connection.port, connection.timeout) == ("127.0.0.1", 8080, 7.5)


@pytest.mark.parametrize("error", [None, OSError])
def test_the_connection_of_a_client_that_hangs_up_is_closed(monkeypatch, error):
    talk, closed = ServerTalk("http://127.0.0.1:1"), []

    def request(*_):
        if error:
            raise error

    reply = [b'data: {"tokens": [5, 6]}\n', b'data: {"tokens": [7]}\n']
    connection = SimpleNamespace(request=request, getresponse=lambda: reply, close=lambda: closed.append(1))
    monkeypatch.setattr(talk, "connect", lambda: connection)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    assert talk.disconnect({}, 2) == ([] if error else [5, 6]) and closed == [1]


def test_requests_together_have_ended_when_the_next_is_sent():
    talk, ended, released = ServerTalk("http://127.0.0.1:1", delay=0.0), [], threading.Event()

    def first():
        released.wait(5)
        ended.append("first")

    talk.together((0, first), (1, released.set))
    assert ended == ["first"]


def test_a_request_may_take_a_minute_and_an_iteration_a_twentieth_of_a_second():
    talk = ServerTalk("http://127.0.0.1:8080/")
    assert (talk.within, talk.delay, talk.connect().timeout) == (60, 0.05, 60)
    assert (talk.connect().host, talk.connect().port) == ("127.0.0.1", 8080)
