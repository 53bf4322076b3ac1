"""Tests of the search for the arrival order of concurrent requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.base import limits
from cachesim.engines.base import BEFORE_A_SLOT, Request
from cachesim.replay.recorded_trace import TraceMember, TraceStep
from cachesim.replay.replay import records
from cachesim.replay.schedule_search import ChosenOption, RecordedGroup, ScheduleAttempt, next_way, send
from tests.unit.engines.llama_cpp.talk import Talk, word

FLAGS = {"parallel": 2, "cache_idle_slots": False, "mode": "none"}
A, B, C = (Request(word(name, n), n_predict=60) for name, n in (("A", 30), ("B", 25), ("C", 20)))


SHORT_A, SHORT_B = (replace(request, n_predict=20) for request in (A, B))
"""Requests for which few orders are tried."""


def logged(server, start):
    return records(server.log.events[start:], False, frozenset(), True)


def played(*arrivals, **flags):
    """Return the log of a server that got each request so many rounds after the previous request."""
    server = Talk(**{**FLAGS, **flags}).server
    for rounds, request in arrivals:
        for _ in range(rounds):
            server.iterate()
        server.submit(request)
    while server.working:
        server.iterate()
    return logged(server, 0)


def found(theirs, *requests, **flags):
    """Return our log when the requests are sent and the other log is known, and the number of checked answers."""
    step = TraceStep(0, tuple(TraceMember(request, {}) for request in requests), {}, theirs)
    sent = send(Talk(**{**FLAGS, **flags}).server, step, theirs, logged,
                lambda _server, number, _answer: number)  # fmt: skip
    assert list(sent.answers) == list(range(len(requests))) == sorted(sent.answers_checked)
    return logged(sent.server, 0)


@pytest.mark.parametrize("silent", [0, 1, 7, 40])
def test_rounds_without_an_event_before_an_arrival_are_counted(silent):
    theirs = played((0, A), (silent, B))
    assert found(theirs, A, B) == theirs


def test_requests_may_arrive_in_another_order_and_with_pauses_before_each():
    theirs = played((0, C), (5, A), (4, B))
    assert found(theirs, A, B, C) == theirs


def test_a_way_that_agrees_to_the_very_end_is_taken_where_another_one_agrees_almost_as_far():
    """The number of rounds before the last arrival shows in the last event only."""
    short = Request(word("B", 25), n_predict=3)
    theirs = played((0, A), (2, short), (9, C), parallel=3)
    assert found(theirs, A, short, C, parallel=3) == theirs


def test_an_arrival_between_the_same_rounds_as_a_hang_up_comes_where_the_log_has_it():
    gone = Request(word("A", 30), n_predict=60, cancel_at=34)
    server = Talk(**FLAGS).server
    server.submit(gone)
    while not server.tasks.disconnect_is_next:
        server.iterate()
    server.submit(B)
    later = server.fork()
    server.tasks.take_queue()
    logs = []
    for one in (server, later):
        while one.working:
            one.iterate()
        logs.append(logged(one, 0))
    assert logs[0] != logs[1]
    assert [found(theirs, gone, B) for theirs in logs] == logs


def test_several_arrivals_between_the_same_rounds_as_a_hang_up_come_where_the_log_has_them():
    gone = Request(word("A", 30), n_predict=60, cancel_at=34)
    logs = []
    for before in range(3):
        server = Talk(**{**FLAGS, "parallel": 3}).server
        server.submit(gone)
        while not server.tasks.disconnect_is_next:
            server.iterate()
        for number, request in enumerate((B, C)):
            server.submit(request)
            if number < before:
                server.tasks.take_queue()
        while server.working:
            server.iterate()
        logs.append(logged(server, 0))
    assert [found(theirs, gone, B, C, parallel=3) for theirs in logs] == logs


def test_hang_ups_between_the_same_rounds_come_in_the_order_of_the_log():
    logs = []
    for places in ((1, 2), (2, 1)):
        gone = [Request(word(name, 30), n_predict=60, cancel_at=34, cancel_place=place)
                for name, place in zip("AB", places, strict=True)]  # fmt: skip
        logs.append(played((0, gone[0]), (0, gone[1])))
    assert [[event["task"] for event in log if event["ev"] == "release"] for log in logs] == [[0, 1], [1, 0]]


def test_a_request_may_come_unseen_while_all_slots_are_busy():
    """Without similarity the log does not mention a waiting request. Which of two requests comes first when both slots
    are released shows that it waited after the other."""
    flags = {"slot_prompt_similarity": 0.0}
    one, other = (Request(word(name, 5), n_predict=4) for name in "AB")
    named, late = Request(word("C", 4), n_predict=2, id_slot=1), Request(word("D", 3), n_predict=2)
    theirs = played((0, one), (0, other), (1, named), (1, late), **flags)
    assert [event["ev"] for event in theirs if event["ev"].startswith("slot_by")] == [
        "slot_by_lru", "slot_by_lru", "slot_by_id", "slot_by_lru", "slot_by_id"]  # fmt: skip
    assert found(theirs, one, other, named, late, **flags) == theirs


def test_the_best_of_all_ways_is_kept_where_none_agrees():
    theirs = [*played((0, SHORT_A), (3, SHORT_B)), {"ev": "other"}]
    assert found(theirs, SHORT_A, SHORT_B) == theirs[:-1]


def test_the_search_ends_where_its_work_does():
    theirs = [*played((0, SHORT_A), (3, SHORT_B)), {"ev": "other"}]
    step = TraceStep(0, tuple(TraceMember(request, {}) for request in (SHORT_A, SHORT_B)), {}, theirs)
    tried = []
    for work in (1, 250, 10**9):
        limits.lift({limits.ORDER_WORK.name: work})
        tried.append(send(Talk(**FLAGS).server, step, theirs, logged, lambda *_: None).gave_up_after)
    limits.lift({})
    assert tried[0] == 1 < tried[1] and tried[2] is None        # in the end all were tried


def test_a_search_does_no_more_work_than_is_left():
    theirs = [*played((0, SHORT_A), (3, SHORT_B)), {"ev": "other"}]
    step = TraceStep(0, tuple(TraceMember(request, {}) for request in (SHORT_A, SHORT_B)), {}, theirs)
    tried = [send(Talk(**FLAGS).server, step, theirs, logged, lambda *_: None, left=left).gave_up_after
             for left in (-1, 0, 250)]  # fmt: skip
    assert tried[:2] == [0, 1] and tried[2] > 1


def test_the_search_ends_after_its_orders_and_only_beyond_its_work():
    """The work of the first order alone is not beyond a limit of so much."""
    theirs = [*played((0, A), (3, B)), {"ev": "other"}]
    step = TraceStep(0, tuple(TraceMember(request, {}) for request in (A, B)), {}, theirs)
    group = RecordedGroup(step, theirs, logged, lambda *_: None, Path())
    first = ScheduleAttempt(Talk(**FLAGS).server, group, [], False)
    first.run()
    for limit, tried_orders in (({limits.ORDERS.name: 3}, 3), ({limits.ORDER_WORK.name: first.work}, 2),
                                ({limits.ORDER_WORK.name: first.work - 1}, 1)):  # fmt: skip
        limits.lift(limit)
        tried = send(Talk(**FLAGS).server, step, theirs, logged, lambda *_: None).gave_up_after
        limits.lift({})
        assert tried == tried_orders


def test_an_attempt_ends_at_the_first_difference_unless_it_goes_on_to_the_end():
    """The server works on another request, whose end is the first event."""
    for to_the_end in (False, True):
        attempt = tried([TraceMember(B, {})], [{"ev": "other"}])
        attempt.run(**({"to_the_end": True} if to_the_end else {}))
        assert (attempt.apart, attempt.met, attempt.agrees) == (True, 0, False)
        assert bool(attempt.given) is to_the_end and attempt.work > attempt.rounds > 0


def test_every_request_is_answered_though_the_log_differs_from_its_first_event_on():
    assert found([{"ev": "other"}], A, B) == played((0, A), (0, B))


def test_ways_are_gone_through_depth_first():
    way, seen = [], []
    while way is not None:
        chosen = [ChosenOption(way[k] if k < len(way) else 0, n) for k, n in enumerate((2, 3))]
        seen.append(tuple(one.option for one in chosen))
        way = next_way(chosen)
    assert seen == [(i, k) for i in range(2) for k in range(3)]


def test_of_two_requests_with_the_same_prompt_the_answers_say_which_came_first():
    same = Request(word("A", 30), n_predict=2)
    theirs = played((0, same), (1, same), parallel=1)
    step = TraceStep(0, (TraceMember(same, {}), TraceMember(same, {})), {}, theirs)

    def cached(fits):
        server = Talk(**FLAGS | {"parallel": 1}).server
        answers = send(server, step, theirs, logged, lambda *_: None, fits).answers
        return [answer.cache_n > 0 for answer in answers.values()]

    assert cached(lambda sent: True) == [False, True]
    assert cached(lambda sent: sent.answers[0].cache_n > 0) == [True, False]
    assert cached(lambda sent: False) == [False, True]


def test_requests_arrive_in_the_order_of_their_recorded_tasks_where_the_log_fits_any():
    """Equal lengths, nothing in common: only the recording says whose task was the first."""
    one, other = (Request(word(name, 30), n_predict=2) for name in "AB")
    theirs = played((0, one), (1, other), parallel=1)

    def left_behind(*numbers):
        members = tuple(TraceMember(asked, {}, task=n) for asked, n in zip((one, other), numbers, strict=True))
        step = TraceStep(0, members, {}, theirs)
        server = send(Talk(**FLAGS | {"parallel": 1}).server, step, theirs, logged, lambda *_: None).server
        return tuple(server.core.slots[0].tokens[:30])

    assert left_behind(0, 1) == left_behind(None, None) == tuple(other.prompt)
    assert left_behind(1, 0) == tuple(one.prompt)


def test_a_request_that_its_client_gave_up_while_it_waited_may_have_been_looked_at_or_not():
    """Two slots are requested by name; the third request finds its slot busy, if it arrives at all."""
    flags = {"parallel": 2}
    first, gone = replace(A, id_slot=0), replace(B, id_slot=0, cancel_at=BEFORE_A_SLOT)
    for theirs in (played((0, first), **flags), played((0, first), (3, gone), **flags)):
        step = TraceStep(
            0, (TraceMember(gone, {"cancelled": True}, None, launched=False), TraceMember(first, {})), {}, theirs
        )
        sent = send(Talk(**FLAGS).server, step, theirs, logged, lambda *_: None)
        assert logged(sent.server, 0) == theirs
        assert [answer.cancelled for answer in sent.answers.values()] == [True, False]


def test_a_request_that_waits_for_a_slot_is_looked_at_again_when_one_is_released():
    """Its client gives up before it gets a slot; the short request ends in the other slot in the meantime."""
    first, short = replace(A, id_slot=0), replace(C, id_slot=1, n_predict=3)
    gone = replace(B, id_slot=0, cancel_at=BEFORE_A_SLOT)
    server, answers = Talk(**FLAGS).server, []
    for request in (first, short, gone):
        answers.append(server.submit(request))
        server.iterate()
    while not answers[1].done:
        server.iterate()
    server.submit(gone)
    while server.working:
        server.iterate()
    theirs = logged(server, 0)
    members = (TraceMember(gone, {"cancelled": True}, None, launched=False), TraceMember(first, {}),
               TraceMember(short, {}))  # fmt: skip
    step = TraceStep(0, members, {}, theirs)
    sent = send(Talk(**FLAGS).server, step, theirs, logged, lambda *_: None)
    assert logged(sent.server, 0) == theirs
    assert [answer.cancelled for answer in sent.answers.values()] == [True, False, False]
    assert [event["ev"] for event in theirs].count("slot_by_id") == 4


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_request_may_come_to_a_server_that_works_on_nothing(more):
    """D2: the conversation that is loaded for the second is longer than the prompt in progress. The third is refused
    without a log line, after any number of rounds."""
    flags = {"batch_size": 32, "ubatch_size": 32, "slot_prompt_similarity": 0.1, "mode": "provenance"}
    long, other = word("X", 90), Request(word("B", 60), n_predict=2, id_slot=0)
    late, refused = Request((*long, 1), n_predict=1, id_slot=0), Request(long, n_cmpl=9)

    def server():
        talk = Talk(**FLAGS | flags | {"cache_ram": 64})
        for prompt in (long, word("Z", 30)):
            talk.ask(prompt, 1, id_slot=0)
        return talk.server

    one = server()
    start = len(one.log.events)
    one.submit(other)
    one.iterate()
    one.submit(late)
    while one.working:
        one.iterate()
    for _ in range(more):
        one.iterate()
    one.submit(refused)
    theirs = logged(one, start)
    step = TraceStep(
        0, (TraceMember(other, {}), TraceMember(late, {}), TraceMember(refused, {})), {}, theirs, stuck=True
    )
    sent = send(server(), step, theirs, logged, lambda *_: None)
    assert logged(sent.server, start) == theirs
    assert [answer.done for answer in sent.answers.values()] == [False, False, True]


def tried(members, theirs=(), **fields):
    """Return an attempt of a server that is busy with another request."""
    server = Talk(**FLAGS | {"parallel": 1}).server
    server.submit(A)
    server.iterate()
    step = TraceStep(0, tuple(members), {}, list(theirs), **fields)
    return ScheduleAttempt(server, RecordedGroup(step, step.events, logged, lambda *_: None, Path()), [], False)


def test_requests_sent_at_once_arrive_in_the_order_of_the_recording():
    members = [TraceMember(B, {}, task=9), TraceMember(C, {}, task=3)]
    assert (tried(members, at_once=True).waiting, tried(members).waiting) == ([0, 1], [1, 0])
