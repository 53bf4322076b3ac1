"""Tests of the assignment of events to requests that share a step, with further completions and slots used twice."""

from __future__ import annotations

from cachesim.replay.event_owners import events_by_request


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
