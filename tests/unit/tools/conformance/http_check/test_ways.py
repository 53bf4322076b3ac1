"""Tests of the request format of servers with OpenAI's paths, and of the ways to bypass their cache."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.dialect import detect_client
from cachesim.tools.conformance.http_check.http_client import NoReply
from cachesim.tools.conformance.http_check.openai_client import (
    OWN,
    Arrays,
    CacheNotEmptied,
    OpenAIClient,
    Pieces,
    RequestFormat,
)
from cachesim.tools.conformance.protocol import CacheRequest
from tests.unit.tools.conformance.http_check.in_process import InProcess
from tests.unit.tools.conformance.http_check.text_stand_in import TextServer


def speaker_of(**how):
    return detect_client(InProcess(TextServer(**how).complete, {}), "toy")


@pytest.mark.parametrize("how, said", [
    ({}, "/v1/completions, text; cold answers: after 10 other prompts"),
    ({"keeps": 3}, "/v1/completions, text; cold answers: after 4 other prompts"),
    ({"switch": True, "keeps": 1000}, "/v1/completions, text; cold answers: cache_prompt"),
    ({"salts": True, "keeps": 1000}, "/v1/completions, text; cold answers: cache_salt"),
    ({"empties": True, "keeps": 1000}, "/v1/completions, text; cold answers: POST /flush_cache"),
    ({"reports": False, "arrays": True}, "/v1/completions, token arrays; cold answers: after 16 other prompts "
                                         "(unconfirmed: cached tokens are not reported)"),
    ({"chat": True}, "/v1/chat/completions, text; cold answers: after 10 other prompts"),
    ({"arrays": True, "style": "number"}, "/v1/completions, token arrays; cold answers: after 10 other prompts"),
])  # fmt: skip
def test_a_way_is_found_by_trying(how, said):
    assert speaker_of(**how).way.sentence == said


def test_log_probabilities_are_asked_for_as_the_server_has_them():
    assert speaker_of(style="bool").way.fields == {"logprobs": True, "top_logprobs": 4}
    assert speaker_of(style="number", named=True).way.fields == {"logprobs": 4, "model": "toy"}
    assert speaker_of(style="").way.fields == {}


@pytest.mark.parametrize("how", [{"keeps": 10_000}, {"lies": True}])
def test_a_cache_that_cannot_be_emptied_is_refused(how):
    with pytest.raises(BadInput, match="the server's cache cannot be emptied"):
        speaker_of(**how)


def test_a_server_that_takes_nothing_is_refused_with_what_it_answered():
    with pytest.raises(BadInput, match=r"neither.*\(/v1/completions: 404, /v1/chat/completions: 404\)"):
        detect_client(InProcess(lambda body: (404, {}), {}), "")
    with pytest.raises(BadInput, match="the server requires a key"):
        detect_client(InProcess(lambda body: (401, {}), {}), "")

    def silent(body):
        raise NoReply("no reply within 1 seconds")

    with pytest.raises(BadInput, match="no reply within 1 seconds"):
        detect_client(InProcess(silent, {}), "")


def test_answers_and_counts_are_those_of_the_prompt_without_the_template():
    client = speaker_of(chat=True, base=9)
    assert len(client.spelling.tokens) >= 64 and client.spelling.base == 9 and client.spelling.lead == " "
    ask = CacheRequest(tuple(range(40, 60)), n_predict=2)
    first, again = client.complete(ask), client.complete(ask)
    longer = client.complete(CacheRequest(tuple(range(40, 70))))
    assert (first.cached, first.evaluated) == (0, 20) and (again.cached, again.evaluated) == (19, 1)
    assert (longer.cached, longer.evaluated) == (20, 10)
    behind = client.complete(CacheRequest((*ask.prompt, *first.tokens, 9)))
    assert (behind.cached, behind.evaluated) == (22, 1)
    assert client.cold(ask).cached == 0
    assert client.complete(CacheRequest(tuple(range(30, 34)))).cached == 0         # the template alone does not count


def test_where_nothing_pushes_a_prompt_out_more_prompts_are_tried_and_then_none():
    server = TextServer()
    client = detect_client(InProcess(server.complete, {}), "toy")
    ask = CacheRequest(tuple(range(50)))
    server.keeps = 15
    client.complete(ask)
    assert client.cold(ask).cached == 0
    server.keeps = 10_000
    client.complete(ask)
    with pytest.raises(CacheNotEmptied, match="49 tokens are cached after other prompts"):
        client.cold(ask)


def test_prompts_that_push_others_out_are_new_as_long_as_there_are_any():
    sent = []
    way = RequestFormat("/v1/completions", True, {}, others=300)
    http = InProcess(lambda body: (sent.append(tuple(body["prompt"])), (200, {"choices": [{"text": "a"}]}))[1])
    client = OpenAIClient(http, way, Arrays(range(100, 107)))
    client.cold(CacheRequest((1,)))
    others = [one for one in sent if one != (1,)]
    assert len(others) == len({*others}) == 300 and all(len(one) == 3 for one in others)
    assert {token for one in others for token in one} == {*range(100, 107)}


def test_salts_differ_from_answer_to_answer():
    http = InProcess(TextServer(salts=True, keeps=1000).complete, {})
    client = detect_client(http, "toy")
    ask = CacheRequest(tuple(range(20)))
    assert [client.cold(ask).cached for _ in range(3)] == [0, 0, 0]
    salts = [body["cache_salt"] for _, body in http.asked if "cache_salt" in body]
    assert len(salts) == len({*salts})


def test_a_text_that_was_tokenized_in_another_way_has_no_counts():
    def complete(body):
        usage = {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}
        return 200, {"choices": [{"text": " x"}], "usage": usage}

    client = OpenAIClient(InProcess(complete), RequestFormat("/v1/completions", False, {}), Pieces([" a"] * 9, base=2))
    assert (client.complete(CacheRequest((0,) * 5)).cached, client.complete(CacheRequest((0,) * 5)).evaluated) == (1, 4)
    said = client.complete(CacheRequest((0,) * 6))
    assert (said.cached, said.evaluated) == (None, None) and said.tokens[0] >= OWN


def test_a_hang_up_asks_for_a_stream():
    http = InProcess(lambda body: (200, {}))
    client = OpenAIClient(http, RequestFormat("/v1/completions", True, {}), Arrays(range(9)))
    client.complete(CacheRequest((1, 2), 5, cancel_after=2))
    assert http.asked == [("/v1/completions", {"prompt": [1, 2], "temperature": 0, "max_tokens": 5, "stream": True})]
