"""Is every step judged while the server still holds what it left behind?"""

from __future__ import annotations

from functools import partial

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import engine_of
from cachesim.judging.cold_comparison import Colds
from cachesim.judging.run_verdicts import NOTHING, Watch, evaluated
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import play

HEAD = "llama_cpp@head"


def watched(line, model="AA", make=Watch, **server):
    """What was found, step by step."""
    scenario = from_line(line, model=model, server={"ctx_size": 256, **server})
    table = engine_of(HEAD).profiles[HEAD]
    watch = make(scenario, HEAD, table)
    play(scenario, HEAD, "provenance", watch, table)
    return watch


def test_every_step_has_its_judgement():
    watch = watched("A40>4/A.B9>2")
    assert sorted(watch.found) == [0, 1] and watch.left == {}
    assert [one.judged.equal_cold for one in watch.found.values()] == [True, True]
    assert [(one.account.best, one.account.held) for one in watch.found.values()] == [(0, 0), (40, 40)]


def test_a_slot_is_judged_as_it_was_left_though_the_next_request_takes_it():
    """Both wait for the one slot. When the second is answered, the first one's tokens are gone."""
    watch = watched("A40>4/B20>9{together}")
    assert [one.judged.equal_cold for one in watch.found.values()] == [True, True]
    assert len(watch.found[0].answer.slot_tokens) == 43


def test_a_memory_that_does_not_end_where_the_tokens_end_is_a_wrong_state():
    class Doubting(Watch):
        """Does not believe the memory."""

        def started(self, server):
            super().started(server)
            server.agrees = lambda slot: False

    found = watched("A40>4", make=Doubting).found[0]
    assert (found.judged.answer.holds, found.judged.state.holds) == (True, False)


def test_a_step_that_is_no_completion_is_judged_by_what_it_leaves():
    watch = watched("A40>4/{save@0 a}/B9/{restore@0 a}")
    saved, restored = watch.found[1], watch.found[3]
    assert [one.account is NOTHING for one in (saved, restored)] == [True, True]
    assert restored.judged.state.holds is True and restored.answer.id_slot == 0


def test_what_stood_before_a_shift_is_what_was_evaluated():
    request = Request((1, 2, 3), 3)
    whole = Answer(0, tokens=[4, 5, 6], slot_tokens=(1, 2, 3, 4, 5))
    assert evaluated(request, whole) == (1, 2, 3, 4, 5)
    whole.shifts.append((4, 1, 2))
    assert evaluated(request, whole) == (1, 2, 3, 4)


def test_a_prompt_that_is_refused_costs_no_cold_run(monkeypatch):
    ran = []
    digests = Colds.digests
    monkeypatch.setattr(Colds, "digests", lambda colds, tokens: ran.append(len(tokens)) or digests(colds, tokens))
    assert watched("A9000>1").found[0].answer.status != 200
    assert ran == []


def test_without_bills_the_verdicts_are_the_same():
    line = "A40>4/B9>4/A40.C3>4"
    with_bills, without = (watched(line, "W8 A", make) for make in (Watch, partial(Watch, bills=False)))
    assert all(one.judged.window for one in with_bills.found.values()), "what every request left behind was seen"
    for ours, theirs in zip(without.found.values(), with_bills.found.values(), strict=True):
        ours, theirs = ours.judged, theirs.judged
        assert (ours.answer, ours.state, ours.window) == (theirs.answer, theirs.state, theirs.window)
        assert [verdict for _, verdict in ours.armed] == [verdict for _, verdict in theirs.armed]
    assert with_bills.ledger.count and not without.ledger.count


def test_what_a_further_completion_evaluated_counts():
    """The second answer is sent back; its last token was never evaluated."""
    found = watched("A20>r4{n_cmpl=2 answers=s4}/A.s.B3", parallel=2).found[1]
    assert found.account.best == 23
