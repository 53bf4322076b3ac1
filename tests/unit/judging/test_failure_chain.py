"""Tests of the causes of a failure: each is listed under the request that acted."""

from __future__ import annotations

import pytest

from cachesim.judging.failure_chain import MOST, FailureStep, failure_data, shown_causes
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load


def chain(name, profile, at):
    """The causes of a failure, as pairs of a request and the beginning of the text."""
    run = run_judged(load(corpus_files()[name]), profile, "provenance")
    return [(one["request"], one["text"].strip().partition(":")[0]) for one in failure_data(run, at)["causes"]]


def test_an_entry_is_left_by_the_request_that_stored_it():
    """Requests 1 and 2 are sent together; request 1 stores the entry that request 3 reads."""
    found = chain("mlx-1006-key-of-another-state-alone-hybrid", "mlx_lm@pr1006b", 3)
    assert [one for one in found if "leaves" in one[1]] == [
        (0, "leaves a corrupt entry of 25 tokens"), (1, "leaves a corrupt entry of 24 tokens"),
        (1, "leaves a corrupt entry of 10 tokens"), (2, "leaves a corrupt entry of 28 tokens"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "profile"), [
    ("mlx-1169-joined-chat-continues-first-hybrid", "mlx_lm@m1072-metal"),
    ("mlx-1024-padding-hides-later-tokens", "mlx_lm@0.31.1-qwen3_5"),
])  # fmt: skip
def test_an_entry_of_the_failing_request_is_no_cause(name, profile):
    """The request before it, which was sent at the same time, left nothing corrupt."""
    assert [text for _, text in chain(name, profile, 1) if "leaves" in text] == []


def test_the_request_whose_tokens_the_slot_held_is_listed():
    found = chain("ik-1696-graph-of-last-token-hybrid", "ik_llama@1679", 2)
    assert [number for number, text in found if text.startswith("request ")] == [0, 1, 2]


def test_of_a_long_chain_the_first_and_the_last_causes_are_shown_each_under_its_request():
    causes = [
        FailureStep(number, f"request {number}" if not i else f"act {i}") for number in range(4) for i in range(6)
    ]
    found = shown_causes(causes)
    assert found[0] == causes[0] and found[2:] == causes[1 - MOST :]
    assert found[1] == FailureStep(2, "request 2")
    assert shown_causes(causes[:MOST]) == causes[:MOST]
