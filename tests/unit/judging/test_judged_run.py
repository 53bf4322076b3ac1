"""Tests of judged runs: every step has its place, concurrent requests are judged at their own time, ledgers balance."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from cachesim.base import limits
from cachesim.base.errors import OverLimit
from cachesim.engines.base import Answer
from cachesim.engines.inspection import StatePart, StoredObject
from cachesim.engines.registry import engine_of, rules_of
from cachesim.events import Compared, Decided, Log
from cachesim.judging import judged_run
from cachesim.judging.judged_run import ExpectationMismatch, RunInterrupted, compare_expected, run_judged
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict import CORRECT
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action, Expect
from tests.shared import SMALL, altered
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement
from tests.unit.tools.run.made import run as made_run

HEAD = "llama_cpp@b10587"


def judged(line, *changes, model="GGGA", **server):
    made = from_line(line, model=model, server={**SMALL, "ctx_size": 256, **server})
    steps = list(made.steps)
    for number, fields in changes:
        steps[number] = altered(steps[number], **fields)
    return run_judged(replace(made, steps=tuple(steps)), HEAD, "provenance")


def act(do, slot=-1, file=""):
    return {"action": Action(do, slot, file)}


TOGETHER = {"together": True}


def test_requests_sent_together_stand_in_the_order_of_the_file():
    run = judged("S40.A20>9/S.B20>2", (1, dict(TOGETHER)), parallel=2)
    assert [len(one.answer.tokens) for one in run.requests] == [9, 2]
    assert run.verdict.equal_cold and all(one.ledger.is_balanced for one in run.requests)


@pytest.mark.parametrize("mode", ["provenance", "exact"])
def test_only_the_chosen_requests_are_judged_and_all_are_run_alike(mode):
    case = load(corpus_files()["llama-media-answer-of-another-slot"])
    whole = run_judged(case, "llama_cpp@b11549", mode, with_ledger=False)
    [wrong] = whole.broken
    part = run_judged(case, "llama_cpp@b11549", mode, judge=whole.judge, with_ledger=False, only={wrong})
    assert part.broken == [wrong] and part.requests[wrong].judged.wrong == whole.requests[wrong].judged.wrong
    assert all(one.judged.equal_cold is None for i, one in enumerate(part.requests) if i != wrong)
    assert [one.answer.cache_n for one in part.requests] == [one.answer.cache_n for one in whole.requests]


def test_tokens_not_evaluated_when_the_slot_was_chosen_are_not_charged():
    apart = judged("S40.A20/S.B20", parallel=2, slot_prompt_similarity=0.9)
    at_once = judged("S40.A20/S.B20", (1, dict(TOGETHER)), parallel=2, slot_prompt_similarity=0.9)
    assert [one.ledger.best for one in apart.requests] == [0, 40]
    assert [one.ledger.best for one in at_once.requests] == [0, 0]


def test_a_request_that_had_to_wait_is_charged_for_what_came_before_it():
    run = judged("S40.A20/S.B20", (1, dict(TOGETHER)), model="AAAA")
    assert [one.answer.cache_n for one in run.requests] == [0, 40]
    assert [one.ledger.moved for one in run.requests] == [0, 0]
    assert run.requests[1].ledger.best == 40


def test_a_slot_emptied_in_the_same_iteration_is_judged_as_it_was():
    """X ends in a piece of a batch that has no room; its slot is purged before the iteration ends."""
    together = {"together": True, "request": {"n_cmpl": 2}}
    run = judged(
        "X505>1@0/P20>6@1", (1, together), model="AAAA", ctx_size=512, batch_size=60, ubatch_size=20, parallel=3,
        kv_unified=True,
    )
    assert [one.judged.equal_cold for one in run.requests] == [True, None]
    assert [one.answer.status for one in run.requests] == [200, 500]
    assert run.refused == [1], "the two fail on a fresh server as well"


def test_a_restored_slot_is_judged_and_a_restart_is_what_lost_the_rest():
    run = judged("S40>4/x1/x/x/S[:39].x", (1, act("save", 0, "a")), (2, act("restart")), (3, act("restore", 0, "a")))
    assert [one.checkpoints for one in run.requests][:4] == [[20, 36], [20, 36], [], []]
    assert run.requests[3].judged.state.equal_cold is True
    charges = run.requests[4].ledger.charges
    assert [(c.tokens, c.event, c.at) for c in charges if c.kind == "checkpoint"] == [(36, "restarted", 2)]
    assert run.requests[4].ledger.is_balanced


def test_after_a_shift_the_moved_tokens_are_not_charged():
    run = judged("A200>60/A[127:].x5", (0, {}), context_shift=True, batch_size=64, ubatch_size=16)
    assert run.requests[0].answer.shifts
    assert (run.requests[1].ledger.best, run.requests[1].ledger.moved) == (0, run.requests[1].answer.cache_n)


def test_the_events_of_a_step_sent_together_are_those_of_its_slot():
    run = judged("S40.A20>9/B20>2", (1, dict(TOGETHER)), parallel=2)
    for number, one in enumerate(run.requests):
        slots = {event.slot for event in run.events(number) if isinstance(event, Decided)}
        assert slots - {None} == {one.answer.id_slot}
        assert answer_data(run, number)["decisions"]
    alone = judged("S40.A20")
    assert alone.events(0) == list(alone.log.of(0))


def test_expectations_of_every_kind():
    run = judged("S40>4/B40", (0, {}))
    right = Expect(cache_n=((0,), (0,)), slots=((0,), (0,)), status=((200,),) * 2, entries=((0,), (1,)), died=())
    assert compare_expected(right, run.requests, run.broken, unsettled=()) == []
    wrong = replace(right, slots=((1,), (0,)), status=((200,), (400,)), entries=((0,), (2, 3)), died=(1,))
    assert compare_expected(wrong, run.requests, run.broken, unsettled=()) == [
        ExpectationMismatch(0, "slots", 1, 0),
        ExpectationMismatch(1, "status", 400, 200),
        ExpectationMismatch(1, "entries", [2, 3], 1),
        ExpectationMismatch(-1, "died", [1], []),
    ]


def test_a_process_that_ends_is_broken_from_there_on():
    run = judged("A250>9/B10/x1", (2, act("erase", 0)), model="lfm2swa", context_shift=True)
    assert run.broken == [0, 1, 2]
    assert [one.answer.died for one in run.requests] == [True, True, True]
    assert [v["rung"] for v in run_data(run)["requests"]] == ["aborted"] * 3


def test_steps_as_data():
    run = judged("S40>4/x1/B40>2", (1, act("save", 0, "a")), parallel=2)
    assert [one["how"] for one in run_data(run)["requests"]] == ["completion", "save", "completion"]
    data = run_data(judged("S40>4/B40>2", (1, dict(TOGETHER)), parallel=2))
    assert [one["how"] for one in data["requests"]] == ["completion", "together"]
    assert [one["completions"] for one in data["requests"]] == [1, 1]


@pytest.mark.parametrize("k", [0, 2])
def test_a_hang_up_is_judged_by_what_is_there(k):
    run = judged("S100>9/S.x5", (0, {"request": {"cancel_at": 101 if k else 1}}), model="AAAA")
    first, second = run.requests
    assert first.answer.cancelled and first.judged.equal_cold is True
    assert second.answer.cache_n == (100 if k else 64)


@pytest.mark.parametrize(
    ("model", "spec", "drafts"),
    [
        ("AAAA", "ngram-simple", ((3, 1), (2, 0), (3, 3), (1, 1))),
        ("GGGA", "ngram-simple", ((3, 1), (2, 0), (0, 0), (3, 3))),
        ("qwen35mtp", "draft-mtp", ((3, 1), (2, 0), (3, 3))),
    ],
)
def test_every_draft_is_made_in_its_place(model, spec, drafts):
    run = judged("S40>30", (0, {"drafts": drafts}), model=model, spec_type=spec)
    answer = run.requests[0].answer
    assert answer.draft_n == sum(drafted for drafted, _ in drafts)
    assert answer.draft_n_accepted == sum(accepted for _, accepted in drafts)
    assert run.verdict.equal_cold is True and len(answer.tokens) == 30


def test_a_run_bears_the_name_of_the_rules_that_it_followed():
    """A user's own rules are not the built-in profile, whose expectations they need not meet."""
    head = engine_of(HEAD).profiles[HEAD]
    made = replace(from_line("S4"), expect={HEAD: Expect(cache_n=((3,),))})
    named = run_judged(made, HEAD, "provenance", table=replace(head, name="llama_cpp@mine", min_step=2))
    unnamed = run_judged(made, HEAD, "provenance", table=replace(head, min_step=2))
    shipped = [run_judged(made, HEAD, "provenance", table=table) for table in (None, head)]
    assert (named.profile, unnamed.profile) == ("llama_cpp@mine", f"{HEAD} (changed)")
    assert [run.profile for run in shipped] == [HEAD, HEAD]
    assert [len(run.wrong) for run in (named, unnamed, *shipped)] == [0, 0, 1, 1]


