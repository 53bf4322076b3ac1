"""Tests of the properties that read the recompute ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role, role_of
from cachesim.judging.judged_run import run_judged
from cachesim.judging.recompute_ledger import Charge, RequestLedger
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.properties import LEAST, LEDGER_PROPERTIES, monotone
from tests.shared import SMALL

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


HEAD = "llama_cpp@b10587"
EMPTY = RequestLedger(0, 0, 0, ())


def bill(*charges, best=20, n_past=0):
    """Return the ledger of request 1 with charges (tokens, event, at, kind), all of the same rule."""
    charged = tuple(Charge(1, n, event, "R.1", at, kind) for n, event, at, kind in charges)
    return RequestLedger(best, best, n_past, charged)


def found(name, *accounts):
    """Return the request and the numbers of every finding of a run with these ledgers."""
    run = run_judged(from_line("/".join(["A9", *["A"] * (len(accounts) - 1)]), server=SMALL), HEAD, "provenance")
    run.requests[:] = [replace(one, ledger=account) for one, account in zip(run.requests, accounts, strict=True)]
    return [(one.step, one.numbers) for one in LEDGER_PROPERTIES[name](run)]


def test_a_bill_that_does_not_add_up_is_found_once():
    short = bill((3, "erased", 0, "checkpoint"), best=4)
    assert found("balances", EMPTY, bill((4, "erased", 0, "checkpoint"), best=4)) == []
    assert [step for step, _ in found("balances", EMPTY, short, short)] == [1]


@pytest.mark.parametrize(("charge", "is_lost"), [
    ((LEAST, "consumed", 0, "entry"), True), ((LEAST - 1, "consumed", 0, "entry"), False),
    ((9, "consumed", -1, "entry"), False), ((9, "evicted", 0, "entry"), False), ((9, "consumed", 3, "entry"), True),
])  # fmt: skip
def test_a_conversation_is_lost_if_an_earlier_request_consumed_enough_of_it(charge, is_lost):
    assert found("no-lost-conversation", EMPTY, bill(charge), bill(charge)) == (
        [(1, {"tokens": charge[0], "at": charge[2]})] if is_lost else [])


@pytest.mark.parametrize(("charge", "is_needless"), [
    ((LEAST, "not chosen", -1, "checkpoint"), True), ((LEAST, "erased", 0, "checkpoint"), True),
    ((LEAST - 1, "erased", 0, "checkpoint"), False), ((9, "evicted", 0, "checkpoint"), False),
    ((9, "not chosen", -1, "kind of another engine"), True), ((9, "not chosen", -1, "slot"), False),
])  # fmt: skip
def test_a_copy_is_wasted_if_it_was_there_and_would_have_served(charge, is_needless):
    numbers = {"tokens": charge[0], "point": charge[3], "event": charge[1]}
    assert found("nothing-needless", EMPTY, bill(charge), bill(charge)) == ([(1, numbers)] if is_needless else [])


@pytest.mark.parametrize(("line", "server"), [
    ("A9/B9/A9", {**SMALL, "cache_ram": 0}), ("A9/B9{together}", SMALL), ("A9/{erase@0}", SMALL),
    ("A40/A.B9/C300", {**SMALL, "ctx_size": 256}),
])  # fmt: skip
def test_more_room_does_not_reduce_reuse(line, server):
    assert list(monotone(from_line(line, server=server), HEAD)) == []
