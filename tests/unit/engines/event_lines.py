"""Events as short lines, in which a test writes what a conversation must log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cachesim.events import Decided, Event

HEAD = "== "


def event_lines(events: Iterable[Event], one_slot: bool = False) -> Iterator[str]:
    """Yield a line for each logged event: its name and the fields of a recording."""
    for event in events:
        if event.logged:
            record = event.record(one_slot=one_slot)
            yield " ".join([record.pop("ev"), *(f"{name}={value}" for name, value in record.items())])


def decided_lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each decision: its rule and its value."""
    for event in events:
        if isinstance(event, Decided):
            yield f"{event.rule} {event.value}"


def sections(file: Path) -> dict[str, list[str]]:
    """Return the lines of a file by the name in the heading above them, ``== name``."""
    found: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith(HEAD):
            lines = found[line.removeprefix(HEAD)] = []
        else:
            lines.append(line)
    return found
