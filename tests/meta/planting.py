"""Helpers for both kinds of planted faults: printing the table, and selecting the faults to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Rows = Mapping[str, tuple[Any, Any]]
"""Fault and its detection, by the name of the fault."""

JOBS = int(os.environ.get("META_JOBS", "2"))        # worker processes; `make meta JOBS=2` sets it


def printed(reporter: Any, rows: Rows, *parts: Callable[[Rows], Iterable[str]]) -> None:
    """Write the parts of a table, unless it is empty."""
    for part in parts if rows else ():
        for line in part(rows):
            reporter.write_line(line)


def selected(request: Any) -> set[str]:
    """Return the names of the faults whose tests are selected in this folder."""
    return {item.callspec.params["fault"].name for item in request.session.items
            if getattr(item, "callspec", None) and item.path.parent == request.path.parent
            and "fault" in item.callspec.params}  # fmt: skip
