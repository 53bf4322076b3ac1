"""Tests that every step is judged while the server still holds its state."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from cachesim.base.keyed_tokens import with_keys
from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import RowsPart, StoredObject
from cachesim.engines.registry import engine_of
from cachesim.events import Gained, Launch, Log, Lost, Release, Settled
from cachesim.judging.compare_answer import ColdRunCache, Judge, RequestVerdict
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.judging_observer import NOTHING, AnswerObserver, JudgingObserver, _window, evaluated
from cachesim.judging.recompute_ledger import LEDGER_EVENTS
from cachesim.judging.verdict import CORRECT, Verdict
from cachesim.judging.verdict_words import VerdictWord
from cachesim.model import make_model
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Action

BROKEN = Verdict(VerdictWord.WRONG, "bits")
HEAD = "llama_cpp@b10587"


def watched(line, model="AA", make=JudgingObserver, **server):
    """Return the findings, step by step."""
    scenario = from_line(line, model=model, server={"ctx_size": 256, **server})
    table = engine_of(HEAD).profiles[HEAD]
    watch = make(scenario, HEAD, table)
    play(scenario, HEAD, "provenance", watch, table)
    return watch


def test_every_step_has_its_judgement():
    watch = watched("A40>4/A.B9>2")
    assert sorted(watch.found) == [0, 1] and watch.left == {}
    assert [one.judged.equal_cold for one in watch.found.values()] == [True, True]
    assert [(one.ledger.best, one.ledger.held) for one in watch.found.values()] == [(0, 0), (40, 40)]


def test_a_slot_is_judged_as_it_was_left_though_the_next_request_takes_it():
    """Both requests wait for the same slot. When the second is answered, the tokens of the first are gone."""
    watch = watched("A40>4/B20>9{together}")
    assert [one.judged.equal_cold for one in watch.found.values()] == [True, True]
    assert len(watch.found[0].answer.slot_tokens) == 43


def test_a_memory_that_does_not_end_where_the_tokens_end_is_a_wrong_state():
    class Doubting(JudgingObserver):
        """Does not believe the memory."""

        def started(self, server):
            super().started(server)
            server.inspection.memory_matches = lambda slot: False

    found = watched("A40>4", make=Doubting).found[0]
    assert (found.judged.answer.equal_cold, found.judged.state.equal_cold) == (True, False)


def test_a_step_that_is_no_completion_is_judged_by_what_it_leaves():
    watch = watched("A40>4/{save@0 a}/B9/{restore@0 a}")
    saved, restored = watch.found[1], watch.found[3]
    assert [one.ledger is NOTHING for one in (saved, restored)] == [True, True]
    assert restored.judged.state.equal_cold is True and restored.answer.id_slot == 0


def test_a_restored_slot_that_is_wrong_is_a_wrong_state():
    class Restoring(JudgingObserver):
        """Finds every object wrong that it judges at an action."""

        def acted(self, *given):
            self.judge.stored = lambda stored: BROKEN
            super().acted(*given)
            del self.judge.stored

    found = watched("A40>4/{save@0 a}/B9/{restore@0 a}", make=Restoring).found
    assert [one.judged.state for one in found.values()] == [CORRECT, CORRECT, CORRECT, BROKEN]


def test_the_slot_of_a_step_is_counted_as_the_server_counts():
    """It takes the number of a slot modulo the number of slots."""
    found = watched("A40>4/{save@3 a}/{save@0 b}/{restore@5 a}", parallel=2).found
    assert [one.answer.id_slot for number, one in found.items() if number] == [1, 0, 1]


def test_a_refused_request_is_charged_nothing_and_evaluated_nothing():
    watch = watched("A200>1/A.B9000>1/A.B[:9].C1>1")
    assert [one.answer.status for one in watch.found.values()] == [200, 400, 200]
    assert watch.found[1].ledger == NOTHING and watch.found[2].ledger.best == 200
    assert slots(watch) == [SlotAtLaunch(0, 0), SlotAtLaunch(0, 0), SlotAtLaunch(200, 200)]


def test_tokens_that_a_wrong_answer_reused_are_not_charged_and_its_slot_is_recorded():
    scenario = load(corpus_files()["llama-adjacent-checkpoint-recorded"])
    watch = JudgingObserver(scenario, HEAD, None)
    play(scenario, HEAD, "provenance", watch)
    wrong = {number for number, one in watch.found.items() if one.judged.equal_cold is False}
    assert wrong and len(wrong) < len(watch.found)
    for number, one in watch.found.items():
        assert one.ledger.wrong == (one.answer.cache_n if number in wrong else 0)
        assert (one.began is not None) is (number in wrong)
    assert watch.began == {}


def test_the_first_launch_and_the_last_cut_of_a_request_count():
    """A request may be put back, and launched again when its slot holds something else."""
    watch, tokens = JudgingObserver(from_line("A9"), HEAD, None, with_ledger=False), [(1, 2, 3), (), (4,)]
    held = SimpleNamespace(tokens_of=lambda slot: tokens[0], live=lambda slot: tokens[0], log=Log(),
                           is_further=lambda slot: False)  # fmt: skip
    watch.server, held.inspection, held.answer_at = held, held, lambda slot: None if slot else Answer(0)
    for _ in range(2):
        watch.on_event(Launch(0, 0, 0))
        watch.on_event(Launch(1, 0, 0))
        watch.on_event(Settled(0, len(tokens[0])))
        tokens.pop(0)
    assert (watch.found_in_slot, watch.began) == ({0: (1, 2, 3)},) * 2, "nothing is left of an empty slot"
    watch.on_event(Settled(0, 1))
    assert watch.began == {0: (4,)}


@pytest.mark.parametrize(("request_", "places"), [(0, [0]), (1, []), (2, [])])
def test_only_launches_of_listed_steps_are_recorded(request_, places):
    """A server may begin requests that are no steps of the scenario."""
    watch, log = JudgingObserver(from_line("A9"), HEAD, None, with_ledger=False), Log()
    inspection = SimpleNamespace(answer_at=lambda slot: Answer(request_), tokens_of=lambda slot: (1,),
                                 is_further=lambda slot: False)  # fmt: skip
    watch.server = SimpleNamespace(inspection=inspection, log=log)
    log.emit(Launch(3, 0, 0))
    watch.on_event(log.events[-1])
    assert ([launch.place for launch in watch.launches], [*watch.found_in_slot]) == (places, places)


@pytest.mark.parametrize("keys", [(), ((0, 5),), ((0, 5), (2, 6))])
def test_a_slot_that_is_cut_has_its_tokens_under_the_keys_of_its_request(keys):
    watch = JudgingObserver(from_line("A9"), HEAD, None, with_ledger=False)
    held = StoredObject("slot", 0, (1, 2, 3), 3, (), None)
    inspection = SimpleNamespace(live=lambda slot: held, answer_at=lambda slot: Answer(4, keys=keys))
    watch.server = SimpleNamespace(inspection=inspection)
    watch.on_event(Settled(0, 3))
    tokens = with_keys((1, 2, 3), keys) if keys else (1, 2, 3)
    assert watch.began == {4: held._replace(tokens=tokens)}


def test_the_slot_of_a_request_is_not_that_of_its_second_completion():
    """The second completion is launched first, in a slot with other contents."""
    watch = watched("A20>1@0/B30>2@1/A.C5>d2@0{n_cmpl=2}", parallel=2)
    assert watch.found[2].slot == SlotAtLaunch(20, 20)


def judged(line, profile, model="A", **server):
    """Return the judgements of a line under a profile."""
    scenario = from_line(line, model=model, profiles=(profile,), server=server)
    return run_judged(scenario, profile, "provenance").requests


def test_a_shortened_prompt_is_compared_with_its_slot():
    found = judged("A80>2/A.B5>2", "llama_cpp@b6685", ctx_size=64, context_shift=True, parallel=1)
    assert found[1].answer.prompt is not None and found[1].slot.lcp == found[1].answer.cache_n > 0


def test_the_slot_afterwards_is_what_the_server_lists_and_not_what_the_answer_says():
    (one,) = judged("A10>b2!", "llama_cpp@b4579", "S", parallel=1)
    assert (one.answer.tokens_cached, one.slot_tokens) == (11, 0)
    assert judged("A10>b2", "vllm@0.33.0")[0].slot_tokens is None


def test_tokens_that_a_cancelled_request_did_not_reach_are_not_re_evaluated():
    found = watched("A200>1/B9>1/A>c5{cancel_after=0}", "GGGA", cache_ram=0, parallel=1, batch_size=64).found
    one = found[2]
    assert one.answer.cancelled and one.ledger.is_balanced
    assert one.re_evaluated == one.ledger.best == one.answer.prompt_n == 64


def test_a_request_that_was_not_evaluated_re_evaluates_nothing():
    """It waits for blocks until its client leaves, or forever."""
    for leaves in ("", "{cancel_after=0}"):
        first, last = judged("A40>1/A.B200" + leaves, "vllm@0.33.0", num_gpu_blocks=12, max_model_len=400)
        assert (first.slot, first.answer.done) == (SlotAtLaunch(0, 0), True)
        assert (last.slot, last.answer.done, last.answer.prompt_n, last.ledger) == (None, False, 0, NOTHING)


def test_a_request_that_waits_without_a_decision_is_never_answered():
    watch = AnswerObserver(from_line("A9"), HEAD, None)
    watch.started(SimpleNamespace(model=make_model("A", False), dead=False, log=Log(),
                                  inspection=SimpleNamespace(kept=list)))  # fmt: skip
    found = watch.judged(0, Request((1, 2)), Answer(0)).answer
    assert (found.equal_cold, found.why) == (
        False, "the server goes on and never answers; its last decision: none")  # fmt: skip


def test_a_log_passes_the_events_that_an_observer_needs():
    whole, brief = (watched("A9", make=make) for make in (JudgingObserver, partial(JudgingObserver, with_ledger=False)))
    assert whole.server.log.kinds == LEDGER_EVENTS | {Settled} and {Gained, Lost, Release, Launch} <= LEDGER_EVENTS
    assert brief.server.log.kinds == {Gained, Lost, Release, Launch}


def test_a_server_that_computes_nothing_has_no_cold_runs():
    watch = AnswerObserver(scenario := from_line("A9"), HEAD, None)
    watch.started(SimpleNamespace(model=None))
    watch.begins(0, scenario.steps[0])
    assert watch.judge.judge(Request((1,)), Answer(0), None).equal_cold is None


def test_the_window_of_a_slot_is_what_all_of_its_window_layers_hold():
    def part(window, *positions):
        return RowsPart(window, np.array(positions, np.int64), {})

    for parts, found in [
        ([part(8, 3, 5, 4)], (3, 6)), ([part(0, 0, 1, 2), part(8, 1, 2), part(4, 2, 3)], (2, 4)),
        ([part(8), part(0, 0)], None), ([], None),
    ]:  # fmt: skip
        assert _window(StoredObject("slot", 0, (), 0, tuple(parts), None)) == found


def test_what_stood_before_a_shift_is_what_was_evaluated():
    request = Request((1, 2, 3), 3)
    whole = Answer(0, tokens=[4, 5, 6], slot_tokens=(1, 2, 3, 4, 5))
    assert evaluated(request, whole) == (1, 2, 3, 4, 5)
    whole.shifts.append((4, 1, 2))
    assert evaluated(request, whole) == (1, 2, 3, 4)


def test_a_prompt_that_is_refused_costs_no_cold_run(monkeypatch):
    ran = []
    digests = ColdRunCache.digests
    monkeypatch.setattr(ColdRunCache, "digests", lambda self, tokens: ran.append(len(tokens)) or digests(self, tokens))
    assert watched("A9000>1").found[0].answer.status != 200
    assert ran == []


def slots(watch):
    return [found.slot for found in watch.found.values()]


def test_verdicts_do_not_depend_on_the_ledger():
    line = "A40>4/B9>4/A40.C3>4"
    with_ledger, without = (
        watched(line, "W8 A", make) for make in (JudgingObserver, partial(JudgingObserver, with_ledger=False)))
    assert all(one.judged.window for one in with_ledger.found.values()), "what every request left behind was seen"
    for ours, theirs in zip(without.found.values(), with_ledger.found.values(), strict=True):
        ours, theirs = ours.judged, theirs.judged
        assert (ours.answer, ours.state, ours.window) == (theirs.answer, theirs.state, theirs.window)
        assert [verdict for _, verdict in ours.armed] == [verdict for _, verdict in theirs.armed]
    assert slots(without) == slots(with_ledger) != [None] * 4
    assert with_ledger.ledger.count and not without.ledger.count


def test_what_a_further_completion_evaluated_counts():
    """The second answer is sent back; its last token was never evaluated."""
    found = watched("A20>r4{n_cmpl=2 answers=s4}/A.s.B3", parallel=2).found[1]
    assert found.ledger.best == 23


def test_the_ledger_compares_with_the_cold_runs_of_the_judge():
    """It asks whether the cold run of a shorter point covers a longer one, instead of looking for another run."""
    watch = watched("A9/A.B3")
    assert watch.ledger.cold == watch.judge.cold_runs.covering and watch.ledger.covers == watch.judge.cold_runs.covers


@pytest.mark.parametrize("make", [JudgingObserver, AnswerObserver])
def test_the_prompt_and_the_forced_answer_of_each_step_are_announced_to_the_cold_runs(make, monkeypatch):
    """A cold run for a part of it then covers all of it."""
    expected = []
    monkeypatch.setattr(ColdRunCache, "expect", lambda cache, tokens: expected.append(tokens))
    watched("A9>r4/A.B3", make=make)
    assert [len(tokens) for tokens in expected] == [13, 12] and expected[1][:9] == expected[0][:9]


def test_a_launch_has_the_place_of_its_event():
    watch = watched("A9/A.B3/C5", parallel=2)
    launches = [(one.place, one.slot) for one in watch.launches]
    assert [one.request for one in watch.launches] == [0, 1, 2]
    assert launches == [(place, event.slot) for place, event in enumerate(watch.server.log.events)
                        if isinstance(event, Launch)]  # fmt: skip


def test_a_request_that_never_had_a_slot_has_no_checkpoints():
    """The last slot has one."""
    watch = watched("A90>4", "GA", parallel=1)
    assert (watch.found[0].checkpoints, watch.found[0].spans) == ([86], [(85, 85)])
    watch._store(1, Request((1, 2)), Answer(1), RequestVerdict(CORRECT, CORRECT), NOTHING, None)
    found = watch.found[1]
    assert (found.checkpoints, found.spans, found.draft, found.slot_tokens) == ([], [], None, None)


def test_the_draft_memory_is_that_of_a_request_with_a_slot_in_a_run_with_a_ledger():
    made = JudgingObserver, partial(JudgingObserver, with_ledger=False)
    with_ledger, without = (
        watched("A20>8{drafts=3:1}", "A+M", make, parallel=1, spec_type="draft-mtp") for make in made)
    assert with_ledger.found[0].draft.rows == 27 and without.found[0].draft is None
    asked = []
    with_ledger.server.sequences.draft_memory = asked.append
    with_ledger._store(1, Request((1, 2)), Answer(1), RequestVerdict(CORRECT, CORRECT), NOTHING, None)
    assert asked == []


def test_a_judge_is_kept_as_long_as_servers_have_its_model():
    first, other = make_model("A", False), make_model("AA", False)
    for given, kept in ((Judge(first), True), (Judge(None), True), (Judge(other), False), (None, False)):
        watch = AnswerObserver(from_line("A9"), HEAD, None, given)
        watch.started(SimpleNamespace(model=first))
        assert (watch.judge is given) is kept and watch.judge.model in (None, first)
        before = watch.judge
        watch.started(SimpleNamespace(model=first))
        assert watch.judge is before, "a restart with the same model"
    watch.started(SimpleNamespace(model=other))
    assert watch.judge is not before and watch.judge.model is other and watch.starts == 3


def test_sizes_of_stored_objects_are_recorded_with_the_ledger_alone():
    line = "A40>4/B9>4/C9>2"
    whole, brief = (watched(line, "GGGA", make, parallel=1)
                    for make in (JudgingObserver, partial(JudgingObserver, with_ledger=False)))  # fmt: skip
    assert [len(one.sizes) > 0 for one in whole.found.values()] == [True] * 3
    assert [one.sizes for one in brief.found.values()] == [()] * 3
    assert [one.stored_bytes for one in whole.found.values()] == [one.stored_bytes for one in brief.found.values()]


def test_a_restart_loses_the_restore_points_and_reports_the_context_again():
    found = watched("A40>4/B9>2/{restart}/A.C5>1", parallel=1).found
    assert [(one.n_ctx, one.place, one.stored) for one in found.values()] == [
        (256, 0, []), (0, 1, [43]), (256, 2, []), (0, 3, [])]  # fmt: skip
    assert [(charge.event, charge.tokens, charge.at) for charge in found[3].ledger.charges] == [("restarted", 40, 2)]


def test_a_step_without_a_completion_has_the_verdict_of_its_reply():
    watch = watched("A40>4/{save@0 a}")
    for reply, answer, verdict in [
        ({"status": 0, "error": "gone"}, (200, "gone", True), (False, "aborted", "the server stopped: gone")),
        ({"status": 0}, (200, "", True), (False, "aborted", "the server stopped: ")),
        ({"status": 501, "error": "no"}, (501, "no", False), (None, "", "REFUSED (501), on an empty server too: no")),
        ({"status": 200}, (200, "", False), (True, "", "")),
    ]:  # fmt: skip
        watch.acted(1, Action("save", 0, "a"), reply)
        one = watch.found[1]
        found = one.judged.answer
        assert (one.answer.status, one.answer.error, one.answer.died, one.answer.done) == (*answer, True)
        assert (found.equal_cold, found.rung, found.why) == verdict
        assert one.judged.is_refused is (verdict[0] is None) and one.reply == reply


def test_a_slot_without_a_request_has_the_request_number_minus_one():
    watch = watched("A9")
    assert watch._request_in(0) == -1 and watch.ledger.slot_request == watch._request_in
