"""Steps on a running server: what is sent, what is kept of the replies, and the cold comparison afterwards."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.verify.remote import Remote
from tests.unit.tools.live.given_server import answer, given, likely

PROPS = {"total_slots": 2, "build_info": "b11549-abc", "default_generation_settings": {"n_ctx": 512}}
COLD = {"cache_prompt": False, "id_slot": 0}


@pytest.fixture
def server():
    replies = {"/props": PROPS, "/v1/models": {"data": []}, "/completion": answer(5, 6),
               "/lora-adapters": [{"id": 1, "scale": 0.0}, {"id": 0, "scale": 1.0}]}  # fmt: skip
    with given(replies) as server:
        yield server


@pytest.fixture
def remote(server):
    with Remote(f"{server.url}/", 0.1) as remote:
        server.asked.clear()
        yield remote


def sent(server, *names):
    """Return these fields of every completion that was requested."""
    return [{name: body[name] for name in names if name in body} for body in server.posted("/completion")]


def completion(prompt=(1, 2), **more):
    return {"op": "completion", "request": {"prompt": list(prompt), **more}}


@pytest.mark.parametrize(("said", "build"), [
    ("b11549-abc", "b11549"), ("b0011", "b0011"), ("b0-abc", ""), ("b1234567890", ""), ("11549-abc", ""), (None, ""),
])  # fmt: skip
def test_a_server_reports_its_slots_its_context_and_its_build(server, said, build):
    server.replies["/props"] = {**PROPS, "build_info": said}
    with Remote(server.url, 0.1) as remote:
        assert (remote.slots, remote.context, remote.build) == (2, 512, build)


@pytest.mark.parametrize(("path", "reply", "said"), [
    ("/props", {}, "not a llama-server"), ("/props", [], "not a llama-server"), ("/props", (401, PROPS), "401"),
    ("/v1/models", (403, {}), "403"), ("/props", {"total_slots": 0}, "/props"),
    ("/v1/models", {"data": 5}, "/v1/models"),
])  # fmt: skip
def test_another_server_is_refused(server, path, reply, said):
    server.replies[path] = reply
    with pytest.raises(BadInput) as refused:
        Remote(server.url, 0.1)
    assert server.url in str(refused.value) and said in str(refused.value)


def test_a_url_begins_with_http():
    with pytest.raises(BadInput, match="http://"):
        Remote("https://x", 0.1)


@pytest.mark.parametrize(("listed", "scales"), [
    ([{"id": 1, "scale": 2}, {"id": 0, "scale": 0.5}], [0.5, 2.0]), ({}, []),
    ([7, {"id": True, "scale": 1}, {"id": 0, "scale": "1"}, {"scale": 1}, {"id": 3, "scale": 1}], [1.0]),
])  # fmt: skip
def test_adapters_are_listed_by_their_numbers(server, remote, listed, scales):
    server.replies["/lora-adapters"] = (200, listed)
    assert remote.adapter_scales() == scales


@pytest.mark.parametrize(("slots", "seed"), [
    ([{"id_task": 5}, {"id_task": 7}], 14), ([{"id_task": -1}, {"id_task": 0}, {}], 3), ([7, {"id_task": 2**31}], 1),
    ([{"id_task": True}], 1), ({}, 0),
])  # fmt: skip
def test_a_seed_grows_with_the_tasks_of_the_slots(server, remote, slots, seed):
    server.replies["/slots"] = (200, slots)
    assert remote.seed() == seed


@pytest.mark.parametrize("refused", [(), (1,), (0, 1)])
def test_every_slot_is_emptied_and_one_that_cannot_be_is_noted(server, remote, refused):
    for slot in refused:
        server.replies[f"/slots/{slot}?action=erase"] = 501, {}
    assert len(remote.clear()) == bool(refused)
    assert [path for _, path, _ in server.asked] == ["/slots/0?action=erase", "/slots/1?action=erase"]


def test_a_completion_is_kept_with_its_number_and_reply(server, remote):
    first, second = remote.play(completion()), remote.play(completion([3]))
    assert (first["i"], second["i"], first["events"], "racy" in first) == (0, 1, [], False)
    assert [first["response"][name] for name in ("status", "id_slot", "cache_n", "prompt_n")] == [200, 0, 1, 2]
    assert sent(server, "prompt") == [{"prompt": [1, 2]}, {"prompt": [3]}] and remote.steps == [first, second]


def test_slots_and_hang_ups_have_requests_of_their_own(server, remote):
    server.replies["/slots/1?action=save"] = {"n_saved": 5, "success": True}
    saved = remote.play({"op": "slot", "request": {"action": "save", "id_slot": 1, "filename": "f"}})
    assert saved["response"] == {"status": 200, "n_saved": 5, "success": True}
    assert server.asked == [("POST", "/slots/1?action=save", {"filename": "f"})]
    server.replies["/completion"] = b'data: {"tokens": [7]}\n\ndata: {"tokens": [8]}\n\n'
    left = remote.play(completion(cancel_after=0, n_predict=9))
    assert sent(server, "prompt", "n_predict", "stream", "cancel_after") == [
        {"prompt": [1, 2], "n_predict": 9, "stream": True}]  # fmt: skip
    assert (left["racy"], left["response"]) == (True, {"cancelled": True, "tokens": [7]})


def test_requests_at_once_have_numbers_of_their_own(remote):
    step = remote.play({"op": "parallel", "steps": [completion([1]), completion([2])]})
    assert step["racy"] and [one["i"] for one in step["steps"]] == ["0.0", "0.1"]
    assert all(one["response"]["status"] == 200 for one in step["steps"]) and "response" not in step


def test_a_server_of_another_is_not_restarted(remote):
    with pytest.raises(BadInput, match="cannot be restarted"):
        remote.play({"op": "restart"})


def test_adapters_are_set_for_the_cold_run_too_and_restored_once(server, remote):
    scales, before = [{"id": 1, "scale": 0.7}], server.replies["/lora-adapters"]
    server.replies["/lora-adapters"] = [(200, before), (200, scales)]           # they change with the first step
    remote.play(completion([1]))
    for scale in (0.5, 0.7):
        remote.play({"op": "lora", "request": {"set": [{"id": 1, "scale": scale}]}})
    remote.play(completion([2]))
    remote.play(completion([3], lora=[]))
    remote.compare_all()
    assert sent(server, "prompt", "lora")[3:] == [
        {"prompt": [1]}, {"prompt": [2], "lora": scales}, {"prompt": [3], "lora": []}]  # fmt: skip
    server.asked.clear()
    remote.restore_adapters()
    remote.restore_adapters()
    assert server.posted() == [[{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.0}]]


def test_every_answered_prompt_is_compared_with_a_cold_run(server, remote):
    server.replies["/completion"] = [
        (200, answer(5, 6)), (400, {}), (200, answer(5, 6)), (200, answer(8, 6)),         # warm
        (200, answer(5, 6)), (200, answer(5, 7)), (400, {})]                              # cold
    for step in (completion([1]), completion([2]), {"op": "slot", "request": {"action": "erase", "id_slot": 0}},
                 completion([3], n_predict=2), completion([4])):  # fmt: skip
        remote.play(step)
    remote.compare_all()
    assert sent(server, "prompt", "n_predict", *COLD)[4:] == [
        {"prompt": [1], **COLD}, {"prompt": [3], "n_predict": 2, **COLD}, {"prompt": [4], **COLD}]
    assert [one.get("cold", {}).get("equal") for one in remote.steps] == [True, None, None, False, None]
    assert remote.inexact == [{"i": 3}] and not any({"body", "lora"} & one.keys() for one in remote.steps)


@pytest.mark.parametrize(("gap", "is_inexact"), [(0.05, False), (0.1, False), (0.2, True)])
@pytest.mark.parametrize("tokens", [(5, 6), (5, 7)])
def test_a_small_difference_of_probabilities_is_rounding(server, gap, is_inexact, tokens):
    """Also if another token was about equally likely."""
    server.replies["/completion"] = [
        (200, answer(5, 6, **likely({5: -0.5}, {6: -0.5, 7: -0.5 - gap}))),
        (200, answer(*tokens, **likely({5: -0.5}, {6: -0.5, 7: -0.5})))]
    with Remote(server.url, 0.1) as remote:
        remote.play(completion())
        remote.compare_all()
        assert bool(remote.inexact) is is_inexact


def test_another_token_without_log_probabilities_is_no_rounding(server):
    server.replies["/completion"] = [(200, answer(5, 6)), (200, answer(5, 7))]
    with Remote(server.url, 100.0) as remote:
        remote.play(completion())
        remote.compare_all()
        assert remote.inexact == [{"i": 0}]


def test_further_completions_are_compared_each(server, remote):
    server.replies["/completion"] = [
        (200, [answer(5, 6), answer(5, 7, index=1), answer(5, 6, index=2)]), (200, answer(5, 6))]
    remote.play({"op": "parallel", "steps": [completion([1], n_cmpl=3)]})
    remote.compare_all()
    (member,) = remote.steps[0]["steps"]
    assert member["cold"]["equal"] and remote.inexact == [{"i": "0.0"}]
    assert [child["cold"]["equal"] for child in member["response"]["completions"]] == [False, True]
