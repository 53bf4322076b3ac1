"""Tests of a server's responses in a recording."""

from __future__ import annotations

import pytest

from cachesim.base.http_client import HttpReply
from cachesim.tools.live.llama_server.answers import hung_up, read_completion, read_slot, undelivered
from tests.unit.tools.live.test_hang_ups import copy, launch, new_prompt, release, said, token


def body(tokens=(7, 8), cached=6, truncated=False, **timings):
    times = {"cache_n": 2, "prompt_n": 3, "predicted_n": len(tokens), "prompt_ms": 4.5, **timings}
    return {"id_slot": 1, "tokens_evaluated": 5, "tokens_cached": cached, "truncated": truncated, "stop_type": "limit",
            "tokens": list(tokens), "content": "x", "index": 2, "timings": times}  # fmt: skip


ONE = {"id_slot": 1, "cache_n": 2, "prompt_n": 3, "predicted_n": 2, "tokens_evaluated": 5, "tokens_cached": 6,
       "truncated": False, "stop_type": "limit", "tokens": [7, 8]}  # fmt: skip


def test_of_an_answer_the_counts_and_the_tokens_are_kept():
    assert read_completion(HttpReply(200, body())) == {"status": 200, **ONE}
    drafted = read_completion(HttpReply(200, body(draft_n=4, draft_n_accepted=3)))
    assert drafted == {"status": 200, **ONE, "draft_n": 4, "draft_n_accepted": 3}


def test_further_completions_stand_beside_the_first():
    found = read_completion(HttpReply(200, [body(), body([9])]))
    child = {**ONE, "index": 2, "predicted_n": 1, "tokens": [9]}
    del child["tokens_evaluated"]
    assert found == {"status": 200, **ONE, "completions": [child]}
    assert "completions" not in read_completion(HttpReply(200, [body()]))


@pytest.mark.parametrize("read", [read_completion, read_slot])
def test_a_refusal_keeps_its_status_and_its_words(read):
    error = {"code": 400, "message": "too long", "type": "invalid_request_error", "n_ctx": 512}
    kept = {"code": 400, "message": "too long", "type": "invalid_request_error"}
    assert read(HttpReply(400, {"error": error})) == {"status": 400, "error": kept}
    assert read(HttpReply(503, None)) == {"status": 503, "error": {}}


def test_of_a_slot_operation_the_counts_are_kept():
    reply = HttpReply(200, {"id_slot": 0, "filename": "f", "n_saved": 9, "n_written": 400, "timings": {"save_ms": 1}})
    assert read_slot(reply) == {"status": 200, "n_saved": 9, "n_written": 400}


@pytest.mark.parametrize(("reply", "asked", "found"), [
    (body(), [], {}),                                                                   # no drafts
    (body(draft_n=4), [], {}), (body(cached=7, truncated=True, draft_n=4), [], {}),     # nothing more in the slot
    (body(cached=7, draft_n=4), [], {"tokens_in_slot": [7, 8]}),                        # the last, not decoded
    (body(cached=9, draft_n=4), [4], {"tokens_in_slot": [50, 51, 52, 53]}),             # two were not delivered
])  # fmt: skip
def test_tokens_that_a_stop_left_in_the_slot_are_named_by_the_cold_server(reply, asked, found):
    lengths = []

    def cold(request):
        lengths.append(request["n_predict"])
        return {"tokens": range(50, 50 + request["n_predict"])}

    assert undelivered(reply, {"prompt": [1, 2, 3, 4, 5], "n_predict": 2}, cold) == found
    assert lengths == asked
    assert undelivered(body(cached=9, draft_n=4), {"prompt": [1, 2, 3, 4, 5]}, lambda _: None) == {}


@pytest.mark.parametrize(("body", "found"), [
    ({"success": True}, {"success": True}), ({"success": "yes", "n_erased": 3}, {"n_erased": 3}),
    ({"n_saved": -1, "n_written": True, "n_restored": 4}, {"n_restored": 4}), ([1], {}), (None, {}),
])  # fmt: skip
def test_of_a_reply_of_another_form_the_counts_are_kept(body, found):
    assert read_slot(HttpReply(200, body)) == {"status": 200, **found}


