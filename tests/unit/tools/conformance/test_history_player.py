"""Instances of an implementation, cold runs, and abilities: what is called, in which order, and what is kept."""

from __future__ import annotations

import weakref

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import Difference, apart, difference, equal, identical, near, shown
from cachesim.tools.conformance.history_player import (
    STEADY,
    ColdRuns,
    SendingOptions,
    SubjectAbilities,
    SubjectPool,
    limits_of,
    play,
    probe,
)
from cachesim.tools.conformance.protocol import (
    NO_KEY,
    CacheRequest,
    Failed,
    Reply,
    RequestKey,
    TimedOut,
    Unsupported,
    read_reply,
)
from cachesim.tools.conformance.timeouts import TimeoutsExhausted

KEY = RequestKey("cat")


class Subject:
    """Implementation that notes its calls, and answers with the number of the call, or raises."""

    def __init__(self, calls, answers=()):
        self.calls, self.answers = calls, list(answers)

    def complete(self, ask):
        self.calls.append(ask)
        answer = self.answers.pop(0) if self.answers else Reply((7,))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def burst(self, asks):
        self.calls.append(("burst", len(asks)))
        return [Reply((7,)) for _ in asks]

    def limits(self):
        raise Unsupported("no limits")

    def reset(self):
        self.calls.append("reset")

    def close(self):
        self.calls.append("close")


@pytest.mark.parametrize(("reuse", "calls"), [
    ("", ["made", "close", "made", "close"]), ("reset", ["made", "reset", "reset", "close"]),
    ("keep", ["made", "close"]),
])  # fmt: skip
def test_an_instance_is_new_reset_or_kept(reuse, calls):
    found = []

    def make():
        found.append("made")
        return Subject(found)

    pool = SubjectPool(make, reuse)
    for _ in range(2):
        with pool.empty():
            pass
    pool.close()
    pool.close()
    assert found == calls and pool.kept is None


def test_an_instance_is_not_used_again_after_an_exception():
    found = []
    pool = SubjectPool(lambda: Subject(found), "keep")
    with pytest.raises(KeyboardInterrupt), pool.empty():
        raise KeyboardInterrupt
    assert found == ["close"] and pool.kept is None


def cold_runs(answers, uncached=False, reuse="keep"):
    calls = []
    subject = Subject(calls, answers)
    return ColdRuns(SubjectPool(lambda: subject, reuse), uncached, identical), calls


def test_the_first_cold_runs_are_repeated_and_all_of_them_after_a_difference():
    cold, calls = cold_runs([])
    for number in range(STEADY + 2):
        cold.answer(CacheRequest((number,)))
    assert len(calls) == 2 * STEADY + 2 and cold.again(CacheRequest((STEADY,))) is None
    assert cold.again(CacheRequest((STEADY - 1,))) == Reply((7,))
    cold, calls = cold_runs([Reply((7,)), Reply((8,))])
    for number in range(STEADY + 2):
        assert cold.answer(CacheRequest((number,))) == Reply((7,))
    assert len(calls) == 2 * STEADY + 4 and cold.again(CacheRequest((0,))) == Reply((8,))
    cold.answer(CacheRequest((0,)))
    assert len(calls) == 2 * STEADY + 4


@pytest.mark.parametrize("uncached", [False, True])
def test_a_cold_run_is_neither_cancelled_nor_sent_with_further_fields(uncached):
    cold, calls = cold_runs([], uncached)
    cold.answer(CacheRequest((1,), 3, False, 2, {"seed": 1}, KEY, {"x": 1}))
    assert calls == [CacheRequest((1,), 3, not uncached, None, {"seed": 1}, KEY)] * 2
    assert calls[0].sampling == {"seed": 1} and calls[0].fields == {}


def test_a_cold_run_that_fails_is_its_outcome():
    cold, calls = cold_runs([TimedOut("late")], reuse="")
    assert str(cold.answer(CacheRequest((1,)))) == "late" and [type(call) for call in calls] == [CacheRequest, str]
    cold, _ = cold_runs([Unsupported("why"), Failed("boom")], reuse="")
    assert str(cold.answer(CacheRequest((1,)))) == "the implementation cannot complete a prompt: why"
    assert str(cold.again(CacheRequest((1,)))) == "boom"


def test_parameters_and_keys_are_taken_in_turn():
    sent = SendingOptions((), ({"seed": 1}, {"seed": 2}), (KEY, NO_KEY, KEY))
    assert [sent.parameters(number)["seed"] for number in range(4)] == [1, 2, 1, 2]
    assert [sent.key(number).name for number in range(4)] == ["cat", "", "cat", "cat"]
    assert (SendingOptions(()).parameters(3), SendingOptions(()).key(3)) == ({}, NO_KEY)


