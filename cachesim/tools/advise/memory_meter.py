"""How much memory did a case take? What slots, checkpoints and the prompt cache held at most, in bytes of a model.

The context itself is allocated when a server starts, and is not in it: a slot counts with what is in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Stored
from cachesim.engines.shared.model_sizes import ModelSizes
from cachesim.model.spec import parse
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.setup_changes import Setup


class Sizes(NamedTuple):
    """Bytes of one token in all layers of full attention, and in all layers with a window; of the state of all
    recurrent layers. ``source``: of which model, "" = units of the tiny models, only for comparisons."""

    full: int
    window: int
    state: int
    source: str = ""


UNITS = Sizes(1, 1, 22)
"""A state of the tiny models is as large as 22 K/V rows."""


def real_sizes(model: ModelSizes) -> Sizes:
    """The sizes of a real model, whose attention layers are shared out as its notation says."""
    layers = parse(model.layers).layers
    windows, rows = sum(1 for one in layers if one.window), sum(1 for one in layers if one.part)
    window = model.attention * windows // rows if rows else 0
    return Sizes((model.attention - window) * model.row, window * model.row, model.state_bytes, model.source)


def with_real_sizes(scenario: Scenario, model: ModelSizes) -> Scenario:
    """The scenario with a model that weighs as much as the real one, so that limits in bytes bind as they would. Raises
    BadInput where one of them has rows or states and the other has none."""
    name = scenario.model.partition("@")[0]
    try:
        layers = parse(name.rpartition("-")[2]).layers
    except BadInput:
        raise BadInput(f"the model {name} has sizes of its own", hint="--model names other layers") from None
    for of, mine, real in (("K/V rows", any(one.part for one in layers), model.attention),
                           ("recurrent states", any(one.recurrence for one in layers), model.recurrent)):  # fmt: skip
        if mine != bool(real):
            told = f"{name} has {of}" if mine else f"{name} has no {of}"
            raise BadInput(f"{told}, and the model of these sizes is of another kind", hint=f"--model {model.layers}")
    return replace(scenario, model=model.declared(name), expect={}, lives=())


class Meter(Silent):
    """Looks at what a server holds after every answer; ``most`` is the largest number of bytes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.most = sizes, 0
        self.server: Server | None = None

    def started(self, server: Server) -> None:
        """A server has started."""
        self.server = server

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        if self.server is not None and not self.server.dead:
            slots = sum(size_of(self.server.live(slot), self.sizes) for slot in self.server.occupied_slots())
            self.most = max(self.most, slots + self._stored(self.server))

    def _stored(self, server: Server) -> int:
        """Checkpoints and prompt cache: as the server counts them, where its model declares real sizes."""
        if self.sizes.source:
            return sum(server.stored_bytes())
        return sum(size_of(server.stored(key), self.sizes) for key in server.kept())


def size_of(stored: Stored, sizes: Sizes) -> int:
    """Bytes of a stored object; a state that has absorbed nothing has none."""
    rows = sum(len(part.pos) * (sizes.window if part.window else sizes.full) for part in stored.rows)
    return rows + (sizes.state if stored.state is not None and stored.state.pos >= 0 else 0)


def peak_bytes(case: Setup, sizes: Sizes) -> int:
    """What a case held at most."""
    meter = Meter(sizes)
    play(case.scenario, case.profile, "none", meter)
    return meter.most
