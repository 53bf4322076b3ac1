"""Headings of timings: llama-server names slot and task in a heading, and prints the timings below it without them.

A server prints heading and timings at once. If the timings of a heading do not follow it, lines are missing, or several
servers share the log: then the missing timings may follow any later heading.
"""

from __future__ import annotations

from typing import Container, Sequence

from cachesim.tools.server_logs.lines.logical_lines import LogicalLine
from cachesim.tools.server_logs.lines.read_lines import ReadLine

BELOW = 3                    # lines of timings below a heading
TIMES = ("prompt_time", "eval_time", "total_time")
SlotTask = tuple[int, int]


class TimingHeadings:
    """The headings of one source of lines, so far."""

    def __init__(self) -> None:
        self.last: SlotTask | None = None      # slot and task of the last heading
        self._below: Container[int] = ()       # lines that may be its timings
        self._awaits = False                   # its timings did not follow yet
        self._untimed: set[SlotTask | None] = set()   # requests whose timings did not follow their heading

    def read(self, line: LogicalLine) -> SlotTask | None:
        """Return the slot and task that a line of timings is about, None for other lines or if it is unclear. Lines
        must be passed in the order of the log."""
        logged, read = line.logged, line.read
        named = None if logged.slot is None or logged.task is None else (logged.slot, logged.task)
        if logged.function.startswith("print_timing"):
            if self._awaits and self.last != named:
                self._untimed.add(self.last)
            self.last, self._awaits = named, read is None
            self._below = range(line.number, line.number + BELOW + 1)
        if read is None:
            return None
        if read.line.ev == "release":
            self._untimed.discard(named)
            self._awaits = self._awaits and self.last != named
        if read.line.ev not in TIMES:
            return None
        self._awaits = self._awaits and read.line.ev != "prompt_time"
        near = read.slot is None and line.number in self._below
        return self.last if near and not self._untimed else None


def are_whole_timings(lines: Sequence[ReadLine]) -> bool:
    """True if three lines are the timings below a heading whose token counts add up, so that no line of another
    request stands among them."""
    if [line.kind for line in lines] != ["prompt_time", "eval_time", "total_time"]:
        return False
    first, second, third = lines
    prompt = first.number_of("prompt_n")
    answer = second.number_of("predicted_n")
    total = third.number_of("total")
    if prompt is None or answer is None or prompt + answer != total:
        return False
    return first.heading is not None and first.heading == second.heading == third.heading
