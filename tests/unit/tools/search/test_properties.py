"""Tests of properties: findings are charged to the deciding rule, and a refusal for lack of room is not a failure."""

from __future__ import annotations

import re

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import Answer, Request
from cachesim.engines.ik_llama.rules.prompt_cache import Admission as IkAdmission
from cachesim.engines.inspection import ExceededLimit, StoredObject
from cachesim.engines.llama_cpp.memory.context import CommonMemory
from cachesim.engines.llama_cpp.rules.checkpoint_restore import ResumePlace
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission
from cachesim.engines.mlx_lm.lru.rules_insert import StoredKeyTreatment
from cachesim.engines.registry import profiles
from cachesim.engines.rule import RULES
from cachesim.events import Decided, Log
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import CORRECT, Verdict, wrong
from cachesim.judging.verdict_words import VerdictWord
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.invariant_observer import CheckedRun, StepRecord, observe_run
from cachesim.tools.search.properties import (
    accounting,
    answered,
    limits,
    memory_sound,
    seq_rm_atomic,
    stored_equals_cold,
    survives,
    warm_equals_cold,
)

WRONG = ((StoredObject("entry", 0, (1, 2), 2, (), None), wrong("provenance", FaultKind.ROW, 1, layer=0, position=1)),)


def conversation(*steps, armed=(), **answer):
    """Return a run with the given decisions (rule, value) of each step and the objects stored after the last step."""
    log, records = Log(), []
    assert profiles()                                         # imports the rules of every engine
    for number, decisions in enumerate(steps):
        log.mark()
        for rule, value in decisions:
            assert rule in RULES
            log.emit(Decided(0, rule, value, {}))
        last = number == len(steps) - 1
        reply = Answer(number, deciding="LC-NPAST-LCP", done=True, **(answer if last else {}))
        records.append(StepRecord(number, Request((1, 2)), reply, CORRECT, CORRECT, armed if last else (), ()))
    return CheckedRun(from_line("A2"), "llama_cpp@b10587", log, records)


def charged(*decisions):
    """Return the rule that a wrong entry is charged to."""
    [found] = stored_equals_cold(conversation(decisions, armed=WRONG))
    return found.deciding


@pytest.mark.parametrize(("start", "length"), [(0, 9), (4, 8)])
def test_a_part_of_a_conversation_is_as_long_as_its_own_tokens_reach(start, length):
    """The text of an object that conversations share may go on behind it."""
    block = StoredObject("block", -1, tuple(range(9)), 8, (), None, start)
    steps = (("LC-PC-ALLOC.PC6", Admission("store")),)
    [found] = stored_equals_cold(conversation(steps, armed=((block, WRONG[0][1]),)))
    assert f"block of {length} tokens" in found.text