def test_the_runs_of_all_unwritten_numbers_count_together_for_a_limit():
    """A restored slot file has an unwritten number with three values that matter: three runs of the scenario."""
    scenario = from_line("A300>9/{save@0 f}/B30/{restore@0 f}/A.C5", model="GA+M", profiles=("ik_llama@main",))
    of_one_run = run_judged(scenario, "ik_llama@main", "provenance").log.sampled
    for runs in (2, 3):
        limits.lift({"sampled": runs * of_one_run})
        with pytest.raises(OverLimit) if runs < 3 else nullcontext():
            run_judged(scenario, "ik_llama@main", "provenance")


def test_a_request_whose_outcome_depends_on_an_unwritten_number_is_undecided_and_says_why():
    scenario = from_line("A300>9/{save@0 f}/B30/{restore@0 f}/A.C5", model="GA+M", profiles=("ik_llama@main",))
    cases = [run_judged(scenario, "ik_llama@main", "provenance") for _ in range(2)]
    cases[1].requests[4].entries += 7
    was = cases[0].requests[4].entries
    assert judged_run.settle(cases) == [4]
    verdict = cases[0].requests[4].judged.answer
    assert verdict.why == f"depends on an uninitialised value of the server: entries {was} or {was + 7}"
    assert judged_run.settle([cases[1], cases[1]]) == []


