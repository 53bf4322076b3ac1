"""Requests of a log as reports show them: names and ranges of numbers, from statements as data."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

Said = Mapping[str, Any]
"""Statement as in ``import --json``."""


class ShownRequest(NamedTuple):
    """Numbers of a request that follow from the log: its name, the number of its first line, and ranges by name.
    ``is_named``: its lines name a task."""

    name: str
    line: int
    numbers: Mapping[str, Any]
    is_named: bool = False


def shown_requests(statements: Sequence[Said]) -> list[ShownRequest]:
    """Return the requests with derived numbers, in the order of the log."""
    numbers: dict[Any, dict[str, Any]] = {}
    first: dict[Any, int] = {}
    for said in statements:
        if said["kind"] == "follows" and (said["what"] == "request" or "lost" in said["numbers"]):
            key = request_key(said)
            first[key] = min(first.get(key, said["lines"][0]), said["lines"][0])
            found = numbers.setdefault(key, {})
            for name, value in said["numbers"].items():
                if said["what"] == "request" or (name == "lost" and name not in found):
                    found[name] = value
    return [ShownRequest(request_name(key), first[key], found, is_named=key[2] is not None) for key, found in sorted(
        numbers.items(), key=lambda pair: first[pair[0]])]  # fmt: skip


def request_key(said: Said) -> tuple[Any, Any, Any, int | None]:
    """Return what identifies a request: server run, slot and task, else its first line."""
    named = said.get("first_line")
    first = said["lines"][0] if named is None else named
    return said["run"], said["slot"], said["task"], first if said["task"] is None else None


def request_name(key: tuple[Any, Any, Any, int | None]) -> str:
    """Return the name of a request in reports."""
    run, slot, task, line = key
    return f"{f'run {run + 1}, ' if run else ''}slot {slot}, task {task}" if task is not None else f"line {line}"


def span_of(value: Any) -> tuple[int, int | None]:
    return (value, value) if isinstance(value, int) else (value[0] or 0, value[1])
