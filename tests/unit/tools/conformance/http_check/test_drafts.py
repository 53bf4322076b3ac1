"""Tests of the detection of drafts, and of answers without them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.compare_answers import ScoredAnswer, gap
from cachesim.tools.conformance.http_check.dialect import cold, complete, identify_server
from cachesim.tools.conformance.http_check.drafts import detect_drafts, one_by_one
from cachesim.tools.conformance.http_check.replies import place
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from tests.unit.tools.conformance.http_check.in_process import NATIVE, InProcess
from tests.unit.tools.conformance.http_check.stand_in import VOCABULARY

ASK = CacheRequest((5, 6, 7), 4)
GENERATING = {**NATIVE, "/slots": [{"id": 0, "n_prompt_tokens": 0, "next_token": [{"n_decoded": 1}]}]}
"""A slot that generates is not polled, so that the number of requests is the same in every run."""


class Chain:
    """A server whose next token depends on all tokens before. It drafts all tokens of an answer but the first; each
    ``wrong``-th drafted token is accepted though it is wrong. Drafted tokens have no log-probabilities."""

    def __init__(self, drafts=True, wrong=0):
        self.drafts, self.wrong, self.drafted = drafts, wrong, 0

    def __call__(self, body):
        said = []
        for number in range(body["n_predict"]):
            before = [*body["prompt"], *said]
            token = (sum(before) * 31 + len(before)) % VOCABULARY
            if self.drafts and number:
                self.drafted += 1
                token += bool(self.wrong) and self.drafted % self.wrong == 0
            said.append(token % VOCABULARY)
        rival = {"id": VOCABULARY, "logprob": -2.5}
        top = [{"top_logprobs": [{"id": token, "logprob": -0.1}, rival]} for token in said]
        top[1:] = [{"id": token, "top_logprobs": []} for token in said[1:]] if self.drafts else top[1:]
        timings = {"cache_n": 0, "prompt_n": len(body["prompt"]), **({"draft_n": len(said) - 1} if self.drafts else {})}
        return 200, {"tokens": said, "completion_probabilities": top, "content": "x", "timings": timings}


def server_of(complete_body):
    http = InProcess(complete_body, GENERATING)
    return http, identify_server(http)


@pytest.mark.parametrize("drafts", [True, False])
def test_drafts_are_detected_by_their_number(drafts):
    assert detect_drafts(*server_of(Chain(drafts))) is drafts


def test_a_server_that_drafts_only_repetitions_is_detected_with_its_own_answer():
    def repetitions(body):
        status, said = chain(body)
        said["timings"]["draft_n"] = 3 if len(body["prompt"]) > 40 else 0
        return status, said

    chain = Chain(drafts=False)
    http, server = server_of(repetitions)
    assert detect_drafts(http, server) and len(http.asked) == 2
    first, second = (body["prompt"] for _, body in http.asked)
    assert second[: len(first)] == second[-len(first) :] == first


def test_a_server_without_an_answer_cannot_be_checked():
    def broken(body):
        raise Failed("connection failed")

    with pytest.raises(BadInput, match="connection failed"):
        detect_drafts(*server_of(broken))


def test_an_answer_without_drafts_has_all_log_probabilities():
    http, server = server_of(Chain())
    drafted, plain = complete(http, server, ASK, -1), one_by_one(complete, http, server, ASK, -1)
    assert [len(one) for one in drafted.fingerprint.places] == [2, 0, 0, 0]
    assert [len(one) for one in plain.fingerprint.places] == [2, 2, 2, 2] and len(http.asked) == 5
    assert all(body["n_predict"] == 1 for _, body in http.asked[1:])
    assert plain.evaluated == 3 and one_by_one(cold, http, server, ASK, -1).tokens == plain.tokens


def test_a_cancelled_request_without_drafts_has_no_answer():
    http, server = server_of(Chain())
    said = one_by_one(complete, http, server, CacheRequest((5,), 4, cancel_after=2), -1)
    assert said.tokens is None and len(http.asked) == 2


@pytest.mark.part(3)
@pytest.mark.parametrize("wrong, state", [(0, "ok"), (3, "failed")])
def test_a_wrong_token_that_is_accepted_is_a_fault_of_the_drafts(wrong, state):
    http, server = server_of(Chain(wrong=wrong))
    wanted = CheckOptions(("parallel",), ("A9>8/A.B2>8",), examples=1, tolerance=0.005, rounds=0)
    http.most = 1_500
    states = {one.name: one.state for one in check(http, server, wanted).report.results}
    assert states["drafts"] == state


def test_drafts_are_not_judged_where_there_are_none():
    http, server = server_of(Chain(drafts=False))
    found = check(http, server, CheckOptions(("parallel",), examples=1, tolerance=0.005, rounds=0))
    assert "drafts" not in {one.name for one in found.report.results}


def test_a_drafted_token_has_no_likely_tokens():
    assert place({"id": 79, "token": "x", "logprob": 0, "top_logprobs": []}) == {}


@pytest.mark.parametrize("lead, apart", [(0.002, 0.001), (3.0, 1.5)])
def test_where_one_answer_has_no_log_probabilities_the_other_decides(lead, apart):
    drafted = ScoredAnswer((1, 2), "ab", ({1: -0.1}, {}))
    plain = ScoredAnswer((1, 3), "", ({1: -0.1}, {3: -1.0, 2: -1.0 - lead}))
    assert gap(drafted, plain) == pytest.approx(apart) == gap(plain, drafted)
    assert gap(drafted, ScoredAnswer((1, 3), "", ({1: -0.1}, {}))) == float("inf")
    assert gap(drafted, ScoredAnswer((1, 2), "", ({1: -0.1}, {2: -0.5}))) == 0.0


def test_only_a_native_server_within_its_limits_is_asked_for_drafts():
    http, server = server_of(Chain())
    assert detect_drafts(http, replace(server, dialect="openai")) is False and http.asked == []
    http.most = 0
    assert detect_drafts(http, server) is False


def test_the_prompt_that_detects_drafts_depends_on_the_requests_before():
    http, server = server_of(Chain(False))
    detect_drafts(http, server)
    detect_drafts(http, replace(server, used=1))
    first, second, later, _ = (body for _, body in http.asked)
    start = [server.tokens[7 * number] for number in range(24)]
    assert first == {"prompt": start, "n_predict": 24, "temperature": 0, "cache_prompt": False, "ignore_eos": True,
                     "return_tokens": True}  # fmt: skip
    said = Chain(False)({**first})[1]["tokens"]
    assert second == {**first, "prompt": [*start, *said, *start]}
    assert later["prompt"] == [server.tokens[7 * number + 1] for number in range(24)]


def test_a_refused_or_longer_answer_ends_the_requests_without_drafts():
    http, server = server_of(Chain())
    replies = [Reply((7,)), Reply(refused="400: too long")]
    assert one_by_one(lambda *words: replies.pop(0), http, server, ASK, 0).refused == "400: too long" and not replies
    for wrong in (Reply((7, 8)), Reply(None), Reply(())):
        with pytest.raises(Failed, match="expected an answer of one token"):
            one_by_one(lambda *words, said=wrong: said, http, server, ASK, 0)


def test_each_single_request_continues_the_answer_in_the_same_slot():
    asked = []

    def serve(http, server, ask, slot):
        asked.append((ask.prompt, ask.n_predict, ask.cancel_after, slot))
        return Reply((len(asked),), cached=len(asked), evaluated=2)

    http, server = server_of(Chain())
    found = one_by_one(serve, http, server, ASK, 3)
    assert asked == [((5, 6, 7), 1, None, 3), ((5, 6, 7, 1), 1, None, 3), ((5, 6, 7, 1, 2), 1, None, 3),
                     ((5, 6, 7, 1, 2, 3), 1, None, 3)]  # fmt: skip
    assert found == Reply((1, 2, 3, 4), None, cached=1, evaluated=2)
    asked.clear()
    assert one_by_one(serve, http, server, CacheRequest((5,), 1), 3) == Reply((1,), cached=1, evaluated=2)
    for cancel_after, count in ((0, 1), (1, 1), (3, 3)):
        asked.clear()
        assert one_by_one(serve, http, server, CacheRequest((5,), 9, cancel_after=cancel_after), 3) == Reply()
        assert len(asked) == count


def test_of_a_longer_answer_than_asked_for_the_asked_tokens_are_sent_back():
    long = tuple(range(300, 340))
    http, server = server_of(lambda body: (200, {"tokens": list(long), "timings": {}}))
    assert detect_drafts(http, server) is False
    prompts = [body["prompt"] for _, body in http.asked]
    assert prompts[1] == [*prompts[0], *long[:24], *prompts[0]]
