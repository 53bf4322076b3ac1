"""Events of each request of a run. Requests that are sent at the same time share a part of the log: an event of a slot
belongs to the request that was launched there."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.events import Event, Log, Release
from cachesim.scenarios.schema import Step


class LaunchPlace(NamedTuple):
    """Launch of a request: the index of its event in the log (``place``), its slot, and the number of the request."""

    place: int
    slot: int
    request: int


def group_of(steps: Sequence[Step], number: int) -> range:
    """Return the steps that are sent together with step ``number``."""
    first, stop = number, number + 1
    while steps[first].together:
        first -= 1
    while stop < len(steps) and steps[stop].together:
        stop += 1
    return range(first, stop)


def events_of(log: Log, steps: Sequence[Step], launches: Sequence[LaunchPlace], number: int) -> list[Event]:
    """Return the events of a step. For steps sent together: its own events and those without a slot."""
    group = group_of(steps, number)
    if len(group) == 1:
        return list(log.of(number))
    return [event for event, owner in owned_events(log, group, launches) if owner in (None, number)]


def owned_events(log: Log, group: range, launches: Sequence[LaunchPlace]) -> Iterator[tuple[Event, int | None]]:
    """Yield the events of steps sent together, each with its request: None = an event without a slot, -1 = of a slot
    in which none of the requests was launched. What happens in a slot after a release belongs to the request that is
    launched there next, if there is one."""
    begin = log.marks[group.start]
    events = [event for number in group for event in log.of(number)]
    inside = [one for one in launches if begin <= one.place < begin + len(events)]
    released: dict[int, int] = {}
    for index, event in enumerate(events, begin):
        slot = getattr(event, "slot", getattr(event, "seq", None))
        mine = [one for one in inside if one.slot == slot]
        after = [one for one in mine if one.place > released.get(slot, -1)] if slot is not None else []
        yield event, None if slot is None else (after[:1] or mine[-1:] or [LaunchPlace(index, slot, -1)])[0].request
        if isinstance(event, Release) and slot is not None:
            released[slot] = index
