"""Steps on a running server: what is sent, what is kept of the replies, and the cold comparison afterwards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply, ReplyLate
from cachesim.tools.live.llama_server.verify import remote as module
from cachesim.tools.live.llama_server.verify.remote import Remote

PROPS = {"total_slots": 2, "build_info": "b11549-abc", "default_generation_settings": {"n_ctx": 512}}
TIMINGS = {"cache_n": 1, "prompt_n": 2, "predicted_n": 2}


def answer(*tokens, **more):
    return {"id_slot": 0, "tokens_evaluated": 3, "tokens_cached": 4, "truncated": False, "stop_type": "limit",
            "tokens": list(tokens), "timings": TIMINGS, **more}  # fmt: skip


class GivenClient:
    """Client of a server with given replies to GET; completions answer with two tokens unless given."""

    def __init__(self):
        self.url, self.asked, self.is_closed = "http://x", [], False
        self.found = {"/props": HttpReply(200, PROPS), "/v1/models": HttpReply(200, {"data": []})}
        self.completions, self.slots = [], HttpReply(200, {"n_saved": 5, "success": True})

    def get(self, path):
        reply = self.found[path]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def complete(self, body):
        self.asked.append(("complete", body))
        reply = self.completions.pop(0) if self.completions else HttpReply(200, answer(5, 6))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def slot(self, *what):
        self.asked.append(("slot", *what))
        return self.slots

    def set_adapters(self, scales):
        self.asked.append(("adapters", scales))
        return HttpReply(200, {"success": True})

    def hang_up(self, body, after, launched):
        launched()
        self.asked.append(("hang_up", body, after))
        return [7]

    def close(self):
        self.is_closed = True


@pytest.fixture
def client(monkeypatch):
    client = GivenClient()

    def made(url, within):
        client.made = url, within
        return client

    monkeypatch.setattr(module, "Client", made)
    return client


@pytest.fixture
def remote(client):
    return Remote("http://x/", 0.1, 9.0)


def test_a_server_reports_its_slots_context_and_build(client, remote):
    assert client.made == ("http://x", 9.0)
    assert (remote.slots, remote.context, remote.build) == (2, 512, "b11549")
    remote.stop()
    assert client.is_closed


@pytest.mark.parametrize(("said", "build"), [
    ("b11549-abc", "b11549"), ("b0011", "b0011"), ("b0-abc", ""), ("b1234567890", ""), ("11549-abc", ""), ("", ""),
    (None, ""),
])  # fmt: skip
def test_a_build_is_a_number_after_a_b(client, said, build):
    client.found["/props"] = HttpReply(200, {"total_slots": 1, "build_info": said})
    remote = Remote("http://x", 0.1)
    assert (remote.build, remote.context, remote.slots) == (build, 0, 1)


@pytest.mark.parametrize(("path", "reply", "said"), [
    ("/props", HttpReply(200, {}), "http://x: not a llama-server: /props does not report the number of slots"),
    ("/props", HttpReply(200, []), "not a llama-server"),
    ("/props", HttpReply(401, PROPS), "requires a key (HTTP 401)"),
    ("/v1/models", HttpReply(403, {}), "requires a key (HTTP 403)"),
    ("/props", HttpReply(200, {"total_slots": 0}), "http://x/props"),
    ("/v1/models", HttpReply(200, {"data": 5}), "http://x/v1/models"), ("/props", ConnectionLost("gone"), "gone"),
])  # fmt: skip
def test_another_server_is_refused_and_its_connections_are_closed(client, path, reply, said):
    client.found[path] = reply
    with pytest.raises(BadInput) as refused:
        Remote("http://x", 0.1)
    assert said in str(refused.value) and client.is_closed


def test_a_url_begins_with_http(client):
    with pytest.raises(BadInput, match="expected a server URL that begins with http://"):
        Remote("https://x", 0.1)


@pytest.mark.parametrize(("listed", "scales"), [
    ([{"id": 1, "scale": 2}, {"id": 0, "scale": 0.5}], [0.5, 2.0]), ({}, []), (None, []),
    ([7, {"id": True, "scale": 1}, {"id": 0, "scale": "1"}, {"scale": 1}, {"id": 3, "scale": 1}], [1.0]),
])  # fmt: skip
def test_adapters_are_listed_by_their_numbers(client, remote, listed, scales):
    client.found["/lora-adapters"] = HttpReply(200, listed)
    assert remote.adapter_scales() == scales


@pytest.mark.parametrize(("slots", "seed"), [
    ([{"id_task": 5}, {"id_task": 7}], 14), ([{"id_task": -1}, {"id_task": 0}, {}], 3), ([7, {"id_task": 2**31}], 1),
    ([{"id_task": 2**31 - 1}], 2**31), ([{"id_task": True}], 1), ([{"id_task": 1}], 2),
    ({}, 0), (None, 0),
])  # fmt: skip
def test_a_seed_grows_with_the_tasks_of_the_slots(client, remote, slots, seed):
    client.found["/slots"] = HttpReply(200, slots)
    assert remote.seed() == seed


def test_every_slot_is_emptied(client, remote):
    assert remote.clear() == [] and client.asked == [("slot", "erase", 0), ("slot", "erase", 1)]
    client.slots = HttpReply(501, {})
    assert remote.clear() == [
        "the server cannot erase slots (needs --slot-save-path): their content may affect the result"]


def test_a_single_slot_that_cannot_be_emptied_is_noted(client, remote, monkeypatch):
    monkeypatch.setattr(client, "slot", lambda action, slot: HttpReply(501 if slot else 200, {}))
    assert remote.clear() == [
        "the server cannot erase slots (needs --slot-save-path): their content may affect the result"]


def completion(prompt=(1, 2), **more):
    return {"op": "completion", "request": {"prompt": list(prompt), **more}}


def test_a_completion_is_kept_with_its_number_and_reply(client, remote):
    first = remote.play(completion())
    assert remote.play({"op": "completion", "request": {}, "racy": True})["i"] == 1
    response = first["response"]
    assert (first["i"], first["events"]) == (0, [])
    assert (response["status"], response["id_slot"], response["cache_n"]) == (200, 0, 1)
    assert "racy" not in first and first["lora"] is None and remote.steps[0] is first
    assert client.asked[0] == ("complete", {"prompt": [1, 2]})


def test_slots_adapters_and_hang_ups_have_requests_of_their_own(client, remote):
    client.found["/lora-adapters"] = HttpReply(200, [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.0}])
    saved = remote.play({"op": "slot", "request": {"action": "save", "id_slot": 1, "filename": "f"}})
    erased = remote.play({"op": "slot", "request": {"action": "erase", "id_slot": 0}})
    assert client.asked == [("slot", "save", 1, "f"), ("slot", "erase", 0, "")]
    assert saved["response"] == erased["response"] == {"status": 200, "n_saved": 5, "success": True}
    client.asked.clear()
    for scale in (0.5, 0.7):
        remote.play({"op": "lora", "request": {"set": [{"id": 1, "scale": scale}]}})
    assert remote.scales == [1.0, 0.0] and remote.play(completion())["lora"] == [{"id": 1, "scale": 0.7}]
    remote.restore_adapters()
    remote.restore_adapters()
    assert client.asked[2:] == [("complete", {"prompt": [1, 2]}),
                                ("adapters", [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.0}])]  # fmt: skip
    client.asked.clear()
    left = remote.play(completion(cancel_after=0, n_predict=9))
    assert client.asked == [("hang_up", {"prompt": [1, 2], "n_predict": 9}, 1)]
    assert (left["racy"], left["response"]) == (True, {"cancelled": True, "tokens": [7]})


def test_requests_at_once_have_numbers_of_their_own(client, remote):
    step = remote.play({"op": "parallel", "steps": [completion([1]), completion([2])]})
    assert step["racy"] and [one["i"] for one in step["steps"]] == ["0.0", "0.1"]
    assert all(one["response"]["status"] == 200 for one in step["steps"]) and "response" not in step


def test_a_server_of_another_is_not_restarted(remote):
    with pytest.raises(BadInput, match="a server given by --url cannot be restarted"):
        remote.play({"op": "restart"})


@pytest.mark.parametrize(("props", "is_dead"), [
    (ConnectionLost("gone"), True), (ReplyLate("late"), False), (HttpReply(200, {}), False)])  # fmt: skip
def test_a_server_died_if_it_accepts_no_connection_any_more(client, remote, props, is_dead):
    client.completions = [ConnectionLost("it broke")]
    client.found["/props"] = props
    if not is_dead:
        with pytest.raises(ConnectionLost, match="it broke"):
            remote.play(completion())
        return
    assert remote.play(completion())["died"] == {
        "error": "it broke", "returncode": 0, "fatal": ["the connection broke"], "frames": []}
    assert len(remote.steps) == 1


def likely(*pairs):
    places = [{"top_logprobs": [{"id": token, "logprob": value} for token, value in place]} for place in pairs]
    return {"completion_probabilities": places}


@pytest.fixture
def cold(client, monkeypatch):
    """Give the answers of cold runs, and note what was asked."""
    asked, answers = [], []

    def ask(server, request):
        asked.append(request)
        return answers.pop(0)

    monkeypatch.setattr(module, "ask_cold", ask)
    return SimpleNamespace(asked=asked, answers=answers)


def test_every_answered_prompt_is_compared_with_a_cold_run(client, remote, cold):
    client.completions = [HttpReply(200, answer(5, 6)), HttpReply(400, {}), HttpReply(200, answer(5, 6)),
                          HttpReply(200, answer(8, 6))]  # fmt: skip
    for step in (completion([1]), completion([2]), {"op": "slot", "request": {"action": "erase", "id_slot": 0}},
                 completion([3], n_predict=2)):  # fmt: skip
        remote.play(step)
    remote.set = [{"id": 0, "scale": 2.0}]
    remote.play(completion([4]))
    cold.answers += [answer(5, 6), answer(5, 7), None]
    told = []
    remote.compare_all(told.append)
    assert cold.asked == [{"prompt": [1]}, {"prompt": [3], "n_predict": 2},
                          {"lora": [{"id": 0, "scale": 2.0}], "prompt": [4]}]  # fmt: skip
    assert [one["i"] for one in told] == [0, 3, 4]
    assert [one.get("cold", {}).get("equal") for one in remote.steps] == [True, None, None, False, None]
    assert not any({"body", "lora"} & one.keys() for one in remote.steps) and remote.inexact == [{"i": 3}]


def test_a_cold_run_has_the_adapters_of_its_own_request(client, remote, cold):
    remote.set = [{"id": 0, "scale": 2.0}]
    remote.play(completion([4], lora=[]))
    cold.answers.append(answer(5, 6))
    remote.compare_all()
    assert cold.asked == [{"lora": [], "prompt": [4]}]


@pytest.mark.parametrize(("gap", "rounding", "is_inexact"), [(0.05, 0.1, False), (0.1, 0.1, False), (0.2, 0.1, True)])
def test_a_small_difference_of_probabilities_is_rounding(client, cold, gap, rounding, is_inexact):
    for tokens in ((5, 6), (5, 7)):                # also if another token was about equally likely
        remote = Remote("http://x", rounding)
        client.completions = [HttpReply(200, answer(5, 6, **likely([(5, -0.5)], [(6, -0.5), (7, -0.5 - gap)])))]
        cold.answers.append(answer(*tokens, **likely([(5, -0.5)], [(6, -0.5), (7, -0.5)])))
        remote.play(completion())
        remote.compare_all()
        assert bool(remote.inexact) is is_inexact


def test_further_completions_are_compared_each(client, remote, cold):
    client.completions = [HttpReply(200, [answer(5, 6), answer(5, 7, index=1), answer(5, 6, index=2)])]
    step = {"op": "parallel", "steps": [completion([1], n_cmpl=3)]}
    remote.play(step)
    cold.answers.append(answer(5, 6))
    remote.compare_all()
    (member,) = remote.steps[0]["steps"]
    assert member["cold"]["equal"]
    assert [child["cold"]["equal"] for child in member["response"]["completions"]] == [False, True]
    assert remote.inexact == [{"i": "0.0"}]


def test_another_token_without_log_probabilities_is_no_rounding(client, cold):
    remote = Remote("http://x", 100.0)
    cold.answers.append(answer(5, 7))
    remote.play(completion())
    remote.compare_all()
    assert remote.inexact == [{"i": 0}]
