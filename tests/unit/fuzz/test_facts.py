"""What is noted while a conversation is played?"""

from __future__ import annotations

from cachesim.engines.llama_cpp.slot_actions import slot_action
from cachesim.events import Cancel, Error, Log
from cachesim.fuzz.facts import played
from cachesim.fuzz.finding import ERASED
from cachesim.scenarios.notation import from_line

HEAD = "llama_cpp@head"


def notes(line, model="A", **server):
    return played(from_line(line, model=model, server={"ctx_size": 512, "parallel": 2, **server}), HEAD, {})


def test_what_an_ended_server_does_not_erase_is_no_finding():
    one = notes("A1>B1.C1/B.C/C@0/{erase@1}", "W8 W8", cache_reuse=1)
    assert [fact.answer.died for fact in one.facts] == [False, False, True]
    assert one.unsound == []


def test_an_erased_slot_that_holds_rows_is_noted(monkeypatch):
    def leaves_all(srv, action, id_slot, file=None):
        held = srv.memory.parts["base"].cells(id_slot).seqs[id_slot].copy()
        return slot_action(srv, action, id_slot, file) if not held.any() else {"status": 200}

    monkeypatch.setattr("cachesim.engines.llama_cpp.server.slot_action", leaves_all)
    assert notes("A4@1/{erase@1}").unsound == [(1, ERASED, {"slot": 1, "rows": 4})]


def test_what_a_conversation_left_in_its_slot_is_judged():
    one = notes("A4>B2@1/A.B.C2@1")
    assert [(fact.number, fact.answer.cache_n, fact.said.holds, fact.state.holds, fact.over) for fact in one.facts] == [
        (0, 0, True, True, ()), (1, 5, True, True, ()),
    ]  # fmt: skip


def test_numbers_are_computed_in_exact_mode_only():
    scenario = from_line("A4>B2", model="A", server={"ctx_size": 256})
    for mode in ("provenance", "exact"):
        (fact,) = played(scenario, HEAD, {}, mode=mode).facts
        assert [said.logits is not None for said in fact.answer.outputs] == [mode == "exact"] * 2


def test_only_kinds_that_were_asked_for_are_heard():
    log, heard = Log(), []
    log.listener = heard.append
    log.emit(Cancel())
    log.kinds = frozenset({Error})
    log.emit(Cancel())
    log.emit(Error("x"))
    assert heard == [Cancel(), Error("x")] and len(log.events) == 3
