"""Tests that the tables of verdicts agree with each other, and that every verdict of a request is in them."""

from __future__ import annotations

from itertools import product

import pytest

from cachesim.base import exits
from cachesim.judging.verdict_text import answer_text, style_of, verdict_of, verdict_of_run
from cachesim.judging.verdict_words import (
    SHOWN,
    WORDS,
    VerdictWord,
    error_name,
    exit_code_of,
    rank,
    shown_verdict,
    word_of,
)


def test_every_word_has_its_consequences():
    assert list(WORDS) == list(VerdictWord)
    words = [word_of(equal_cold) for equal_cold in (False, None, True)]
    assert words == [VerdictWord.WRONG, VerdictWord.UNDECIDED, VerdictWord.CORRECT]


def test_the_worst_word_comes_first_in_both_tables():
    assert [facts.exit_code for facts in WORDS.values()] == sorted(
        (facts.exit_code for facts in WORDS.values()), key=exits.ORDER.index)
    places = [list(VerdictWord).index(shown.word) for shown in SHOWN]
    assert places == sorted(places)


@pytest.mark.parametrize(("equal_cold", "code"), [(True, 0), (False, 1), (None, 3)])
def test_a_comparison_has_its_exit_code(equal_cold, code):
    assert exit_code_of(equal_cold) == code


def test_names_of_verdicts_are_unique_and_a_status_may_follow():
    assert len({shown.name for shown in SHOWN}) == len({shown.short for shown in SHOWN}) == len(SHOWN)
    assert [shown_verdict(f"{shown.name} (400)") for shown in SHOWN] == list(SHOWN)
    assert [rank(shown.name) for shown in SHOWN] == list(range(len(SHOWN)))
    assert shown_verdict("recorded") is None and answer_text("recorded") == "recorded"
    assert style_of("recorded") == style_of("WRONG OUTPUT")


def test_an_error_is_refused_or_wrong():
    assert (error_name(True, 400), error_name(False, 500)) == ("REFUSED (400)", "ERROR (500)")


def request(died, refused, equal_cold, rung, output_wrong):
    return {"died": died, "refused": refused, "equal_cold": equal_cold, "rung": rung, "output_wrong": output_wrong,
            "status": 500}  # fmt: skip


@pytest.mark.parametrize("facts", [*product(
    (False, True), (False, True), (True, False, None), ("", "bits", "error"), (False, True))])  # fmt: skip
def test_every_request_has_a_verdict_of_the_table(facts):
    verdict = verdict_of(request(*facts))
    assert shown_verdict(verdict) in SHOWN and verdict_of_run([{"verdict": verdict}], 0) == verdict


@pytest.mark.parametrize(("facts", "verdict"), [
    ((True, False, None, "", False), "SERVER DIED"), ((False, True, None, "", False), "REFUSED (500)"),
    ((False, False, None, "", False), "UNDECIDED"), ((False, False, True, "", False), "OK"),
    ((False, False, False, "error", True), "ERROR (500)"), ((False, False, False, "bits", True), "WRONG OUTPUT"),
    ((False, False, False, "bits", False), "CORRUPT STATE"),
])  # fmt: skip
def test_a_request_has_its_verdict(facts, verdict):
    assert verdict_of(request(*facts)) == verdict
