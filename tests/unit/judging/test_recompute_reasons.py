"""Tests of the reasons of evaluated tokens: ranges without gaps, from n_past to the end of the prompt."""

from dataclasses import replace
from itertools import pairwise

import pytest

from cachesim.engines.base import Answer, Request
from cachesim.judging.compare_answer import RequestVerdict
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judgement import Judgement
from cachesim.judging.recompute_ledger import Charge, RequestLedger
from cachesim.judging.recompute_reasons import NEW, RecomputeReason, reasons
from cachesim.judging.verdict import CORRECT
from cachesim.scenarios.from_notation import from_line
from tests.shared import SMALL

CHANGING = {**SMALL, "slot_prompt_similarity": 0.0, "cache_idle_slots": False}


def why(line, number, profile="llama_cpp@b10587", model="GGGA", others=(), **server):
    run = run_judged(from_line(line, model=model, server={**SMALL, **server}), profile, "provenance")
    found = reasons(run.requests[number], others)
    one = run.requests[number]
    assert [found[0].start, found[-1].stop] == [one.answer.cache_n, len(one.request.prompt)]
    assert all(a.stop == b.start for a, b in pairwise(found))
    return [(r.start, r.stop, r.why, r.rule, r.at) for r in found]


def test_a_consumed_entry_is_named():
    """#24143: the conversation was given to the request that shared 40 tokens with it."""
    assert why("S40.A60/B70/S.C25/S.A.D12", 3, model="AAAA", **CHANGING) == [
        (40, 100, "entry removed from the prompt cache on load", "LC-PC-LOAD.TAKE", 2),
        (100, 112, "new tokens", "", -1),
    ]


def test_a_rejected_checkpoint_is_not_chosen():
    """#24035, case 7."""
    flags = {"batch_size": 64, "ubatch_size": 56, "checkpoint_min_step": 0, "cache_ram": 0}
    assert why("S100/S[:40].y60", 1, "llama_cpp@b9473", **flags)[0] == (
        0, 40, "checkpoint not used", "LC-CKPT-PICK.PK2", -1,
    )


def test_a_repeated_prompt_computes_one_token():
    assert why("S40/S", 1, model="A")[-1][:3] == (39, 40, "at least one token must be evaluated for logits")


def test_a_prompt_without_past_is_new():
    assert why("S40", 0) == [(0, 40, "new tokens", "", -1)]


def test_other_profiles_that_keep_the_tokens_are_named():
    scenario = from_line("S40.A60/B70/S.C25/S.A.D12", model="AAAA", server=CHANGING)
    run = run_judged(scenario, "llama_cpp@b10587", "provenance")
    found = reasons(run.requests[3], [("llama_cpp@b10587", 40), ("llama_cpp@pr24143-on-b10587", 100)])
    assert found[0].survives == ("llama_cpp@pr24143-on-b10587",)
    assert found[1].survives == ()


def test_a_state_that_only_advanced_was_not_overwritten_by_anybody():
    """The recurrent state passed 64 tokens while the first prompt was evaluated; later pieces were never a state."""
    assert why("S100.A30/S.B40", 1)[:2] == [
        (0, 64, "state advanced past it, no checkpoint taken", "LC-CKPT-CREATE.CR10", 0),
        (64, 100, "no checkpoint was taken there", "LC-CKPT-CREATE.CR10", -1),
    ]


def test_a_last_token_behind_moved_ones_is_a_new_one():
    """Nine tokens of ten were moved there as a chunk; only three were ever evaluated at this place."""
    def last(best):
        ledger = RequestLedger(best, best, 9, (), moved=9 - best)
        request = Request(tuple(range(10)))
        answer = Answer(0, reused={"slot": 9})
        (reason,) = reasons(Judgement(request, answer, RequestVerdict(CORRECT, CORRECT), ledger, []))
        return reason.start, reason.stop, reason.why

    assert last(9) == (9, 10, "at least one token must be evaluated for logits")
    assert last(3) == (9, 10, "new tokens")


CHARGES = (Charge(1, 1, "never captured", "R1", -1), Charge(1, 2, "erased", "R2", 0, "checkpoint"))


@pytest.mark.parametrize(("fields", "stop"), [
    ({}, 10), ({"cancelled": True}, 8), ({"status": 500}, 8), ({"cancelled": True, "prompt_n": 90}, 10),
    ({"prompt": tuple(range(9))}, 9),
])  # fmt: skip
def test_the_ranges_of_a_request_that_ended_early_end_where_its_evaluation_did(fields, stop):
    """Three tokens of ten were reused, five evaluated, of which three had been evaluated before."""
    answer = replace(Answer(1, reused={"slot": 3}, prompt_n=5), **fields)
    judged = Judgement(Request(tuple(range(10))), answer, RequestVerdict(CORRECT, CORRECT),
                       RequestLedger(6, 5, 3, CHARGES), [])  # fmt: skip
    assert reasons(judged, [("x@1", 4), ("x@2", 5), ("x@3", 6)], "mark") == [
        RecomputeReason(3, 5, "checkpoint erased", "R2", 0, ("x@2", "x@3")),
        RecomputeReason(5, 6, "no mark was taken there", "R1", -1, ("x@3",)),
        RecomputeReason(6, stop, "new tokens", "", -1),
    ]


@pytest.mark.parametrize(("best", "n_past", "found"), [
    (9, 9, [RecomputeReason(9, 10, "at least one token must be evaluated for logits", "", -1)]),
    (8, 8, [RecomputeReason(8, 10, "new tokens", "", -1)]), (9, 10, []), (8, 9, [RecomputeReason(9, 10, NEW, "", -1)]),
])  # fmt: skip
def test_the_last_token_is_evaluated_for_its_logits_if_it_alone_is_left(best, n_past, found):
    judged = Judgement(Request(tuple(range(10))), Answer(1, reused={"slot": n_past}), RequestVerdict(CORRECT, CORRECT),
                       RequestLedger(best, best, n_past, ()), [])  # fmt: skip
    assert reasons(judged) == found
