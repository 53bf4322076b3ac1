"""Tests that re-evaluated tokens are charged to the decision that lost them, and only tokens that were lost."""

from __future__ import annotations

import pytest

from cachesim.base import limits
from cachesim.base.errors import OverLimit
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed
from cachesim.events import Decided, Launch, Release
from cachesim.judging.recompute_ledger import Charge, RequestLedger
from tests.unit.judging.ledger_story import CREATE, ERASE, LOAD, NEED, PICK, SAID, SELECT, Story, charges


@pytest.mark.parametrize(("start", "rule"), [(6, CREATE), (5, CREATE), (7, "")])
def test_what_was_never_captured_is_charged_to_the_rule_that_declined_nearest_below(start, rule):
    """Six tokens are shared: a checkpoint after five or six of them would have helped, a checkpoint after seven would
    not."""
    story = Story()
    story.capture(CREATE, False, start)
    ledger = story.settle((*SAID[:6], 7, 8, 9), 0)
    assert ledger == RequestLedger(6, 0, 0, (Charge(1, 6, "never captured", rule, -1),))
    assert ledger.is_balanced


def test_of_several_that_declined_the_nearest_is_charged():
    story = Story()
    story.capture("LC-CKPT-CREATE.CR8", False, 2)
    story.capture(CREATE, False, 4)
    story.capture("LC-CKPT-CREATE.V3", False, 9)
    assert charges(story.settle((*SAID[:6], 7), 0)) == [(6, "never captured", CREATE, -1, "")]


def test_one_that_was_made_is_not_declined():
    story = Story()
    story.capture(CREATE, True, 5)
    assert charges(story.settle((*SAID[:6], 7), 0)) == [(6, "never captured", "", -1, "")]


def test_a_lost_checkpoint_is_charged_to_what_erased_it_and_the_rest_is_not_charged():
    story = Story()
    story.ledger.begin(0)
    story.point("checkpoint", 4)
    story.lose("checkpoint", "erased", ERASE)
    ledger = story.settle((*SAID[:6], 7), 0)
    assert charges(ledger) == [
        (2, "never captured", "", -1, ""), (4, "erased", ERASE, 0, "checkpoint"),
    ]  # fmt: skip
    assert (ledger.best, ledger.held, ledger.is_balanced) == (6, 4, True)


@pytest.mark.parametrize(("searched", "rule"), [(True, PICK), (False, NEED)])
def test_a_checkpoint_that_is_there_and_not_used_is_charged_to_the_rule_that_passed_it_by(searched, rule):
    story = Story()
    story.point("checkpoint", 4)
    decisions = [(NEED, CheckpointNeed(0, searched)), *([(PICK, None)] if searched else [])]
    ledger = story.settle((*SAID[:4], 7), 0, *decisions)
    assert charges(ledger) == [(4, "not chosen", rule, -1, "checkpoint")]


@pytest.mark.parametrize(("searched", "rule"), [(True, NEED), (False, SELECT)])
def test_a_slot_that_is_there_and_not_used_is_charged_to_the_rule_that_passed_it_by(searched, rule):
    story = Story()
    story.point("slot", 4)
    ledger = story.settle((*SAID[:4], 7), 0, (SELECT, None), (NEED, CheckpointNeed(0, searched)))
    assert charges(ledger) == [(4, "not chosen", rule, -1, "slot")]


def test_without_a_decision_about_it_an_entry_is_charged_to_the_choice_of_the_slot():
    story = Story()
    story.point("entry", 10, "stored")
    assert charges(story.settle((*SAID, 7), 0, (SELECT, None))) == [(10, "not chosen", SELECT, -1, "entry")]


@pytest.mark.parametrize(("slot", "rule"), [(0, LOAD), (None, LOAD), (1, SELECT)])
def test_only_decisions_of_the_request_about_its_slot_or_about_none_are_charged(slot, rule):
    story = Story()
    story.point("entry", 10, "stored")
    story.decide("LC-PC-LOAD.TAKE", None)
    story.ledger.begin(1)
    story.decide(SELECT, None)
    story.ledger.record(Decided(slot, LOAD, None, {}))
    assert charges(story.ledger.settle(1, 0, (*SAID, 7), 0, False)) == [(10, "not chosen", rule, -1, "entry")]


def test_an_entry_that_is_not_loaded_is_charged_to_the_prompt_cache():
    story = Story()
    story.point("entry", 10, "stored")
    ledger = story.settle((*SAID, 7), 0, (SELECT, None), (LOAD, None))
    assert charges(ledger) == [(10, "not chosen", LOAD, -1, "entry")]


@pytest.mark.parametrize("cause", ["erased", "truncated", "overwritten", "cleared", "evaluated"])
def test_what_the_request_itself_carries_out_is_charged_to_the_decision_before_it(cause):
    story = Story()
    story.point("checkpoint", 4)
    story.ledger.begin(1)
    story.decide(NEED, CheckpointNeed(0, True))
    story.decide(PICK, None)
    story.lose("checkpoint", cause, ERASE)
    assert charges(story.ledger.settle(1, 0, (*SAID[:4], 7), 0, False)) == [
        (4, "not chosen", PICK, -1, "checkpoint"),
    ]  # fmt: skip


