"""Places where an excerpt lacks lines of its log, as its lines show: marks of an omission, and numbers that jump."""

from __future__ import annotations

import re
from typing import Iterator

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.read_lines import ReadLine

MISSING = "lines are missing"
"""Beginning of the note on gaps."""
_MARK = re.compile(r"[^\w.]*(\.{3,6}|…|snip(ped)?|cut|truncated|omitted)[^\w.]*|\W*\w+ (more )?lines? "
                   r"(snipped|cut|truncated|omitted)\W*", re.I)  # fmt: skip
"""Line that a person or a program writes in place of others. A server prints longer rows of dots."""
_CHOICES = frozenset({"slot_by_lcp", "slot_by_lru"})
"""Lines after which the server launches a task in the chosen slot."""


def gap_lines(session: LogSession) -> list[int]:
    """Return the numbers of the lines before or at which lines of the log are missing."""
    marks = [number for number, text in session.unknown if _MARK.fullmatch(text)]
    return sorted({*marks, *_jumps(session.requests), *_choices_without_launch(session.read_lines)})


def _choices_without_launch(lines: list[ReadLine]) -> Iterator[int]:
    """Yield the choices of a slot between two of which no task is launched, although the log has launches."""
    chosen: ReadLine | None = None
    if all(line.kind != "launch" for line in lines):
        return
    for line in lines:
        if line.kind in _CHOICES:
            if chosen is not None:
                yield line.number
            chosen = line
        elif line.kind == "launch":
            chosen = None


def _jumps(requests: list[LoggedRequest]) -> Iterator[int]:
    """Yield the first line of each request whose slot held something else than the request before left there. A slot
    may have been emptied in between."""
    left: dict[int, LoggedRequest] = {}
    for request in requests:
        before = left.get(request.slot)
        held = request.range_of("held")
        end = None if before is None else before.range_of("end")
        if held is not None and held.low and end is not None and not request.is_loaded and not held.meets(end):
            yield request.lines[0]
        if request.is_slot_known and not request.is_refused:
            left[request.slot] = request
