"""What every part of the server works on: rules, model, settings, rows, log.

Source: mlx-lm mlx_lm/server.py ResponseGenerator (321e764e to 0.32.2).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from cachesim import events as ev
from cachesim.engines.mlx_lm.batch import Row, Task
from cachesim.engines.mlx_lm.generator import Generator, Machine
from cachesim.engines.mlx_lm.model_layout import ModelKind
from cachesim.engines.mlx_lm.profiles.rule_table import Rules
from cachesim.engines.mlx_lm.rule_tracing import Teller
from cachesim.engines.mlx_lm.server_flags import Options, settings
from cachesim.engines.shared.sampler import Counted, Sampler, forced_or_hashed
from cachesim.engines.shared.server_loop import Driver
from cachesim.model import Model, make_model


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
        self.machine = Machine(model, kind, self.settings, Counted(sampler, log), log)
        self.draft = self._draft(model)
        self.slots: list[Row] = []
        self.queue: deque[Task] = deque()
        self.postponed: list[Task] = []
        self.generator: Generator | None = None
        self.active: list[Row] = []
        self.draining = self.dead = False
        self.ticked = 0                                 # ticks of the present slice
        self.widest = 0                                 # most rows that ever decoded together
        self.gone: list[Row] = []                       # noticed in the present slice

    def _draft(self, model: Model | None) -> tuple[Model | None, Any] | None:
        spec = self.settings.draft
        if spec is None:
            return None
        return (None if model is None else make_model(spec, exact=model.exact, seed=model.seed + 1)), spec

    def row(self, task: Task) -> Row:
        """A new row."""
        row = Row(len(self.slots), task)
        self.slots.append(row)
        task.answer.id_slot = row.id
        self.emit(ev.Launch(row.id, task.id, 0))
        return row
