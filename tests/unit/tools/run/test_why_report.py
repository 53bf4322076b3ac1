"""Tests of the report of ``why``: verdict and sources of the tokens."""

from __future__ import annotations

import pytest

from cachesim.judging.foreign_reads import ForeignContent
from cachesim.judging.run_data import why_data
from cachesim.judging.verdict import HOLDS
from cachesim.tools.run.why_report import why_report
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement, run, shown


def told(*requests, number=0, others=(), **more):
    return why_data(run(*requests, **more), number, others)


@pytest.mark.parametrize(("answer", "state", "wrong", "what"), [
    (BROKEN, HOLDS, True, "WRONG OUTPUT: "), (HOLDS, BROKEN, False, "CORRUPT STATE left in the slot: "),
    (BROKEN, BROKEN, True, "WRONG OUTPUT: "), (HOLDS, HOLDS, False, "OK: "), (UNDECIDED, HOLDS, False, "UNDECIDED: "),
])  # fmt: skip
def test_an_answer_and_what_it_left_behind_are_told_apart_and_first(answer, state, wrong, what):
    data = told(judgement(answer, state))
    assert data["output_wrong"] is wrong
    assert shown(why_report(data))[1].startswith(what.strip())


def test_what_was_read_instead_follows_the_verdict():
    data = told(judgement(), judgement(BROKEN), number=1, reads={1: [ForeignContent("rows", 0, 7, 9, 0, 7)]})
    assert shown(why_report(data))[2] == "it reads K/V rows 7..8 of tokens 7..8 of request 0 in place of its own"


def test_a_known_bug_is_said_to_be_one():
    data = {**told(judgement(BROKEN)), "known_bug": True}
    assert shown(why_report(data))[1].endswith("(known bug, as expected)")


def test_title_and_reasons_of_a_scenario_and_of_a_request():
    data = {**told(judgement()), "scenario": "a", "title": "the title", "why": "a reason", "request_why": "another"}
    lines = shown(why_report(data))
    assert lines[1:5] == ["the title", "OK: equal to a cold run", "a reason", "another"]


def test_the_doubt_is_that_of_this_request():
    assert told(judgement(UNDECIDED), judgement(UNDECIDED), unsettled=[1])["doubt"] == ""
    assert "other outcomes are possible here" not in shown(why_report(told(judgement(UNDECIDED))))
    data = {**told(judgement(UNDECIDED), unsettled=[0]), "doubt": "why"}
    assert "other outcomes are possible here" in shown(why_report(data))


def test_the_client_that_received_the_refusal():
    refused = [judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True)]
    assert [told(*refused, number=i, told=[1])["told"] for i in (0, 1)] == [False, True]


def test_every_range_of_evaluated_tokens_has_its_first_and_last():
    one = judgement(cache_n=2, prompt_n=8, charges=[(0, 4, "erased", "R.1", 0, "checkpoint")])
    lines = shown(why_report(told(one, others=[("llama_cpp@other", 6)])))
    assert "10 tokens = 2 kept + 0 restored + 0 loaded + 8 evaluated (LCP 0, 2 moved)" in lines
    assert "2..5  checkpoint erased (at request 0, R.1)" in lines
    assert "reused under llama_cpp@other" in lines
    assert "6..9  new tokens" in lines
    assert "at most 8 reusable; 9 evaluated before" in lines