STORE = Admission("store")
MADE = [
    ("LC-CKPT-CREATE.CR10", True), ("ML-CKPT-CREATE.SEGMENT", True), ("LC-PC-ALLOC.PC6", STORE),
    ("IK-PC-ALLOC", IkAdmission("store", ())), ("ML-LRU-PRESENT.replace", StoredKeyTreatment(True, 0)),
    ("IK-SLOT-RESTORE.SIDE-FILE", True),
]  # fmt: skip
USED = [
    ("LC-PC-LOAD.BOTH", 0), ("LC-PC-LOAD.BOTH", 2), ("IK-PC-LOAD.KEEP", 0), ("LC-PC-LOAD.TAKE", True),
    ("LC-PC-LOAD.CLONE", False), ("IK-PC-HIT.CLONE", False), ("LC-CKPT-RESTORE.RE4", ResumePlace(9, 9, False)),
    ("IK-CKPT-RESUME.PROMPT-END", ResumePlace(9, 9, False)),
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
    assert found.deciding == "LC-NPAST-LCP"


@pytest.mark.parametrize(("profile", "line", "more"), [
    ("llama_cpp@b10587", "A300", {}), ("ik_llama@main", "A300", {}), ("ik_llama@main", "A200>b80", {}),
    ("llama_cpp@b10587", "A200>b60/C200>d60{together}", {"parallel": 2, "kv_unified": True}),
])  # fmt: skip
def test_a_request_that_has_no_room_is_no_failure(profile, line, more):
    one = observe_run(from_line(line, profiles=(profile,), server={"ctx_size": 256, **more}), profile, {})
    step = one.steps[-1]
    assert (step.answer.status != 200, step.answer.error_kind) == (True, "no-room"), step.answer
    assert list(answered(one)) == []


def test_an_engine_that_names_no_kind_is_told_by_its_words():
    [found] = answered(conversation([], [], status=500, error="Invalid input batch: 3"))
    assert (found.step, found.label, found.text) == (1, "Invalid input batch LC-NPAST-LCP", "Invalid input batch: 3")
    assert list(answered(conversation([], status=400, error="Invalid input batch"))) == []


def test_two_ends_of_a_server_that_differ_in_numbers_are_one_failure():
    def ended(seq):
        with pytest.raises(ProcessAborted) as end:
            CommonMemory(Refuses(), None).must_rm(seq, seq + 12)
        return next(survives(conversation([], died=True, error=str(end.value), error_kind=end.value.kind,
                                          error_numbers=end.value.numbers)))  # fmt: skip

    first, second = ended(0), ended(1)
    assert first.group == second.group == ("survives", "removal-refused", "", "")
    assert first.label == second.label == "failed to remove sequence n with pn=n, pn=n"
    assert second.text == "failed to remove sequence 1 with p0=13, p1=-1"
    assert second.numbers == {"error": second.text, "seq": 1, "p0": 13, "p1": -1}


class Refuses:
    """A memory that refuses every removal."""

    def seq_rm(self, *_):
        return False


def told(stored, verdict, **answer):
    """Return the finding about a wrong stored object."""
    [found] = stored_equals_cold(conversation([("LC-PC-ALLOC.PC6", STORE)], armed=((stored, verdict),), **answer))
    return found


@pytest.mark.parametrize("kind", [
    FaultKind.ROW, FaultKind.ROW_BITS, FaultKind.ROWS_MISSING, FaultKind.STATE, FaultKind.STATE_ELSEWHERE,
    FaultKind.TOKENS_MISSING,
], ids=str)  # fmt: skip
def test_a_group_knows_no_lengths_and_its_words_are_made_last(kind):
    def found(stored, n):
        names = ("layer", "position", "rows", "tokens", "wanted", "resume")
        verdict = wrong("provenance", kind, n, **dict.fromkeys(names, n))
        return told(StoredObject(stored, 0, tuple(range(n)), n, (), None), verdict)

    one, other = found("entry", 3), found("entry", 17)
    assert one.group == other.group == ("stored-equals-cold", kind, "LC-PC-ALLOC.PC6", "entry")
    assert one.label == other.label
    assert one.label == "entry LC-PC-ALLOC.PC6: " + re.sub(r"\d+", "n", one.text.partition(": ")[2])
    assert (one.text.partition(":")[0], other.text.partition(":")[0]) == ("entry of 3 tokens", "entry of 17 tokens")
    assert found("checkpoint", 3).group != one.group


WRONG_ANSWER = wrong("bits", FaultKind.ANSWER, 4, position=4)
WRONG_STATE = wrong("provenance", FaultKind.STATE, 3, layer=0, tokens=3)
WARM_ERROR = wrong("error", FaultKind.WARM_ERROR, status=500, error="no")


def judged(*verdicts, **answer):
    """Return a run of steps with these verdicts (on the answer, on the memory after it)."""
    one = conversation(*[()] * len(verdicts), **answer)
    pairs = zip(one.steps, verdicts, strict=True)
    one.steps = [step._replace(verdict=about, state=state) for step, (about, state) in pairs]
    return one


@pytest.mark.parametrize(("verdicts", "found"), [
    ([(CORRECT, CORRECT)] * 2, []), ([(CORRECT, CORRECT), (WRONG_ANSWER, CORRECT)], [(1, FaultKind.ANSWER)]),
    ([(CORRECT, WRONG_STATE), (WRONG_ANSWER, CORRECT)], [(0, FaultKind.STATE)]),            # the first counts
    ([(WRONG_ANSWER, WRONG_STATE)], [(0, FaultKind.ANSWER)]), ([(Verdict(VerdictWord.UNDECIDED), CORRECT)], []),
    ([(WARM_ERROR, CORRECT)], []),
    ([(WARM_ERROR, WRONG_STATE)], [(0, FaultKind.STATE)]),                 # an error is not a wrong answer
])  # fmt: skip
def test_the_first_wrong_answer_or_state_is_found(verdicts, found):
    assert [(one.step, one.kind) for one in warm_equals_cold(judged(*verdicts))] == found


@pytest.mark.parametrize(("at", "armed", "kind"), [(0, WRONG, "entry"), (1, WRONG, "entry"), (1, (), "")])
def test_a_wrong_answer_names_the_kind_of_the_first_object_that_was_wrong(at, armed, kind):
    one = judged((CORRECT, CORRECT), (WRONG_ANSWER, CORRECT))
    one.steps[at] = one.steps[at]._replace(armed=armed)
    assert [(found.step, found.stored) for found in warm_equals_cold(one)] == [(1, kind)]


def test_behind_the_end_of_a_server_nothing_is_an_answer():
    assert list(warm_equals_cold(judged((WRONG_ANSWER, CORRECT), died=True))) == []


@pytest.mark.parametrize(("answer", "wrong"), [
    ({"cache_n": 1, "prompt_n": 1}, False), ({"cache_n": 0, "prompt_n": 2}, False),
    ({"cache_n": 2, "prompt_n": 1}, True),
    ({"cache_n": 0, "prompt_n": 1}, True), ({"cache_n": 1, "prompt_n": 0}, True),
    *[({"cache_n": 0, "prompt_n": 1, **over}, False) for over in (
        {"cancelled": True}, {"truncated": True}, {"died": True}, {"status": 500}, {"done": False})],
])  # fmt: skip
def test_a_prompt_of_two_tokens_is_found_or_evaluated(answer, wrong):
    one = conversation([])
    for name, value in answer.items():
        setattr(one.steps[0].answer, *(("reused", {"slot": value}) if name == "cache_n" else (name, value)))
    numbers = {"found": answer["cache_n"], "evaluated": answer["prompt_n"], "prompt": 2}
    assert [(found.kind, found.numbers) for found in accounting(one)] == (
        [(FaultKind.MISCOUNTED, numbers)] if wrong else []
    )


def test_requests_after_one_that_was_refused_are_counted_too():
    one = conversation([], [])
    one.steps[0].answer.status = 500
    one.steps[1].answer.prompt_n = 1
    assert [found.step for found in accounting(one)] == [1]


def test_the_first_limit_that_is_exceeded_is_told():
    one = conversation([], [])
    first, second = ExceededLimit("entries", 3, 2), ExceededLimit("bytes", 9, 8)
    one.steps = [one.steps[0]._replace(over=(first, second)), one.steps[1]._replace(over=(second,))]
    assert [(found.step, found.deciding, found.numbers["held"]) for found in limits(one)] == [(0, "entries", 3)]
    assert list(limits(conversation([]))) == []


def run_of(*steps, torn=(), unsound=()):
    """Return a run with these answers and verdicts."""
    answers = [Answer(number, deciding="R", done=True, **answer) for number, (answer, _) in enumerate(steps)]
    records = [StepRecord(number, Request((1, 2)), answers[number], verdict, verdict, (), ())
               for number, (_, verdict) in enumerate(steps)]  # fmt: skip
    log = Log()
    for _ in steps:
        log.mark()
    made = CheckedRun(from_line("A2"), "llama_cpp@b10587", log, records)
    made.torn, made.unsound = list(torn), list(unsound)
    return made


def names(found):
    return [(one.name, one.step, one.kind, dict(one.numbers), one.deciding) for one in found]


def test_the_first_request_that_the_server_does_not_survive_is_found():
    died = {"died": True, "error": "row 5: gone", "error_numbers": {"row": 5}}
    found = survives(run_of(({}, CORRECT), (died, CORRECT), (died, CORRECT)))
    assert names(found) == [("survives", 1, "row n", {"row": 5, "error": "row 5: gone"}, "")]
    [named] = survives(run_of(({**died, "error_kind": "kind"}, CORRECT)))
    assert named.kind == "kind" and names(survives(run_of(({}, CORRECT)))) == []


def test_the_first_request_without_an_answer_is_found():
    waits = wrong("unanswered", FaultKind.UNANSWERED, decision="x")
    found = answered(run_of(({}, CORRECT), ({}, waits), ({}, waits)))
    numbers = {"decision": "x", "error": waits.why, "status": 0}
    assert names(found) == [("answered", 1, FaultKind.UNANSWERED, numbers, "R")]


def test_only_the_first_torn_removal_and_the_first_unsound_step_are_found():
    numbers = {"seq": 0}
    made = run_of(torn=[(3, numbers), (4, {})], unsound=[(5, FaultKind.GAP, numbers), (6, FaultKind.GAP, {})])
    assert names(seq_rm_atomic(made)) == [("seq-rm-atomic", 3, FaultKind.TORN, numbers, "")]
    assert names(memory_sound(made)) == [("memory-sound", 5, FaultKind.GAP, numbers, "")]
    assert names(seq_rm_atomic(run_of())) == names(memory_sound(run_of())) == []


def test_the_causes_of_a_finding_are_the_last_events_and_two_corrupt_objects_of_a_step():
    [found] = stored_equals_cold(conversation(*[()] * 20, armed=WRONG * 3))
    reused = [f"request {n}: 0 of 2 tokens reused by LC-NPAST-LCP" for n in range(10, 20)]
    corrupt = f"  leaves a corrupt entry of 2 tokens: {WRONG[0][1].why}"
    assert found.causes == (*reused, corrupt, corrupt)
    [found] = warm_equals_cold(judged((CORRECT, CORRECT), (WRONG_ANSWER, WRONG_STATE)))
    assert found.causes[-2:] == (f"  wrong: {WRONG_ANSWER.why}", f"  wrong: {WRONG_STATE.why}")
