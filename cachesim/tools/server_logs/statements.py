"""Statements about a log: what its lines say, and what follows from the numbers in them."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple

from cachesim.engines.shared.log_grammar import Read

READ, FOLLOWS = "read", "follows"
"""Kinds of statements: values printed by a line, and conclusions from printed values."""


class Statement(NamedTuple):
    """Statement about a log. ``what``: the kind of line of a read statement; "request", "build", "option", "memory",
    "cause" or "contradiction" of a conclusion. ``lines``: numbers of the lines that prove it, from 1. ``numbers``: the
    named values; a range is a list of its ends, where None is an open end."""

    kind: str
    what: str
    lines: tuple[int, ...]
    slot: int | None
    task: int | None
    numbers: Mapping[str, Any]
    says: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the statement for JSON."""
        return {**self._asdict(), "lines": list(self.lines), "numbers": dict(self.numbers)}


def read_statement(read: Read, number: int, text: str = "") -> Statement:
    """Return the statement of the recognised line ``number``, whose message is ``text``."""
    numbers = {name: value for name, value in read.numbers.items()
               if not isinstance(value, float) or math.isfinite(value)}  # fmt: skip
    return Statement(READ, read.line.ev, (number,), read.slot, read.task, numbers, text[:200])

