"""Tests of the origin of rows and states that a wrong answer read in place of its own."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import StatePart, StoredObject
from cachesim.judging.foreign_reads import ForeignContent, ForeignReadFinder, sentence_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load


def reads(name, profile, number):
    run = run_judged(load(corpus_files()[name]), profile, "provenance")
    return [sentence_of(one) for one in run.reads[number]]


@pytest.mark.parametrize(("name", "profile", "number", "said"), [
    ("llama-one-token-checkpoint-hybrid", "llama_cpp@b10587", 2,
     ["reads the recurrent state after 1 token of request 0 in place of its own"]),
    ("llama-adjacent-checkpoint-recorded", "llama_cpp@b10587", 3,
     ["reads the recurrent state after 57 tokens of request 1 in place of its own"]),
    ("llama-20671-stale-tail-window", "llama_cpp@b8260", 2,
     ["reads K/V rows 250..278 of tokens 250..278 of request 0 in place of its own"]),
    ("llama-swa-full-prompt-cache-gemma3", "llama_cpp@b9518", 2, ["finds no K/V rows 26..39"]),
    ("ik-1888-checkpoint-too-long-hybrid", "ik_llama@pr1888", 1,
     ["reads the recurrent state after 95 tokens of request 0 in place of its own after 94 tokens"]),
    ("ik-2105-blank-skipped-in-comparison", "ik_llama@main", 1,
     ["holds the conversation of request 0, loaded over its own"]),
    ("mlx-draft-last-token-missing", "mlx_lm@d78bf58e", 1, ["finds no K/V row 8"]),
    ("mlx-929-no-snapshot-below-8192-hybrid", "mlx_lm@pr929", 1,
     ["reads the recurrent state after 25 tokens of request 0 in place of its own after 11 tokens"]),
    ("mlx-1006-key-of-another-state-alone-hybrid", "mlx_lm@pr1006b", 3,
     ["reads the recurrent state after 14 tokens of request 0 in place of its own after 10 tokens"]),
    ("mlx-1006-key-of-another-state-alone-hybrid", "mlx_lm@pr1006b", 2,
     ["reuses 14 tokens that are right: its memory went wrong while it was evaluated"]),
    ("llama-repair-late-copy", "llama_cpp@b11549", 0, ["reuses nothing: its memory went wrong while it was evaluated"]),
])  # fmt: skip
def test_what_was_read(name, profile, number, said):
    assert reads(name, profile, number) == said


def test_the_lengths_of_a_state_are_found_in_any_kind_of_layer():
    """A state is identified with the token after which it was computed, in each layer of a cold run."""
    run = run_judged(from_line("A9", model="GSCA"), "llama_cpp@b11549")
    cold = run.reader.cold_runs.covering(run.requests[0].answer.slot_tokens)
    for layer in (0, 1, 2):
        assert [cold.lengths_with(layer, cold.state_at(layer, n)) for n in range(8)] == [[n] for n in range(8)]
        assert cold.lengths_with(layer, None) == [0]


def test_a_right_run_reads_nothing():
    assert run_judged(from_line("A9/A.B3", model="A"), "llama_cpp@b11549").reads == {}


def test_without_a_ledger_foreign_reads_are_not_searched():
    scenario = load(corpus_files()["llama-one-token-checkpoint-hybrid"])
    assert run_judged(scenario, "llama_cpp@b10587", "provenance", with_ledger=False).reads == {}


@pytest.mark.parametrize(("content", "sentence"), [
    (ForeignContent("rows", 0, 7, 8, 1, 7), "reads K/V row 7 of token 7 of request 1 in place of its own"),
    (ForeignContent("rows", 2, 7, 9), "reads K/V rows 7..8 computed from wrong ones"),
    (ForeignContent("state", 0, 4, 4, 0, 0),
     "reads an empty recurrent state (after 4 tokens) in place of its own after 4 tokens"),
    (ForeignContent("state", 0, 4, 4), "reads a recurrent state computed from a wrong one (after 4 tokens)"),
    (ForeignContent("during", -1, 0, 3),
     "reuses 3 tokens that are right: its memory went wrong while it was evaluated"),
])  # fmt: skip
def test_sentences(content, sentence):
    assert sentence_of(content) == sentence


@pytest.mark.parametrize(("pos", "n", "found"), [
    (-1, 4, [("state", -1, 4, 4, -1, 0)]), (-1, 0, []), (0, 4, []), (3, 4, []),
])  # fmt: skip
def test_a_state_before_the_first_token_is_empty(pos, n, found):
    run = run_judged(from_line("A9", model="S"), "llama_cpp@b11549")
    finder = ForeignReadFinder(run.requests, run.reader.cold_runs)
    tokens = run.requests[0].answer.slot_tokens
    stored = StoredObject("checkpoint", 0, tokens, len(tokens), (), StatePart(pos, {}))
    assert [content[:6] for content in finder.within(stored, n)] == found


@pytest.mark.parametrize(("n", "found"), [
    (6, [("state", 0, 6, 6, 0, 4)]), (4, []),
])  # fmt: skip
def test_a_state_of_another_length_is_that_of_its_request(n, found):
    run = run_judged(from_line("A9", model="S"), "llama_cpp@b11549")
    finder, tokens = run.reader, run.requests[0].answer.slot_tokens
    held = finder.cold_runs.covering(tokens).state_at(0, 4)
    stored = StoredObject("checkpoint", 0, tokens, len(tokens), (), StatePart(3, {0: held}))
    assert [content[:6] for content in finder.within(stored, n)] == found
    assert (finder.whose(tokens[:3]), finder.whose((1, 2))) == (0, -1)
