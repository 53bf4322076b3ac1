"""Statements about a log: what its lines say, and what follows from the numbers in them."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

READ, FOLLOWS = "read", "follows"
"""Kinds of statements: values printed by a line, and conclusions from printed values."""
TOTAL = "total"
"""Conclusion from lines that name no request."""
TASKS = "tasks"
"""Conclusion from the paths of requests."""
ENDED = "ended"
"""Conclusion from a line after which no request is answered."""


class Statement(NamedTuple):
    """Statement about a log. ``what``: the kind of line of a read statement; "request", "build", "option", "memory",
    "total", "tasks", "ended", "cause" or "contradiction" of a conclusion. ``lines``: numbers of the lines that prove
    it, from 1. ``numbers``: the named values; a range is a list of its ends, where None is an open end. ``run``: server
    run in the file, from 0; slots and tasks of different runs are different. ``first_line``: number of the first
    line of the request that it is about, None if a task names the request, or if it is about no request."""

    kind: str
    what: str
    lines: tuple[int, ...]
    slot: int | None
    task: int | None
    numbers: Mapping[str, Any]
    says: str = ""
    run: int = 0
    first_line: int | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the statement for JSON."""
        return {**self._asdict(), "lines": list(self.lines), "numbers": dict(self.numbers)}


def read_statement(line: ReadLine) -> Statement:
    """Return the statement of a recognised line."""
    numbers = {name: value for name, value in line.read.numbers.items()
               if not isinstance(value, float) or math.isfinite(value)}  # fmt: skip
    return Statement(
        kind=READ, what=line.kind, lines=(line.number,), slot=line.slot, task=line.task, numbers=numbers, says=line.text
    )


def conclusion(
    what: str, lines: Sequence[int], numbers: Mapping[str, Any], says: str, about: ReadLine | TiedRequest | None = None
) -> Statement:
    """Return the statement of what follows from lines of a log. ``lines``: the numbers of those that prove it;
    ``about``: the request or the line whose slot and task it is about, None = the server."""
    return Statement(
        kind=FOLLOWS,
        what=what,
        lines=tuple(lines),
        slot=None if about is None else about.slot,
        task=None if about is None else about.task,
        numbers=numbers,
        says=says,
        first_line=about.span[0] if isinstance(about, TiedRequest) and about.task is None else None,
    )
