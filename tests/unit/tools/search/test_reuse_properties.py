"""Tests of the properties that read the recompute ledger."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.engines.base import Answer
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role, role_of
from cachesim.judging.judged_run import run_judged
from cachesim.judging.recompute_ledger import Charge, RequestLedger
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search import properties as reuse_properties
from cachesim.tools.search.properties import LEAST, LEDGER_PROPERTIES, monotone
from tests.shared import SMALL

HEAD = "llama_cpp@b10587"


def run(*accounts):
    answer = Answer(0, deciding="R.9")
    return SimpleNamespace(requests=[SimpleNamespace(ledger=one, answer=answer) for one in accounts])


def bill(*charges, best=20, n_past=0):
    """Return the ledger of request 1 with charges (tokens, event, at, kind), all of the same rule."""
    charged = tuple(Charge(1, n, event, "R.1", at, kind) for n, event, at, kind in charges)
    return RequestLedger(best, best, n_past, charged)


def found(name, *accounts):
    """Return (request, kind, numbers, rule) of every finding."""
    return [(one.step, one.numbers, one.deciding) for one in LEDGER_PROPERTIES[name](run(*accounts))]


EMPTY = bill(best=0)


def test_a_bill_that_does_not_add_up_is_found_once():
    short = bill((3, "erased", 0, "checkpoint"), best=4)
    even = bill((4, "erased", 0, "checkpoint"), best=4)
    assert found("balances", EMPTY, even) == []
    assert found("balances", EMPTY, short, short) == [(1, {"account": str(short)}, "R.9")]


@pytest.mark.parametrize(("charge", "lost"), [
    ((LEAST, "consumed", 0, "entry"), True), ((LEAST - 1, "consumed", 0, "entry"), False),
    ((9, "consumed", -1, "entry"), False), ((9, "evicted", 0, "entry"), False), ((9, "consumed", 3, "entry"), True),
])  # fmt: skip
def test_a_conversation_is_lost_if_an_earlier_request_consumed_enough_of_it(charge, lost):
    assert found("no-lost-conversation", EMPTY, bill(charge), bill(charge)) == (
        [(1, {"tokens": charge[0], "at": charge[2]}, "R.1")] if lost else []
    )


@pytest.mark.parametrize(("charge", "needless"), [
    ((LEAST, "not chosen", -1, "checkpoint"), True), ((LEAST, "erased", 0, "checkpoint"), True),
    ((LEAST - 1, "erased", 0, "checkpoint"), False), ((9, "evicted", 0, "checkpoint"), False),
    *(((9, event, 0, kind), True) for event in ("not chosen", "erased")
      for kind in ("entry checkpoint", "entry", "block", "node", "state", "kind of another engine")),
    ((9, "not chosen", -1, "slot"), False), ((9, "never captured", -1, ""), False),
])  # fmt: skip
def test_a_copy_is_wasted_if_it_was_there_and_would_have_served(charge, needless):
    numbers = {"tokens": charge[0], "point": charge[3], "event": charge[1]}
    assert found("nothing-needless", EMPTY, bill(charge), bill(charge)) == ([(1, numbers, "R.1")] if needless else [])


VLLM, SGLANG = ENGINES["vllm"].profiles["vllm@0.33.0"], ENGINES["sglang"].profiles["sglang@0.5.23"]


@pytest.mark.parametrize(("rules", "model", "kind", "tokens"), [
    (replace(VLLM, name="vllm@blind", most_tokens=lambda n: 0), "A", "block", 32),
    (replace(SGLANG, name="sglang@blind", accept_node=lambda *facts: (0, False)), "A", "node", 40),
    (replace(SGLANG, name="sglang@blind", accept_node=lambda *facts: (0, False)), "GA", "state", 40),
])  # fmt: skip
def test_a_rule_that_finds_no_block_node_or_state_wastes_it(rules, model, kind, tokens):
    profile = f"{rules.name.partition('@')[0]}@{'0.33.0' if kind == 'block' else '0.5.23'}"
    server = {"disable_overlap_schedule": True} if kind == "state" else {}
    scenario = from_line("A40/A.B9", model=model, profiles=(profile,), server=server)
    wasted = list(LEDGER_PROPERTIES["nothing-needless"](run_judged(scenario, profile, "provenance", table=rules)))
    assert [(one.step, one.numbers) for one in wasted] == [
        (1, {"tokens": tokens, "point": kind, "event": "not chosen"})]  # fmt: skip
    assert role_of(wasted[0].deciding) in (Role.LOAD, Role.PREFIX)
    assert list(LEDGER_PROPERTIES["nothing-needless"](run_judged(scenario, profile, "provenance"))) == []


def reusing(monkeypatch, **reused):
    """Fake runs with these reused tokens per request, by the option that was raised ("plain" = none)."""
    def _reused(scenario, profile, more):
        return reused.get(next(iter(more), "plain"), reused["plain"])

    monkeypatch.setattr(reuse_properties, "_reused", _reused)


@pytest.mark.parametrize(("plain", "plenty", "first"), [
    ([0, 9, 9], [0, 9, 9], None), ([0, 9, 9], [0, 8, 9], 1), ([0, 9, 9], [0, 10, 8], None), ([0, 9, 9], [0, 12, 5], 2),
    ([0, 9, 9], [], None), ([], [0, 0, 0], None),
])  # fmt: skip
def test_less_is_reused_if_the_sum_is_less(monkeypatch, plain, plenty, first):
    """The first request with less reuse is named; runs with a failing request are not compared."""
    reusing(monkeypatch, plain=plain, ctx_checkpoints=plenty)
    got = [(one.step, one.numbers["before"], one.numbers["after"], one.deciding)
           for one in monotone(from_line("A1/B1/C1", server={**SMALL, "ctx_checkpoints": 2}), HEAD)]  # fmt: skip
    assert got == ([] if first is None else [(first, plain[first], plenty[first], "ctx_checkpoints")])


@pytest.mark.parametrize(("line", "server"), [
    ("A1/B1{together}", SMALL), ("A1/{erase@0}", SMALL), ("A1/B1", {"parallel": 2}), ("A1/B1", {}),
])  # fmt: skip
def test_requests_that_meet_each_other_are_not_compared(monkeypatch, line, server):
    reusing(monkeypatch, plain=[0, 9], ctx_checkpoints=[0, 0], cache_ram=[0, 0])
    assert list(monotone(from_line(line, server=server), HEAD)) == []


def test_an_option_that_has_all_it_can_have_is_left_alone(monkeypatch):
    reusing(monkeypatch, plain=[0, 9], cache_ram=[0, 0])
    some = from_line("A1/B1", server={**SMALL, "cache_ram": 1})
    assert [one.deciding for one in monotone(some, HEAD)] == ["cache_ram"]
    assert list(monotone(from_line("A1/B1", server={**SMALL, "cache_ram": -1}), HEAD)) == []


@pytest.mark.parametrize(("line", "reused"), [("A40/A.B9", [0, 40]), ("A40/A.B9/C300", []), ("A300/B40", [])])
def test_reuse_is_counted_if_every_request_was_answered(line, reused):
    server = {**SMALL, "ctx_size": 256}
    assert reuse_properties._reused(from_line(line, server=server), HEAD, {}) == reused


def test_reuse_is_counted_under_the_other_options():
    """The prompt cache keeps the state of a checkpoint, four tokens before the end of the prompt."""
    case = from_line("A9/B9/A9", server={**SMALL, "parallel": 1, "cache_ram": 0})
    assert reuse_properties._reused(case, HEAD, {}) == [0, 0, 0]
    assert reuse_properties._reused(case, HEAD, {"cache_ram": 64}) == [0, 0, 5]
