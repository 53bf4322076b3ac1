"""Tests of the origin of rows and states that a wrong answer read in place of its own."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.judging.foreign_reads import (
    ForeignContent,
    ForeignReadFinder,
    evaluated,
    read_instead,
    sentence_of,
)
from cachesim.judging.judged_run import run_judged
from cachesim.judging.verdict import CORRECT, Verdict
from cachesim.judging.verdict_words import VerdictWord
from cachesim.model import KVRows
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from tests.unit.tools.run.made import BROKEN, judgement


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


@pytest.mark.parametrize(("content", "sentence"), [
    (ForeignContent("text", -1, 0, 5, 2, 0), "holds the conversation of request 2, loaded over its own"),
    (ForeignContent("missing", 0, 4, 5), "finds no K/V row 4"),
    (ForeignContent("missing", 0, 4, 7, kind="compressed"), "finds no compressed rows 4..6"),
    (ForeignContent("state", 0, 4, 4, 0, 4),
     "reads the recurrent state after 4 tokens of request 0 in place of its own"),
    (ForeignContent("rows", 0, 4, 7, 0, 1), "reads K/V rows 4..6 of tokens 1..3 of request 0 in place of its own"),
    (ForeignContent("rows", 0, 4, 6, 0, 4, "adapter 1", "index"),
     "reads index rows 4..5 of tokens 4..5 of request 0, computed under adapter 1, in place of its own"),
])  # fmt: skip
def test_every_kind_of_content_has_its_sentence(content, sentence):
    assert sentence_of(content) == sentence


@pytest.mark.parametrize(("shifts", "tokens"), [([], (7, 8)), ([(4, 0, 2), (5, 0, 2)], (1, 2, 3, 4))])
def test_only_what_precedes_the_first_shift_was_evaluated_in_place(shifts, tokens):
    answer = Answer(0, tokens=[4, 5], slot_tokens=(7, 8), shifts=shifts)
    assert evaluated(Request((1, 2, 3)), answer) == tokens


def two_requests():
    """Return two requests of a run with the same first four tokens, and the search in their conversations."""
    run = run_judged(from_line("S4.A6/S.B3", model="A", server={"parallel": 2}), "llama_cpp@b11549", "provenance")
    return [one.answer.slot_tokens for one in run.requests], run.reader


def stored_rows(tokens, rows, positions, *, layer=0, every=1, window=0, start=0):
    """Return an object with these rows at these positions."""
    part = RowsPart(window, np.array(positions, np.int64), {layer: rows}, every=every)
    return StoredObject("checkpoint", 0, tokens, len(tokens), (part,), None, start)


def rows_at(cold, positions):
    """Return rows of the first layer of a cold run."""
    return KVRows(cold.rows(0).digest[list(positions)], None, None)


def test_rows_of_another_request_are_reported_as_ranges():
    """Rows 4..6 are those of the other request, row 2 is missing, row 8 was never computed."""
    (first, second), finder = two_requests()
    own, other = finder.cold_runs.covering(first), finder.cold_runs.covering(second)
    positions = [0, 1, 3, 4, 5, 6, 7, 8]
    digests = own.rows(0).digest[positions].copy()
    digests[3:6] = other.rows(0).digest[4:7]
    digests[7] += np.uint64(1)
    found = finder.within(stored_rows(first, KVRows(digests, None, None), positions), 9)
    assert [content[:6] for content in found] == [
        ("missing", 0, 2, 3, -1, -1), ("rows", 0, 4, 7, 1, 4), ("rows", 0, 8, 9, -1, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(("start", "window", "first"), [(0, 0, 0), (3, 0, 3), (0, 4, 6), (8, 4, 8), (2, 4, 6)])
def test_rows_before_the_start_and_the_window_are_not_missing(start, window, first):
    (tokens, _), finder = two_requests()
    cold = finder.cold_runs.covering(tokens)
    stored = stored_rows(tokens, rows_at(cold, []), [], start=start, window=window)
    assert [content[:4] for content in finder.within(stored, 9)] == [("missing", 0, first, 9)]
    held = range(first, 9)
    assert finder.within(stored_rows(tokens, rows_at(cold, held), held, start=start, window=window), 9) == []


def test_an_object_that_says_to_hold_more_than_its_tokens_is_searched_up_to_them():
    (tokens, _), finder = two_requests()
    stored = stored_rows(tokens[:6], rows_at(finder.cold_runs.covering(tokens), []), [])
    for resume, stop in ((9, 6), (5, 5)):
        found = finder.within(stored._replace(resume=resume), 9)
        assert [content[:4] for content in found] == [("missing", 0, 0, stop)]


def test_at_most_four_contents_are_listed():
    (tokens, _), finder = two_requests()
    stored = stored_rows(tokens, rows_at(finder.cold_runs.covering(tokens), []), [])
    gaps = stored_rows(tokens, rows_at(finder.cold_runs.covering(tokens), (1, 3, 5, 7)), (1, 3, 5, 7))
    assert len(finder.within(stored, 9)) == 1
    assert [content.start for content in finder.within(gaps, 9)] == [0, 2, 4, 6]


def test_a_conversation_in_the_slot_is_that_of_the_request_with_the_longest_common_prefix():
    (first, second), finder = two_requests()
    lost = Answer(2, slot_tokens=(*first[:7], -5))
    assert [content[:6] for content in finder.text(lost)] == [("text", -1, 0, 7, 0, 0)]
    assert [content[:6] for content in finder.text(Answer(0, slot_tokens=first))] == [("text", -1, 0, 4, 1, 0)]
    assert [content[:6] for content in finder.text(Answer(2, slot_tokens=first[:4]))] == [("text", -1, 0, 4, 0, 0)]
    assert finder.text(Answer(2, slot_tokens=(-5,))) == []
    assert [finder.whose(tokens) for tokens in (first, second, second[:4], (-5,))] == [0, 1, 0, -1]


class Finder:
    """Search that finds the same contents in every object, and a conversation in every slot."""

    def __init__(self, *found):
        self.found, self.asked = list(found), []

    def within(self, stored, n):
        self.asked.append((stored, n))
        return self.found

    def text(self, answer):
        return ["text"]


def wrong_request(n=10, cache_n=4, slot_tokens=None, began=None, verdict=BROKEN, **fields):
    """Return a request with a wrong answer."""
    one = judgement(verdict, n=n, cache_n=cache_n, **fields)
    one.answer.slot_tokens, one.began = tuple(range(n)) if slot_tokens is None else slot_tokens, began
    return one


def test_what_was_there_at_the_start_of_the_evaluation_is_searched_in_the_reused_tokens():
    finder, content = Finder(), ForeignContent("state", 0, 4, 4)
    finder.found = [content]
    assert read_instead([wrong_request(began="memory")], 0, finder) == [content]
    assert finder.asked == [("memory", 4)]


@pytest.mark.parametrize(("fields", "found"), [
    ({"began": "memory"}, [ForeignContent("during", -1, 0, 4)]),
    ({"cache_n": 0}, [ForeignContent("during", -1, 0, 0)]),
    ({"cache_n": 0, "began": "memory"}, [ForeignContent("during", -1, 0, 0)]),
    ({}, []),
    ({"began": "memory", "status": 500}, []),
    ({"began": "memory", "verdict": CORRECT}, []),
    ({"began": "memory", "died": True}, []),
    ({"began": "memory", "verdict": Verdict(VerdictWord.WRONG, "unanswered")}, []),
    ({"slot_tokens": (0, 1)}, []),
    ({"slot_tokens": (0, 1, 2, 99)}, ["text"]),
    ({"slot_tokens": (*range(10), 99), "cache_n": 0}, [ForeignContent("during", -1, 0, 0)]),
])  # fmt: skip
def test_without_foreign_content_the_fault_came_later_or_is_unknown(fields, found):
    assert read_instead([wrong_request(**fields)], 0, Finder()) == found


def armed_object(tokens, length=None):
    return StoredObject("checkpoint", 0, tuple(tokens), len(tokens) if length is None else length, (), None)


@pytest.mark.parametrize(("lengths", "n", "asked"), [
    ((2, 4, 9), 4, [4, 2, 9]), ((9, 6), 5, [6, 9]), ((3,), 0, []),
])  # fmt: skip
def test_the_corrupt_object_of_the_nearest_length_is_searched_first(lengths, n, asked):
    before, finder = judgement(armed=[(armed_object(range(length)), BROKEN) for length in lengths]), Finder()
    read_instead([before, wrong_request(cache_n=n)], 1, finder)
    assert [stored.length for stored, _ in finder.asked] == asked
    assert all(most == stored.length for stored, most in finder.asked)


def test_a_corrupt_object_of_other_tokens_was_not_read():
    other = armed_object((0, 1, 99, 98))
    finder = Finder(ForeignContent("state", 0, 4, 4))
    assert read_instead([judgement(armed=[(other, BROKEN)]), wrong_request()], 1, finder) == []
    assert read_instead([judgement(), wrong_request()], 1, finder) == []
    longer = armed_object(range(6), 4)                               # it holds no more than its length
    assert read_instead([judgement(armed=[(longer, BROKEN)]), wrong_request(cache_n=6)], 1, finder) == finder.found
    shorter = armed_object((0, 1))
    assert read_instead([judgement(armed=[(shorter, BROKEN)]), wrong_request()], 1, finder) == finder.found


@pytest.mark.parametrize(("request_of", "theirs", "own", "under"), [
    (0, "adapter 1", "", "adapter 1"), (0, "adapter 1", "adapter 1", ""), (0, "", "adapter 1", ""),
    (-1, "adapter 1", "", ""),
])  # fmt: skip
def test_content_of_another_key_names_it(request_of, theirs, own, under):
    content = ForeignContent("state", 0, 4, 4, request_of, 4)
    requests = [judgement(under=theirs), wrong_request(began="memory", under=own)]
    assert [one.under for one in read_instead(requests, 1, Finder(content))] == [under]


def test_a_state_that_no_request_has_is_of_none():
    run = run_judged(from_line("A9", model="S"), "llama_cpp@b11549")
    finder, tokens = run.reader, run.requests[0].answer.slot_tokens
    held = finder.cold_runs.covering(tokens).state_at(0, 4)
    stored = StoredObject("checkpoint", 0, tokens, 4, (), StatePart(3, {0: held._replace(hash=held.hash + 1)}))
    assert [content[:6] for content in finder.within(stored, 4)] == [("state", 0, 4, 4, -1, -1)]


def test_rows_after_the_reused_tokens_are_not_compared():
    (first, second), finder = two_requests()
    other = rows_at(finder.cold_runs.covering(second), range(7))
    assert finder.within(stored_rows(first, other, range(7)), 4) == []
    assert [content[:6] for content in finder.within(stored_rows(first, other, range(7)), 5)] == [
        ("rows", 0, 4, 5, 1, 4),
    ]  # fmt: skip
