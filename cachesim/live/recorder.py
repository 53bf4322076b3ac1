"""What does a real llama-server do with these requests? Plays steps on it and writes a recording.

A step goes in as in a recording (README of the recorded traces) without results, and comes back with `i`, `response`,
`events`, `cold`, and `racy` or `died` where they apply. Operations: `completion`, `slot`, `parallel` with members in
`steps`, and `restart`:

    {"op": "restart"}                                  the same server is stopped and started again
    {"op": "restart", "flags": ["-c", "512", ...]}     the same binary and model with other flags

A restart loses the slots and the RAM prompt cache and keeps the slot files. Its result has `events: []` and `server`,
what the new process said when it started. `trace()["flags"]` and `["server"]` are those of the first start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

BASE = ("-t", "1", "-tb", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "-fit", "off", "-lv", "5")
"""One thread, F32 K/V without flash attention: the arithmetic repeats exactly. Everything is logged."""


@dataclass(frozen=True)
class Start:
    """What is started: a server's binary and model, its flags and what the recording calls it.

    ``flags`` belong to the workload; in them `MODELS/x.gguf` is a file beside ``gguf``. ``commit`` names the build."""

    binary: Path
    gguf: Path
    flags: tuple[str, ...]
    commit: str
    base_flags: tuple[str, ...] = BASE


class Recorder:
    """A real server and, with ``cold``, a second one without any caching; a context manager: both end with it.

    Raises BadInput where the binary cannot be started or does not become healthy; nothing is left running then."""

    def __init__(self, start: Start, cold: bool = True) -> None:
        raise NotImplementedError

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Begin another recording under the same options: both servers start again, slot files and steps are gone."""
        raise NotImplementedError

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        """Do one step; returns it with its number and results."""
        raise NotImplementedError

    def trace(self) -> dict[str, Any]:
        """Header and steps so far, as a recording holds them."""
        raise NotImplementedError


def write_trace(trace: dict[str, Any], path: Path) -> None:
    """Write a recording: the header on the first line, every step on a line of its own."""
    raise NotImplementedError
