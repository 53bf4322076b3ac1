"""Tests of the assignment of events to requests that share a step, with further completions and slots used twice."""

from __future__ import annotations

import pytest

from cachesim.replay.event_owners import RequestEvents, events_by_request


def event(ev, task, slot=0, **more):
    return {"ev": ev, "task": task, "slot": slot, **more}


def life(task, slot, n_prompt, end, child=0):
    """A task's launch, prompt and end."""
    begun = [] if child else [event("new_prompt", task, slot, n_tokens=n_prompt)]
    return [event("launch", task, slot, is_child=child), *begun, event("spec_step", task, slot, n_tokens=end - 1),
            event("release", task, slot, n_tokens=end)]  # fmt: skip


def body(n, **more):
    return {"prompt": [1] * n, **more}


def steps_of(own):
    return [e["n_tokens"] for e in own.events if e["ev"] == "spec_step"]


def test_without_numbered_tasks_everything_is_the_requests():
    events = [{"ev": "launch", "is_child": 0}, {"ev": "release", "n_tokens": 9}]
    assert events_by_request([(body(3), {})], events)[0].events == events


def test_two_requests_on_one_slot_are_told_apart_by_prompt_slot_and_end():
    events = [*life(0, 1, 30, 40), *life(1, 1, 20, 25), *life(2, 1, 20, 28)]
    asked = [(body(20), {"id_slot": 1, "tokens_cached": 28}), (body(30), {}), (body(20, cancel_at_n=25), {})]
    assert [steps_of(own) for own in events_by_request(asked, events)] == [[27], [39], [24]]


def test_an_equal_end_counts_more_than_an_equal_prompt():
    without_prompt = [one for one in life(1, 1, 20, 28) if one["ev"] != "new_prompt"]
    own = events_by_request([(body(20), {"tokens_cached": 28})], [*life(0, 1, 20, 25), *without_prompt])
    assert steps_of(own[0]) == [27]


def test_a_request_that_never_got_a_slot_has_no_events():
    own = events_by_request([(body(30), {}), (body(31), {})], life(0, 1, 30, 40))
    assert (steps_of(own[0]), own[1].events) == ([39], ())


def test_further_completions_are_launched_right_before_the_request():
    own = events_by_request(
        [(body(9), {}), (body(5), {})],
        [event("launch", 0, 2, is_child=1), event("launch", 1, 0, is_child=1), event("launch", 2, 1, is_child=0),
         event("new_prompt", 2, 1, n_tokens=9), event("slot_skip_busy", 0, 2),
         event("release", 1, 0, n_tokens=12), event("release", 2, 1, n_tokens=12), event("release", 0, 2, n_tokens=12),
         *life(3, 0, 5, 7)],
    )  # fmt: skip
    assert [[e["task"] for e in events] for events in own[0].children] == [[0, 0], [1, 1]]
    assert own[0].released == (0, 1, 2)
    assert own[0].place == 6 < own[1].place
    assert (steps_of(own[1]), own[1].children) == ([6], ())


def copy(task, slot, child):
    return event("copy_to_child", task, slot, child=child)


def test_a_copy_shows_whose_further_completion_a_task_is():
    """Before b7747 a request is launched before its further completions, or after them if both had to wait."""
    first = [event("launch", 0, 1), event("launch", 1, 0, is_child=1), event("new_prompt", 0, 1, n_tokens=9),
             copy(0, 1, 0), event("release", 1, 0, n_tokens=12), event("release", 0, 1, n_tokens=12)]  # fmt: skip
    second = [event("launch", 2, 0, is_child=1), event("launch", 3, 1), event("new_prompt", 3, 1, n_tokens=5),
              copy(3, 1, 0), event("release", 3, 1, n_tokens=7), event("release", 2, 0, n_tokens=7)]  # fmt: skip
    own = events_by_request([(body(5), {}), (body(9), {})], [*first, *second])
    assert [[e["task"] for e in child] for one in own for child in one.children] == [[2, 2], [1, 1]]
    assert [one.released for one in own] == [(1, 0), (0, 1)]


