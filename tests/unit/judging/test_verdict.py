"""The worst of several verdicts, and the outcome of a run for exit codes and tests."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import CORRECT, RUNGS, Verdict, outcome, undecided, worst, wrong
from cachesim.judging.verdict_words import VerdictWord
from tests.unit.tools.run.made import BROKEN, judgement

LEFT = Verdict(VerdictWord.UNDECIDED, "", FaultKind.NOT_RUN, {"limit": "too long"}, -1)
ROW = Verdict(VerdictWord.WRONG, "bits", FaultKind.ROW, {"layer": 2, "position": 5}, 7)


def test_a_verdict_has_a_word_a_fault_in_a_sentence_and_a_place():
    assert undecided(FaultKind.NOT_RUN, limit="too long") == LEFT
    assert wrong("bits", FaultKind.ROW, 7, layer=2, position=5) == ROW
    assert wrong("bits", FaultKind.OTHER_TEXT) == Verdict(VerdictWord.WRONG, "bits", FaultKind.OTHER_TEXT, {}, -1)
    assert [one.equal_cold for one in (CORRECT, LEFT, ROW)] == [True, None, False]
    assert [one.why for one in (CORRECT, LEFT, ROW)] == [
        "", "not run: too long", "layer 2: K/V row 5 differs from a cold run's"]
    assert repr(ROW).startswith("Verdict(word=<VerdictWord.WRONG: 'wrong'>, rung='bits'")


def test_the_worst_verdict_wins_in_every_order():
    levels = [wrong(rung, FaultKind.OTHER_TEXT) for rung in RUNGS]
    for low, high in pairwise([CORRECT, LEFT, Verdict(VerdictWord.WRONG), *levels]):
        assert all(worst(pair) is high for pair in permutations((low, high, CORRECT)))
    assert worst([]) is CORRECT


def test_of_equal_verdicts_the_first_wins():
    other = undecided(FaultKind.CLIENT_LEFT)
    assert worst([LEFT, other]) is LEFT and worst([other, LEFT]) is other


def ran(holds, *equal, as_expected=None, told=(), unsettled=()):
    """Return a run as data, with these verdicts of its requests."""
    requests = [{"i": number, "equal_cold": one} for number, one in enumerate(equal)]
    return {"holds": holds, "as_expected": as_expected, "requests": requests, "told": [*told],
            "unsettled": [*unsettled]}  # fmt: skip


@pytest.mark.parametrize(("run", "plain", "expected"), [
    (ran(True, True), True, True), (ran(False, False), False, False), (ran(None, None), None, None),
    (ran(True, True, as_expected=True), True, True), (ran(True, True, as_expected=False), False, False),
    (ran(None, None, as_expected=False), False, False),
    (ran(False, False, as_expected=True), False, True),
    (ran(None, True, None, as_expected=True, unsettled=[1]), None, True),
    (ran(None, None, None, as_expected=True, unsettled=[1]), None, None),
    (ran(None, None, None, as_expected=True, unsettled=[1], told=[0]), None, True),
    (ran(True, True, None, as_expected=True, told=[1]), True, True),
])  # fmt: skip
def test_the_outcome_of_a_run_alone_and_beside_the_expectations_of_its_file(run, plain, expected):
    assert (outcome(run, as_expected=False), outcome(run, as_expected=True)) == (plain, expected)


def test_a_judgement_shows_its_request_verdict_and_reuse():
    lost = judgement(charges=[(0, 3, "erased", "R", -1, "slot")], cache_n=4)
    assert repr(lost) == "<Judgement of request 0: correct, 4 of 10 prompt tokens reused, 3 re-evaluated>"
    assert repr(judgement(answer=BROKEN)) == (
        "<Judgement of request 0: wrong, 0 of 10 prompt tokens reused, 0 re-evaluated>")
