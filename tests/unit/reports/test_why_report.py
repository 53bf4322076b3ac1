"""Is it told of one request what was wrong with it, and which tokens were computed?"""

from __future__ import annotations

import pytest

from cachesim.reports.why_report import why_data, why_report
from cachesim.verdicts.verdict import HOLDS
from tests.unit.reports.made import BROKEN, UNDECIDED, judgement, run, shown


def told(*requests, number=0, others=(), **more):
    return why_data(run(*requests, **more), number, others)


@pytest.mark.parametrize(("answer", "state", "wrong", "what"), [
    (BROKEN, HOLDS, True, "WRONG OUTPUT: "), (HOLDS, BROKEN, False, "WRONG STATE left behind: "),
    (BROKEN, BROKEN, True, "WRONG OUTPUT: "), (HOLDS, HOLDS, False, "right: "), (UNDECIDED, HOLDS, False, "undecided:"),
])  # fmt: skip
def test_an_answer_and_what_it_left_behind_are_told_apart(answer, state, wrong, what):
    data = told(judgement(answer, state))
    assert data["output_wrong"] is wrong
    assert any(line.startswith(what) for line in shown(why_report(data)))


def test_the_doubt_is_that_of_this_request():
    assert told(judgement(UNDECIDED), judgement(UNDECIDED), unsettled=[1])["doubt"] == ""
    assert "this is one case of several" not in shown(why_report(told(judgement(UNDECIDED))))
    data = {**told(judgement(UNDECIDED), unsettled=[0]), "doubt": "why"}
    assert "this is one case of several" in shown(why_report(data))


def test_who_was_told_of_the_refusal():
    refused = [judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True)]
    assert [told(*refused, number=i, told=[1])["told"] for i in (0, 1)] == [False, True]


def test_every_range_of_computed_tokens_has_its_first_and_last():
    one = judgement(cache_n=2, prompt_n=8, charges=[(0, 4, "erased", "R.1", 0, "checkpoint")])
    lines = shown(why_report(told(one, others=[("llama_cpp@other", 6)])))
    assert "2 .. 5     checkpoint erased, at request 0, by R.1" in lines
    assert "kept under llama_cpp@other" in lines
    assert "6 .. 9     diverged at token 6" in lines
    assert "2 of 10 tokens kept; 8 could have been, 9 were ever evaluated" in lines
