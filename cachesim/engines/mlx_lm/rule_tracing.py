"""How do rules of inner tables become known? They are asked deep inside, by caches that know no log.

Each is told once for each request that it was asked in and each answer: its id, a plain value (of a mask whether it
hides something, of another array that there is one) and the numbers among its arguments. Wrapping changes nothing else.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import cache, wraps
from typing import Any, Callable, Mapping, Sequence, TypeVar

import numpy as np

from cachesim.engines.rule import rule_id
from cachesim.events import Decided, Log

T = TypeVar("T")
NUMBERS = ("int", "bool", "str", "Sequence[int]", "Sequence[bool]")
"""Annotations of the arguments that a sentence may need."""


class Teller:
    """Remembers what was told since the log's last mark."""

    def __init__(self, log: Log) -> None:
        self.log, self.mark = log, -1
        self.told: set[tuple[str, str | bool | None]] = set()

    def tell(self, rule: str, value: Any, looked_at: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Emit a decision, unless this rule has said so in this request."""
        if self.mark != len(self.log.marks):
            self.mark, self.told = len(self.log.marks), set()
        plain = said = value
        if not (value is None or value is True or value is False):
            plain = _plain(value)
            said = repr(plain)
        if (rule, said) not in self.told:
            self.told.add((rule, said))
            self.log.emit(Decided(None, rule, plain, looked_at()))

    def traced(self, table: T) -> T:
        """The same table with rules that tell."""
        rules = {f.name: getattr(table, f.name) for f in fields(table)}          # type: ignore[arg-type]
        return replace(table, **{                                                # type: ignore[type-var]
            name: self._telling(fn) for name, fn in rules.items() if callable(fn)
        })

    def _telling(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        name, wanted = rule_id(fn), _wanted(fn)

        @wraps(fn)
        def telling(*args: Any) -> Any:
            value = fn(*args)
            self.tell(name, value, lambda: _numbers(wanted, args))
            return value

        return telling


@cache
def _wanted(fn: Callable[..., Any]) -> tuple[tuple[int, str], ...]:
    """Place and name of the arguments that a sentence may need."""
    arguments = inspect.signature(fn).parameters.values()
    return tuple((number, one.name) for number, one in enumerate(arguments) if str(one.annotation) in NUMBERS)


def _numbers(wanted: Sequence[tuple[int, str]], args: Sequence[Any]) -> dict[str, Any]:
    """The arguments that a sentence may need, by name, as they are now."""
    found = ((name, args[number]) for number, name in wanted if number < len(args))
    return {name: list(value) if isinstance(value, list | tuple) else value for name, value in found}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return not (value.dtype == bool and value.all())
    return value if isinstance(value, bool | int | str | tuple | list) else None
