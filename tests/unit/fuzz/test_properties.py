"""Is what was found charged to the rule behind it, and is a refusal for want of room no failure?"""

from __future__ import annotations

import pytest

from cachesim.engines.base import Answer, Request
from cachesim.engines.ik_llama.rules.prompt_cache import Admission as IkAdmission
from cachesim.engines.ik_llama.work import TOO_BIG
from cachesim.engines.llama_cpp.rules.checkpoint_use import Resume
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission
from cachesim.engines.mlx_lm.lru.rules_insert import Present
from cachesim.engines.rule import RULES
from cachesim.engines.view import Stored
from cachesim.events import Decided, Log
from cachesim.fuzz.facts import Fact, Played
from cachesim.fuzz.properties import answered, stored_equals_cold, survives
from cachesim.judge.verdict import HOLDS, Verdict
from cachesim.scenarios.notation import from_line

WRONG = ((Stored("entry", 0, (1, 2), 2, (), None), Verdict(False, "provenance", "row 1 is foreign")),)


def conversation(*steps, armed=(), **answer):
    """A played conversation: for every step its decisions (rule, value); the last one left these stored objects."""
    log, facts = Log(), []
    for number, decisions in enumerate(steps):
        log.mark()
        for rule, value in decisions:
            assert rule in RULES
            log.emit(Decided(0, rule, value, {}))
        last = number == len(steps) - 1
        reply = Answer(number, deciding="LC-NPAST-LCP", done=True, **(answer if last else {}))
        facts.append(Fact(number, Request((1, 2)), reply, HOLDS, HOLDS, armed if last else (), ()))
    return Played(from_line("A2"), "llama_cpp@head", log, facts)


def charged(*decisions):
    """The rule that a wrong entry is charged to."""
    [found] = stored_equals_cold(conversation(decisions, armed=WRONG))
    return found.rule.split()[1].rstrip(":")


STORE = Admission("store")
MADE = [
    ("LC-CKPT-CREATE.CR10", True), ("ML-CKPT-CREATE.SEGMENT", True), ("LC-PC-ALLOC.PC6", STORE),
    ("IK-PC-ALLOC", IkAdmission("store", ())), ("ML-LRU-PRESENT.replace", Present(True, 0)),
    ("IK-SLOT-RESTORE.SIDE-FILE", True),
]  # fmt: skip
USED = [
    ("LC-PC-LOAD.BOTH", 0), ("LC-PC-LOAD.BOTH", 2), ("IK-PC-LOAD.KEEP", 0), ("LC-PC-LOAD.TAKE", True),
    ("LC-PC-LOAD.CLONE", False), ("IK-PC-HIT.CLONE", False), ("LC-CKPT-RESTORE.RE4", Resume(9, 9, False)),
    ("IK-CKPT-RESUME.PROMPT-END", Resume(9, 9, False)),
]  # fmt: skip
NOTHING = [
    ("LC-CKPT-CREATE.CR10", False), ("IK-CKPT-CREATE.TOKENS", None), ("LC-PC-LOAD.BOTH", None),
    ("LC-PC-ALLOC.PC6", Admission("already")), ("LC-PC-ALLOC.PC6", Admission("too_big")), ("IK-PC-SAVE", True),
    ("IK-SLOT-RESTORE.SIDE-FILE", False), ("LC-CKPT-ERASE.ER2", (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "value"), [*MADE, *USED], ids=str)
def test_a_wrong_object_is_charged_to_the_rule_that_stored_or_kept_it(rule, value):
    assert charged((rule, value)) == rule


@pytest.mark.parametrize(("rule", "value"), NOTHING, ids=str)
def test_a_rule_that_stored_nothing_is_not_charged(rule, value):
    assert charged((rule, value)) == "LC-NPAST-LCP"


def test_the_last_one_of_the_step_is_charged():
    assert charged(("LC-PC-ALLOC.PC6", STORE), ("LC-PC-LOAD.CLONE", False)) == "LC-PC-LOAD.CLONE"
    assert charged(("LC-PC-ALLOC.PC6", STORE), ("LC-CKPT-CREATE.CR10", False)) == "LC-PC-ALLOC.PC6"
    [found] = stored_equals_cold(conversation([("LC-PC-ALLOC.PC6", STORE)], [], armed=WRONG))
    assert "LC-NPAST-LCP" in found.rule


@pytest.mark.parametrize("error", [
    "request (40 tokens) exceeds the available context size (32 tokens), try increasing it",
    "Context size has been exceeded.", TOO_BIG,
])  # fmt: skip
def test_a_request_that_has_no_room_is_no_failure(error):
    assert list(answered(conversation([], status=500, error=error))) == []


def test_an_error_of_the_server_is_a_failure():
    [found] = answered(conversation([], [], status=500, error="Invalid input batch: 3"))
    assert (found.step, found.rule, found.text) == (1, "Invalid input batch LC-NPAST-LCP", "Invalid input batch: 3")
    assert list(answered(conversation([], status=400, error="Invalid input batch"))) == []


def test_two_ends_of_a_server_that_differ_in_numbers_are_one_failure():
    errors = [f"failed to remove sequence {n} with p0={n + 12}" for n in (0, 1)]
    first, second = (next(survives(conversation([], died=True, error=error))) for error in errors)
    assert first.group == second.group == ("survives", "failed to remove sequence n with pn=n")
    assert [first.text, second.text] == errors
