"""What does a file expect of each profile? The tables ``[expect."NAME"]`` and their checks."""

from __future__ import annotations

from typing import Any, Callable

from cachesim.scenarios.fields import Table
from cachesim.scenarios.schema import Allowed, Expect

_KEYS = ("cache_n", "prompt_n", "broken", "checkpoints", "why", "completed")


def read_expect(top: Table, requests: int, check: Callable[[str], None]) -> dict[str, Expect]:
    """Expectations by profile. ``check`` raises BadInput for a profile's name that cannot be used."""
    outer = top.table("expect")
    found: dict[str, Expect] = {}
    for name in outer.raw:
        outer.placed(name, check, name)
        found[name] = _one(outer.table(name), requests)
    return found


def _one(table: Table, requests: int) -> Expect:
    table.only(_KEYS)
    return Expect(
        cache_n=_counts(table, "cache_n", requests),
        prompt_n=_counts(table, "prompt_n", requests),
        broken=_broken(table, requests),
        checkpoints=_checkpoints(table, requests),
        why=table.text("why", ""),
        completed=table.flag("completed", False),
    )


def _entries(table: Table, key: str, requests: int) -> list[Any]:
    values = table.items(key)
    if len(values) != requests:
        raise table.fault(f"{key} has {len(values)} entries for {requests} requests", key)
    return values


def _counts(table: Table, key: str, requests: int) -> tuple[Allowed, ...] | None:
    if key not in table.raw:
        return None
    return tuple(_allowed(table, key, value) for value in _entries(table, key, requests))


def _allowed(table: Table, key: str, value: Any) -> Allowed:
    """A number, or ``{ either = [...] }`` where the engine leaves freedom; the latter needs a reason."""
    if type(value) is int and value >= 0:
        return (value,)
    if not isinstance(value, dict) or list(value) != ["either"]:
        raise table.fault(f"{key}: {value!r} must be a count of tokens or {{ either = [...] }}", key)
    if not table.text("why", "").strip():
        raise table.fault(f"{key} leaves freedom, so the table must say why", key)
    allowed = table.integers(key, value["either"])
    if not allowed:
        raise table.fault(f"{key}: either is empty", key)
    return allowed


def _broken(table: Table, requests: int) -> tuple[int, ...]:
    values = table.integers("broken", table.raw.get("broken", []))
    if list(values) != sorted(set(values)):
        raise table.fault("broken must be in ascending order, each request once", "broken")
    if values and values[-1] >= requests:
        raise table.fault(f"broken names request {values[-1]}, there are {requests} (from 0)", "broken")
    return values


def _checkpoints(table: Table, requests: int) -> tuple[tuple[int, ...], ...] | None:
    if "checkpoints" not in table.raw:
        return None
    return tuple(table.integers("checkpoints", value) for value in _entries(table, "checkpoints", requests))
