"""Server flags as fields of an engine's ``Options``: a row contains all properties of a flag.

``flag`` creates a row, ``flags_of`` collects the flags for a ``Manual``, and ``options_of`` checks the start options of
a server.
"""

from __future__ import annotations

from dataclasses import field, fields
from functools import cache
from typing import Any, Callable, Iterable, Mapping, TypeVar

from cachesim.base.errors import BadInput, Crash, nearest, quoted
from cachesim.engines.capabilities import Flag

T = TypeVar("T")


def flag(default: T, *spellings: str, **properties: Any) -> T:
    """Return a field of an ``Options``: a flag with this default, these spellings and these ``properties`` of a
    ``Flag``. With ``least``, the server does not start with a smaller value."""
    bounded = "least" in properties
    row = Flag("", default, spellings=spellings, bounded=bounded, **properties)  # type: ignore[arg-type]
    return field(default=default, metadata={"flag": row})


@cache
def flags_of(options: Any) -> tuple[Flag, ...]:
    """Return the flags of an ``Options``, in the order of its fields. Raise Crash if two of them share a name or a
    spelling, or if a value in a row does not have the type of its default."""
    rows: tuple[Any, ...] = fields(options)
    flags = tuple(row.metadata.get("flag", Flag("", row.default))._replace(name=row.name) for row in rows)
    owners: dict[str, str] = {}
    for name, row in ((row.name, row) for row in flags):
        for word in {word for word, _ in row.names()}:
            if (owner := owners.setdefault(word, name)) != name:
                raise Crash(f"server options {owner} and {name} have the same command-line name: {word}")
        for value in (*row.choices, *row.tries):
            if type(value) is not type(row.default):
                raise Crash(f"flag {name} has a value of another type than its default: {value!r}")
    return flags


def options_of(make: Callable[..., T], given: Mapping[str, Any]) -> T:
    """Return the ``Options`` with these values, and the defaults for the others. Raise BadInput like
    ``check_flags``."""
    check_flags(given, flags_of(make))
    return make(**given)


def check_flags(given: Mapping[str, Any], flags: Iterable[Flag]) -> None:
    """Raise BadInput for an unknown name, a value of the wrong type, and a value with which the server does not
    start."""
    known = {row.name: row for row in flags}
    for name, value in given.items():
        if name not in known:
            raise BadInput(f"unknown server flag {quoted(name)}", hint=nearest(name, known))
        _check_value(known[name], value)


def _check_value(row: Flag, value: Any) -> None:
    """Raise BadInput for a bad value. An integer is accepted as a float; a truth value is not accepted as a number."""
    want = type(row.default)
    good = isinstance(value, want) and (want is bool or not isinstance(value, bool))
    if not good and not (want is float and type(value) is int):
        raise BadInput(f"server flag {quoted(row.name)}: expected {want.__name__}, found {quoted(value)}")
    if (word := row.unknown_word(value)) is not None:
        hint = nearest(word, row.choices) or ", ".join(row.choices)
        raise BadInput(f"unknown {row.name} {quoted(word)}", hint=hint)
    if row.bounded and value < row.least and value != row.open:
        least = str(row.least)
        if row.open is not None:
            least = str(row.open) if row.open == row.least - 1 else f"{row.least}, or {row.open}"
        raise BadInput(f"server flag {quoted(row.name)}: expected at least {least}, found {value}")
    if want is float and not 0 <= value <= row.most:                # also refuses nan
        raise BadInput(f"server flag {quoted(row.name)}: expected 0 to {row.most}, found {value}")
    if row.limit is not None:
        row.limit.check(value, f"server flag {quoted(row.name)}")