def test_what_the_request_itself_takes_away_is_charged_to_no_earlier_one():
    story = Story()
    story.point("entry", 6, "stored")
    story.ledger.begin(1)
    story.lose("entry", "consumed", LOAD, slot=None)
    assert charges(story.ledger.settle(1, 0, (*SAID[:6], 7), 0, False)) == [(6, "consumed", LOAD, -1, "entry")]


def test_a_kept_copy_is_charged_before_the_live_slot():
    """Both reach equally far and are gone: the slot continued as every slot does, the copy was removed."""
    story = Story()
    story.ledger.begin(0)
    story.point("slot", 6)
    story.point("entry", 6)
    story.ledger.record(Release(0, 0, 6, False))
    story.lose("entry", "evicted", "LC-PC-UPDATE.PC6")
    story.point("slot", 0, "overwritten", LOAD)
    assert charges(story.settle((*SAID[:6], 7), 0)) == [(6, "evicted", "LC-PC-UPDATE.PC6", 0, "entry")]


def test_what_is_still_there_is_charged_before_a_kept_copy_that_is_gone():
    story = Story()
    story.point("slot", 6)
    story.point("entry", 6, "stored")
    story.lose("entry", "evicted", "LC-PC-UPDATE.PC6")
    assert charges(story.settle((*SAID[:6], 7), 0, (SELECT, None))) == [(6, "not chosen", SELECT, -1, "slot")]


@pytest.mark.parametrize(("first", "second"), [("entry", "checkpoint"), ("checkpoint", "entry")])
def test_of_two_lost_copies_the_one_lost_last_is_charged_then_the_one_made_first(first, second):
    for lost, charged in [((first, second), first), ((first,), second), ((second,), first)]:
        story = Story()
        story.point(first, 6)
        story.point(second, 6)
        story.ledger.begin(0)
        for kind in lost:
            story.lose(kind, "evicted", "rule")
        story.ledger.begin(1)
        for kind in {first, second}.difference(lost):
            story.lose(kind, "evicted", "rule")
        assert charges(story.settle((*SAID[:6], 7), 0, request=2))[0][4] == charged


def test_a_running_slot_that_is_still_there_is_charged_as_far_as_it_reaches():
    story = Story()
    story.point("entry", 4, "stored")
    story.point("slot", 6)
    assert charges(story.settle((*SAID[:6], 7), 0, (SELECT, None))) == [(6, "not chosen", SELECT, -1, "slot")]


def test_tokens_that_were_kept_beyond_every_restore_point_are_not_charged():
    """A correct answer kept five tokens. No clean restore point reached so far, or a transient point reached
    farther."""
    story = Story()
    ledger = story.settle((*SAID[:6], 7), 5)
    assert (ledger.held, charges(ledger), ledger.is_balanced) == (5, [(1, "never captured", "", -1, "")], True)
    story.ledger.begin(0)
    story.point("slot", 6)
    story.point("slot", 0)
    ledger = story.settle((*SAID[:6], 7), 5)
    assert (ledger.held, charges(ledger), ledger.is_balanced) == (6, [(1, "advanced", "", 0, "slot")], True)
    story.point("entry", 5, "stored")
    ledger = story.settle((*SAID[:6], 7), 5)
    assert charges(ledger) == [(1, "advanced", "", 0, "slot")], "the entry was not passed by: its tokens were kept"


def test_a_passing_state_is_charged_only_beyond_the_last_lasting_one():
    story = Story()
    story.ledger.begin(0)
    story.point("entry", 4, "stored")
    story.point("slot", 6)
    story.point("slot", 0)
    story.lose("entry", "consumed", "LC-PC-LOAD.TAKE")
    ledger = story.settle((*SAID[:6], 7), 0)
    assert charges(ledger) == [(2, "advanced", "", 0, "slot"), (4, "consumed", "LC-PC-LOAD.TAKE", 0, "entry")]
    assert ledger.is_balanced


@pytest.mark.parametrize("kind", ["checkpoint", "entry"])
def test_a_shorter_copy_that_was_lost_later_is_charged_with_the_tokens_that_it_covered(kind):
    story = Story()
    story.point("checkpoint", 6, number=1)
    story.point(kind, 4, number=2)
    story.ledger.begin(1)
    story.lose("checkpoint", "erased", ERASE, number=1)
    story.ledger.begin(2)
    story.lose(kind, "restarted", number=2)
    ledger = story.settle((*SAID[:6], 7), 1, request=3)
    assert charges(ledger) == [(2, "erased", ERASE, 1, "checkpoint"), (3, "restarted", "", 2, kind)]
    assert ledger.is_balanced


def test_a_shorter_copy_that_is_still_stored_is_charged_to_the_rule_that_did_not_use_it():
    story = Story()
    story.point("entry", 6, number=1)
    story.point("entry", 4, number=2)
    story.ledger.begin(0)
    story.lose("entry", "consumed", "LC-PC-LOAD.TAKE", number=1)
    ledger = story.settle((*SAID[:6], 7), 0, (SELECT, None), (LOAD, None), request=1)
    assert charges(ledger) == [(2, "consumed", "LC-PC-LOAD.TAKE", 0, "entry"), (4, "not chosen", LOAD, -1, "entry")]


