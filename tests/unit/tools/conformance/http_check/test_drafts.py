"""Tests of the detection of drafts, and of answers without them."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.dialect import cold, complete, identify_server
from cachesim.tools.conformance.http_check.drafts import detect_drafts, one_by_one
from cachesim.tools.conformance.http_check.replies import ScoredAnswer, gap, place
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.protocol import CacheRequest, Failed
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


