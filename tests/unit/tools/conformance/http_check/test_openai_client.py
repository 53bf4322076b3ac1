"""Requests of the OpenAI client, its formats, and distances of answers: whole records."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.http_check.openai_client import OWN, Arrays, OpenAIClient, Pieces, RequestFormat
from cachesim.tools.conformance.http_check.replies import ScoredAnswer
from cachesim.tools.conformance.protocol import CacheRequest
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
