"""Tests of the record that is made while a conversation runs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.contract import Removal
from cachesim.engines.llama_cpp.events import Cancel
from cachesim.engines.llama_cpp.slot_save_restore import slot_action
from cachesim.engines.shared.slot_events import Error
from cachesim.events import Log
from cachesim.judging.fault_kinds import FaultKind
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import Action
from cachesim.tools.search.invariant_observer import CheckedRun, InvariantObserver, observe_run

HEAD = "llama_cpp@b10587"


def notes(line, model="A", **server):
    return observe_run(from_line(line, model=model, server={"ctx_size": 512, "parallel": 2, **server}), HEAD, {})


def test_what_an_ended_server_does_not_erase_is_no_finding():
    one = notes("A1>B1.C1/B.C/C@0/{erase@1}", "W8 W8", cache_reuse=1)
    assert [step.answer.died for step in one.steps] == [False, False, True]
    assert one.unsound == []


def test_a_slot_that_the_server_does_not_have_is_not_looked_at():
    assert notes("A4@1/{erase@5}").unsound == []


def test_an_erased_slot_that_holds_rows_is_noted(monkeypatch):
    def leaves_all(srv, action, id_slot, *file):
        held = srv.memory.parts["base"].cells(id_slot).seqs[id_slot].copy()
        return slot_action(srv, action, id_slot, *file) if not held.any() else {"status": 200}

    monkeypatch.setattr("cachesim.engines.llama_cpp.server.slot_action", leaves_all)
    assert notes("A4@1/{erase@1}").unsound == [(1, FaultKind.ERASED, {"slot": 1, "rows": 4})]


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


def noting(held=(), **server):
    """Return an observer of a server whose sequences hold these positions, and the run that receives its findings."""
    one = CheckedRun(from_line("A1"), HEAD, Log())
    notes = InvariantObserver(one, {}, table=None)
    sequences = [np.array(positions) for positions in held]
    inspection = SimpleNamespace(occupied_slots=lambda: range(len(held)), check=lambda: None)
    parts = {"inspection": inspection, "sequences": SimpleNamespace(held=sequences.__getitem__)}
    notes.server = SimpleNamespace(**{**parts, **server})
    return one, notes


@pytest.mark.parametrize(("held", "gap"), [
    ([[0, 1, 2]], 0), ([[5, 6]], 0), ([[]], 0), ([[0, 0, 1]], 0), ([[0, 1, 3]], 1), ([[0], [2, 7, 8]], 4),
])  # fmt: skip
def test_positions_are_without_a_gap(held, gap):
    one, notes = noting(held)
    notes.acted(3, Action("save", 0, "f"), {"status": 200})
    assert one.unsound == ([(3, FaultKind.GAP, {"seq": len(held) - 1, "gap": gap})] if gap else [])


@pytest.mark.parametrize(("action", "status", "looked"), [
    (Action("save", 0, "f"), 200, True), (Action("save", 0, "f"), 0, False), (Action("restart"), 200, False),
])  # fmt: skip
def test_the_memory_is_looked_at_as_long_as_it_is_there(action, status, looked):
    one, notes = noting([[0, 2]])
    notes.acted(1, action, {"status": status})
    assert bool(one.unsound) is looked


@pytest.mark.parametrize(("ok", "after", "torn"), [
    (True, [0, 1], False), (True, [0, 1, 3], True), (True, [0], True), (True, [0, 1, 2, 3], True),
    (False, [0, 1, 2, 3], False), (False, [0, 1], True), (False, [0, 1, 2, 4], True),
])  # fmt: skip
def test_a_removal_is_done_or_refused_as_a_whole(ok, after, torn):
    """Positions 2 and 3 of four shall be removed."""
    one, notes = noting()
    notes._removed(Removal(0, 2, 4, ok, np.arange(4), np.array(after)))
    told = {"seq": 0, "p0": 2, "p1": 4, "answer": "done" if ok else "refused", "before": 4, "after": len(after)}
    assert one.torn == ([(-1, told)] if torn else [])


@pytest.mark.parametrize(("mode", "is_shared"), [("provenance", True), ("exact", False)])
def test_cold_runs_are_shared_between_conversations_without_arithmetic_only(mode, is_shared):
    judges = {}
    observe_run(from_line("A4>B2", model="A", server={"ctx_size": 256}), HEAD, judges, mode=mode)
    assert bool(judges) is is_shared
    before = [*judges.values()]
    observe_run(from_line("A4>C2", model="A", server={"ctx_size": 256}), HEAD, judges, mode=mode)
    assert [one is known for one, known in zip(judges.values(), before, strict=True)] == [True] * is_shared


def test_the_memory_is_looked_at_after_each_answer():
    one, notes = noting([[0, 2]])
    notes.server.inspection.exceeded_limits = lambda: ["rows"]
    notes.judged = lambda number, request, answer: SimpleNamespace(answer="right", state="sound", armed=["x"])
    notes.answered(2, "asked", "said")
    assert one.unsound == [(2, FaultKind.GAP, {"seq": 0, "gap": 1})]
    assert [tuple(step) for step in one.steps] == [(2, "asked", "said", "right", "sound", ("x",), ("rows",))]


def test_an_error_of_the_memorys_own_check_is_noted():
    def check():
        raise Crash("a cell has two owners")

    inspection = SimpleNamespace(occupied_slots=lambda: (), check=check)
    one, notes = noting(inspection=inspection)
    notes.acted(2, Action("save", 0, "f"), {"status": 200})
    assert one.unsound == [(2, FaultKind.INCONSISTENT, {"error": "a cell has two owners"})]


def test_a_removal_leaves_the_position_of_its_end():
    one, notes = noting()
    notes._removed(Removal(0, 1, 3, True, np.arange(5), np.array([0, 3, 4])))
    notes._removed(Removal(0, 1, POS_INF, True, np.arange(5), np.array([0])))
    assert one.torn == []
