"""Assignment of the events of a step to its requests.

Requests sent at the same time share a log, whose tasks are numbered by first appearance. A request is recognised by the
length of its prompt, its slot, and the tokens that the slot held at the end. The copy of a prompt shows whose further
completion a task is. Without a copy it belongs to the task that is launched next, as newer builds launch it, and if it
ends before that, to the task that was launched last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

Event = Mapping[str, Any]
Events = Sequence[Event]


class RequestEvents(NamedTuple):
    """Events of a request's task, and those of its further completions in launch order; ``released``: the slots of all
    of them in the order of their release; ``place``: index of the request's own release among the events;
    ``has_failed``: it ended with an error."""

    events: Events
    children: tuple[Events, ...] = ()
    released: tuple[int, ...] = ()
    place: int = 0
    has_failed: bool = False


@dataclass(slots=True)
class _Task:
    """Logged facts about a task: its slot, the length of its prompt, the tokens at its end, the index of its end among
    the events, and whether that was an error."""

    number: int
    slot: int | None = None
    n_prompt: int | None = None
    end: int | None = None
    place: int = 0
    child: bool = False
    failed: bool = False
    events: list[Event] = field(default_factory=list)
    children: list[_Task] = field(default_factory=list)


def events_by_request(
    requests: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], events: Events,
    numbers: Sequence[int | None] = (),
) -> list[RequestEvents]:
    """Return the events of each (body, response) of a step. If the log does not number tasks, each request gets all
    events. ``numbers``: task numbers of the requests, if recorded."""
    if not any("task" in event for event in events):
        ends = [place for place, event in enumerate(events) if event["ev"] == "release"]
        return [RequestEvents(events, has_failed=bool(ends) and _is_failed(events, ends[-1])) for _ in requests]
    known = _tasks(events)
    tasks = list(known.values())
    found = {i: known[number] for i, number in enumerate(numbers) if number is not None and number in known}
    pairs = [(_likeness(body, response, task), -i, -k) for i, (body, response) in enumerate(requests)
             for k, task in enumerate(tasks)]  # fmt: skip
    for likeness, i, k in sorted(pairs, reverse=True):          # best first; of equal pairs the first
        if likeness >= 0 and -i not in found and all(task is not tasks[-k] for task in found.values()):
            found[-i] = tasks[-k]
    return [_own(found.get(i)) for i in range(len(requests))]


def further_completions(events: Events, number: int) -> list[int]:
    """Return the tasks of the further completions of the request with this task, in the order of their launch."""
    task = _tasks(events).get(number)
    return [] if task is None else [child.number for child in task.children]


def _own(task: _Task | None) -> RequestEvents:
    if task is None:
        return RequestEvents(())
    ended = sorted((one for one in (task, *task.children) if one.end is not None), key=lambda one: one.place)
    released = tuple(one.slot for one in ended if one.slot is not None)
    return RequestEvents(task.events, tuple(child.events for child in task.children), released, task.place, task.failed)


def _tasks(events: Events) -> dict[int, _Task]:
    """Return the tasks by number; further completions are stored with the task that they belong to."""
    known: dict[int, _Task] = {}
    copied = _copied(events)
    waiting: list[_Task] = []
    last: _Task | None = None           # the own task of a request that was launched last
    for place, event in enumerate(events):
        if "task" not in event or event["ev"].startswith("slot_"):     # names the considered slots
            continue
        task = known.setdefault(event["task"], _Task(event["task"]))
        task.events.append(event)
        kind = event["ev"]
        if kind == "launch":
            task.slot, task.child = event.get("slot"), bool(event.get("is_child"))
            if event["task"] in copied:
                owner = copied[event["task"]]
                known.setdefault(owner, _Task(owner)).children.append(task)
            elif task.child:
                waiting.append(task)
            else:
                _own_children(waiting, last, task)
                waiting, last = [], task
        elif kind == "new_prompt":
            task.n_prompt = event["n_tokens"]
        elif kind == "release":
            task.end = event["n_tokens"]
            task.place = place
            task.failed = _is_failed(events, place)
    _own_children(waiting, last, None)
    return {number: task for number, task in sorted(known.items()) if not task.child}


def _copied(events: Events) -> dict[int, int]:
    """Return the tasks that a prompt is copied to, each with the task that it is copied from."""
    children: dict[Any, int] = {}       # slot -> further completion that was launched last
    found: dict[int, int] = {}
    for event in events:
        if event["ev"] == "launch" and event.get("is_child"):
            children[event.get("slot")] = event["task"]
        elif event["ev"] == "copy_to_child" and event.get("child") in children:
            found[children[event["child"]]] = event["task"]
    return found


def _own_children(waiting: Sequence[_Task], last: _Task | None, following: _Task | None) -> None:
    """Add further completions without a copy to the task launched next, or if they ended before, to the last one."""
    for child in waiting:
        owner = last if following is None or (child.end is not None and last is not None) else following
        if owner is not None:
            owner.children.append(child)


def _is_failed(events: Events, place: int) -> bool:
    """True if the error of a response directly precedes the release at this index."""
    before = next((event for event in reversed(events[:place]) if event["ev"] != "cancel"), {})
    return str(before.get("text", "")).startswith("error: ")


def _likeness(body: Mapping[str, Any], response: Mapping[str, Any], task: _Task) -> int:
    """Return how many fields of a task in the server log agree with an HTTP request, weighted: 0 to 3; -1 = a field
    contradicts it."""
    if task.n_prompt is not None and task.n_prompt != len(body["prompt"]):
        return -1
    if task.slot is not None and response.get("id_slot") not in (None, task.slot):
        return -1
    end = body.get("cancel_at_n", response.get("tokens_cached"))
    likeness = 0
    if task.n_prompt is not None:
        likeness += 1
    if end is not None and end == task.end:
        likeness += 2
    return likeness
