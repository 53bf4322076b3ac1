"""Reads a growing log by offset, message by message: what was said since the last look?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Iterator

from cachesim.engines.llama_cpp.log import Entry, entries, numbered, read_event


class Logbook:
    """The messages of a log file. Lines count when their end has been written."""

    def __init__(self, file: Path) -> None:
        self.file, self.offset = file, 0

    def read(self) -> Iterator[Entry]:
        """The messages written since the last call."""
        with self.file.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
            yield from entries(line)


def events_of(said: Iterable[Entry], one_slot: bool) -> list[dict[str, Any]]:
    """The events that messages report, as a step of a recording holds them."""
    return numbered([event for event in map(read_event, said) if event is not None], one_slot)