def test_a_process_that_ended_says_so_and_has_no_tokens_in_its_slot():
    scenario = load(corpus_files()["llama-25278-short-ubatch-assertion-qwen35mtp"])
    dead = run_judged(scenario, "llama_cpp@b11549", "provenance").requests
    assert [(one.slot_tokens, one.judged.answer.rung, one.judged.answer.why) for one in dead] == [
        (None, "aborted", "the server stopped: GGML_ASSERT(n_ubatch > n_keep_tail) failed"),
        (None, "aborted", "the server stopped: before this step")]
    run = judged("A30>9/A.B5")
    assert [one.slot_tokens for one in run.requests] == [38, 35]


def test_every_number_for_which_a_file_may_state_an_expectation():
    child = Answer(0, prompt_n=5, copied_n=3)
    one = judgement(cache_n=4, prompt_n=6, copied_n=1, id_slot=2, draft_n_accepted=3, children=[child])
    one.stored_bytes = 77
    assert judged_run.numbers(one) == {
        "cache_n": 4, "prompt_n": 6, "slots": 2, "status": 200, "entries": 2, "accepted": 3, "stored_bytes": 77,
        "evaluated": 5 + 2,
    }  # fmt: skip
    assert judged_run.numbers(judgement(id_slot=-1))["slots"] == 0