def test_a_history_is_run_cold_and_then_on_one_instance():
    cold, asked = cold_runs([])
    calls = []
    sent = SendingOptions(range(64), ({}, {"seed": 1}))
    played = play(parse_history("A2>a2/A.a.B1!/C1{together}"), SubjectPool(lambda: Subject(calls)), cold, sent)
    prompts = [(0, 32), (0, 32, 7, 33, 2), (3,)]
    assert [ask.prompt for ask in played.asks] == prompts and len(asked) == 6
    assert [(ask.n_predict, ask.cache, ask.sampling) for ask in played.asks] == [
        (2, True, {}), (1, False, {"seed": 1}), (1, True, {})]  # fmt: skip
    assert played.groups == [range(0, 1), range(1, 3)] and played.again == played.cold == [Reply((7,))] * 3
    assert calls == [played.asks[0], ("burst", 2), "close"] and played.warm == [Reply((7,))] * 3
    assert (played.limits, played.gap) == ({}, "")


def test_a_run_ends_where_a_reply_fails():
    cold, _ = cold_runs([])
    calls = []
    sent = SendingOptions(range(64))
    history = parse_history("A2/B2/A2")
    failed = play(history, SubjectPool(lambda: Subject(calls, [Reply((7,)), Failed("boom")])), cold, sent)
    assert [str(one) if isinstance(one, Failed) else one for one in failed.warm] == [Reply((7,)), "boom"]
    gap = play(history, SubjectPool(lambda: Subject(calls, [Unsupported("why")])), cold, sent)
    assert (gap.warm, gap.gap) == ([], "why")
    calls.clear()
    bad, _ = cold_runs([Reply((7,)), Reply((7,)), Failed("cold")], reuse="")
    played = play(history, SubjectPool(lambda: Subject(calls)), bad, sent)
    assert (len(played.asks), len(played.cold), played.warm, calls) == (2, 2, [], [])
    assert len(played.groups) == 3
    assert limits_of(Subject([])) == {}


@pytest.mark.parametrize(("missing", "lack", "partly"), [
    ((), ("", ""), ("", "")), (("cancel_prompt",), ("", ""), ("not while the prompt is evaluated: no", "")),
    (("cancel_answer",), ("", ""), ("not while the answer is generated: no", "")),
    (("cancel_prompt", "cancel_answer"), ("no", ""), ("", "")), (("burst",), ("", "no"), ("", "")),
])  # fmt: skip
def test_half_of_cancelling_is_an_ability(missing, lack, partly):
    found = SubjectAbilities(dict.fromkeys(missing, "no"))
    assert (found.lack("cancel"), found.lack("burst")) == lack
    assert (found.partly("cancel"), found.partly("burst")) == partly
    assert found.present == {"cache", "cancel_prompt", "cancel_answer", "burst", "limits", "reset", "sampling",
                             "key"} - {*missing}  # fmt: skip


@pytest.mark.parametrize(("sampling", "key", "sent"), [
    ({}, NO_KEY, [{"cache": False}, {"cancel_after": 0}, {"cancel_after": 1}]),
    ({"seed": 1}, KEY, [{"cache": False}, {"cancel_after": 0}, {"cancel_after": 1}, {"sampling": {"seed": 1}},
                        {"key": "cat"}]),
    ({}, KEY, [{"cache": False}, {"cancel_after": 0}, {"cancel_after": 1}, {"key": "cat"}]),
    ({"seed": 1}, NO_KEY, [{"cache": False}, {"cancel_after": 0}, {"cancel_after": 1}, {"sampling": {"seed": 1}}]),
])  # fmt: skip
def test_every_ability_is_tried_once(sampling, key, sent):
    calls = []
    found = probe(lambda: Subject(calls), (5, 6, 7), sampling, key)
    asks = [call for call in calls if isinstance(call, CacheRequest)]
    assert found.missing == {"limits": "no limits"}
    assert [ask.options() for ask in asks] == sent and {(ask.prompt, ask.n_predict) for ask in asks} == {((5, 6), 2)}
    assert ("burst", 2) in calls and calls.count("reset") == 1 and calls.count("close") == len(sent) + 3


def test_after_a_time_out_no_ability_is_tried():
    calls = []
    answers = [Failed("x"), TimedOut("late")]
    found = probe(lambda: Subject(calls, [answers.pop(0)] if answers else []), (5, 6), {})
    assert (found.missing, len(calls)) == ({}, 4)


