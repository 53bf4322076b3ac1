"""Tests of the request that an event of a shared part of the log belongs to."""

from __future__ import annotations

from cachesim.events import Aborted, Decided, Launch, Log, Release
from cachesim.judging.judged_run import run_judged
from cachesim.judging.request_events import LaunchPlace, events_of, group_of, owned_events
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load


def log_of(*events):
    """A log of three requests sent together, with all events in the part of the last."""
    log = Log()
    for _ in range(3):
        log.mark()
    for event in events:
        log.emit(event)
    return log


def decided(slot, number=0):
    return Decided(slot, "R.1", number, {})


def test_requests_that_follow_each_other_in_a_slot_have_their_own_events():
    log = log_of(decided(0), Launch(0, 0, 0), decided(0), Release(0, 0, 3, 0),
                 decided(0), Launch(0, 1, 0), decided(0), decided(None), decided(5))  # fmt: skip
    launches = [LaunchPlace(1, 0, 0), LaunchPlace(5, 0, 2)]
    found = [owner for _, owner in owned_events(log, range(3), launches)]
    assert found == [0, 0, 0, 0, 2, 2, 2, None, -1]
    steps = from_line("A9/B9{together}/C9{together}").steps
    assert [len(events_of(log, steps, launches, number)) for number in range(3)] == [5, 1, 4]


def test_after_the_last_release_a_slot_belongs_to_the_last_request():
    log = log_of(Launch(0, 0, 0), Release(0, 0, 3, 0), decided(0))
    for later in ([], [LaunchPlace(3, 0, 2)]):         # the first event of the next group
        assert [owner for _, owner in owned_events(log, range(3), [LaunchPlace(0, 0, 1), *later])] == [1, 1, 1]


def test_after_two_requests_a_slot_belongs_to_the_second():
    log = log_of(Launch(0, 0, 0), Release(0, 0, 3, 0), Launch(0, 1, 0), Release(0, 1, 3, 0), decided(0))
    launches = [LaunchPlace(0, 0, 1), LaunchPlace(2, 0, 0)]
    assert [owner for _, owner in owned_events(log, range(3), launches)] == [1, 1, 0, 0, 0]


def test_all_events_of_a_step_that_is_sent_alone_are_its_own():
    log = log_of(decided(0), decided(5), decided(None))
    steps = from_line("A9/B9/C9").steps
    assert [len(events_of(log, steps, [LaunchPlace(0, 0, 2)], number)) for number in range(3)] == [0, 0, 3]
    together = from_line("A9/B9{together}/C9{together}").steps
    assert len(events_of(log, together, [LaunchPlace(0, 0, 2)], 2)) == 2, "none was launched in slot 5"


def test_groups():
    steps = from_line("A9/B9/C9{together}/D9").steps
    assert [list(group_of(steps, number)) for number in range(4)] == [[0], [1, 2], [1, 2], [3]]


def test_a_request_without_an_answer_has_the_events_of_its_slot():
    """The server ends while request 3 is launched in the slot that request 0 has left."""
    run = run_judged(load(corpus_files()["llama-23720-checkpoint-too-large-window"]), "llama_cpp@b9231", "provenance")
    rules = [{event.rule for event in run.events(i) if isinstance(event, Decided)} for i in range(4)]
    assert [i for i in range(4) if "LC-CKPT-UNREAD.ABORT" in rules[i]] == [3]
    assert all(any(isinstance(event, Launch) for event in run.events(i)) for i in range(4))
    assert all(any(isinstance(event, Aborted) for event in run.events(i)) for i in range(4)), "it has no slot"
