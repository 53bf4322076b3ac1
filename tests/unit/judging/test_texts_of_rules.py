"""Sentences about the rule that decided, about memory, and about reused tokens; costs of requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.base import Answer, Request
from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION, RUNNING
from cachesim.judging.compare_answer import RequestVerdict
from cachesim.judging.decided_text import decided_data, decided_sentences
from cachesim.judging.deciding_rule import CuringRule, DecidingRule, FailureKind
from cachesim.judging.find_change import RequestOutcome
from cachesim.judging.judgement import Judgement, SlotAtLaunch
from cachesim.judging.judging_observer import NOTHING
from cachesim.judging.memory_text import memory_parts
from cachesim.judging.recompute_ledger import RequestLedger
from cachesim.judging.recompute_reasons import ReusedTokens, reason, reused, what_happened
from cachesim.judging.request_cost import ObservedRequest, RequestCost, cost_change, up_to
from cachesim.judging.rule_exchange import RuleVariant
from cachesim.judging.verdict import CORRECT
from cachesim.scenarios.from_notation import from_line

CURE = CuringRule("f", "R1", "R2", "e@1", 3, 40, RequestCost(2), 0)
FIRST = f"{CURE.rule} decided at request 3: "
BY = " with R2 of e@1"


@pytest.mark.parametrize(("what", "cures", "more", "sentences"), [
    (FailureKind.FAULT, (CURE,), {}, [f"{FIRST}the answer is correct{BY}"]),
    (FailureKind.FAULT, (CURE._replace(status=500),), {}, [f"{FIRST}an error 500 takes the place of the fault{BY}"]),
    (FailureKind.REFUSED, (CURE,), {}, [f"{FIRST}the request is answered{BY}"]),
    (FailureKind.LOSS, (CURE._replace(cache_n=1),), {}, [f"{FIRST}1 token is reused{BY}"]),
    (FailureKind.COST, (CURE,), {"cost": RequestCost(5)}, [f"{FIRST}2 decode calls instead of 5{BY}"]),
    (FailureKind.COST, (CURE,), {"cost": RequestCost(2)}, [f"{FIRST}40 tokens are reused{BY}"]),
    (FailureKind.REFUSED, (CURE._replace(request=-1), CURE._replace(rule="R5", variant="R6")), {},
     [f"R1 decided at the start of the server: the request is answered{BY}", "also sufficient alone: R5 -> R6"]),
    (FailureKind.REFUSED, (CURE._replace(request=0),), {}, [f"R1 decided at request 0: the request is answered{BY}"]),
    (FailureKind.LOSS, (), {"tried": 1},
     ["no single rule of another rule set removes the loss (1 variant tried)"]),
    (FailureKind.COST, (), {"tried": 2, "complete": False},
     ["no single rule of another rule set removes the cost (2 variants tried; not all were tried)"]),
    (FailureKind.FAULT, (), {"together": (RuleVariant("f", "R1", "R2", "e@2"), RuleVariant("g", "R3", "R4", "e@2"))},
     ["no single rule removes the fault; these do together, as in e@2: R1, R3"]),
    (FailureKind.REFUSED, (), {"together": (RuleVariant("f", "R1", "R2", "e@2"),), "source": "#7", "complete": False},
     ["no single rule removes the refusal; these do together, as in e@2, changed by #7: R1; not all were tried"]),
])  # fmt: skip
def test_the_rule_that_decided_in_a_sentence(what, cures, more, sentences):
    found = DecidingRule(4, what, cures, **more)
    assert list(decided_sentences(found)) == sentences


def test_the_rule_that_decided_as_data():
    together = (RuleVariant("g", "R3", "R4", "e@2"),)
    found = DecidingRule(4, FailureKind.LOSS, (CURE,), together, "#7", 9, False, RequestCost(5))
    data = decided_data(found)
    assert decided_data(None) is None and data == {
        "what": FailureKind.LOSS, "rule": "R1",
        "cures": [{"field": "f", "rule": "R1", "variant": "R2", "variant_of": "e@1", "request": 3, "cache_n": 40,
                   "cost": RequestCost(2)._asdict(), "changed": 0, "status": 200}],
        "together": [{"field": "g", "old": "R3", "new": "R4", "profile": "e@2"}], "source": "#7", "tried": 9,
        "complete": False, "cost": RequestCost(5)._asdict(), "says": [f"{FIRST}40 tokens are reused{BY}"],
    }  # fmt: skip


COST = RequestCost(3, 2.0, 4, 1, 10, 5)


@pytest.mark.parametrize(("change", "exceeds", "words"), [
    ({}, False, ""), ({"decodes": 4}, True, "4 decode calls instead of 3"), ({"decodes": 2}, False,
                                                                           "2 decode calls instead of 3"),
    ({"stored_mib": 2.5}, True, "2.5 MiB of stored conversations instead of 2.0"),
    ({"uncounted": 11}, True, "11 uncounted bytes kept in memory instead of 10"),
    ({"repeated": 6}, True, "6 prompt tokens evaluated for further completions instead of 5"),
    ({"drafted": 5, "accepted": 2}, False, "5 tokens drafted instead of 4, 2 tokens counted as accepted instead of 1"),
])  # fmt: skip
def test_costs_are_compared_and_told(change, exceeds, words):
    new = COST._replace(**change)
    assert (new.exceeds(COST), cost_change(COST, new)) == (exceeds, words)
    assert [new.is_better(COST, gained) for gained in (-1, 0, 1)] == [False, not exceeds and new != COST, not exceeds]


@pytest.mark.parametrize(("cache_n", "kept", "keeps"), [
    (9, {("a", 1), ("b", 2)}, True), (10, {("a", 1), ("b", 2), ("c", 3)}, True), (8, {("a", 1), ("b", 2)}, False),
    (9, {("a", 1)}, False),
])  # fmt: skip
def test_a_request_keeps_what_another_run_kept(cache_n, kept, keeps):
    was = ObservedRequest(RequestOutcome(9, True, 200), COST, frozenset({("a", 1), ("b", 2)}))
    assert ObservedRequest(RequestOutcome(cache_n, True, 200), COST, frozenset(kept)).keeps(was) is keeps


def test_a_scenario_up_to_a_request_has_those_sent_together_with_it():
    scenario = from_line("A3/B3/C3{together}/D3", model="A", server={})
    assert [len(up_to(scenario, number).steps) for number in range(4)] == [1, 3, 3, 4]


@pytest.mark.parametrize(("event", "kind", "text"), [
    ("never captured", "", "no mark was taken there"), ("not chosen", "", "restore point not used"),
    ("cleared", RUNNING, "slot cleared"), ("cleared", CHECKPOINT, "slot cleared"), ("cleared", "", "slot cleared"),
    ("cleared", "block", "cache cleared"), ("evicted", "block", "block evicted"), ("other", "block", "other"),
    ("too few", "page", "the tokens do not fill a page"),
])  # fmt: skip
def test_events_in_words(event, kind, text):
    assert what_happened(event, kind, "mark") == text


def judgement(sources, lcp=4, held=9, n=10, **more):
    answer = replace(Answer(0, reused=sources), **more)
    made = Judgement(Request(tuple(range(n))), answer, RequestVerdict(CORRECT, CORRECT), NOTHING, [])
    made.slot = None if lcp is None else SlotAtLaunch(held, lcp)
    return made


@pytest.mark.parametrize(("sources", "lcp", "held", "more", "text"), [
    ({CHECKPOINT: 3}, 5, 9, {}, "LCP 5, restored 3"), ({RUNNING: 3, CHECKPOINT: 4}, 5, 9, {}, "LCP 7, restored 4"),
    ({CONVERSATION: 6}, 0, 9, {}, "loaded 6 from an entry"),
    ({"block": 4, RUNNING: 1}, 0, 9, {}, "loaded 4 from blocks"),
    ({CONVERSATION: 2, "block": 4, "x": 0}, 0, 9, {}, "loaded 6 from an entry and blocks"),
    ({RUNNING: 9}, 10, 12, {}, "whole prompt held, all but 1"), ({RUNNING: 9}, 9, 9, {}, "extends the slot"),
    ({RUNNING: 8}, 8, 8, {}, "extends the slot"), ({RUNNING: 8}, 5, 9, {}, "LCP 5, 3 moved"),
    ({RUNNING: 8}, 5, 9, {"prompt": tuple(range(12))}, "LCP 5, 8 kept after a context shift"),
    ({RUNNING: 5}, 5, 9, {}, "LCP 5"), ({RUNNING: 4}, 5, 9, {}, "LCP 5, kept 4"),
    ({RUNNING: 4}, None, 9, {}, "LCP 0, 4 moved"),
])  # fmt: skip
def test_the_way_to_reused_tokens(sources, lcp, held, more, text):
    found = judgement(sources, lcp, held, **more)
    assert reason(found, True, True) == text
    assert reason(judgement(sources, lcp, held, cancelled=True, **more), True, True) == f"{text}, disconnected"


@pytest.mark.parametrize(("slots", "n", "held", "lcp", "best", "more", "text"), [
    (True, 8, 9, 4, 3, {}, "LCP 4, nothing reused"),
    (True, 8, 9, 4, 3, {"deciding": "LC-CKPT-RESET"}, "forced full re-processing"),
    (True, 8, 9, 4, 3, {"deciding": "LC-MEDIA-CUT"}, "LCP 4, seq_rm failed"),
    (True, 8, 9, None, 3, {}, ""), (True, 8, 0, 0, 3, {}, "empty slot"), (True, 8, 9, 0, 3, {}, "no common prefix"),
    (False, 8, 9, 4, 3, {}, "nothing reused"), (False, 8, 9, 4, 0, {}, "no cached prefix"),
    (False, 1, 9, 4, 0, {}, "nothing reused"),
])  # fmt: skip
def test_the_reason_why_nothing_was_reused_is_the_first_that_holds(slots, n, held, lcp, best, more, text):
    found = judgement({}, lcp, held, n, **more)
    found.ledger = RequestLedger(best, best, 0, ())
    assert reason(found, slots, True) == text


def test_a_request_without_an_answer_has_the_name_of_its_end():
    assert reason(judgement({RUNNING: 4}, died=True), True, True) == "server died"
    assert reason(judgement({RUNNING: 4}, status=500), True, True) == "ERROR (500)"
    assert reused(Answer(0, reused={RUNNING: 2, CHECKPOINT: 3, "block": 4})) == ReusedTokens(2, 3, 4)


def size(kind=CHECKPOINT, tokens=60, n_bytes=15_360, **more):
    return {"kind": kind, "tokens": tokens, "bytes": n_bytes, "entry_type": "", "draft_bytes": 0,
            "checkpoint_bytes": 0} | more  # fmt: skip


def batch(spans, part="target", repeats=1):
    return {"part": part, "spans": spans, "repeats": repeats}


DRAFT = {"rows": 3, "pos_min": 0, "pos_max": 2, "state_pos": -1, "bytes": 1_200}


@pytest.mark.parametrize(("request_data", "lines"), [
    ({}, []), ({"uncounted": 1_500}, ["1,500 more bytes that the server does not count"]),
    ({"sizes": [size(), size(tokens=1, n_bytes=40)]}, ["checkpoints: 15,400 bytes (60 tokens 15,360, 1 token 40)"]),
    ({"sizes": [size(CONVERSATION, 2, 900, entry_type="text", draft_bytes=100, checkpoint_bytes=50)]},
     ["entries: 900 bytes (text 2 tokens 900 with 100 draft, 50 checkpoint)"]),
    ({"sizes": [size(tokens=2, n_bytes=1)] * 9}, [f"checkpoints: 9 bytes ({', '.join(['2 tokens 1'] * 8)}, ..)"]),
    ({"sizes": [size(tokens=2, n_bytes=1)] * 8}, [f"checkpoints: 8 bytes ({', '.join(['2 tokens 1'] * 8)})"]),
    ({"draft_memory": {**DRAFT, "rows": 0}}, ["draft memory: empty"]),
    ({"draft_memory": DRAFT}, ["draft memory: 3 rows, positions 0..2, 1,200 bytes"]),
    ({"draft_memory": {**DRAFT, "state_pos": 0}}, ["draft memory: 3 rows, positions 0..2, state at 0, 1,200 bytes"]),
    ({"micro_batches": [batch([(0, 0, 66)]), batch([(0, 66, 1), (1, 4, 2)]), batch([(0, 67, 1)], repeats=3),
                        batch([(1, 0, 1)], "draft")]},
     ["5 micro-batches: slot 0: 0..65, slot 0: 66 + slot 1: 4..5, 3 from slot 0: 67 on",
      "1 micro-batch of the draft model: slot 1: 0"]),
    ({"micro_batches": [batch([(0, 0, 1)])] * 9}, [f"9 micro-batches: {', '.join(['slot 0: 0'] * 8)}, .."]),
])  # fmt: skip
def test_memory_and_micro_batches_in_lines(request_data, lines):
    empty = {"sizes": [], "uncounted": 0, "draft_memory": None, "micro_batches": []}
    assert list(memory_parts(empty | request_data)) == lines
