"""Columns of a report's table."""

from __future__ import annotations

from rich.table import Table

NUMBER, TEXT, FOLDED, WHOLE = "number", "text", "folded", "whole"
"""Kinds of columns: aligned at the right; wrapped between words; wrapped anywhere; never wrapped."""


def columns(table: Table) -> list[tuple[str, str]]:
    """Return the head of each column and its kind; a number after the kind is its minimum width."""
    found = []
    for column in table.columns:
        kind = FOLDED if column.overflow == "fold" else WHOLE if column.no_wrap else TEXT
        kind = NUMBER if column.justify == "right" else kind
        found.append((str(column.header), f"{kind} {column.min_width}" if column.min_width else kind))
    return found