def log_of(tmp_path, end, *tokens, before=()):
    generated = [token(3, number, one, "x") for number, one in enumerate(tokens)]
    released = [] if end is None else [release(3, end)]
    return said(tmp_path, *before, launch(3), new_prompt(3, 2), *generated, *released)


@pytest.mark.parametrize(("seen", "end", "made", "found"), [
    ([7], 4, [7, 8, 9], {"tokens_in_slot": [7, 8], "streamed_tokens_match": True}),
    ([8], 4, [7, 8, 9], {"tokens_in_slot": [7, 8], "streamed_tokens_match": False}),
    ([], 2, [7], {"tokens_in_slot": [], "streamed_tokens_match": True}),
    ([7], 1, [7], {}), ([7], None, [7], {}),
])  # fmt: skip
def test_the_log_shows_what_a_disconnected_client_left_in_the_slot(tmp_path, seen, end, made, found):
    request = {"prompt": [1, 2]}
    out = hung_up(seen, request, log_of(tmp_path, end, *made), 3)
    assert out == {"cancelled": True, "tokens": seen, **found}
    assert hung_up(seen, request, [], None) == {"cancelled": True, "tokens": seen}


def test_completions_of_a_disconnected_client_are_those_launched_before_it(tmp_path):
    children = [launch(task, child=1) for task in (5, 6)]
    lines = log_of(tmp_path, None, 7, before=[launch(4), *children])
    found = hung_up([], {"prompt": [1, 2], "n_cmpl": 3}, lines, 3)
    assert found == {"cancelled": True, "tokens": [],
                     "completions": [{"index": 1, "tokens": []}, {"index": 2, "tokens": []}]}  # fmt: skip
    other = log_of(tmp_path, None, 7, before=[*children, launch(4)])
    assert hung_up([], {"prompt": [1, 2], "n_cmpl": 3}, other, 3)["completions"] == []
    unnamed = log_of(tmp_path, None, 7, before=[launch(4).partition(", is_child")[0]])       # of b7376
    assert hung_up([], {"prompt": [1, 2], "n_cmpl": 2}, unnamed, 3)["completions"] == []
    assert "completions" not in hung_up([], {"prompt": [1, 2], "n_cmpl": 1}, lines, 3)


def test_completions_of_a_disconnected_client_are_those_that_its_prompt_is_copied_to(tmp_path):
    """Builds before b7747 launch a request before its further completions; two requests may take numbers in turn."""
    both = [launch(2), launch(4, child=1, slot=2), copy(2, 2), token(4, 0, 8, "x"),
            launch(3), new_prompt(3, 2), launch(5, child=1, slot=2), copy(3, 2), token(5, 0, 9, "x")]  # fmt: skip
    asked = {"prompt": [1, 2], "n_cmpl": 2}
    found = [hung_up([], asked, said(tmp_path, *both), task)["completions"] for task in (2, 3)]
    assert found == [[{"index": 1, "tokens": [8]}], [{"index": 1, "tokens": [9]}]]


def test_counts_end_at_64_bits():
    reply = HttpReply(200, {"n_saved": (1 << 63) - 1, "n_read": 1 << 63, "n_written": 0, "n_erased": 1.0})
    assert read_slot(reply) == {"status": 200, "n_saved": (1 << 63) - 1, "n_written": 0}


@pytest.mark.parametrize(("error", "kept"), [
    ({"code": 400, "message": "x", "type": "y", "more": 1}, {"code": 400, "message": "x", "type": "y"}),
    ({"code": "400", "message": ["x"], "type": None}, {"code": "400"}), ({"code": -1, "message": True}, {}),
    ({"code": 1 << 63}, {}), ({"code": 4.0}, {}), ("text", {}), (None, {}),
])  # fmt: skip
def test_of_an_error_the_texts_and_counts_are_kept(error, kept):
    assert read_slot(HttpReply(400, {"error": error})) == {"status": 400, "error": kept}


def test_a_long_message_is_cut():
    message = read_slot(HttpReply(400, {"error": {"message": "x" * 9_999}}))["error"]["message"]
    assert len(message) < 9_999 and message.startswith("xxx")
