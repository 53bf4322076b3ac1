"""Tests of the checks of a llama-server's replies; tests/hostile/test_bad_server.py has wrong values of every field."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost
from cachesim.base.json_shapes import ShapeMismatch
from cachesim.tools.live.llama_server.reply_shapes import COMPLETION, check_completions, name, streamed_tokens
from cachesim.tools.live.llama_server.verify.remote import Remote
from tests.hostile.bad_server import good, running

ASKED = {"prompt": [1, 2], "n_predict": 3}
GOOD = good("/completion", ASKED, 1)


def checked(body, **asked):
    check_completions(body, {**ASKED, **asked}, COMPLETION, "URL")


def test_a_good_reply_and_several():
    checked(GOOD)
    checked([GOOD, {**GOOD, "index": 1}], n_cmpl=2)
    checked({**GOOD, "tokens": [1] * 67})
    checked({**GOOD, "tokens": [1] * 10_000}, n_predict=-1)          # as many as the server likes
    checked({**GOOD, "completion_probabilities": [{"top_probs": [{"id": 5, "prob": 0.5}]}]})


@pytest.mark.parametrize("body, what", [
    (None, "expected an object"), ([], "0 completions in a reply"), ([GOOD, GOOD], "2 completions in a reply"),
    ([GOOD], "a list of completions in a reply, one was requested"),
    ({**GOOD, "timings": {}}, "timings: missing key 'cache_n'"),
    ({**GOOD, "tokens": [2**31]}, r"tokens\[0\]: expected a"),
    ({**GOOD, "tokens": [1] * 68}, "68 tokens in a reply, 3 were requested"),
    ({**GOOD, "completion_probabilities": [{}] * 100}, "100 tokens in a reply"),
    ({**GOOD, "stop_type": "x" * 5000}, "stop_type: more than 4,096 characters"),
])  # fmt: skip
def test_a_bad_reply_is_one_line(body, what):
    with pytest.raises(BadInput, match=f"URL: .*{what}"):
        checked(body)


def test_completions_beside_the_first_have_a_number():
    with pytest.raises(BadInput, match="missing key 'index'"):
        checked([GOOD, GOOD], n_cmpl=2)


@pytest.mark.parametrize("line, tokens", [
    ('data: {"tokens": [5, 6]}', [5, 6]), ('data: {"tokens": [5], "stop": true}', []), ("data: [DONE]", []), ("", []),
    (": ping", []), ('data: {"tokens": null}', []),
])  # fmt: skip
def test_tokens_of_an_event(line, tokens):
    assert streamed_tokens(line, "URL") == tokens


@pytest.mark.parametrize("event", ["[" * 40 + "]" * 40, "1", '{"tokens": [true]}', '{"tokens": [1e3]}', "{", ""])
def test_a_bad_event_is_one_line(event):
    with pytest.raises(BadInput, match="URL"):
        streamed_tokens(f"data: {event}", "URL")


def test_a_remote_server_that_breaks_the_connection_is_refused():
    with running("reset before the reply") as server, pytest.raises(ConnectionLost):
        Remote(server.url, 0.2)


def test_a_lost_connection_is_a_dead_server_only_if_nothing_answers():
    step = {"op": "completion", "request": ASKED}
    with running("empty reply", "completion") as server, Remote(server.url, 0.2) as remote:
        with pytest.raises(ConnectionLost, match="Remote end closed"):
            remote.play(step)
        assert remote.steps == []
        server.stop()
        assert remote.play(step)["died"]["fatal"] == ["the connection broke"]


@pytest.mark.parametrize(("value", "is_name"), [("x", True), ("x" * 4096, True), ("x" * 4097, False), (5, False),
                                                (["x"], False), (None, False)])  # fmt: skip
def test_a_name_is_a_text_of_limited_length(value, is_name):
    if is_name:
        assert name(value) is None
    else:
        with pytest.raises(ShapeMismatch):
            name(value)
