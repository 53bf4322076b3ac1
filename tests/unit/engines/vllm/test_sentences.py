"""Sentences of decisions, one for each branch: those of decisions with an effect, and those of decisions without."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.sentences import NoEffect
from cachesim.engines.vllm.sentences import SENTENCES

HIT = {"n": 20, "junction": 0}
PAD = {"n": 9, "needed": 4, "free": 1, "most": 4}
LOOK = {"n": 5, "computed": 3, "new": 1, "remaining": 1, "lookahead": 2}
WAIT = "the request waits: 8 of 9 tokens are there, the last one and "

SAID = [
    ("VL-LOOKUP-RECONCILE", 16, HIT, "16 of 20 tokens found"),
    ("VL-LOOKUP-ONE-GROUP", None, HIT, "0 of 20 tokens found"),
    ("VL-LOOKUP-RECONCILE", 8, {**HIT, "junction": 16}, "8 of 20 tokens found; one group alone has 16"),
    ("VL-SPLIT-CHUNK", 8, {"start": 8, "end": 16}, "tokens 8 to 16 come next"),
    ("VL-SPLIT-CHUNK", 8, {"start": 8, "end": 16, "inside": False}, "tokens 8 to 16 come next"),
    ("VL-SPLIT-CHUNK", 8, {"start": 8, "end": 16, "inside": True}, "tokens 8 to 16 come next, with a state inside"),
    ("VL-STATE-WAIT", True, {}, "~its state is there"),
    ("VL-STATE-WAIT", False, {}, "its state is computed in this step: it waits"),
    ("VL-POOL-EVICT", 3, {"tokens": 16}, "block 3, the end of a prefix of 16 tokens, is evicted"),
    ("VL-SCHED-PAD", True, PAD, f"{WAIT}3 drafts need 4 tokens of a step, 1 of 4 are left: 3 missing"),
    ("VL-SCHED-PAD", True, {**PAD, "needed": 2, "most": 3},
     f"{WAIT}1 draft need 2 tokens of a step, 1 of 3 are left: 1 missing"),
    ("VL-SCHED-PAD", True, {**PAD, "most": 3},
     f"{WAIT}3 drafts need 4 tokens of a step, 1 of 3 are left: 3 missing; no step has more"),
    ("VL-SCHED-NEXT", 1, {"waiting": 3}, "waiting request 1 of 3"),
    ("VL-OFF-WAIT", True, {}, "~no chunk is in use"),
    ("VL-OFF-WAIT", False, {}, "a chunk is being stored or loaded: it waits"),
    ("VL-OFF-LOAD", 8, {"local": 4}, "8 tokens behind 4 are loaded from CPU memory"),
    ("VL-OFF-LOAD", 0, {"local": 4}, "~nothing behind 4 tokens in CPU memory"),
    ("VL-OFF-STORE", 2, {"evicted": 1, "missing": 2}, "2 chunks stored in CPU memory, 1 evicted"),
    ("VL-OFF-STORE", None, {"evicted": 0, "missing": 1}, "CPU memory has no room for 1 chunk"),
    ("VL-SCHED-ADMIT", True, {"needed": 5, "free": 6}, "5 blocks are needed, 6 are free"),
    ("VL-SCHED-ADMIT", False, {"needed": 5, "free": 4}, "the request waits: 5 blocks are needed, 4 are free"),
    ("VL-SCHED-LOOK", 0, LOOK, "the request waits: 3 of 5 tokens are there, a chunk of 1 leaves 1, the drafter reads 2 "
                               "ahead: 1 missing"),
    ("VL-SCHED-PREEMPT", 1, {"needed": 3, "free": 1, "running": 2},
     "3 blocks are needed and 1 are free: request 1 of 2 that run restarts later"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "value", "because", "text"), SAID)
def test_a_decision_has_its_sentence(rule, value, because, text):
    """A sentence after "~" reports that nothing changed."""
    said = SENTENCES.say(rule, value, because)
    assert (f"~{said}" if isinstance(said, NoEffect) else said) == text


def test_every_family_with_a_sentence_is_tested():
    assert {rule for rule, *_ in SAID} == {*SENTENCES.families}
