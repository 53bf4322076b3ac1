"""When is the order of two events in a log a decision, and when an accident?

ik_llama.cpp's server has checkpoint lines written by another thread: they appear some time after they happened, among
lines of what came later. Within each of the two streams the order holds; between them only that nothing appears before
it happened. Source: the recorded traces, in which `release` stands before the last `ckpt_create` in one answer and
behind it in the next.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Iterable, Mapping, Sequence

Records = Sequence[Mapping[str, Any]]


def in_streams(events: Records, late: AbstractSet[str]) -> list[Mapping[str, Any]]:
    """The events that are written at once, then those that are written late, each in their order."""
    return [e for e in events if e["ev"] not in late] + [e for e in events if e["ev"] in late]


def too_early(theirs: Records, ours: Records, late: AbstractSet[str]) -> dict[str, Any] | None:
    """The first late event that was recorded before ours had happened, None if there is none."""
    for (seen, recorded), (due, event) in zip(_places(theirs, late), _places(ours, late), strict=False):
        if seen < due:
            return {"event": seen, "recorded": dict(recorded), "ours": dict(event), "why": "written before it happened"}
    return None


def without_cut_off(
    ours: Records, theirs: Records, late: AbstractSet[str], following: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Our events without those checkpoints at the end that the recorder did not wait for, if an event recorded in a
    later step proves that they were made: it restores, erases or evicts a checkpoint that no step has created since."""
    seen = sum(event["ev"] in late for event in theirs)
    unseen = [place for place, event in enumerate(ours) if event["ev"] in late][seen:]
    made = _made_before(following, late) if unseen else frozenset()
    kept = list(ours)
    for place in reversed(unseen):
        if _name(kept[place]) not in made:
            break
        del kept[place]
    return kept


def _made_before(following: Iterable[Mapping[str, Any]], late: AbstractSet[str]) -> frozenset[tuple[Any, Any]]:
    """Checkpoints, by slot and position, that are used by the following events before one of them creates any there."""
    first: dict[tuple[Any, Any], bool] = {}
    for event in following:
        if event["ev"] in late and "pos_max" in event:
            first.setdefault(_name(event), event["ev"] != "ckpt_create")
    return frozenset(name for name, used in first.items() if used)


def _name(event: Mapping[str, Any]) -> tuple[Any, Any]:
    return event.get("slot"), event.get("pos_max")


def _places(events: Records, late: AbstractSet[str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Every late event with the number of other events before it."""
    others, found = 0, []
    for event in events:
        if event["ev"] in late:
            found.append((others, event))
        else:
            others += 1
    return found