def test_a_further_completion_without_a_copy_belongs_to_a_request_that_is_launched_before_its_end():
    cut = [event("launch", 0, 1), event("launch", 1, 0, is_child=1), event("release", 0, 1, n_tokens=2),
           event("release", 1, 0, n_tokens=2)]  # fmt: skip
    [own, other] = events_by_request([(body(5), {}), (body(20), {})], [*cut, *life(2, 1, 20, 25)], [0, 2])
    assert (own.released, len(own.children), other.children) == ((1, 0), 1, ())
    [alone] = events_by_request([(body(5), {})], cut)
    assert alone.released == (1, 0)
    [following] = events_by_request([(body(5), {})], [event("launch", 1, 0, is_child=1), event("launch", 0, 1)])
    assert len(following.children) == 1
    [none] = events_by_request([(body(5), {})], [event("launch", 1, 0, is_child=1), event("release", 1, 0, n_tokens=2),
                                                event("launch", 0, 1)])  # fmt: skip
    assert len(none.children) == 1


def test_a_recorded_task_number_decides_where_the_log_fits_both_requests():
    events = [*life(0, 1, 20, 25), *life(1, 1, 20, 25)]
    asked = [(body(20), {"id_slot": 1, "tokens_cached": 25}), (body(20, cancel_at_n=25), {})]
    assert [own.events[0]["task"] for own in events_by_request(asked, events)] == [0, 1]
    assert [own.events[0]["task"] for own in events_by_request(asked, events, [1, 0])] == [1, 0]


def test_a_request_failed_if_its_error_stands_before_its_release():
    error = {"ev": "error", "text": "error: Context size has been exceeded."}
    first, second = life(0, 0, 30, 40), life(1, 1, 20, 25)
    events = [*first[:-1], error, {"ev": "cancel"}, first[-1], *second]
    assert [own.has_failed for own in events_by_request([(body(30), {}), (body(20), {})], events)] == [True, False]
    alone = [{"ev": "launch", "is_child": 0}, error, {"ev": "release", "n_tokens": 9}]
    assert events_by_request([(body(3), {})], alone)[0].has_failed
    assert not events_by_request([(body(3), {})], [alone[0], alone[2]])[0].has_failed
    assert events_by_request([(body(3), {})], [*alone, {"ev": "slots_idle"}])[0].has_failed
    assert not events_by_request([(body(3), {})], [*alone, alone[0], alone[2], error])[0].has_failed
    assert not events_by_request([(body(3), {})], alone[:2])[0].has_failed


@pytest.mark.parametrize(("asked", "owner"), [
    ((body(20), {}), 0), ((body(20), {"id_slot": 1}), 0), ((body(20), {"id_slot": 2}), None),
    ((body(21), {"id_slot": 1, "tokens_cached": 25}), None), ((body(20), {"id_slot": None}), 0),
    ((body(20), {"tokens_cached": 26}), 0),
])  # fmt: skip
def test_a_task_whose_prompt_or_slot_contradicts_a_request_is_not_its_own(asked, owner):
    [found] = events_by_request([asked], life(0, 1, 20, 25))
    assert found == (RequestEvents(tuple(life(0, 1, 20, 25)), (), (1,), 3)._replace(events=life(0, 1, 20, 25))
                     if owner == 0 else RequestEvents(()))  # fmt: skip


def test_the_end_of_a_task_counts_more_than_the_length_of_its_prompt():
    """The first task has no prompt in the log, but the end of the second request."""
    first, second = [event("launch", 0, 1), event("release", 0, 1, n_tokens=28)], life(1, 1, 20, 25)
    asked = [(body(20), {"tokens_cached": 25}), (body(20), {"tokens_cached": 28})]
    assert [own.events for own in events_by_request(asked, [*first, *second])] == [second, first]


def test_of_equal_requests_the_first_gets_the_first_task():
    events = [*life(5, 1, 20, 25), *life(3, 1, 20, 25)]
    asked = [(body(20), {})] * 3
    found = [own.events[0]["task"] if own.events else None for own in events_by_request(asked, events)]
    assert found == [3, 5, None]


def test_a_recorded_task_number_that_is_not_in_the_log_decides_nothing():
    asked = [(body(20), {}), (body(30), {})]
    events = [*life(0, 1, 30, 35), *life(1, 0, 20, 25)]
    assert [own.events[0]["task"] for own in events_by_request(asked, events, [None, 7])] == [1, 0]


def test_completions_that_are_not_released_have_no_place_in_the_order():
    events = [event("launch", 0, 2, is_child=1), event("launch", 1, 0), event("release", 1, 0, n_tokens=9)]
    [own] = events_by_request([(body(5), {})], events)
    assert own == RequestEvents([events[1], events[2]], ([events[0]],), (0,), 2)
    assert events_by_request([(body(5), {})], events[:2]) == [RequestEvents([events[1]], ([events[0]],))]
