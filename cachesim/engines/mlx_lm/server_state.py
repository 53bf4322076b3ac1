"""What every part of the server works on: rules, model, settings, rows, log.

Source: mlx-lm mlx_lm/server.py ResponseGenerator (321e764e to 0.32.2).
"""

from __future__ import annotations

import inspect
from collections import deque
from dataclasses import fields, replace
from functools import cache, wraps
from typing import Any, Callable, Mapping, Sequence, TypeVar

import numpy as np

from cachesim import events as ev
from cachesim.engines.mlx_lm.batch import Row, Task
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.generator import Generator, Machine
from cachesim.engines.mlx_lm.model_layout import ModelKind
from cachesim.engines.mlx_lm.profiles.rule_table import Rules
from cachesim.engines.mlx_lm.server_flags import settings
from cachesim.engines.rule import rule_id
from cachesim.engines.shared.server_loop import Driver
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.events import Decided, Log
from cachesim.model import Model, make_model

# How do rules of inner tables become known? They are asked deep inside, by caches that know no log.
#
# Each is told once for each request that it was asked in and each answer: its id, a plain value (of a mask whether it
# hides something, of another array that there is one) and the numbers among its arguments. Wrapping changes nothing
# else.

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
        telling = {name: self._telling(fn) for name, fn in rules.items() if callable(fn)}
        return replace(table, **telling)                                         # type: ignore[type-var]

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


class Core(Driver):
    """One server of a given version, before it has a prompt cache. ``model`` None = labels only, nothing computed.
    ``slots`` are all rows that there ever were."""

    def __init__(
        self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler = forced_or_hashed,
    ) -> None:
        teller = Teller(log)
        self.rules = replace(rules, caches=teller.traced(rules.caches), lru=teller.traced(rules.lru))
        self.kind, self.model, self.log, self.emit = kind, model, log, log.emit
        self.settings = settings(opts)
        self.machine = Machine(model, kind, self.settings, CountingSampler(sampler, log), log)
        spec = self.settings.draft
        drafting = make_model(spec, exact=model.exact, seed=model.seed + 1) if spec and model else None
        self.draft = (drafting, spec) if spec else None
        self.slots: list[Row] = []
        self.queue: deque[Task] = deque()
        self.postponed: list[Task] = []
        self.generator: Generator | None = None
        self.active: list[Row] = []
        self.draining = self.dead = False
        self.ticked = 0                                 # ticks of the present slice
        self.widest = 0                                 # most rows that ever decoded together
        self.gone: list[Row] = []                       # noticed in the present slice

    def row(self, task: Task) -> Row:
        """A new row."""
        row = Row(len(self.slots), task)
        self.slots.append(row)
        task.answer.id_slot = row.id
        self.emit(ev.Launch(row.id, task.id, 0))
        return row