def test_checkpoints_and_lists_are_compared_as_a_whole():
    requests = [judgement(), judgement(died=True)]
    right = Expect(checkpoints=((4, 7), (4, 7)), broken=(1,), died=(1,), undecided=(0,))
    assert compare_expected(right, requests, [1], [0]) == []
    assert compare_expected(replace(right, checkpoints=((4, 7), (4,))), requests, [1], ()) == [
        ExpectationMismatch(1, "checkpoints", [4], [4, 7]), ExpectationMismatch(-1, "undecided", [0], []),
    ]  # fmt: skip
    assert compare_expected(replace(right, died=None), requests, [], [0]) == [
        ExpectationMismatch(-1, "broken", [1], []),
    ]  # fmt: skip


class Case:
    """Run with these unwritten numbers that reads a number at every step of ``questions``, by the compared count."""

    def __init__(self, values, questions, requests=()):
        self.values, self.requests, self.log = values, list(requests), Log()
        for step in questions:
            self.log.mark()
            for held in step:
                self.log.emit(Compared(0, (0, 0), held))
            self.log.emit(Decided(0, "R", None, {}))


def test_every_value_with_which_a_number_was_compared_is_run_once():
    cases = judged_run.run_every_case(lambda values: Case(values, [(), (4, 9, 4)]))
    assert [one.values for one in cases] == [{}, {(0, 0): 9}, {(0, 0): 4}]
    assert len(judged_run.run_every_case(lambda values: Case(values, [()]))) == 1


def test_a_run_with_too_many_cases_ends():
    cases = judged_run.run_every_case(lambda values: Case(values, [range(judged_run.MOST + 9)]))
    assert len(cases) == judged_run.MOST + 1


def test_after_the_first_question_of_too_many_cases_all_is_undecided():
    """The question at step 1 is answered in every case alike: later steps could differ in a case that was not run."""
    def case():
        return Case({}, [(), (3,), ()], [judgement(), judgement(), judgement()])

    few, many = [case() for _ in range(judged_run.MOST)], [case() for _ in range(judged_run.MOST + 1)]
    assert judged_run.settle(few) == []
    assert judged_run.settle(many) == [2]
    assert many[0].requests[2].judged.fault == "depends on an uninitialised value of the server: too many cases"


def test_an_answer_that_is_wrong_in_every_case_stays_wrong():
    def cases(*verdicts):
        return [Case({}, [(3,)], [judgement(verdict, cache_n=n)]) for n, verdict in enumerate(verdicts)]

    assert judged_run.settle(cases(BROKEN, BROKEN)) == []
    mixed = cases(BROKEN, CORRECT)
    mixed[0].requests[0].judged.is_refused = True
    assert judged_run.settle(mixed) == [0]
    assert mixed[0].requests[0].judged.equal_cold is None
    assert mixed[0].requests[0].judged.is_refused is False


@pytest.mark.parametrize(("requests", "more", "word"), [
    ([judgement(), judgement()], {}, "correct"),
    ([judgement(), judgement(UNDECIDED, refused=True)], {}, "undecided"),
    ([judgement(), judgement(UNDECIDED, refused=True)], {"told": [1]}, "correct"),
    ([judgement(state=BROKEN), judgement(UNDECIDED)], {}, "wrong"),
    ([judgement()], {"not_run": 1}, "undecided"),
    ([judgement(BROKEN)], {"not_run": 1}, "wrong"),
])  # fmt: skip
def test_the_verdict_of_a_run_is_the_worst_of_what_was_compared(requests, more, word):
    assert made_run(*requests, **more).verdict.word == word


def test_a_run_is_shown_with_its_sums():
    charged = judgement(cache_n=4, charges=[(0, 3, "erased", "R.1", -1, "checkpoint")])
    shown = repr(made_run(charged, judgement(cache_n=2)))
    assert shown.endswith(f"under {HEAD}: correct, 6 of 20 prompt tokens reused, 3 re-evaluated>")


