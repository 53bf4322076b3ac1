"""Tests of the parser of JSON replies."""

from __future__ import annotations

from math import inf, log

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import INT64
from cachesim.tools.conformance.http_check import compare_answers, replies
from cachesim.tools.conformance.protocol import Failed


def native(**timings):
    return replies.native({"tokens": [5, 6], "tokens_evaluated": 10, "timings": timings}, 2)


def test_counts_of_llama_server_are_those_of_its_timings():
    assert (native(cache_n=0, prompt_n=10).cached, native(cache_n=0, prompt_n=10).evaluated) == (0, 10)
    assert (native(cache_n=7, prompt_n=3).cached, native(cache_n=7, prompt_n=3).evaluated) == (7, 3)
    assert (native(prompt_n=3).cached, native(prompt_n=10).cached, native().cached) == (7, 0, None)
    assert native(cache_n=7, prompt_n=3).tokens == (5, 6)


def test_a_count_that_is_null_is_not_there():
    assert native(cache_n=None, prompt_n=None).evaluated is None and native(prompt_n=11).cached is None


@pytest.mark.parametrize("found", [-1, True, 1.0, "1", [1], float("nan"), 10**400])
def test_a_count_of_a_wrong_type_makes_a_reply_unusable(found):
    assert replies.count(found) is None
    for said in ({"timings": {"cache_n": found}}, {"timings": {"prompt_n": found}}, {"tokens_evaluated": found}):
        with pytest.raises(Failed, match=r"unusable reply: .*expected a count"):
            replies.native({"tokens": [5], **said}, 1)
    for usage in ({"prompt_tokens": found}, {"prompt_tokens_details": {"cached_tokens": found}}):
        with pytest.raises(Failed, match=r"unusable reply: .*expected a count"):
            replies.openai({"choices": [{"text": "a"}], "usage": usage}, 1)


@pytest.mark.parametrize("field, what", [
    ({"tokens": "x"}, "tokens: expected a list of token ids, found 'x'"), ({"tokens": [1, "2"]}, "tokens: expected"),
    ({"content": 5}, "content: expected a text, found 5"),
    ({"timings": [1]}, r"timings: expected an object, found \[1"),
    ({"completion_probabilities": {}}, "completion_probabilities: expected a list"),
])  # fmt: skip
def test_a_field_of_a_wrong_type_makes_a_reply_unusable(field, what):
    with pytest.raises(Failed, match=f"unusable reply: {what}"):
        replies.native({"tokens": [5], "content": "a", **field}, 1)


@pytest.mark.parametrize("said", [{}, {"content": ""}, {"tokens": []}, {"tokens": None, "content": None}])
def test_an_answer_without_a_token_is_unusable_if_one_was_asked_for(said):
    with pytest.raises(Failed, match="an answer without a token to a request for 2 tokens"):
        replies.native(said, 2)
    assert replies.native(said, 0).tokens is None


def test_an_empty_text_is_an_answer_only_if_the_model_ended_it():
    said = {"text": "", "finish_reason": "stop"}
    assert replies.openai({"choices": [said]}, 2).fingerprint.text == ""
    with pytest.raises(Failed, match="an answer without a token"):
        replies.openai({"choices": [{**said, "finish_reason": "length"}]}, 2)


@pytest.mark.parametrize("choice", [
    {"text": 1}, {"message": {"content": 5}}, {"message": []}, {"text": "a", "logprobs": 1},
])  # fmt: skip
def test_a_choice_of_a_wrong_type_is_unusable(choice):
    with pytest.raises(Failed, match="unusable reply"):
        replies.openai({"choices": [choice]}, 2)


def test_a_chat_without_a_text_may_have_what_the_model_thought():
    message = {"content": None, "reasoning": "hm"}
    assert replies.openai({"choices": [{"message": message}]}, 2).fingerprint.text == "hm"


def test_tokens_are_ids():
    assert replies.tokens([0, 5]) == (0, 5)
    assert replies.tokens([1, -1]) is None and replies.tokens(["a"]) is None and replies.tokens("5") is None


def openai(cached=None, total=10, **more):
    usage = {"prompt_tokens": total} | ({} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}})
    return replies.openai({"choices": [{"text": "hi"}], "usage": usage, **more}, 2)


def test_counts_of_openai_are_those_of_its_usage():
    assert (openai(4).cached, openai(4).evaluated) == (4, 6) and (openai(10).cached, openai(10).evaluated) == (10, 0)
    assert (openai(11).cached, openai(11).evaluated) == (11, None)
    assert (openai().cached, openai(total=None).evaluated) == (None, None)
    assert (openai(timings={"cache_n": 3}).cached, openai(timings={"cache_n": 3}).evaluated) == (3, 7)


@pytest.mark.parametrize("choice", [{"text": "hi"}, {"message": {"content": "hi"}},
                                    {"message": {"role": "assistant", "reasoning": "hi"}}])  # fmt: skip
