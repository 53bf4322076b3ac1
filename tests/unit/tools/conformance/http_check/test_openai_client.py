"""Requests of the OpenAI client, its formats, and distances of answers: whole records."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.http_check.compare_answers import ScoredAnswer
from cachesim.tools.conformance.http_check.openai_client import (
    CHAT,
    ENOUGH,
    OWN,
    WORDS,
    Arrays,
    CacheNotEmptied,
    OpenAIClient,
    Pieces,
    RequestFormat,
    find_pieces,
)
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from tests.unit.tools.conformance.http_check.in_process import InProcess


@pytest.mark.parametrize(("usage", "cached", "evaluated"), [
    ((12, 2), 0, 10), ((12, 5), 3, 7), ((12, 12), 10, 0), ((12, 1), 0, 10), ((11, 5), None, None),
    ((13, 5), None, None), ((12, None), None, None),
])  # fmt: skip
def test_counts_are_those_of_the_pieces_without_the_template(usage, cached, evaluated):
    total, reported = usage
    spelling = Pieces([f" {letter}" for letter in "abcdefghijklmnop"], 2)
    way = RequestFormat("/v1/completions", False, {"seed": 1}, cold={"cache": False})
    said = {"choices": [{"text": " x y"}], "usage": {"prompt_tokens": total}}
    said["usage"] |= {} if reported is None else {"prompt_tokens_details": {"cached_tokens": reported}}
    asked = []
    client = OpenAIClient(InProcess(lambda body: asked.append(body) or (200, said)), way, spelling)
    ask = CacheRequest(tuple(range(10)), 2, cache=cached is not None, fields={"x": 1})
    reply = client.complete(ask)
    assert (reply.cached, reply.evaluated, reply.tokens) == (cached, evaluated, (OWN, OWN + 1))
    assert asked == [{"prompt": " a b c d e f g h i j", "temperature": 0, "seed": 1, "x": 1, "max_tokens": 2,
                      **({} if ask.cache else {"cache": False})}]  # fmt: skip
    assert spelling.prompt((0, OWN + 1, OWN)) == " a y x"


@pytest.mark.parametrize(("text", "n", "parts"), [
    (" x y", 2, [" x", " y"]), (" x y", 3, [" x y", "", ""]), (" x y ", 2, [" x y ", ""]), ("", 1, [""]),
    (" x x", 2, [" x", " x"]),
])  # fmt: skip
def test_an_answer_is_as_many_pieces_as_it_has_tokens(text, n, parts):
    spelling = Pieces([" a"])
    numbers = spelling.encode(text, n)
    assert [spelling.own[number - OWN] for number in numbers] == parts and spelling.own == [*dict.fromkeys(parts)]


@pytest.mark.parametrize(("way", "sentence", "is_costly"), [
    (RequestFormat("/p", True, {}, cold={"a": 1, "b": 2}), "/p, token arrays; cold answers: a, b", False),
    (RequestFormat("/p", False, {}, salt="s"), "/p, text; cold answers: s", False),
    (RequestFormat("/p", False, {}, empty="/flush"), "/p, text; cold answers: POST /flush", True),
    (RequestFormat("/p", False, {}, others=3), "/p, text; cold answers: after 3 other prompts", True),
    (RequestFormat("/p", False, {}, others=3, reports=False),
     "/p, text; cold answers: after 3 other prompts (unconfirmed: cached tokens are not reported)", True),
])  # fmt: skip
def test_a_format_says_how_a_cold_answer_is_had(way, sentence, is_costly):
    assert way.sentence == sentence
    assert OpenAIClient(InProcess(None), way, Arrays(range(9))).cold_is_costly is is_costly


@pytest.mark.parametrize(("first", "second", "text", "distance"), [
    ({1: -1.0, 2: -3.0}, {1: -1.0, 3: -2.0}, "largest difference 1 at token 0", 1.0),
    ({1: -1.0, 2: -3.0, 4: -4.0}, {1: -1.0, 3: -3.0, 5: -3.5}, "largest difference 1 at token 0", 1.0),
    ({1: -1.0}, {}, "no difference", 0.0), ({1: -1.0, 2: -1.5}, {2: -1.0, 1: -1.5}, "largest difference 0.5 at token 0",
                                            0.5),
])  # fmt: skip
def test_a_token_that_one_answer_lists_is_compared_with_the_least_likely(first, second, text, distance):
    one, two = ScoredAnswer(None, "", (first,)), ScoredAnswer(None, "", (second,))
    assert one.differs_from(two) == two.differs_from(one) == (distance, text)


def test_an_answer_is_cut_to_what_another_has():
    long = ScoredAnswer((1, 2, 3), "abc", ({1: -1.0}, {2: -1.0}))
    assert long.beginning(ScoredAnswer((1,), "ab", ({},))) == ScoredAnswer((1,), "ab", ({1: -1.0},))
    assert long.beginning(ScoredAnswer(None, "abcd", ())) == ScoredAnswer(None, "abc", ())
    assert ScoredAnswer(None, "x", ()).beginning(long) == ScoredAnswer(None, "x", ())


def served(way, replies, spelling=None):
    """Return a client whose replies are given, and its requests: (path, body)."""
    left = iter(replies)
    http = InProcess(lambda body: next(left))
    return OpenAIClient(http, way, spelling or Arrays(range(100, 140))), http.asked


def completion(cached=None, total=3, text=" x"):
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return 200, {"choices": [{"text": text}], "usage": {"prompt_tokens": total, **details}}


PLAIN = RequestFormat("/v1/completions", True, {})
ASK = CacheRequest((1, 2, 3), 2)


@pytest.mark.parametrize(("way", "bodies"), [
    ({"cold": {"c": 1}}, [{"c": 1}]), ({"salt": "s"}, [{"s": "cachesim-0"}]), ({"empty": "/flush"}, [{}]), ({}, [{}]),
    ({"cold": {"c": 1}, "salt": "s"}, [{"c": 1, "s": "cachesim-0"}]),
])  # fmt: skip
def test_a_cold_answer_has_fields_a_salt_or_an_emptied_cache(way, bodies):
    client, asked = served(RequestFormat("/v1/completions", True, {}, **way), [completion()] * 3)
    assert client.cold(ASK).cached in (None, 0)
    if way.get("empty"):
        assert asked.pop(0) == ("/flush", {})
    same = {"prompt": [1, 2, 3], "temperature": 0, "max_tokens": 2}
    assert asked == [("/v1/completions", {**same, **fields}) for fields in bodies]


def test_other_prompts_empty_a_cache_more_of_them_if_it_does_not_help():
    client, asked = served(RequestFormat("/p", True, {}, others=2), [completion(2)] * 100)
    with pytest.raises(CacheNotEmptied, match="the cache could not be emptied: 2 tokens are cached"):
        client.cold(ASK)
    prompts = [tuple(body["prompt"]) for _, body in asked]
    assert [at for at, prompt in enumerate(prompts) if prompt == (1, 2, 3)] == [2, 7, 16] and len(prompts) == 17
    others = {*prompts} - {(1, 2, 3)}
    assert len(others) == 14 and all(100 <= token < 140 for prompt in others for token in prompt)
    client, asked = served(RequestFormat("/p", True, {}, others=2), [completion(2)] * 7 + [completion(0)])
    assert client.cold(ASK).cached == 0 and len(asked) == 8
    client, asked = served(RequestFormat("/p", True, {}, others=2, reports=False), [completion()] * 3)
    client.cold(ASK)
    assert len(asked) == 3


def test_the_tokens_of_a_text_are_those_that_the_server_reports():
    replies = [completion(total=9), completion(total=None), (400, {})]
    client, asked = served(RequestFormat(CHAT, False, {"seed": 1}), replies)
    assert client.length("a text") == 9
    assert asked == [(CHAT, {"messages": [{"role": "user", "content": "a text"}], "temperature": 0, "seed": 1,
                             "max_tokens": 1})]  # fmt: skip
    for _ in range(2):
        with pytest.raises(Failed, match="does not report prompt_tokens"):
            client.length("a text")


def test_a_client_that_hangs_up_has_no_reply():
    client, asked = served(PLAIN, [completion()])
    assert client.complete(CacheRequest((1, 2, 3), 2, cancel_after=1)) == Reply()
    assert asked == [("/v1/completions", {"prompt": [1, 2, 3], "temperature": 0, "max_tokens": 2, "stream": True})]


def test_a_refusal_is_a_reply_and_an_error_or_a_reply_without_an_answer_a_failure():
    refusal = 400, {"error": {"message": "too long"}}
    client, _ = served(PLAIN, [refusal, (500, {"error": "it fell"}), (200, []), (200, {"choices": []}), (404, "x"),
                               (400, completion()[1])])  # fmt: skip
    assert client.complete(ASK) == Reply(refused="400: too long")
    for said in ("status 500: it fell", "no answer in the reply", "no answer in the reply"):
        with pytest.raises(Failed, match=said):
            client.complete(ASK)
    assert client.complete(ASK).refused == "404: refused"
    assert client.complete(ASK).refused == "400: refused"


def test_arrays_are_sent_as_they_are_and_their_answers_never_sent_back():
    client, _ = served(PLAIN, [completion(2, total=99)])
    reply = client.complete(ASK)
    assert (reply.cached, reply.tokens) == (2, None)
    assert (Arrays([1]).encode("a", 1), Arrays([1]).prompt((3, 4))) == (None, [3, 4])


def lengths(single, base=3):
    """Return a count of tokens: one for each of these pieces, two for any other."""
    asked = []

    def length(pieces):
        asked.append(list(pieces))
        return base + sum(1 if piece in single else 2 for piece in pieces)

    return length, asked


def test_pieces_are_those_of_one_token_and_a_template_is_not_counted():
    words = [f" {word}" for word in WORDS]
    length, asked = lengths({*words, " the"})
    assert find_pieces(length) == (words[:ENOUGH], 3)
    assert [len(pieces) for pieces in asked] == [1, 2, 64, 64, 64, 64], "no more than are needed"
    some = {" the", *words[::2]}
    length, _ = lengths(some, base=0)
    found, base = find_pieces(length)
    assert base == 0 and found == [word for word in words if word in some][:ENOUGH]


def test_a_vocabulary_without_words_has_characters_or_syllables():
    length, _ = lengths({" the", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"})
    found, base = find_pieces(length)
    assert (base, found[0], len(found)) == (3, " the", 63) and {"a", "9"} <= {*found}
    syllables = {first + second for first in "BCDFGHJKLMNPQRSTVWXZ" for second in "aeiou"}
    length, _ = lengths({" the", *syllables})
    assert {*find_pieces(length)[0]} == syllables


def test_further_words_are_not_tried_after_words_of_which_none_is_a_token():
    length, asked = lengths({*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"})
    find_pieces(length)
    tried = {piece for pieces in asked for piece in pieces}
    assert f" {WORDS[63]}" in tried and not {f" {word}" for word in WORDS[64:]} & tried


@pytest.mark.parametrize(("others", "reports", "cached", "asked"), [
    (3, True, (0,), [3]), (3, True, (2, 0), [3, 6]), (3, False, (0,), [3]), (0, True, (0,), [0]),
])  # fmt: skip
def test_other_prompts_are_sent_again_and_in_larger_numbers_until_the_cache_is_empty(others, reports, cached, asked):
    sent, replies = [], list(cached)

    def complete(body):
        sent.append(tuple(body["prompt"]))
        tokens = replies.pop(0) if sent[-1] == (1, 2, 3) else 0
        usage = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": tokens}}
        return 200, {"choices": [{"text": "a"}], "usage": usage}

    way = RequestFormat("/v1/completions", True, {}, others=others, reports=reports)
    client = OpenAIClient(InProcess(complete), way, Arrays(range(100, 200)))
    assert client.cold(CacheRequest((1, 2, 3)), (1, 2, 4)).cached == 0 and not replies
    places = [at for at, prompt in enumerate(sent) if prompt == (1, 2, 3)]
    assert [at - before - 1 for before, at in zip((-1, *places), places, strict=False)] == asked


def test_a_cache_that_other_prompts_do_not_empty_is_given_up():
    usage = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    http = InProcess(lambda body: (200, {"choices": [{"text": "a"}], "usage": usage}))
    for others, reports, asks in ((1, True, 5), (1, False, 2), (0, True, 1)):
        http.asked.clear()
        way = RequestFormat("/v1/completions", True, {}, others=others, reports=reports)
        with pytest.raises(CacheNotEmptied, match="the cache could not be emptied: 2 tokens are cached"):
            OpenAIClient(http, way, Arrays(range(100, 200))).cold(CacheRequest((1, 2, 3)), (1, 2))
        assert len(http.asked) == asks


def test_pieces_are_no_more_than_enough_though_some_are_no_single_tokens():
    found, base = find_pieces(lambda some: 2 + len(some) + (f" {WORDS[1]}" in some))
    assert (len(found), base) == (ENOUGH, 2) and f" {WORDS[1]}" not in found