@pytest.mark.parametrize(("warm", "cold", "cancelled", "same"), [
    (Reply((1,)), Reply((1, 2)), True, True), (Reply((2,)), Reply((1, 2)), True, False),
    (Reply(None, 1.0), Reply((1,), 2.0), True, True), (Reply((1,), 1.0), Reply((1,), None), False, False),
    (Reply((1,), 1.0), Reply(None, 1.0), False, True), (Reply(refused="a"), Reply(refused="b"), False, True),
    (Reply(refused="a"), Reply(), False, False), (Reply(refused="a"), Reply((1,)), True, False),
])  # fmt: skip
def test_answers_are_compared_as_far_as_both_have_them(warm, cold, cancelled, same):
    assert equal(warm, cold, identical, cancelled) is same


def test_the_distance_of_fingerprints():
    one, two = Reply((1,), [1.0, 2.0]), Reply((1,), [1.5, 2.0])
    assert apart(one, two) == Difference(0.5, "largest difference 0.5 at index 0 of 2")
    assert apart(one, one) is None and apart(one, Reply((1,))) is None and apart(Reply((1,)), one) is None
    assert difference([], []) is None and difference("a" * 80, "b" * 80) is None
    assert difference("a" * 80, "a" * 81).text == "first difference at character 80 of 80"
    assert shown([1.0]) == "[1.0]" and near(0)(1.0, 1.0) and not near(0)(1.0, 1.5)


class Bursting(Subject):
    """Implementation that states limits, and raises an error for a burst."""

    def __init__(self, calls, error=None):
        super().__init__(calls)
        self.error = error

    def limits(self):
        return {"slots": 2}

    def burst(self, asks):
        if self.error is not None:
            raise self.error
        return super().burst(asks)


def run_of(line, **more):
    calls = []
    cold = ColdRuns(SubjectPool(lambda: Subject([])), False, identical)
    sent = SendingOptions(range(100), ({"t": 0}, {"t": 1}), (KEY, NO_KEY))
    return play(parse_history(line), SubjectPool(lambda: Bursting(calls, **more)), cold, sent), calls


def test_requests_that_arrive_together_are_sent_together():
    played, calls = run_of("A5/B5{together}/C5")
    assert [list(group) for group in played.groups] == [[0, 1], [2]] and played.limits == {"slots": 2}
    assert calls[0] == ("burst", 2) and calls[1] is played.asks[2] and calls[2:] == ["close"]
    assert played.warm == [Reply((7,))] * 3 and played.gap == ""
    assert [ask.sampling for ask in played.asks] == [{"t": 0}, {"t": 1}, {"t": 0}]
    assert [ask.key for ask in played.asks] == [KEY, NO_KEY, KEY]


@pytest.mark.parametrize(("error", "warm", "gap"), [
    (Failed("broken"), ["broken"], ""), (Unsupported("no bursts"), [], "no bursts"),
    (TimeoutsExhausted("3 replies timed out"), [], "3 replies timed out"),
])  # fmt: skip
def test_what_ends_a_run_is_its_last_reply_or_its_gap(error, warm, gap):
    played, _ = run_of("A5/B5{together}", error=error)
    assert ([str(one) for one in played.warm], played.gap) == (warm, gap)


@pytest.mark.parametrize("error", [Failed("x"), Unsupported("not here")])
def test_an_implementation_that_cannot_be_made_shows_no_missing_ability(error):
    def make():
        raise error

    assert probe(make, range(9), {"t": 0}, KEY).missing == {}


class _Large(Subject):
    """Implementation whose reply is large and malformed, or is so from its second request on."""

    def __init__(self, good):
        super().__init__([])
        self.good = good
        self.replies = []

    def complete(self, ask):
        self.good -= 1
        if self.good >= 0:
            return Reply((7,))
        raw = _Refusal(self.replies)
        return read_reply({"refused": raw}, cancelled=False)


class _Refusal(list):
    """A refusal of the wrong type. The list `living` shows which of them are held."""

    def __init__(self, living):
        super().__init__([1])
        living.append(weakref.ref(self))


@pytest.mark.parametrize(("good", "outcomes"), [(0, "cold"), (4, "warm")])
def test_a_kept_failure_does_not_hold_the_reply(good, outcomes):
    subject = _Large(good)
    pool = SubjectPool(lambda: subject)
    cold = ColdRuns(pool, uncached=False, same=identical)
    played = play(parse_history("A3/B2"), pool, cold, SendingOptions(range(100)))
    kept = getattr(played, outcomes)[-1]
    assert isinstance(kept, Failed) and str(kept) == "expected a text, found [1]"
    assert len(subject.replies) > 0 and not any(reply() for reply in subject.replies)
