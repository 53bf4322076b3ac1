"""Which of a step's events belong to which of its requests?

Requests that were sent at the same time share a log; its tasks are numbered by their first appearance. A request is
found again by the length of its prompt, its slot and the tokens that the slot held at the end. Further completions are
launched right before the request's own task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

Event = Mapping[str, Any]
Events = Sequence[Event]


class Own(NamedTuple):
    """The events of a request's task, and those of its further completions in the order of their launch; the slots of
    all of them in the order in which they were released. ``place``: that of its own release among the events."""

    events: Events
    children: tuple[Events, ...] = ()
    released: tuple[int, ...] = ()
    place: int = 0


@dataclass(slots=True)
class _Task:
    """What the log says of a task: its slot, the length of its prompt, the tokens at its end and its place among the
    ends."""

    slot: int | None = None
    n_prompt: int | None = None
    end: int | None = None
    place: int = 0
    child: bool = False
    events: list[Event] = field(default_factory=list)
    children: list[_Task] = field(default_factory=list)


def own_events(
    requests: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], events: Events,
    numbers: Sequence[int | None] = (),
) -> list[Own]:
    """For each (body, response) of a step what is its own. Where the log does not number tasks, all events are.
    ``numbers`` are the tasks of the requests where the recording says them."""
    if not any("task" in event for event in events):
        return [Own(events) for _ in requests]
    known = _tasks(events)
    tasks = list(known.values())
    found = {i: known[number] for i, number in enumerate(numbers) if number is not None and number in known}
    pairs = [(_likeness(body, response, task), -i, -k) for i, (body, response) in enumerate(requests)
             for k, task in enumerate(tasks)]  # fmt: skip
    for likeness, i, k in sorted(pairs, reverse=True):          # the best first, of equals the first
        if likeness >= 0 and -i not in found and all(task is not tasks[-k] for task in found.values()):
            found[-i] = tasks[-k]
    return [_own(found.get(i)) for i in range(len(requests))]


def _own(task: _Task | None) -> Own:
    if task is None:
        return Own(())
    ended = sorted((one for one in (task, *task.children) if one.end is not None), key=lambda one: one.place)
    released = tuple(one.slot for one in ended if one.slot is not None)
    return Own(task.events, tuple(child.events for child in task.children), released, task.place)


def _tasks(events: Events) -> dict[int, _Task]:
    """Tasks by number, without further completions: these are with the task that they belong to."""
    known: dict[int, _Task] = {}
    waiting: list[_Task] = []
    for place, event in enumerate(events):
        if "task" not in event or event["ev"].startswith("slot_"):     # slot choice names whom it looks at
            continue
        task = known.setdefault(event["task"], _Task())
        task.events.append(event)
        kind = event["ev"]
        if kind == "launch":
            task.slot, task.child = event.get("slot"), bool(event.get("is_child"))
            if task.child:
                waiting.append(task)
            else:
                task.children, waiting = waiting, []
        elif kind == "new_prompt":
            task.n_prompt = event["n_tokens"]
        elif kind == "release":
            task.end, task.place = event["n_tokens"], place
    return {number: task for number, task in sorted(known.items()) if not task.child}


def _likeness(body: Mapping[str, Any], response: Mapping[str, Any], task: _Task) -> int:
    """How well a task fits a request; -1 = not at all."""
    if task.n_prompt is not None and task.n_prompt != len(body["prompt"]):
        return -1
    if task.slot is not None and response.get("id_slot") not in (None, task.slot):
        return -1
    end = body.get("cancel_at_n", response.get("tokens_cached"))
    return (task.n_prompt is not None) + 2 * (end is not None and end == task.end)
