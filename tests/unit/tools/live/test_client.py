"""Client of a llama-server: paths and bodies of its requests, streams that are cut off, calls at once."""

from __future__ import annotations

from threading import Event

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost
from cachesim.tools.live.llama_server.client import GREEDY, Client, at_once
from tests.unit.tools.live.given_server import DROP, answer, given


@pytest.mark.parametrize(("reply", "is_healthy"), [
    ({"model_alias": "a"}, True), ({"model_alias": "b"}, False), ((503, {"model_alias": "a"}), False),
    ((200, ["model_alias"]), False), (DROP, False),
])  # fmt: skip
def test_a_server_is_healthy_if_it_answers_under_its_alias(reply, is_healthy):
    with given({"/props": reply}) as server:
        assert Client(server.url).healthy("a") is is_healthy


def test_requests_have_the_paths_of_a_llama_server():
    with given() as server:
        client = Client(server.url, 9.0)
        client.get("/slots")
        client.post("/x", {"a": 1})
        client.slot("save", 3, "file")
        client.slot("erase", 0)
        client.set_adapters([{"id": 0, "scale": 1.0}])
        client.close()
    assert server.asked == [
        ("GET", "/slots", None), ("POST", "/x", {"a": 1}), ("POST", "/slots/3?action=save", {"filename": "file"}),
        ("POST", "/slots/0?action=erase", {}), ("POST", "/lora-adapters", [{"id": 0, "scale": 1.0}])]  # fmt: skip


def test_a_completion_is_greedy_unless_asked_otherwise_and_its_reply_is_checked():
    with given({"/completion": [(200, answer(7)), (200, {}), (400, {})]}) as server:
        client = Client(server.url)
        assert client.complete({"prompt": [1], "temperature": 2}).body == answer(7)
        assert server.posted() == [{**GREEDY, "prompt": [1], "temperature": 2}]
        with pytest.raises(BadInput, match="/completion"):
            client.complete({"prompt": [1]})
        assert client.complete({"prompt": [1]}).status == 400


STREAM = b""": comment
data: {"tokens": [5]}
data: {"tokens": [6, 7]}
data: {"tokens": [8]}
data: {"tokens": [9], "stop": true}
data: [DONE]
"""


@pytest.mark.parametrize(("after", "seen"), [(1, [5]), (2, [5, 6, 7]), (3, [5, 6, 7]), (9, [5, 6, 7, 8])])
def test_a_stream_is_left_after_the_tokens_that_are_asked_for(after, seen):
    with given({"/completion": STREAM}) as server:
        assert Client(server.url).hang_up({"prompt": [1]}, after, lambda: pytest.fail("not launched")) == seen
        assert server.posted() == [{**GREEDY, "prompt": [1], "stream": True}]


def test_a_request_is_left_in_its_prompt_when_it_was_launched():
    launched = []
    with given({"/completion": STREAM}) as server:
        assert Client(server.url).hang_up({}, 0, lambda: launched.append(1)) == [] and launched == [1]
    with given({"/completion": b'data: {"tokens": "x"}\n'}) as server, pytest.raises(BadInput, match="/completion"):
        Client(server.url).hang_up({}, 1, lambda: None)


def test_calls_at_once_all_end_and_the_work_meanwhile_is_done(monkeypatch):
    monkeypatch.setattr("cachesim.tools.live.llama_server.client.PATIENCE", 0.01)
    started, done = Event(), []

    def second():
        started.wait(60)
        done.append(2)

    at_once([lambda: done.append(1), second], started.set)
    assert sorted(done) == [1, 2]
    at_once([], lambda: pytest.fail("nothing to wait for"))


def test_an_exception_of_a_call_is_raised_although_another_still_waits():
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
