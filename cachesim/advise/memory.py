"""How much memory did a case take? What slots, checkpoints and the prompt cache held at most, in bytes of a model.

The context itself is allocated when a server starts, and is not in it: a slot counts with what is in it.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.advise.changes import Case
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.judge_view import Stored
from cachesim.scenarios.runner import Silent, play


class Sizes(NamedTuple):
    """Bytes of one token in all layers of full attention, and in all layers with a window; of the state of all
    recurrent layers. ``source``: of which model, "" = units of the tiny models, only for comparisons."""

    full: int
    window: int
    state: int
    source: str = ""


UNITS = Sizes(1, 1, 22)
"""A state of the tiny models is as large as 22 K/V rows."""


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
            held = [*self.server.kept(), *(self.server.live(slot) for slot in range(self.server.n_slots))]
            self.most = max(self.most, sum(size_of(one, self.sizes) for one in held))


def size_of(stored: Stored, sizes: Sizes) -> int:
    """Bytes of a stored object."""
    rows = sum(len(part.pos) * (sizes.window if part.window else sizes.full) for part in stored.rows)
    return rows + (sizes.state if stored.state is not None else 0)


def peak_bytes(case: Case, sizes: Sizes) -> int:
    """What a case held at most."""
    meter = Meter(sizes)
    play(case.scenario, case.profile, "none", meter)
    return meter.most
