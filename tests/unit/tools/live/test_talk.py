"""Requests that exported programs send, and how they read and compare the replies."""

from __future__ import annotations

import math
import threading

import pytest

from cachesim.tools.live.llama_server.client import GREEDY
from cachesim.tools.live.llama_server.export import talk as module
from cachesim.tools.live.llama_server.export.talk import ServerTalk, places, tokens_of
from tests.unit.tools.live.given_server import given, likely


@pytest.mark.parametrize(("body", "found"), [
    ({}, []),
    ({"completion_probabilities": [{"probs": [{"tok_str": "a", "prob": 1.0}, {"tok_str": "b", "prob": 0}]}]},
     [{"a": 0.0, "b": -math.inf}]),
    ({"completion_probabilities": [{"top_logprobs": [{"id": 5, "logprob": -0.5}, {"id": 6}]},
                                   {"top_probs": [{"id": 7, "logprob": -1.0}]}, {}]}, [{5: -0.5}, {7: -1.0}, {}]),
])  # fmt: skip
def test_the_likeliest_tokens_of_each_generated_token(body, found):
    assert places(body) == found


@pytest.mark.parametrize(("reply", "found"), [
    ((200, {"tokens": [1]}), (200, {"tokens": [1]})), ((500, {"error": 1}), (500, {"error": 1})),
    ((503, b"no json"), (503, None)),
])  # fmt: skip
def test_a_reply_has_its_status_and_its_body(reply, found):
    with given({"/completion": reply}) as server:
        talk = ServerTalk(f"{server.url}/")
        talk.ask(3, [5, 6], n_predict=2)
    assert talk.came == {3: found} and talk.disconnected == set()
    assert server.asked == [("POST", "/completion", {"prompt": [5, 6], "n_predict": 2, **GREEDY})]


def test_without_a_server_there_is_no_answer():
    assert ServerTalk("http://127.0.0.1:1", within=5).request("GET", "/props") == (0, None)


def test_a_cold_request_keeps_only_what_determines_the_answer_and_names_changed_adapters():
    scales = [{"id": 0, "scale": 0.5}]
    with given() as server:
        talk = ServerTalk(server.url)
        talk.adapters(scales)
        talk.ask(1, [5], n_predict=3, cache_prompt=True, id_slot=4)
        assert talk.cold(1, talk) == (200, {})
    changed, warm, cold = server.posted()
    assert changed == scales and "lora" not in warm
    assert cold == {"prompt": [5], "n_predict": 3, "lora": scales, "cache_prompt": False, "id_slot": 0, **GREEDY}


STREAM = b'data: {"tokens": [7]}\n\ndata: {"tokens": [8, 9]}\n\ndata: {"content": ""}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(("after", "seen"), [(0, []), (1, [7]), (2, [7, 8, 9]), (9, [7, 8, 9])])
def test_a_client_hangs_up_after_so_many_tokens(monkeypatch, after, seen):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    with given({"/completion": STREAM}) as server:
        talk = ServerTalk(server.url)
        talk.ask(2, [5], hang_up=after)
    assert talk.came == {2: (0, {"tokens": seen})} and talk.disconnected == {2}
    assert all(body["stream"] for body in server.posted())


def test_requests_together_follow_each_other_by_iterations(monkeypatch):
    waited, done = [], []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    ServerTalk("http://x", delay=0.5).together((0, lambda: done.append("a")), (3, lambda: done.append("b")))
    assert waited == [0, 1.5] and sorted(done) == ["a", "b"]


def test_requests_together_have_ended_when_the_next_is_sent():
    talk, ended, released = ServerTalk("http://127.0.0.1:1", delay=0.0), [], threading.Event()

    def first():
        released.wait(5)
        ended.append("first")

    talk.together((0, first), (1, released.set))
    assert ended == ["first"]


@pytest.mark.parametrize("status", [200, 501])
def test_a_slot_action_that_fails_names_the_missing_flag(capsys, status):
    with given({"/slots/2?action=save": (status, {})}) as server:
        ServerTalk(server.url).slot(2, "save", filename="a")
    assert server.asked == [("POST", "/slots/2?action=save", {"filename": "a"})]
    assert ("--slot-save-path" in capsys.readouterr().out) is (status == 501)


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


def answer(*tokens):
    return {"tokens": list(tokens)}


def scored(*places, tokens):
    return {"tokens": tokens, **likely(*places)}


def verdict(warm, cold, tolerance=0.25):
    talk = ServerTalk("http://x")
    talk.came[0] = warm
    return talk.verdict(0, cold, tolerance)


@pytest.mark.parametrize(("warm", "cold", "differs", "names"), [
    ((200, answer(1)), (200, answer(1)), False, ""), ((500, None), (503, None), False, "503"),
    ((200, answer(1)), (0, None), False, "000"), ((0, None), (200, answer(1)), True, ""),
    ((500, {"error": {"message": "full"}}), (200, answer(1)), True, "500 full"),
    ((500, None), (200, answer(1)), True, "500"), ((500, {"error": {}}), (200, answer(1)), True, "500"),
    ((200, {}), (200, answer(1)), False, ""), ((200, {"content": "a"}), (200, {"content": "a"}), False, ""),
    ((200, [answer(1), answer(2)]), (200, answer(1)), True, "token 0 is 2, not 1"),
    ((200, [answer(1), answer(1)]), (200, answer(1)), False, ""),
])  # fmt: skip
def test_an_answer_is_compared_with_that_of_a_cold_run(warm, cold, differs, names):
    found = verdict(warm, cold)
    assert ("DIFFERS" in found) is differs and names in found


def test_an_answer_without_tokens_and_text_is_not_called_equal():
    assert verdict((200, {}), (200, answer(1))) != verdict((200, answer(1)), (200, answer(1)))


@pytest.mark.parametrize(("warm", "cold", "differs", "names"), [
    (answer(1, 2), answer(1, 3), True, "token 1 is 2, not 3"), (answer(1, 2), answer(1), True, "2 tokens, not 1"),
    (answer(), answer(), False, ""), (scored({1: -1.0}, tokens=[1]), scored({1: -1.25}, tokens=[1]), False, ""),
    (scored({1: -1.0}, tokens=[1]), scored({1: -1.5}, tokens=[1]), True, "0.5"),
    (scored({1: -1.0, 2: -1.0}, tokens=[1]), scored({1: -1.0, 2: -1.0}, tokens=[2]), False, ""),
    (scored({1: -1.0, 2: -1.0}, tokens=[1]), scored({1: -1.5, 2: -1.0}, tokens=[2]), True, "token 0 is 1, not 2"),
    (scored({1: -1.0}, tokens=[1]), scored({2: -1.0}, tokens=[2]), True, "token 0 is 1, not 2"),
    (scored({1: -1.0}, {5: -1.0}, tokens=[1, 5]), scored({1: -1.0, 2: -1.0}, {5: -9.0}, tokens=[2, 5]), False, ""),
])  # fmt: skip
def test_log_probabilities_count_up_to_the_first_different_token(warm, cold, differs, names):
    found = verdict((200, warm), (200, cold))
    assert ("DIFFERS" in found) is differs and names in found


def test_tokens_of_an_answer_are_ids_or_else_texts():
    assert tokens_of({"completion_probabilities": [{"content": "a"}, {}]}) == ["a", None]
    assert tokens_of({"tokens": [3], "completion_probabilities": [{"content": "a"}]}) == [3] and tokens_of({}) == []
