"""Checks of the arguments of strategies. A strategy that cannot be drawn from is refused where it is built."""

from __future__ import annotations

from typing import AbstractSet, Collection, Iterable, Sequence

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_named
from cachesim.scenarios.option_checks import check_model


class BadArgument(BadInput, ValueError):
    """An argument that a strategy cannot use. ``str()`` is a single line."""


def check_count(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``. Raise BadArgument."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadArgument(f"{name}: expected a whole number from {least} to {most}, found {quoted(value)}")
    return value


def check_sizes(name: str, values: object, most: int) -> tuple[int, ...]:
    """Return sizes in tokens, each from 1 to ``most``. Raise BadArgument."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise BadArgument(f"{name}: expected a list of sizes in tokens, found {quoted(values)}")
    return tuple(check_count(name, value, 1, most) for value in values)


def check_names(name: str, values: Iterable[str], known: Collection[str]) -> AbstractSet[str]:
    """Return these names as a set. Raise BadArgument for a single text, and for a name that is not known."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadArgument(f"{name}: expected a list of names, found {quoted(values)}", hint=", ".join(known))
    given = tuple(values)
    for value in given:
        if value not in known:
            hint = nearest(str(value), known) or ", ".join(known)
            raise BadArgument(f"{name}: unknown name {quoted(value)}", hint=hint)
    return frozenset(given)


def check_engine(name: object) -> Engine:
    """Return the engine of this name. Raise BadArgument."""
    if not isinstance(name, str):
        raise BadArgument(f"engine: expected the name of an engine, found {quoted(name)}")
    try:
        return engine_named(name)
    except BadInput as bad:
        raise BadArgument(bad.cause, hint=bad.hint) from None


def check_models(models: object, engine: str) -> tuple[str, ...]:
    """Return these models of an engine, at least one. Raise BadArgument."""
    if isinstance(models, str) or not isinstance(models, Sequence) or not models:
        raise BadArgument(f"models: expected a list of models, found {quoted(models)}")
    try:
        for model in models:
            check_model(model, engine)
    except BadInput as bad:
        raise BadArgument(f"models: {bad.cause}", hint=bad.hint) from None
    return tuple(models)
