"""Tests of the tokens that an implementation may have stored: known tokens, or any tokens after an unknown answer."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import Difference, equal, identical
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.properties import (
    ColdAnswer,
    ColdAnswers,
    CompletedSequence,
    PropertyCheck,
    checks,
    relation,
    reply_text,
)
from cachesim.tools.conformance.protocol import NO_KEY, CacheRequest, Failed, Reply, RequestKey, StoredEntry

FIRST = (1, 2, 3)


def failing(prompt, warm, *, answer=None):
    """Return the names of failing checks: a request of FIRST with this answer (None = its tokens are not reported),
    then this prompt with this reply."""
    asks = [CacheRequest(FIRST, 2), CacheRequest(prompt, 1)]
    cold = [Reply(answer, "x", cached=0), Reply(None, "x", cached=0)]
    replies = [Reply(answer, "x", cached=0), warm]
    played = HistoryRun(parse_history("A3/A"), asks, cold, [None, None], replies, [[0], [1]])
    return [one.name for one in checks(played, identical) if not one.ok]


@pytest.mark.parametrize(("prompt", "cached", "fails"), [
    ((1, 2, 3, 7, 8, 9), 5, []),           # 7 and 8 may be the answer, which is unknown
    ((1, 2, 3, 7), 4, []),
    ((1, 2, 9, 7), 2, []), ((1, 2, 9, 7), 3, ["unseen"]),        # it diverges before the answer
    ((7, 2), 1, ["unseen"]),
])  # fmt: skip
def test_behind_an_unknown_answer_anything_may_be_held(prompt, cached, fails):
    assert failing(prompt, Reply(None, "x", cached=cached)) == fails


@pytest.mark.parametrize(("prompt", "cached", "fails"), [
    ((1, 2, 3, 4, 5, 9), 5, []), ((1, 2, 3, 4, 5, 9), 6, ["unseen"]), ((1, 2, 3, 7, 8), 4, ["unseen"]),
])  # fmt: skip
def test_a_known_answer_is_all_that_may_be_held(prompt, cached, fails):
    assert failing(prompt, Reply(None, "x", cached=cached), answer=(4, 5)) == fails


def test_a_stored_state_may_be_filed_under_an_unknown_answer():
    kept = (StoredEntry((1, 2, 3, 7, 8), 5),)
    assert failing((1, 2, 3, 9), Reply(None, "x", stored=kept)) == []
    assert failing((1, 2, 3, 9), Reply(None, "x", stored=kept), answer=(4, 5)) == ["stored"]


@pytest.mark.parametrize(("warm", "cold", "cancelled", "same"), [
    (Reply((1, 2)), Reply((1, 2)), False, True), (Reply((1, 2)), Reply((1, 3)), False, False),
    (Reply((1,)), Reply((1, 2)), False, False), (Reply((1,)), Reply((1, 2)), True, True),
    (Reply((2,)), Reply((1, 2)), True, False), (Reply((1, 2, 3)), Reply((1, 2)), True, False),
    (Reply(), Reply((1, 2)), True, True), (Reply((), "x"), Reply((1,), "y"), True, True),
    (Reply((1,), "x"), Reply((1,), "y"), False, False), (Reply((1,), "x"), Reply((1,)), False, False),
    (Reply(refused="full"), Reply((1,)), True, False), (Reply(refused="full"), Reply(refused="other"), False, True),
])  # fmt: skip
def test_of_what_a_client_gave_up_the_tokens_so_far_count(warm, cold, cancelled, same):
    assert equal(warm, cold, identical, cancelled) is same


@pytest.mark.parametrize(("reply", "text"), [
    (Reply(refused="full"), "refused (full)"), (Reply((5, 6)), "tokens 5 6"), (Reply(None, "x"), "fingerprint x"),
    (Reply(), "nothing"), (Reply(()), "tokens "),
])  # fmt: skip
def test_a_reply_in_a_few_words(reply, text):
    assert reply_text(reply) == text


@pytest.mark.parametrize(("prompt", "name"), [
    ((1, 2), "repeat"), ((1,), "prefix"), ((1, 2, 3), "prefix"), ((1, 2, 3, 4), "append"), ((1, 2, 5), "branch"),
    ((1, 9), "branch"), ((9,), "new"), ((7, 8), "repeat"), ((7, 8, 1), "append"),
])  # fmt: skip
def test_a_prompt_relates_to_what_was_sent_and_generated_before(prompt, name):
    seen = [CompletedSequence((1, 2, 3), 2, True), CompletedSequence((7, 8), 2, False)]
    assert relation(prompt, seen) == name and relation(prompt, []) == "new"


@pytest.mark.parametrize("has_drafts", [True, False])
def test_answers_with_drafts_are_judged_for_their_drafts_too(has_drafts):
    reply = Reply((5,), "x", cached=0)
    played = HistoryRun(parse_history("A3"), [CacheRequest(FIRST)], [reply], [None], [reply], [range(1)],
                        has_drafts=has_drafts)  # fmt: skip
    assert ("drafts" in {one.name for one in checks(played, identical)}) is has_drafts


def test_only_limits_that_the_implementation_states_are_checked():
    cold = Reply((5,), cached=0)
    warm = [Reply((5,), cached=0, used={"slots": 2, "bytes": 900}), Reply((5,), cached=0, used={"slots": 3}), cold]
    played = HistoryRun(parse_history("A1/B1/C1"), [CacheRequest((n,)) for n in range(3)], [cold] * 3, [None] * 3, warm,
                        [[0], [1], [2]], limits={"slots": 2})  # fmt: skip
    found = [one for one in checks(played, identical) if one.name == "limits"]
    assert [(one.ok, one.request, one.expected, one.got) for one in found] == [
        (True, 0, "at most 2 slots", "2 slots"), (False, 1, "at most 2 slots", "3 slots")]


def checks_of(warm, prompt=(1, 2, 3, 4), key=NO_KEY, first_key=NO_KEY):
    """Return the checks of a second request, after FIRST under another key."""
    asks = [CacheRequest(FIRST, key=first_key), CacheRequest(prompt, key=key)]
    first, cold = Reply((5,), cached=0), Reply(None, "x", cached=0)
    played = HistoryRun(parse_history("A3/A"), asks, [first, cold], [None] * 2, [first, warm], [[0], [1]])
    return [one for one in checks(played, identical) if one.request == 1]


def test_counts_of_a_refused_request_are_not_checked():
    names = {"accounting", "unseen"}
    plain = checks_of(Reply(None, "x", cached=9, evaluated=9))
    assert {one.name for one in plain if not one.ok} >= names
    refused = checks_of(Reply(refused="full", cached=9, evaluated=9))
    assert not names & {one.name for one in refused}


@pytest.mark.parametrize(("entry", "ok", "expected", "got"), [
    (StoredEntry((1, 2, 3), 3), True, "a state of 3 tokens", "a state of 3 tokens"),
    (StoredEntry((1, 2, 3), 2), False, "a state of 3 tokens", "a state of 2 tokens"),
    (StoredEntry((9,), 1), False, "a state of tokens that were sent or generated", "a state with the key [9]"),
])  # fmt: skip
def test_a_stored_state_has_the_tokens_of_its_key(entry, ok, expected, got):
    (found,) = [one for one in checks_of(Reply(None, "x", stored=(entry,))) if one.name == "stored"]
    assert (found.ok, found.expected, found.got) == (ok, expected, got)


@pytest.mark.parametrize(("key", "first_key", "name"), [
    (NO_KEY, NO_KEY, "branch"), (RequestKey("cat"), RequestKey("cat"), "branch"), (RequestKey("cat"), NO_KEY, "key"),
    (RequestKey("cat", 3), NO_KEY, "new"),
])  # fmt: skip
def test_a_prompt_relates_only_to_what_was_sent_under_its_key(key, first_key, name):
    """Up to the first token that a key changes, prompts mean the same under both."""
    found = checks_of(Reply(None, "x"), key=key, first_key=first_key)
    assert [one.name for one in found if one.expected.endswith("(cold)")] == [name]


def compared_names(asks, number, warm=None):
    """Return the names under which the answer to a request is compared with its cold run."""
    replies = [Reply(None, "x", cached=0)] * len(asks)
    warm = [warm if warm is not None and at == number else one for at, one in enumerate(replies)]
    played = HistoryRun(parse_history("A3/A"), asks, replies, [None] * len(asks), warm, [[n] for n in range(len(asks))])
    return [one.name for one in checks(played, identical) if one.request == number and one.expected.endswith("(cold)")]


ADAPTER = RequestKey("cat", 0, "adapter")


@pytest.mark.parametrize(("key", "fields", "first_key", "name"), [
    (ADAPTER, {"lora": []}, NO_KEY, "adapter"), (ADAPTER, {"model": "cat"}, NO_KEY, "adapter"),
    (NO_KEY, {}, ADAPTER, "base"), (NO_KEY, {"lora": []}, ADAPTER, "adapter"), (RequestKey("a"), {}, NO_KEY, "key"),
])  # fmt: skip
def test_a_request_that_chooses_no_adapter_is_one_of_the_base_model(key, fields, first_key, name):
    asks = [CacheRequest(FIRST, key=first_key), CacheRequest((*FIRST, 9), key=key, fields=fields)]
    assert compared_names(asks, 1) == [name]


@pytest.mark.parametrize(("keys", "name"), [
    ((NO_KEY, NO_KEY, ADAPTER), "append"), ((ADAPTER, NO_KEY, NO_KEY), "append"), ((ADAPTER, NO_KEY, ADAPTER), "base")])
def test_as_many_tokens_under_the_own_key_explain_an_answer(keys, name):
    """Of several prompts under the own key the one with the most tokens counts."""
    prompts = FIRST, (1, 7), FIRST
    asks = [*(CacheRequest(prompt, key=key) for prompt, key in zip(prompts, keys, strict=True)),
            CacheRequest((*FIRST, 9))]  # fmt: skip
    assert compared_names(asks, 3) == [name]


def test_only_a_disconnect_up_to_a_request_may_change_its_answer():
    asks = [CacheRequest((1,)), CacheRequest((2,), cancel_after=1), CacheRequest((3,))]
    assert [compared_names(asks, number) for number in (0, 2)] == [["new"], ["new", "cancel"]]


def test_a_burst_may_change_the_answers_from_its_first_request_on():
    reply = Reply((5,), cached=0)
    asks = [CacheRequest((number,)) for number in range(4)]
    played = HistoryRun(parse_history("A1/B1/C1/D1"), asks, [reply] * 4, [None] * 4, [reply] * 4, [[0], [1, 2], [3]])
    assert [one.request for one in checks(played, identical) if one.name == "burst"] == [1, 2, 3]


def test_a_second_cold_run_is_compared_with_the_first():
    asks = [CacheRequest(FIRST), CacheRequest((9,))]
    cold, again = [Reply((5,), [0.5]), Reply((6,))], [Reply((5,), [0.75]), None]
    played = HistoryRun(parse_history("A3/B1"), asks, cold, again, cold, [[0], [1]])
    assert [one for one in checks(played, identical) if one.name == "steady"] == [
        PropertyCheck("steady", False, 0, "tokens 5, fingerprint [0.5] (cold)",
                      "tokens 5, fingerprint [0.75] (cold again)", apart=Difference(0.25, "largest difference 0.25"))]


def test_answers_that_arrived_are_fine_without_a_text():
    cold, warm = [Reply((5,)), Failed("dead")], [Reply((5,)), Failed("gone")]
    played = HistoryRun(parse_history("A3/A"), [CacheRequest(FIRST)] * 2, cold, [None] * 2, warm, [[0], [1]])
    found = [one for one in checks(played, identical) if one.name == "answers"]
    assert [(one.ok, one.request, one.got) for one in found] == [
        (True, 0, ""), (False, 1, "cold: dead"), (True, 0, ""), (False, 1, "gone")]  # fmt: skip


def test_a_mistake_shows_only_against_the_answer_to_another_prompt():
    ask, other = CacheRequest(FIRST), CacheRequest((9,))
    played = HistoryRun(parse_history("A3"), [ask], [Reply(None, "x")], [None], [Reply(None, "x")], [[0]])
    for known, is_shown in ((ask, False), (other, True)):
        answers = ColdAnswers(played, identical, [ColdAnswer(known, Reply(None, "y"))])
        assert answers.tell(ask, Reply(None, "x")) is is_shown


@pytest.mark.parametrize(("warm", "cold", "failed"), [
    (0, 0, []), (1, 0, ["at most 0 cached"]), (0, 2, ["0 cached by an empty cache"]), (0, None, [])])
def test_an_empty_cache_reuses_nothing(warm, cold, failed):
    answers = [Reply((5,), cached=cold)], [Reply((5,), cached=warm)]
    played = HistoryRun(parse_history("A3"), [CacheRequest(FIRST)], answers[0], [None], answers[1], [[0]])
    found = [one for one in checks(played, identical) if one.name == "unseen"]
    assert [one.expected for one in found if not one.ok] == failed and len(found) == 1 + (cold is not None)
