"""Tests that the sentence of a verdict depends only on its kind and numbers."""

from __future__ import annotations

import pytest

from cachesim.judging.fault_kinds import SENTENCES, FaultKind, fault_sentence, pattern
from cachesim.judging.verdict import CORRECT, Verdict, undecided, wrong
from cachesim.judging.verdict_words import VerdictWord


def test_every_kind_has_one_sentence():
    assert set(SENTENCES) == set(FaultKind)
    assert all(kind == kind.lower() and " " not in kind for kind in FaultKind)


@pytest.mark.parametrize(("verdict", "why"), [
    (CORRECT, ""),
    (wrong("provenance", FaultKind.ROW, 7, layer=2, position=7), "layer 2: K/V row 7 differs from a cold run's"),
    (wrong("provenance", FaultKind.ROWS_MISSING, 4, rows=3, position=4), "3 K/V rows from position 4 on are missing"),
    (wrong("provenance", FaultKind.STATE_ELSEWHERE, 9, position=5, wanted=9),
     "the recurrent state ends at position 5, not 9"),
    (wrong("error", FaultKind.WARM_ERROR, status=500, error="x"), "error 500 where a cold run answers: x"),
    (undecided(FaultKind.REFUSED, status=400, error="y"), "REFUSED (400): y"),
    (undecided(FaultKind.REFUSED, status=400, error="y", tokens=2300, room=1024),
     "REFUSED (400): prompt of 2,300 tokens exceeds the context of 1,024 (--ctx-size)"),
])  # fmt: skip
def test_the_sentence_is_made_from_the_numbers(verdict, why):
    assert verdict.why == why


def test_a_pattern_has_n_for_every_number():
    assert pattern(FaultKind.STATE) == "layer n: the recurrent state after n tokens differs from a cold run's"
    assert pattern(FaultKind.OTHER_TEXT) == fault_sentence(FaultKind.OTHER_TEXT, {})
    assert pattern(FaultKind.REFUSED) == "REFUSED (n): n"


def test_verdicts_of_one_kind_differ_in_numbers_only():
    one, other = (wrong("bits", FaultKind.ROW_BITS, layer=n) for n in (1, 2))
    assert one.kind == other.kind and one != other
    assert one == Verdict(VerdictWord.WRONG, "bits", FaultKind.ROW_BITS, {"layer": 1})
