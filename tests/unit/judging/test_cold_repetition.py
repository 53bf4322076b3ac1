"""Tests of the repetition on a fresh server: what it keeps of the server before, and errors for lack of room."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import NO_ROOM, Answer, Request
from cachesim.engines.llama_cpp.profiles.builds_since_b10809 import B11549
from cachesim.engines.rule import Decision, Role, rule
from cachesim.judging.cold_repetition import ColdRepetition, error_verdict, repeat_cold
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line

SHARED = {"ctx_size": 256, "parallel": 2, "kv_unified": True, "cache_ram": 0}


def run(line, **server):
    return run_judged(from_line(line, model="A", server=server), B11549.name, "provenance")


@pytest.mark.parametrize("line, statuses", [
    ("A9/{lora 0:-1}/A.B2", [200, 400]),
    ("{lora 0:-1}/A9/{restart}/A.B2", [400, 200]),
    ("{lora 0:-1}/{lora 0:1}/A9", [200]),
])
def test_a_fresh_server_has_the_scales_of_the_server_since_its_start(line, statuses):
    """A request under a negative scale of an aLoRA is refused."""
    scenario = from_line(line, model="A", server={"lora_scaled": "1@7"})
    asked = [number for number, step in enumerate(scenario.steps) if step.action is None]
    assert [repeat_cold(scenario, number, B11549.name).status for number in asked] == statuses


def test_requests_that_share_a_context_too_small_for_them_are_refused():
    """A fresh server may have room for one of them, depending on slots and order."""
    found = run("A150>9/B150>9{together}", **SHARED)
    verdicts = [one.judged.answer for one in found.requests]
    assert [one.answer.status for one in found.requests] == [500, 500] and found.broken == []
    assert {(one.kind, one.numbers["needs"], one.numbers["room"]) for one in verdicts} == {
        (FaultKind.CROWDED, 316, 256)
    }


@pytest.mark.parametrize("line", ["A150@1/B150@0/C20@1{together}", "A120@1/B200>3@0{n_cmpl=2}"])
def test_an_error_is_broken_if_the_requests_fit_into_the_context(line):
    found = run(line, **SHARED, batch_size=64, ubatch_size=16)
    assert found.broken == list(range(1, len(found.requests)))


def test_slots_with_parts_of_their_own_count_alone():
    scenario = from_line("A150/B150{together}", model="A", server={"ctx_size": 512, "parallel": 2})
    cold = repeat_cold(scenario, 1, B11549.name)
    assert (cold.status, cold.needs, cold.room) == (200, 150, 256)


@pytest.mark.parametrize("line, needs", [("A150>4", 153), ("A50>4{n_cmpl=2}", 56), ("A9>-1", 9)])
def test_a_request_needs_room_for_its_prompt_and_for_all_generated_tokens_but_the_last(line, needs):
    scenario = from_line(line, model="A", server=SHARED)
    assert repeat_cold(scenario, 0, B11549.name).needs == needs


def test_a_step_that_the_scenario_does_not_list_is_not_repeated():
    verdict = error_verdict(from_line("A9", model="A"), 1, Answer(1, status=400, error="text"), B11549.name)
    assert (verdict.kind, verdict.numbers) == (FaultKind.REFUSED, {"status": 400, "error": "text"})


@pytest.mark.parametrize(("done", "died", "status"), [(True, False, 200), (False, False, 0), (True, True, 0)])
def test_without_an_answer_there_is_no_status(done, died, status):
    cold = ColdRepetition(0, False)
    cold.answered(0, Request((1,)), Answer(0, done=done, died=died))
    assert cold.status == status


@rule("TEST-COLD.REFUSES", Role.PLAN, "a server that does not start")
def refuses(*args: object) -> Decision:
    raise BadInput("a server that does not start")


@pytest.mark.parametrize(("line", "status", "kind", "found", "rung"), [
    ("A129/B128{together}", 500, NO_ROOM, FaultKind.CROWDED, ""),
    ("A128/B128{together}", 500, NO_ROOM, FaultKind.WARM_ERROR, "error"),         # both fit exactly
    ("A129/B128{together}", 499, NO_ROOM, FaultKind.WARM_ERROR, "error"),
    ("A129/B128{together}", 500, "other", FaultKind.WARM_ERROR, "error"),
    ("A9/B400", 400, "other", FaultKind.REFUSED, ""), ("A9/B400", 500, "other", FaultKind.COLD_ERROR, ""),
])  # fmt: skip
def test_an_error_is_wrong_if_a_fresh_server_answers_and_has_room(line, status, kind, found, rung):
    scenario = from_line(line, model="A", server=SHARED)
    answer = Answer(1, status=status, error="text", error_kind=kind, error_numbers={"tokens": 7})
    verdict = error_verdict(scenario, 1, answer, B11549.name)
    assert (verdict.kind, verdict.rung, verdict.numbers["status"]) == (found, rung, status)
    assert ("tokens" in verdict.numbers) is (found in (FaultKind.REFUSED, FaultKind.COLD_ERROR))


def test_a_server_that_does_not_start_answers_nothing():
    scenario, rules = from_line("A9", model="A"), B11549.changed({"slot_ctx": refuses})
    answer = Answer(0, status=400, error="text")
    assert error_verdict(scenario, 0, answer, B11549.name).kind is FaultKind.WARM_ERROR
    assert error_verdict(scenario, 0, answer, B11549.name, rules).kind is FaultKind.REFUSED
