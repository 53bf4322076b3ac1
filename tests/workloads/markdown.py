"""Format of numbers and tables on the page."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence


def share(n: float, whole: float) -> str:
    """Return per cent with two decimals."""
    return f"{100 * n / whole:.2f}" if whole else "-"


def over(line: Mapping[str, Any]) -> str:
    """Return the tokens above the bound, in per cent of the bound."""
    return f"+{100 * (line['evaluated'] / line['least'] - 1):.1f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns except the first are right-aligned."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