def test_without_a_search_the_contents_of_an_object_are_unknown():
    run = judged("S40>4/x1")
    [state] = [run.requests[0].answer.slot_tokens]
    lost = StoredObject("checkpoint", 0, state, len(state), (), StatePart(-1, {}))
    assert run.content(lost) == [f"an empty recurrent state (after {len(state)} tokens)"]
    run.reader = None
    assert run.content(lost) == []


def test_the_final_prompt_cache_names_the_requests_of_its_conversations():
    run = judged("A40>4/B30>2/C20")
    assert run.stored == [(0, 43), (1, 31)]


@pytest.mark.parametrize(("line", "answered"), [("A9/B9/C400/D9", 2), ("A400/B9", 0)])
def test_a_run_that_exceeds_a_limit_contains_what_was_answered(line, answered):
    limits.lift({"tokens": 100})
    steps = len(line.split("/"))
    with pytest.raises(OverLimit) as raised:
        run_judged(from_line(line, model="A"), HEAD, "provenance")
    assert isinstance(raised.value, judged_run.RunCutOff) is (answered > 0)
    if answered:
        run = raised.value.run
        assert (len(run.requests), len(run.scenario.steps), run.not_run) == (answered, answered, steps - answered)
        assert run.limit == str(raised.value) and run.verdict.word == "undecided"
        assert run.verdict.why == f"not run: {run.limit}"
        assert (run.scenario.expect, run.scenario.lives, len(run.log.marks)) == ({}, (), answered + 1)


def test_a_limit_that_the_start_of_a_server_exceeds_is_passed_on():
    scenario = from_line("A9", model="A", profiles=("ik_llama@main",), server={"parallel": 4})
    limits.lift({"slots": 2})
    with pytest.raises(OverLimit, match="at most 2 slots"):
        run_judged(scenario, "ik_llama@main", "provenance")


class Interrupting(SilentObserver):
    """Observer that interrupts the run at a step, as a signal does."""

    def __init__(self, at, **fields):
        self.at, self.fields = at, fields

    def begins(self, number, step):
        if number == self.at:
            error = KeyboardInterrupt()
            vars(error).update(self.fields)
            raise error


@pytest.mark.parametrize(("fields", "number"), [({}, None), ({"number": 15}, 15)])
def test_an_interrupted_run_contains_what_was_answered(fields, number):
    with pytest.raises(judged_run.RunInterrupted) as raised:
        run_judged(from_line("A9/B9/C9"), HEAD, "provenance", watcher=(watcher := Interrupting(2, **fields)))
    run = raised.value.run
    assert (len(run.requests), raised.value.asked, raised.value.number) == (2, 3, number)
    assert (run.watcher, run.rules, run.profile, run.mode) == (watcher, rules_of(HEAD), HEAD, "provenance")


def test_an_interrupt_before_the_first_answer_is_a_bare_one():
    with pytest.raises(KeyboardInterrupt) as raised:
        run_judged(from_line("A9/B9"), HEAD, "provenance", watcher=Interrupting(0))
    assert type(raised.value) is KeyboardInterrupt


@pytest.mark.parametrize(("status", "told", "word"), [
    (((200,), (400,)), [1], "correct"), (((200,), (500,)), [], "undecided"), (None, [], "undecided"),
])  # fmt: skip
def test_a_refusal_that_the_file_expects_is_told(status, told, word):
    made = replace(from_line("A9/B400", server={"ctx_size": 256}), expect={HEAD: Expect(status=status)})
    run = run_judged(made, HEAD, "provenance")
    assert (run.refused, run.told, run.verdict.word) == ([1], told, word)


def test_an_interrupt_is_printed_without_its_run():
    error = RunInterrupted(made_run(judgement()), 3, 15)
    assert (str(error), error.asked, error.number, len(error.run.requests)) == ("", 3, 15, 1)
