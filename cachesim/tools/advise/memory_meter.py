"""Peak memory of a case: bytes held by slots, checkpoints and the prompt cache, for the sizes of a model.

The context buffer is allocated when a server starts and does not count; a slot counts with its contents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cachesim.base.errors import BadInput, cut
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import StoredObject
from cachesim.engines.shared.model_sizes import ModelSizes
from cachesim.model.spec import parse
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.setup_changes import Setup


class Sizes(NamedTuple):
    """Bytes of a token in all full-attention layers and in all window layers, and of the state of all recurrent layers.
    ``source``: the model, "" = units of the tiny models, only for comparisons."""

    full: int
    window: int
    state: int
    source: str = ""


UNITS = Sizes(1, 1, 22)
"""Units of the tiny models: a state has the size of 22 K/V rows."""


def real_sizes(model: ModelSizes) -> Sizes:
    """Return the sizes of a real model."""
    return Sizes(model.full, model.window, model.state_bytes, model.source)


def with_real_sizes(scenario: Scenario, model: ModelSizes) -> Scenario:
    """Return the scenario with a model of the real model's sizes, so that limits in bytes apply as on a real server.
    Raise BadInput if K/V rows, or states, exist in only a single model of the two."""
    name = scenario.model.partition("@")[0]
    try:
        layers = parse(name.rpartition("-")[2]).layers
    except BadInput:
        raise BadInput(f"the model {name} declares its own sizes", hint="--model names other layers") from None
    for of, mine, real in (("K/V rows", any(one.part for one in layers), model.token_bytes),
                           ("recurrent states", any(one.recurrence for one in layers), model.state_bytes)):  # fmt: skip
        if mine != bool(real):
            told = f"{name} has {of}" if mine else f"{name} has no {of}"
            raise BadInput(f"{told}, unlike the model of these sizes", hint=f"--model {cut(model.layers)}")
    return replace(scenario, model=model.declared(name), expect={}, lives=())


class Meter(SilentObserver):
    """Observer that measures the bytes held after every answer; ``most`` is the maximum."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.most = sizes, 0
        self.server: Server | None = None

    def started(self, server: Server) -> None:
        """Record the started server."""
        self.server = server

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Measure after an answered request."""
        if self.server is not None and not self.server.dead:
            inspection = self.server.inspection
            slots = sum(size_of(inspection.live(slot), self.sizes) for slot in inspection.occupied_slots())
            self.most = max(self.most, slots + self._stored(self.server))

    def _stored(self, server: Server) -> int:
        """Return the bytes of checkpoints and prompt cache; as the server counts them if its model has real sizes."""
        if self.sizes.source:
            return sum(server.sizes.stored_bytes())
        return sum(size_of(server.inspection.stored(key), self.sizes) for key in server.inspection.kept())


def size_of(stored: StoredObject, sizes: Sizes) -> int:
    """Return the bytes of a stored object; a state before the first token counts 0."""
    rows = sum(len(part.pos) * (sizes.window if part.window else sizes.full) for part in stored.rows)
    return rows + (sizes.state if stored.state is not None and stored.state.pos >= 0 else 0)


def peak_bytes(case: Setup, sizes: Sizes) -> int:
    """Return the peak number of bytes that a case held."""
    meter = Meter(sizes)
    play(case.scenario, case.profile, "none", meter)
    return meter.most
