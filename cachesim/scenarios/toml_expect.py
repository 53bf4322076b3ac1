"""What does a file expect of each profile? The tables ``[expect."NAME"]`` and their checks."""

from __future__ import annotations

from typing import Any, Callable

from cachesim.base.errors import quoted
from cachesim.scenarios.schema import Allowed, Expect
from cachesim.scenarios.toml_fields import TomlTable

COUNTS = ("cache_n", "prompt_n", "slots", "status", "entries")
"""Keys with one number for each step."""

_KEYS = (*COUNTS, "broken", "died", "undecided", "checkpoints", "why", "completed")


def read_expect(top: TomlTable, requests: int, check: Callable[[str], None]) -> dict[str, Expect]:
    """Expectations by profile. ``check`` raises BadInput for a profile's name that cannot be used."""
    outer = top.table("expect")
    found: dict[str, Expect] = {}
    for name in outer.raw:
        outer.placed(name, check, name)
        found[name] = _one(outer.table(name), requests)
    return found


def _one(table: TomlTable, requests: int) -> Expect:
    table.only(_KEYS)
    return Expect(
        cache_n=_counts(table, "cache_n", requests),
        prompt_n=_counts(table, "prompt_n", requests),
        broken=_numbers(table, "broken", requests),
        checkpoints=_checkpoints(table, requests),
        slots=_counts(table, "slots", requests),
        status=_counts(table, "status", requests),
        entries=_counts(table, "entries", requests),
        died=_numbers(table, "died", requests) if "died" in table.raw else None,
        undecided=_numbers(table, "undecided", requests),
        why=table.text("why", ""),
        completed=table.flag("completed", False),
    )


def _entries(table: TomlTable, key: str, requests: int) -> list[Any]:
    values = table.items(key)
    if len(values) != requests:
        raise table.fault(f"{key} has {len(values)} entries for {requests} requests", key)
    return values


def _counts(table: TomlTable, key: str, requests: int) -> tuple[Allowed, ...] | None:
    if key not in table.raw:
        return None
    return tuple(_allowed(table, key, value) for value in _entries(table, key, requests))


def _allowed(table: TomlTable, key: str, value: Any) -> Allowed:
    """A number, or ``{ either = [...] }`` where the engine leaves freedom; the latter needs a reason."""
    if type(value) is int and value >= 0:
        return (value,)
    if not isinstance(value, dict) or list(value) != ["either"]:
        raise table.fault(f"{key}: {quoted(value)} must be a count or {{ either = [...] }}", key)
    if not table.text("why", "").strip():
        raise table.fault(f"{key} leaves freedom, so the table must say why", key)
    allowed = table.integers(key, value["either"])
    if not allowed:
        raise table.fault(f"{key}: either is empty", key)
    return allowed


def _numbers(table: TomlTable, key: str, requests: int) -> tuple[int, ...]:
    """Numbers of steps."""
    values = table.integers(key, table.raw.get(key, []))
    if list(values) != sorted(set(values)):
        raise table.fault(f"{key} must be in ascending order, each request once", key)
    if values and values[-1] >= requests:
        raise table.fault(f"{key} names request {values[-1]}, there are {requests} (from 0)", key)
    return values


def _checkpoints(table: TomlTable, requests: int) -> tuple[tuple[int, ...], ...] | None:
    if "checkpoints" not in table.raw:
        return None
    return tuple(table.integers("checkpoints", value) for value in _entries(table, "checkpoints", requests))