@pytest.mark.parametrize("last", ["checkpoint", "slot"])
def test_a_shorter_point_is_not_charged_if_it_was_lost_first_or_is_a_live_slot(last):
    """The slot continued as every slot does; the copy of six tokens was removed."""
    story = Story()
    story.ledger.begin(0)
    story.point("entry", 6)
    story.point("slot" if last == "slot" else "checkpoint", 4)
    story.ledger.record(Release(0, 0, 4, False))
    story.lose("checkpoint", "erased", ERASE) if last == "checkpoint" else None
    story.ledger.begin(1)
    story.lose("entry", "evicted", "LC-PC-UPDATE.PC6")
    story.ledger.begin(2)
    story.lose("slot", "cleared") if last == "slot" else None
    assert charges(story.settle((*SAID[:6], 7), 0, request=3)) == [(6, "evicted", "LC-PC-UPDATE.PC6", 1, "entry")]


def test_the_reused_tokens_of_a_wrong_answer_are_not_charged():
    story = Story()
    assert story.settle((*SAID, 7), 10, wrong=True) == RequestLedger(10, 0, 10, (), 0, 10)
    ledger = story.settle((*SAID, 7), 4, wrong=True)
    assert (charges(ledger), ledger.wrong) == ([(6, "never captured", "", -1, "")], 4)


def test_one_token_must_be_left_and_more_than_was_evaluated_was_moved():
    story = Story()
    assert story.settle(SAID, 9) == RequestLedger(9, 9, 9, ())
    assert story.settle((*SAID[:4], 7, 8), 5).moved == 1


def test_what_came_after_the_slot_was_chosen_does_not_count():
    story = Story()
    story.ledger.evaluated.clear()
    story.ledger.begin(1)
    story.ledger.record(Decided(0, SELECT, None, {}))
    story.ledger.record(Launch(0, 1, False))
    story.ledger.evaluated.append(SAID)
    story.point("entry", 10)
    assert story.ledger.settle(1, 0, (*SAID, 7), 0, False) == RequestLedger(0, 0, 0, ())


def test_a_restore_point_made_after_the_slot_was_chosen_does_not_count():
    story = Story()
    story.ledger.begin(1)
    story.ledger.record(Decided(0, SELECT, None, {}))
    story.ledger.record(Launch(0, 1, False))
    story.point("entry", 6, "stored")
    ledger = story.ledger.settle(1, 0, (*SAID[:6], 7), 0, False)
    assert (ledger.held, charges(ledger)) == (0, [(6, "never captured", "", -1, "")])


def test_a_point_with_a_step_reaches_the_last_of_its_lengths_that_is_shared():
    """Blocks of four: of ten tokens eight are kept; of seven shared tokens the first block would have been kept."""
    story = Story()
    story.point("block", 10, lengths=(4, 8), step=4)
    for shared, held in [(10, 8), (8, 8), (7, 4), (4, 4), (3, 0)]:
        ledger = story.settle((*SAID[:shared], 7), 0)
        assert (ledger.best, ledger.held, ledger.is_balanced) == (shared, held, True)


def test_a_request_that_begins_again_is_judged_by_its_first_start():
    """It was put back and returned when more could be reused: its answer reports the first start."""
    story = Story()
    story.ledger.begin(1)
    for _ in range(2):
        story.ledger.record(Decided(0, SELECT, None, {}))
        story.ledger.record(Launch(0, 1, False))
        story.point("entry", 6, "stored")
    assert story.ledger.settle(1, 0, (*SAID[:6], 7), 0, False).held == 0


@pytest.mark.parametrize("others", [0, 40])
def test_a_long_request_reports_what_existed_when_it_began(others):
    """Checkpoints of equal length are created and evicted while it is processed; the ledger charges the first
    eviction."""
    story = Story()
    story.point("checkpoint", 6)
    story.ledger.begin(1)
    story.ledger.record(Launch(0, 1, 0))
    for number in range(others):
        story.ledger.begin(2 + number)
        story.lose("checkpoint", "evicted", f"other {number}")
        story.point("checkpoint", 6)
    story.lose("checkpoint", "evicted", "last")
    lost = "other 0" if others else "last"
    ledger = story.ledger.settle(1, 0, (*SAID[:6], 7, 8), 0, False)
    assert [(one.tokens, one.rule, one.kind) for one in ledger.charges] == [(6, lost, "checkpoint")]


@pytest.mark.parametrize(("most", "fits"), [(22, True), (21, False)])
def test_tokens_and_restore_points_count_together_for_the_limit(most, fits):
    """A slot of six tokens is one restore point, which counts as 16 tokens."""
    limits.lift({"judged": most})
    story = Story()
    if fits:
        story.point("slot", 6)
        assert (story.ledger.radix.kept, story.ledger.count) == (6, 1)
    else:
        with pytest.raises(OverLimit, match="what the judge keeps of restore points"):
            story.point("slot", 6)
