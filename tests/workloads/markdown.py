"""How numbers and tables are written on the page."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence


def share(n: float, whole: float) -> str:
    """Per cent with two decimals."""
    return f"{100 * n / whole:.2f}" if whole else "-"


def over(one: Mapping[str, Any]) -> str:
    """How many tokens more than the bound, in per cent of the bound."""
    return f"+{100 * (one['evaluated'] / one['least'] - 1):.1f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
