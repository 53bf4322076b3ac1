"""Observables that differ between two outcomes, as data and as a line of text."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.judging.outcomes import ObservedDifference, value_text

NAMED = 4            # further observables that a line names


def differing_data(found: Sequence[ObservedDifference]) -> list[dict[str, Any]]:
    """Return the observables that differ, each with its values as text."""
    return [{"observable": one.observable, "what": one.what, "value_a": value_text(one.a), "value_b": value_text(one.b)}
            for one in found]  # fmt: skip


def differing_text(found: Sequence[ObservedDifference] | Sequence[Mapping[str, Any]]) -> str:
    """Return the first observable that differs, with both values, and the names of the others."""
    data = [one if isinstance(one, Mapping) else differing_data([one])[0] for one in found]
    first, *more = data
    others = ", ".join(one["observable"] for one in more[:NAMED])
    left = f" and {len(more) - NAMED} more" if len(more) > NAMED else ""
    also = f" (also {others}{left})" if more else ""
    return f"{first['observable']}: {first['value_a']} -> {first['value_b']}{also}"