def test_an_answer_is_a_text_a_message_or_what_was_thought(choice):
    assert replies.openai({"choices": [choice]}, 2).fingerprint.text == "hi"


@pytest.mark.parametrize("said", [{}, {"choices": []}, {"choices": [{}]}, {"choices": "x"}])
def test_a_reply_without_an_answer_is_none(said):
    assert replies.openai(said, 2) is None


def test_the_likeliest_token_of_each_place_was_generated():
    top = [{"a": -2.0, "b": -0.5}, {"c": -1.0}]
    of_list = [{"top_logprobs": [{"token": key, "logprob": one} for key, one in at.items()]} for at in top]
    for found in ({"top_logprobs": top}, {"content": of_list}):
        said = replies.openai({"choices": [{"text": "bc", "logprobs": found}]}, 2).fingerprint
        assert said.tokens == ("b", "c") and said.places == tuple(top)
    broken = replies.openai({"choices": [{"text": "bc", "logprobs": {"top_logprobs": [{}, {"c": -1.0}]}}]}, 2)
    assert broken.fingerprint.tokens is None


@pytest.mark.parametrize("found, place", [
    ([{"id": 3, "token": "x", "logprob": -1}], {3: -1.0}), ([{"tok_str": "x", "prob": 0.5}], {"x": log(0.5)}),
    ([{"logprob": -1.0}, {"logprob": -2.0}], {-1: -1.0, -2: -2.0}), ([{"id": 3, "prob": 0}], {3: log(1e-9)}),
    ({"a": -1, "logprob": -9}, {"a": -1.0}), ({"probs": [{"tok_str": "x", "prob": 1.0}]}, {"x": 0.0}),
    ({"top_logprobs": {"a": -1}}, {"a": -1.0}), ([{"id": 3, "logprob": float("nan")}, 7], {}), (7, {}),
    ([{"id": 3, "logprob": True}], {}),
])  # fmt: skip
def test_likely_tokens_are_read_however_they_are_written(found, place):
    assert replies.place(found) == place


def test_a_client_error_is_an_answer_and_anything_else_is_none():
    assert replies.refused(400, {"error": {"message": "too long"}}).refused == "400: too long"
    assert replies.refused(499, {"error": "no"}).refused == "499: no" and replies.refused(404, None).refused
    for status in (500, 302):
        with pytest.raises(Failed, match=f"status {status}: boom"):
            replies.refused(status, {"error": {"message": "boom"}})
    with pytest.raises(Failed, match="no answer in the reply"):
        replies.refused(200, {})
    for status in (401, 403):
        with pytest.raises(BadInput, match="requires a key"):
            replies.refused(status, {})


@pytest.mark.parametrize("said", [
    {"tokens": [1] * 1_027}, {"content": "x" * 65_729}, {"completion_probabilities": [{}] * 1_027},
    {"completion_probabilities": [{"top_logprobs": [{"id": 1, "logprob": -1.0}] * 1_025}]},
])  # fmt: skip
def test_an_answer_much_longer_than_requested_is_refused(said):
    with pytest.raises(Failed, match=r"to a request for 2 tokens|log-probabilities at a place"):
        replies.native(said, 2)
    if "tokens" in said:
        assert replies.native({"tokens": [1] * 1_026}, 2).tokens == (1,) * 1_026


def test_an_answer_of_a_chat_much_longer_than_requested_is_refused():
    for choice in ({"text": "x" * 10**6}, {"text": "x", "logprobs": {"top_logprobs": [{}] * 5_000}}):
        with pytest.raises(Failed, match="to a request for 2 tokens"):
            replies.openai({"choices": [choice]}, 2)


def test_integers_beyond_64_bits_are_absent():
    assert replies.count(10**400) is None and replies.tokens([10**400]) is None and replies.tokens([True]) is None
    assert replies.place([{"id": 1, "logprob": 10**400}]) == {}


@pytest.mark.parametrize(("found", "place"), [
    ({"a": -0.5, "b": -1, "c": "x", "logprob": -2}, {"a": -0.5, "b": -1.0}), ({"top_probs": []}, {}),
    ([{"id": 5, "logprob": -0.5}, {"id": 6, "prob": 0.5}, {"id": 7}, "x"], {5: -0.5, 6: log(0.5)}),
    ([{"id": 5, "logprob": -0.5, "prob": 0.9}], {5: -0.5}), ("text", {}), (None, {}),
])  # fmt: skip
def test_the_likely_tokens_of_a_place(found, place):
    assert replies.place(found) == place


