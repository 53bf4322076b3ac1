"""Tests of the words that name a failure in a description: the first symptom in their order is meant."""

from __future__ import annotations

import pytest

from cachesim.scenarios.failure_words import FAILURES, failure_named
from cachesim.scenarios.symptoms import SYMPTOMS


@pytest.mark.parametrize(("text", "symptom"), [
    ("server crashes when prefix caching is enabled", "crash"), ("CUDA Out of Memory, then it crashed", "memory"),
    ("RAM grows without bound", "memory"), ("gibberish after the second turn", "wrong-answer"),
    ("HTTP 500 for the second request", "error"), ("my cache is evicted when another chat starts", "lost-conversation"),
    ("the prompt is re-processed from the beginning", "re-processed"), ("zero cache hits", "re-processed"),
    ("checkpoints are never used", "re-processed"), ("high latency", "slow"), ("takes too long to answer", "slow"),
    ("unresponsive during a prompt", "slow"), ("the server became unresponsive", "crash"),
    ("everything works", ""), ("", ""),
])  # fmt: skip
def test_a_description_names_a_symptom(text, symptom):
    assert failure_named(text) == failure_named(text.upper()) == symptom


@pytest.mark.parametrize("text", [
    "works without a crash", "no errors", "draft: 3 drafts rejected", "fails to reuse", "temperature = 500",
])  # fmt: skip
def test_words_that_name_no_failure_are_left_out(text):
    assert failure_named(text) == ""


def test_words_on_both_sides_of_a_line_end_belong_together():
    assert failure_named("the server is\n   down") == "crash"


def test_the_beginning_of_a_long_text_counts():
    assert failure_named("x" * 3_994 + " crash") == "crash" and failure_named("x" * 3_996 + " crash") == ""


def test_failures_are_symptoms():
    assert {name for name, _ in FAILURES} <= {*SYMPTOMS}
