"""Tests that events are values: compared, hashed and printed by kind and fields, and never changed."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import ClassVar

import pytest

from cachesim import events
from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama import events as ik_events
from cachesim.engines.llama_cpp import events as llama_events
from cachesim.engines.shared import slot_events
from cachesim.events.base import LOOKS, Event, Log, SlotEvent, frozen, mib, share


@frozen
class Sent(SlotEvent):
    ev: ClassVar[str] = "sent"
    n_tokens: int
    text: str = "x"


@frozen
class Told(SlotEvent):
    ev: ClassVar[str] = "told"
    n_tokens: int
    text: str = "x"


def test_equal_are_events_of_one_kind_with_equal_fields():
    assert Sent(0, 1, 5) == Sent(0, 1, 5)
    assert [Sent(0, 1, 5) == other for other in (Sent(0, 1, 6), Sent(1, 1, 5), Sent(0, 1, 5, "y"))] == [False] * 3
    assert Sent(0, 1, 5) != Told(0, 1, 5)
    assert Sent(0, 1, 5) != (0, 1, 5, "x")


def test_equal_events_are_one_in_a_set_and_events_of_two_kinds_are_two():
    assert len({Sent(0, 1, 5), Sent(0, 1, 5), Told(0, 1, 5)}) == 2
    assert hash(Sent(0, 1, 5)) == hash(Sent(0, 1, 5)) != hash(Told(0, 1, 5))


def test_a_kind_has_the_name_and_the_marks_of_its_base_unless_it_states_its_own():
    class Silent(Event, ev="silent", logged=False):
        pass

    class Further(Silent):
        pass

    class Shown(Silent, ev="shown", printed=True):
        pass

    class Recorded(Silent, logged=True):
        pass

    class Plain(SlotEvent, ev="plain"):
        pass

    assert [(kind.ev, kind.logged, kind.printed) for kind in (Silent, Further, Shown, Recorded, Plain)] == [
        ("silent", False, False), ("silent", False, False), ("shown", False, True), ("silent", True, True),
        ("plain", True, True)]  # fmt: skip


def test_the_text_of_an_event_is_the_call_that_makes_it():
    assert repr(Sent(None, 1, 5)) == "Sent(slot=None, task=1, n_tokens=5, text='x')"
    assert eval(repr(Sent(0, 1, 5))) == Sent(0, 1, 5)


def test_an_event_has_its_fields_and_no_other_and_can_be_copied():
    """mypy checks that events are not changed: it sees the classes as frozen."""
    event = Sent(0, 1, 5)
    with pytest.raises(AttributeError):
        event.other = 6
    assert copy.deepcopy(event) == pickle.loads(pickle.dumps(event)) == event


@pytest.mark.parametrize("home", [slot_events, llama_events, ik_events])
def test_every_logged_event_of_an_engine_is_in_its_list(home):
    kinds = [kind for kind in vars(home).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert {kind for kind in kinds if kind.logged and kind.ev} <= set(home.LOGGED)


def test_every_event_is_of_this_form():
    homes = {**vars(events), **vars(slot_events), **vars(llama_events)}
    kinds = [one for one in homes.values() if isinstance(one, type) and issubclass(one, Event)]
    made = [one for one in kinds if one not in (Event, SlotEvent)]
    assert len(made) > 60
    for kind in made:
        assert kind.__eq__ is Event.__eq__ and kind.__hash__ is Event.__hash__ and kind.__repr__ is Event.__repr__, kind
        values = {field.name: None for field in fields(kind)}
        assert kind(**values) == kind(**values), kind


def test_a_further_listener_gets_every_event_after_the_first_which_keeps_its_kinds():
    log, heard = Log(), []
    log.listener, log.kinds = lambda event: heard.append((1, event)), frozenset({Sent})
    log.add_listener(lambda event: heard.append((2, event)))
    sent, told = Sent(0, 1, 5), Told(0, 1, 5)
    log.emit(told)
    log.emit(sent)
    assert heard == [(2, told), (1, sent), (2, sent)] and log.listens_to(Told)


def test_a_listener_gets_only_the_kinds_that_it_asks_for():
    sent, told = Sent(0, 1, 5), Told(0, 1, 5)
    for kinds, wanted in ((frozenset(), [told, sent]), (frozenset({Sent}), [sent])):
        log, heard = Log(), []
        assert not log.listens_to(Sent)
        log.listener, log.kinds = heard.append, kinds
        log.emit(told)
        log.emit(sent)
        assert heard == wanted and [kind for kind in (Told, Sent) if log.listens_to(kind)] == [*map(type, wanted)]


def test_a_listener_is_added_to_none():
    log, heard = Log(), []
    log.add_listener(heard.append)
    log.emit(Sent(0, 1, 5))
    assert heard == log.events


def test_a_trace_holds_the_slot_of_several_and_the_number_of_the_task_in_its_step():
    event = Sent(2, 7, 5)
    assert event.record() == {"ev": "sent", "slot": 2, "n_tokens": 5, "text": "x"}
    assert event.record(one_slot=True, tasks={7: 1, 8: 0}) == {"ev": "sent", "task": 1, "n_tokens": 5, "text": "x"}
    assert event.record(tasks={8: 0}) == event.record()
    assert Sent(None, None, 5).record(tasks={}) == {"ev": "sent", "n_tokens": 5, "text": "x"}


def test_numbers_are_printed_with_three_decimals():
    assert (mib(1 << 20), mib(1_500_000), share(1 / 3), share(1)) == (1.0, 1.431, 0.333, 1.0)
    assert mib(1 << 40) == 1_048_576.0


def test_a_log_counts_work_and_goes_on_from_the_log_before():
    before = Log()
    before.spend(5, 2)
    before.spend(3, 1, exact=4)
    before.refund(1, 1, exact=1)
    before.sample()
    log = Log(before)
    assert (log.spent, log.passes, log.exact, log.sampled) == (7, 2, 3, 1)
    log.refund(1, 1)
    assert (log.spent, log.passes, log.exact) == (6, 1, 3)


@pytest.mark.parametrize("limit, work, message", [
    (limits.NEW_TOKENS, lambda log: log.spend(5, 0), "evaluates and generates more tokens"),
    (limits.PASSES, lambda log: log.spend(0, 5), "takes more steps"),
    (limits.EXACT_WORK, lambda log: log.spend(0, 0, exact=5), "does more exact arithmetic"),
    (limits.SAMPLED_TOKENS, lambda log: [log.sample() for _ in range(5)], "generates more tokens"),
])  # fmt: skip
def test_a_run_may_do_as_much_as_its_limit_and_no_more(limit, work, message):
    limits.lift({limit.name: 5})
    work(Log())
    limits.lift({limit.name: 4})
    with pytest.raises(BadInput, match=message):
        work(Log())


def test_the_events_of_a_request_are_those_between_two_marks():
    log = Log()
    for number in range(3):
        assert log.mark() == number
        for n_tokens in range(number):
            log.emit(Sent(number, number, n_tokens))
    assert [[event.n_tokens for event in log.of(number)] for number in range(3)] == [[], [0], [0, 1]]
    assert repr(log) == "<Log of 3 steps: 3 events>"


def test_looks_at_stored_objects_count_as_micro_batches_and_their_rest_is_kept():
    log = Log()
    log.look(LOOKS - 1)
    assert (log.passes, log.looks) == (0, LOOKS - 1)
    log.look(LOOKS + 3)
    after = Log(log)
    after.look(LOOKS - 2)
    assert (log.passes, log.looks, after.passes, after.looks) == (2, 2, 3, 0)


def test_looks_end_a_run_that_has_too_many():
    limits.lift({"passes": 2})
    log = Log()
    log.look(3 * LOOKS - 1)
    with pytest.raises(BadInput, match="takes more steps than it may"):
        log.look(1)
