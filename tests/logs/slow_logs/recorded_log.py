"""Recorded logs with their truth, as files in a folder: NAME.log and NAME.json."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from cachesim.engines.llama_cpp.flags import Options, read_flags

TRACE_LEVEL = 4
NOT_OPTIONS = ("--no-log-timestamps",)
LOADED = "found better prompt with"
LAUNCH = re.compile(r"task +(\d+) \| processing task")
Truth = Mapping[str, Any]
"""Truth of a request; the README of the logs names its keys."""


RECORDED_BUILD = 11549


@dataclass(frozen=True)
class RecordedLog:
    """A log with its truth. ``requests``: truths by task; ``build``: that of the server, which recordings without one
    made with the newest wheel of their time."""

    name: str
    lines: Sequence[str]
    memory: str
    flags: Sequence[str]
    requests: Mapping[int, Truth]
    build: int = RECORDED_BUILD

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the server: those of its flags, else the defaults."""
        defaults = {name: getattr(Options(), name) for name in Options.__dataclass_fields__}
        known = [flag for flag in self.flags if flag not in NOT_OPTIONS]
        return {**defaults, **read_flags(known).options}

    @property
    def has_trace(self) -> bool:
        """True if the server logged the events of its caches."""
        return "-lv" in self.flags and int(self.flags[list(self.flags).index("-lv") + 1]) >= TRACE_LEVEL

    @cached_property
    def loaded(self) -> frozenset[int]:
        """Tasks whose slot got an entry of the prompt cache before they started, if the log has the events."""
        found, is_loaded = set(), False
        for line in self.lines:
            launch = LAUNCH.search(line)
            if launch and is_loaded:
                found.add(int(launch[1]))
            is_loaded = LOADED in line or (is_loaded and not launch)
        return frozenset(found)

    @property
    def completed(self) -> Iterator[Truth]:
        """The requests whose counts are known."""
        return (truth for truth in self.requests.values() if truth["reused"] is not None)


def read_recorded(file: Path) -> RecordedLog:
    """Read a log by the name of its JSON file. Raise OSError and ValueError."""
    data = json.loads(file.read_text(encoding="utf-8"))
    text = file.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
    return RecordedLog(
        name=file.stem,
        lines=text.splitlines(),
        memory=data["memory"],
        flags=data["flags"],
        requests={truth["task"]: truth for truth in data["requests"]},
        build=data.get("build", RECORDED_BUILD),
    )


def read_folder(folder: Path) -> list[RecordedLog]:
    """Read all logs of a folder, in the order of their names."""
    return [read_recorded(file) for file in sorted(folder.glob("*.json"))]
