"""Verdicts and costs in words."""

from __future__ import annotations

import pytest

from cachesim.judging.verdict_text import (
    answer_text,
    answers_text,
    cost_text,
    loss_text,
    sentence,
    style_of,
    titles_text,
    verdict_line,
    verdict_of,
    verdict_of_run,
)

GOOD = {"died": False, "rung": "", "refused": False, "status": 200, "equal_cold": True, "output_wrong": False}


def run(*verdicts, not_run=0, lost=(), holds=True, as_expected=None):
    """Return the data of a run with these verdicts."""
    requests = [{"i": number, "verdict": verdict} for number, verdict in enumerate(verdicts)]
    return {"requests": requests, "not_run": not_run, "lost": [{"tokens": n} for n in lost], "holds": holds,
            "as_expected": as_expected, "verdict": verdict_of_run(requests, not_run)}  # fmt: skip


@pytest.mark.parametrize("changed, verdict", [
    ({}, "OK"), ({"died": True}, "SERVER DIED"), ({"rung": "unanswered"}, "NEVER ANSWERED"),
    ({"rung": "error", "status": 500}, "ERROR (500)"), ({"refused": True, "status": 400}, "REFUSED (400)"),
    ({"equal_cold": None}, "UNDECIDED"), ({"equal_cold": False, "output_wrong": True}, "WRONG OUTPUT"),
    ({"equal_cold": False}, "CORRUPT STATE"),
])  # fmt: skip
def test_a_request_has_a_verdict(changed, verdict):
    assert verdict_of({**GOOD, **changed}) == verdict


def test_the_verdict_of_a_run_is_its_worst():
    assert [run(*verdicts)["verdict"] for verdicts in ((), ("OK",), ("OK", "UNDECIDED"), ("WRONG OUTPUT", "OK"))] == [
        "OK", "OK", "UNDECIDED", "WRONG OUTPUT"]  # fmt: skip
    assert [run("OK", not_run=1)["verdict"], run("WRONG OUTPUT", not_run=1)["verdict"]] == ["UNDECIDED", "WRONG OUTPUT"]


@pytest.mark.parametrize("verdicts, not_run, text", [
    (("OK",), 0, "correct answer"), (("OK", "OK"), 0, "correct answers"),
    (("OK", "WRONG OUTPUT"), 0, "wrong answer at request 1"),
    (("WRONG OUTPUT", "UNDECIDED", "WRONG OUTPUT"), 0, "wrong answer at requests 0 and 2; undecided at request 1"),
    (("WRONG OUTPUT",) * 4, 0, "wrong answer at requests 0, 1, 2 and 3"),
    (("OK",), 2, "correct answer; 2 requests not run"),
])  # fmt: skip
def test_answers_are_told_with_the_numbers_of_their_requests(verdicts, not_run, text):
    assert answers_text(run(*verdicts, not_run=not_run)) == text


@pytest.mark.parametrize("holds, as_expected, end, is_good", [
    (True, None, "", True), (True, True, " (as expected)", True), (False, True, " (known bug, as expected)", True),
    (True, False, ", NOT as expected", False), (None, True, " (as expected)", True),
])  # fmt: skip
def test_the_line_says_whether_the_file_expects_it(holds, as_expected, end, is_good):
    line = verdict_line(run("OK", lost=(20, 40), holds=holds, as_expected=as_expected))
    assert line.plain == f"correct answer, 60 tokens re-evaluated{end}"
    assert line.style == style_of("OK" if is_good else "WRONG OUTPUT")


def test_a_wrong_answer_that_is_expected_keeps_its_colour():
    assert verdict_line(run("WRONG OUTPUT", holds=False, as_expected=True)).style == style_of("WRONG OUTPUT")
    assert style_of("no such verdict") == style_of("WRONG OUTPUT") != style_of("OK")


def test_other_words_stay_as_they_are():
    assert [answer_text(word) for word in ("WRONG OUTPUT", "ERROR (500)", "free text")] == [
        "wrong answer", "error (500)", "free text"]  # fmt: skip
    assert titles_text({"S": "system", "A": "chat A"}) == "S system, A chat A"
    assert cost_text(run(lost=(1,))) == "1 token re-evaluated"


def test_the_largest_charge_is_the_reason():
    charges = [{"event": "seq_rm", "kind": "slot", "tokens": tokens} for tokens in (5, 6)]
    assert loss_text(charges, "checkpoint") == loss_text(charges[:1], "checkpoint") != ""
    assert loss_text([], "checkpoint") == ""
    removed, evicted = charges[0], {"event": "evicted", "kind": "slot", "tokens": 3}
    for lost, largest in (([removed, evicted], removed), ([evicted, removed, evicted], evicted)):
        assert loss_text(lost, "checkpoint") == loss_text([largest], "checkpoint")
    assert loss_text([removed], "checkpoint") != loss_text([evicted], "checkpoint")


def test_a_decision_without_a_sentence_shows_its_numbers():
    assert sentence("MY-RULE", 3, {"n": 1, "of": 2}) == "3  (n 1, of 2)"
    assert sentence("LC-IDLE-PURGE", True, {}) == ""
    assert sentence("LC-IDLE-PURGE", True, {}, every=True) == "idle slots may be purged to make room"
