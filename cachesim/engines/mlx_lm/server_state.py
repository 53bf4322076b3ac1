"""State that every part of the server works on: rules, model, settings, rows, log. Tracing of the rules in inner
tables.

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
from cachesim.engines.shared import server_loop as shared
from cachesim.engines.shared.vocab import CountingSampler, Sampler
from cachesim.events import Decided, Log
from cachesim.model import Model, make_model

# Tracing: the rules of inner tables are called by caches, which have no log, so the tables are wrapped.
#
# Each different answer of a rule is logged once per request, with its id, a plain value (for a mask: does it hide
# anything; for another array: is it there) and the plain arguments. The wrapper changes nothing else.

T = TypeVar("T")
SILENT = frozenset({
    "ML-LRU-QUERY.whole", "ML-LRU-TRIM-IN.copy", "ML-LRU-UNTRIMMABLE.refused", "ML-LRU-SNAPCOPY.copied",
    "ML-ARRAYS-TRIM.refused", "ML-ARRAYS-ADVANCE.step", "ML-ARRAYS-KEEP.copied", "ML-KV-MERGE.skips_empty",
    "ML-RING-EXTRACT-END.cut",
})  # fmt: skip
"""Rules whose answer changes nothing: they are the counterparts of rules of a few versions and proposals."""
NUMBERS = ("int", "bool", "str", "Sequence[int]", "Sequence[bool]")
"""Annotations of the arguments that a sentence may use."""


class RuleTracer:
    """Logs decisions of inner rules, each answer once per request."""

    def __init__(self, log: Log) -> None:
        self.log, self.mark = log, -1
        self.logged: set[tuple[str, str | bool | None]] = set()

    def copy_for(self, log: Log) -> RuleTracer:
        """Return a tracer that goes on in a copy of the log."""
        twin = RuleTracer(log)
        twin.mark = self.mark
        twin.logged = set(self.logged)
        return twin

    def record(self, rule: str, value: Any, arguments: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Emit a decision, unless this rule has given this answer in this request."""
        if self.mark != len(self.log.marks):
            self.mark, self.logged = len(self.log.marks), set()
        plain = answer = value
        if not (value is None or value is True or value is False):
            plain = _plain(value)
            answer = repr(plain)
        if (rule, answer) not in self.logged:
            self.logged.add((rule, answer))
            self.log.emit(Decided(None, rule, plain, arguments()))

    def traced(self, table: T) -> T:
        """Return a copy of the table whose rules log their decisions."""
        rules = {f.name: getattr(table, f.name) for f in fields(table)}          # type: ignore[arg-type]
        wrapped = {name: self._wrapped(fn) for name, fn in rules.items() if callable(fn) and rule_id(fn) not in SILENT}
        return replace(table, **wrapped)                                         # type: ignore[type-var]

    def _wrapped(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        name, plain = rule_id(fn), _plain_parameters(fn)

        @wraps(fn)
        def traced(*args: Any) -> Any:
            value = fn(*args)
            self.record(name, value, lambda: _plain_arguments(plain, args))
            return value

        return traced


@cache
def _plain_parameters(fn: Callable[..., Any]) -> tuple[tuple[int, str], ...]:
    """Return index and name of the parameters that a sentence may use."""
    parameters = inspect.signature(fn).parameters.values()
    return tuple((index, item.name) for index, item in enumerate(parameters) if str(item.annotation) in NUMBERS)


def _plain_arguments(plain: Sequence[tuple[int, str]], args: Sequence[Any]) -> dict[str, Any]:
    """Return a copy of the arguments that a sentence may use, by name."""
    found = ((name, args[index]) for index, name in plain if index < len(args))
    return {name: list(value) if isinstance(value, list | tuple) else value for name, value in found}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return not (value.dtype == bool and value.all())
    return value if isinstance(value, bool | int | str | tuple | list) else None


class Core(shared.Core):
    """State of a server of a given version, without its prompt cache. ``model`` None = tokens only, no rows or states
    are computed. ``slots``: all rows since the start."""

    def __init__(
        self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler,
    ) -> None:
        self.rules = rules
        self.tracer = RuleTracer(log)
        self.cache_rules = self.tracer.traced(rules.caches)
        self.lru_rules = self.tracer.traced(rules.lru)
        self.kind = kind
        self.model = model
        self.log = log
        self.emit = log.emit
        self.settings = settings(opts)
        self.machine = Machine(model, kind, settings=self.settings, sampler=CountingSampler(sampler, log), log=log)
        spec = self.settings.draft
        drafting = make_model(spec, exact=model.exact, seed=model.seed + 1) if spec and model else None
        self.draft = (drafting, spec) if spec else None
        self.slots: list[Row] = []
        self.queue: deque[Task] = deque()
        self.postponed: list[Task] = []
        self.generator: Generator | None = None
        self.active: list[Row] = []
        self.is_draining = self.dead = False
        self.ticked = 0                                 # ticks in the current slice
        self.widest = 0                                 # largest number of rows that decoded together
        self.gone: list[Row] = []                       # rows of clients that disconnected in the current slice

    def traced_rules_for(self, log: Log) -> Mapping[int, Any]:
        """Return the tracer and the traced rules of a copy that has this log, by the id of their originals."""
        tracer = self.tracer.copy_for(log)
        caches = tracer.traced(self.rules.caches)
        lru = tracer.traced(self.rules.lru)
        return {id(self.tracer): tracer, id(self.cache_rules): caches, id(self.lru_rules): lru}

    def row(self, task: Task) -> Row:
        """Create a row for a task."""
        row = Row(len(self.slots), task)
        self.slots.append(row)
        task.answer.id_slot = row.id
        self.emit(ev.Launch(row.id, task.id, 0))
        return row
