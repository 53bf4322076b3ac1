"""What the two kinds of planted faults share: the table that is printed at the end, and who is asked together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Rows = Mapping[str, tuple[Any, Any]]
"""Fault and what found it, by the fault's name."""

JOBS = int(os.environ.get("META_JOBS", "2"))        # processes at work; `make meta JOBS=2` sets it


def printed(reporter: Any, rows: Rows, *parts: Callable[[Rows], Iterable[str]]) -> None:
    """Write the parts of a table, if there are rows."""
    for part in parts if rows else ():
        for line in part(rows):
            reporter.write_line(line)


def selected(request: Any) -> set[str]:
    """Names of the faults whose tests were selected, of those that lie in the same folder."""
    return {item.callspec.params["fault"].name for item in request.session.items
            if getattr(item, "callspec", None) and item.path.parent == request.path.parent
            and "fault" in item.callspec.params}  # fmt: skip
