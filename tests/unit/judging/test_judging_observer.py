"""Tests that every step is judged while the server still holds its state."""

from __future__ import annotations

from functools import partial

import pytest

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import engine_of
from cachesim.events import Launch
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.judging_observer import NOTHING, JudgingObserver, evaluated
from cachesim.judging.verdict import CORRECT, Verdict
from cachesim.judging.verdict_words import VerdictWord
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


def test_what_stood_before_a_shift_is_what_was_evaluated():
    request = Request((1, 2, 3), 3)
    whole = Answer(0, tokens=[4, 5, 6], slot_tokens=(1, 2, 3, 4, 5))
    assert evaluated(request, whole) == (1, 2, 3, 4, 5)
    whole.shifts.append((4, 1, 2))
    assert evaluated(request, whole) == (1, 2, 3, 4)


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


@pytest.mark.parametrize(("model", "window"), [("A W8", (36, 43)), ("AA", None)])
def test_the_window_of_a_slot_is_what_its_window_layers_hold(model, window):
    (found,) = judged("A40>4", "vllm@0.33.0", model)
    assert found.judged.window == window


def test_a_launch_has_the_place_of_its_event():
    watch = watched("A9/A.B3/C5", parallel=2)
    launches = [(one.place, one.slot) for one in watch.launches]
    assert [one.request for one in watch.launches] == [0, 1, 2]
    assert launches == [(place, event.slot) for place, event in enumerate(watch.server.log.events)
                        if isinstance(event, Launch)]  # fmt: skip


def test_the_checkpoints_of_the_slot_are_recorded_with_a_request():
    watch = watched("A90>4", "GA", parallel=1)
    assert (watch.found[0].checkpoints, watch.found[0].spans) == ([86], [(85, 85)])


def test_the_draft_memory_is_that_of_a_request_with_a_slot_in_a_run_with_a_ledger():
    made = JudgingObserver, partial(JudgingObserver, with_ledger=False)
    with_ledger, without = (
        watched("A20>8{drafts=3:1}", "A+M", make, parallel=1, spec_type="draft-mtp") for make in made)
    assert with_ledger.found[0].draft.rows == 27 and without.found[0].draft is None


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
