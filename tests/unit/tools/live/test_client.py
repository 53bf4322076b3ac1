"""Client of a llama-server: paths and bodies of its requests, streams that are cut off, calls at once."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.tools.live.llama_server.client import GREEDY, Client, at_once

TIMINGS = {"cache_n": 1, "prompt_n": 2, "predicted_n": 1}
BODY = {"id_slot": 0, "tokens_evaluated": 3, "tokens_cached": 4, "truncated": False, "stop_type": "limit",
        "tokens": [7], "timings": TIMINGS}  # fmt: skip


class GivenHttp:
    """HTTP client that notes its requests and gives replies."""

    def __init__(self, *replies, lines=()):
        self.replies, self.lines, self.asked, self.is_closed = list(replies), lines, [], False

    def ask(self, *what):
        self.asked.append(what)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @contextmanager
    def send(self, *what):
        self.asked.append(what)
        yield SimpleNamespace(lines=lambda: iter(self.lines))

    def close(self):
        self.is_closed = True


def client(*replies, lines=()):
    made = Client("http://127.0.0.1:1", 9.0)
    made._http = GivenHttp(*replies, lines=lines)
    return made, made._http.asked


@pytest.mark.parametrize(("reply", "is_healthy"), [
    (HttpReply(200, {"model_alias": "a"}), True), (HttpReply(200, {"model_alias": "b"}), False),
    (HttpReply(503, {"model_alias": "a"}), False), (HttpReply(200, ["model_alias"]), False),
    (ConnectionLost("gone"), False),
])  # fmt: skip
def test_a_server_is_healthy_if_it_answers_under_its_alias(reply, is_healthy):
    made, asked = client(reply)
    assert made.healthy("a") is is_healthy and asked == [("GET", "/props", None, 9.0)]


def test_requests_have_the_paths_of_a_llama_server():
    made, asked = client(*[HttpReply(200, {})] * 6)
    made.get("/slots")
    made.post("/x", {"a": 1})
    made.post("/x", {"a": 1}, 2.0)
    made.slot("save", 3, "file")
    made.slot("erase", 0)
    made.set_adapters([{"id": 0, "scale": 1.0}])
    assert asked == [
        ("GET", "/slots", None, 9.0), ("POST", "/x", {"a": 1}, 9.0), ("POST", "/x", {"a": 1}, 2.0),
        ("POST", "/slots/3?action=save", {"filename": "file"}, 9.0), ("POST", "/slots/0?action=erase", {}, 9.0),
        ("POST", "/lora-adapters", [{"id": 0, "scale": 1.0}], 9.0)]  # fmt: skip
    made.close()
    assert made._http.is_closed


def test_a_completion_is_greedy_unless_asked_otherwise_and_its_reply_is_checked():
    made, asked = client(HttpReply(200, BODY), HttpReply(200, {}), HttpReply(400, {}))
    assert made.complete({"prompt": [1], "temperature": 2}).body == BODY
    assert asked == [("POST", "/completion", {**GREEDY, "prompt": [1], "temperature": 2}, 9.0)]
    with pytest.raises(BadInput, match="/completion"):
        made.complete({"prompt": [1]})
    assert made.complete({"prompt": [1]}).status == 400


def event(*tokens, **more):
    return f'data: {{"tokens": {list(tokens)}{"".join(f", {chr(34)}{name}{chr(34)}: true" for name in more)}}}'


@pytest.mark.parametrize(("after", "seen"), [(1, [5]), (2, [5, 6, 7]), (3, [5, 6, 7]), (4, [5, 6, 7, 8]),
                                             (9, [5, 6, 7, 8])])  # fmt: skip
def test_a_stream_is_left_after_the_tokens_that_are_asked_for(after, seen):
    made, asked = client(lines=[": comment", event(5), event(6, 7), event(8), event(9, stop=1), "data: [DONE]"])
    assert made.hang_up({"prompt": [1]}, after, lambda: pytest.fail("not launched")) == seen
    assert asked == [("POST", "/completion", {**GREEDY, "prompt": [1], "stream": True}, 9.0)]


def test_a_request_is_left_in_its_prompt_when_it_was_launched():
    launched = []
    made, _ = client(lines=[event(5)])
    assert made.hang_up({}, 0, lambda: launched.append(1)) == [] and launched == [1]
    with pytest.raises(BadInput, match="/completion"):
        made.tokens_in('data: {"tokens": "x"}')


def test_calls_at_once_all_end_and_the_work_meanwhile_is_done():
    started, done = Event(), []

    def second():
        started.wait(60)
        done.append(2)

    at_once([lambda: done.append(1), second], started.set)
    assert sorted(done) == [1, 2]
    at_once([], lambda: pytest.fail("nothing to wait for"))
    ended, ended_before = [], []
    at_once([lambda: ended.append(1)], lambda: ended_before.extend(ended))
    assert ended == [1] and ended_before == [], "nothing is done after the last call"


def test_the_exception_of_a_call_is_raised():
    def fails():
        raise ConnectionLost("gone")

    with pytest.raises(ConnectionLost):
        at_once([fails, lambda: None], lambda: None)


def test_a_client_without_a_server_is_not_healthy_and_can_be_closed():
    alone = Client("http://127.0.0.1:1")
    assert not alone.healthy("a") and alone.within == 120.0
    alone.close()


def test_an_exception_is_raised_although_another_call_still_waits():
    released, ended = Event(), []

    def fails():
        raise ConnectionLost("gone")

    def waits():
        released.wait(5)
        ended.append(1)

    with pytest.raises(ConnectionLost):
        at_once([waits, fails], lambda: None)
    assert ended == []
    released.set()
