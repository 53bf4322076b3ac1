"""Events as short lines, in which a test writes what a conversation must log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cachesim.events import Advanced, Decided, Event, Gained, Lost

HEAD = "== "


def event_lines(events: Iterable[Event], one_slot: bool = False) -> Iterator[str]:
    """Yield a line for each logged event: its name and the fields of a recording."""
    for event in events:
        if event.logged:
            record = event.record(one_slot=one_slot)
            yield " ".join([record.pop("ev"), *(f"{name}={value}" for name, value in record.items())])


def effect_lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each event, logged or not, except decisions and restore points."""
    for event in events:
        if not isinstance(event, Decided | Gained | Lost):
            record = event.record()
            name = record.pop("ev", "") or type(event).__name__
            yield " ".join([name, *(f"{field}={value}".replace(" ", "") for field, value in record.items())])


def point_lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each restore point that is gained or lost, with its key, its tokens and the cause."""
    for event in events:
        if isinstance(event, Gained):
            point = event.point
            yield f"gained {point.key} n={point.n} {point.lo} to {point.hi}, {event.cause} {event.rule}".strip()
        elif isinstance(event, Lost):
            yield f"lost {event.key}, {event.cause} {event.rule}".strip()


def state_lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each change of a running state; of evaluations in a row only the last."""
    last = ""
    for event in events:
        if isinstance(event, Advanced):
            point = event.point
            line = f"state {point.key} n={point.n} {point.lo} to {point.hi}, {event.cause} {event.rule}"
            if last and (event.cause != "evaluated" or last.split(" n=")[0] != line.split(" n=")[0]):
                yield last
                last = ""
            if event.cause == "evaluated":
                last = line
            else:
                yield f"{line}, from {point.start} on"
    if last:
        yield last


def decided_lines(events: Iterable[Event]) -> list[str]:
    """Return the decisions: rule, value and the numbers behind it, each once."""
    decided = [event for event in events if isinstance(event, Decided)]
    lines = (f"{one.rule}: {one.value} because {dict(one.because)}" for one in decided)
    return [*dict.fromkeys(lines)]


def decision_counts(events: Iterable[Event]) -> str:
    """Return a line with the number of decisions of each rule."""
    counts = Counter(event.rule for event in events if isinstance(event, Decided))
    return " ".join(["decided", *(f"{rule}:{counts[rule]}" for rule in sorted(counts))])


def sections(file: Path) -> dict[str, list[str]]:
    """Return the lines of a file by the name in the heading above them, ``== name``."""
    found: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith(HEAD):
            lines = found[line.removeprefix(HEAD)] = []
        else:
            lines.append(line)
    return found