def test_a_probability_of_zero_has_a_finite_logarithm_and_a_place_few_tokens():
    (value,) = replies.place([{"id": 5, "prob": 0}]).values()
    assert value == log(replies.LEAST)
    assert len(replies.place({str(number): -1.0 for number in range(replies.LIKELIEST)})) == replies.LIKELIEST
    with pytest.raises(Failed, match="log-probabilities at a place"):
        replies.place({str(number): -1.0 for number in range(replies.LIKELIEST + 1)})


def answer(tokens, text, *places):
    return compare_answers.ScoredAnswer(tokens, text, places)


A, B = {"a": -0.25, "b": -1.25}, {"b": -0.5, "a": -0.75}


@pytest.mark.parametrize(("left", "right", "size", "text"), [
    (answer(("a",), "a", A), answer(("a",), "a", A), 0.0, "no difference"),
    (answer(("a",), "a", A), answer(("a",), "a", {"a": -0.5, "b": -1.25}), 0.25, "largest difference 0.25 at token 0"),
    (answer(("a", "a"), "aa", A, A), answer(("a", "a"), "aa", A, {"a": -0.25, "b": -2.25}), 1.0,
     "largest difference 1 at token 1"),
    (answer(("a",), "a", A), answer(("b",), "b", B), 0.75, "largest difference 0.75 at token 0"),
    (answer(("a",), "a", {"a": 0.0, "b": -4.0}), answer(("b",), "b", {"a": -3.0, "b": 0.0}), 4.0,
     "largest difference 4 at token 0"),
    (answer(("a",), "a", {"a": -0.25}), answer(("b",), "b", {"b": -0.25}), inf, "token 0 differs: a and b"),
    (answer(("a",), "a", {}), answer(("b",), "b", {}), inf, "token 0 differs: a and b"),
    (answer(("a",), "a", {}), answer(("b",), "b", {"b": -0.25, "a": -1.25}), 0.5, "token 0 differs: a and b"),
    (answer(("a",), "a"), answer(("b",), "b"), inf, "the tokens differ"),
    (answer(("a",), "a"), answer(("a", "a"), "aa"), inf, "the tokens differ"),
    (answer(None, "a"), answer(None, "a"), 0.0, "no difference"),
    (answer(None, "a"), answer(None, "b"), inf, "the texts differ"),
    (answer(None, "a"), answer(("a",), "b"), inf, "the texts differ"),
    (answer((5,), "a"), answer((5,), "b"), inf, "the texts differ, the tokens do not"),
    (answer((5,), "a"), answer((5,), ""), 0.0, "no difference"),
])  # fmt: skip
def test_answers_are_as_far_apart_as_their_likely_tokens_until_a_token_differs(left, right, size, text):
    assert tuple(left.differs_from(right)) == (size, text) and compare_answers.gap(left, right) == size
    assert compare_answers.NearAnswers(size)(left, right)
    assert size == 0 or not compare_answers.NearAnswers(min(size / 2, 9.0))(left, right)


def test_other_fingerprints_are_equal_or_infinitely_far_apart():
    assert compare_answers.gap("a", "a") == 0.0
    assert compare_answers.gap("a", "b") == compare_answers.gap(answer(None, "a"), "a") == inf


def test_an_answer_shows_its_log_probabilities_place_by_place():
    one = answer(("a", "b"), "ab", {"x": -2.0, "a": -0.5}, {}, {token: -float(token) for token in range(9)})
    assert one.tolist() == [-0.5, -2.0, 0.0, -1.0, -2.0, -3.0] and one.shape == (6,) == (2 + compare_answers.TOP,)


@pytest.mark.parametrize(("tokens", "longer", "kept"), [
    ((1, 2, 3), (1, 2), (1, 2)), ((1,), (1, 2), (1,)), (None, (1,), None), ((1,), None, None), ((), (1,), ())])
def test_the_beginning_of_an_answer_is_as_long_as_another(tokens, longer, kept):
    one = answer(tokens, "abcd", A, B, A).beginning(answer(longer, "xyz", A, B))
    assert (one.tokens, one.text, one.places) == (kept, "abc", (A, B))
    assert answer(None, "ab", A).beginning(answer(None, "xyz", A, B)) == answer(None, "ab", A)


def test_integers_of_64_bits_are_read():
    assert (replies.count(INT64), replies.count(INT64 + 1)) == (INT64, None)
    assert (replies.tokens([INT64]), replies.tokens([INT64 + 1])) == ((INT64,), None)
    assert replies.place({"a": -INT64, "b": -INT64 - 1}) == {"a": -float(INT64)}


def test_an_answer_with_likely_tokens_at_some_places_is_compared_by_them():
    """Drafted tokens have none."""
    places = [{"top_logprobs": [{"id": 5, "logprob": -1}]}, {"id": 6, "top_logprobs": []}]
    found = replies.native({"tokens": [5, 6], "completion_probabilities": places}, 2).fingerprint
    assert (found.tokens, found.text, found.places) == ((5, 6), "", ({5: -1.0}, {}))
