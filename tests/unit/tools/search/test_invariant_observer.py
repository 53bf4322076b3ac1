"""Tests of the record that is made while a conversation runs."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.events import Cancel
from cachesim.engines.shared.slot_events import Error
from cachesim.events import Log
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.invariant_observer import observe_run

HEAD = "llama_cpp@b10587"


def notes(line, model="A", **server):
    return observe_run(from_line(line, model=model, server={"ctx_size": 512, "parallel": 2, **server}), HEAD, {})


def test_what_an_ended_server_does_not_erase_is_no_finding():
    one = notes("A1>B1.C1/B.C/C@0/{erase@1}", "W8 W8", cache_reuse=1)
    assert [step.answer.died for step in one.steps] == [False, False, True]
    assert one.unsound == []


def test_a_slot_that_the_server_does_not_have_is_not_looked_at():
    assert notes("A4@1/{erase@5}").unsound == []


def test_what_a_conversation_left_in_its_slot_is_judged():
    one = notes("A4>B2@1/A.B.C2@1")
    assert [(s.number, s.answer.cache_n, s.verdict.equal_cold, s.state.equal_cold, s.over) for s in one.steps] == [
        (0, 0, True, True, ()), (1, 5, True, True, ()),
    ]  # fmt: skip


def test_numbers_are_computed_in_exact_mode_only():
    scenario = from_line("A4>B2", model="A", server={"ctx_size": 256})
    for mode in ("provenance", "exact"):
        (step,) = observe_run(scenario, HEAD, {}, mode=mode).steps
        assert [said.logits is not None for said in step.answer.outputs] == [mode == "exact"] * 2


def test_only_kinds_that_were_asked_for_are_heard():
    log, heard = Log(), []
    log.listener = heard.append
    log.emit(Cancel())
    log.kinds = frozenset({Error})
    log.emit(Cancel())
    log.emit(Error("x"))
    assert heard == [Cancel(), Error("x")] and len(log.events) == 3


@pytest.mark.parametrize(("mode", "is_shared"), [("provenance", True), ("exact", False)])
def test_cold_runs_are_shared_between_conversations_without_arithmetic_only(mode, is_shared):
    judges = {}
    observe_run(from_line("A4>B2", model="A", server={"ctx_size": 256}), HEAD, judges, mode=mode)
    assert bool(judges) is is_shared
    before = [*judges.values()]
    observe_run(from_line("A4>C2", model="A", server={"ctx_size": 256}), HEAD, judges, mode=mode)
    assert [one is known for one, known in zip(judges.values(), before, strict=True)] == [True] * is_shared
