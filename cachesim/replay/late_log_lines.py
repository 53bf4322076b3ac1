"""Event order for logs in which some lines are written late.

Another thread writes ik_llama.cpp's checkpoint lines: they appear some time after the event, among lines about later
events. The order within each of the two streams is reliable; between them only that a line does not precede its event.
Source: the recorded traces, in which `release` stands before the last `ckpt_create` in some answers and after it in
others.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Iterable, Mapping, Sequence

Records = Sequence[Mapping[str, Any]]


def in_streams(events: Records, late: AbstractSet[str]) -> list[Mapping[str, Any]]:
    """Return the events that are written at once, then those written late, each in their order."""
    return [e for e in events if e["ev"] not in late] + [e for e in events if e["ev"] in late]


def too_early(theirs: Records, ours: Records, late: AbstractSet[str]) -> dict[str, Any] | None:
    """Return the first late event that was recorded before ours happened, None if all came after."""
    for (seen, recorded), (due, event) in zip(_places(theirs, late), _places(ours, late), strict=False):
        if seen < due:
            return {"event": seen, "recorded": dict(recorded), "ours": dict(event), "why": "written before it happened"}
    return None


def without_cut_off(
    ours: Records, theirs: Records, late: AbstractSet[str], following: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return our events without final checkpoints that the recorder did not wait for, if a later recorded event proves
    that they were made: it restores, erases or evicts a checkpoint that no step has created since."""
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
    """Return the checkpoints, by slot and position, that the following events use before they create a checkpoint
    there."""
    first: dict[tuple[Any, Any], bool] = {}
    for event in following:
        if event["ev"] in late and "pos_max" in event:
            first.setdefault(_name(event), event["ev"] != "ckpt_create")
    return frozenset(name for name, used in first.items() if used)


def _name(event: Mapping[str, Any]) -> tuple[Any, Any]:
    return event.get("slot"), event.get("pos_max")


def _places(events: Records, late: AbstractSet[str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return every late event with the number of other events before it."""
    others, found = 0, []
    for event in events:
        if event["ev"] in late:
            found.append((others, event))
        else:
            others += 1
    return found
