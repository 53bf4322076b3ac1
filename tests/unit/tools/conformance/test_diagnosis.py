"""Diagnosis of a wrong answer: the mistake of the adapter that explains it, and its first wrong token."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import identical
from cachesim.tools.conformance.diagnosis import diagnosis, first_wrong_token
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, RequestKey, TimedOut
from cachesim.tools.conformance.timeouts import TimeoutsExhausted


def run_of(warm, cold, prompt=(1, 2, 3), **more):
    return HistoryRun(parse_history("A3"), [CacheRequest(prompt, 2, **more)], [cold], [None], [warm])


def asked_for(warm, prompt, **more):
    """Return the requests whose cold answers are compared with a warm one, if none equals it."""
    asked = []

    def cold(ask):
        asked.append(ask)
        return Reply((7,))

    assert diagnosis(run_of(warm, Reply((7,)), prompt, **more), 0, cold, identical) == ""
    return asked


@pytest.mark.parametrize(("cached", "prompts"), [
    (1, [(2, 3), (1, 2), (1, 2, 3, 3), (1, 1, 2, 3)]), (2, [(3,), (1, 2), (1, 2, 3, 3), (1, 2, 2, 3)]),
    (3, [(1, 2), (1, 2, 3, 3), (1, 2, 3, 3)]), (0, []), (None, []),
])  # fmt: skip
def test_prompts_that_a_faulty_adapter_may_evaluate_are_tried_in_order_and_no_empty_one(cached, prompts):
    assert [ask.prompt for ask in asked_for(Reply((8,), cached=cached), (1, 2, 3))] == prompts


def test_a_prompt_of_one_token_has_nothing_before_its_last():
    assert [ask.prompt for ask in asked_for(Reply((8,), cached=1), (5,))] == [(5, 5), (5, 5)]


def test_cold_runs_are_whole_requests_with_the_same_options():
    sampling, key = {"top_k": 1}, RequestKey("cat")
    for ask in asked_for(Reply((8,), cached=2), (1, 2, 3), cache=False, cancel_after=1, sampling=sampling, key=key):
        assert (ask.n_predict, ask.cache, ask.cancel_after, ask.sampling, ask.key) == (2, True, None, sampling, key)


@pytest.mark.parametrize("warm", [Failed("x"), TimedOut("late")])
def test_a_request_without_a_reply_is_not_diagnosed(warm):
    assert asked_for(warm, (1, 2, 3)) == []


@pytest.mark.parametrize("cold", [Failed("x"), Reply(refused="too long")])
def test_a_refused_or_failed_cold_run_explains_nothing(cold):
    warm = Reply(refused="too long", cached=2)
    assert diagnosis(run_of(warm, Reply((7,))), 0, lambda ask: cold, identical) == ""


def test_several_tokens_are_named_by_their_number():
    def cold(ask):
        return Reply((8,)) if ask.prompt == (2, 3) else Reply((7,))

    assert diagnosis(run_of(Reply((8,), cached=1), Reply((7,))), 0, cold, identical) == (
        "equals a cold run's answer to only the last 2 tokens: the model read nothing from the cache "
        "(does the adapter pass it?)")  # fmt: skip


def test_a_request_that_was_never_sent_is_not_diagnosed():
    played = run_of(Reply((8,), cached=2), Reply((7,)))
    assert diagnosis(played, 1, lambda ask: Reply((8,)), identical) == first_wrong_token(played, 1) == ""


@pytest.mark.parametrize(("prompt", "sentence"), [
    ((3,), "equals a cold run's answer to only the last 1 token: the model read nothing from the cache "
           "(does the adapter pass it?)"),
    ((1, 2), "equals a cold run's answer to the prompt without its last token"),
    ((1, 2, 3, 3), "equals a cold run's answer to the prompt with its last token twice"),
    ((1, 2, 2, 3), "equals a cold run's answer to the prompt with token 1, the last cached token, twice"),
    ((9,), ""),
])  # fmt: skip
def test_the_prompt_with_the_wrong_answer_is_named(prompt, sentence):
    asked = []

    def cold(ask):
        asked.append(ask)
        return Reply((8,)) if ask.prompt == prompt else Reply((7,))

    assert diagnosis(run_of(Reply((8,), cached=2), Reply((7,))), 0, cold, identical) == sentence
    assert all(ask.cache and ask.n_predict == 2 for ask in asked) and len(asked) <= 4
    assert diagnosis(run_of(Reply((8,), cached=0), Reply((7,))), 0, cold, identical) == ""


@pytest.mark.parametrize(("warm", "cold", "text"), [
    (Reply((5, 6)), Reply((5, 7)), "first wrong token: generated token 1, at position 4"),
    (Reply((5,)), Reply((5, 7)), "first wrong token: generated token 1, at position 4"),
    (Reply((5,)), Reply((5,)), ""), (Reply(None, 1), Reply((5,)), ""), (Reply((5,)), Reply(None, 1), ""),
    (Failed("x"), Reply((5,)), ""),
])  # fmt: skip
def test_the_first_wrong_token_has_its_position(warm, cold, text):
    assert first_wrong_token(run_of(warm, cold), 0) == text


def test_one_that_goes_silent_while_it_is_diagnosed_is_left_alone():
    asks, warm = [CacheRequest((1,)), CacheRequest((1, 2))], [Reply((1,)), Reply((2,), cached=1)]
    played = HistoryRun(parse_history("A2/A"), asks, warm=warm)

    def silent(ask):
        raise TimeoutsExhausted

    assert diagnosis(played, 1, silent, identical) == ""
