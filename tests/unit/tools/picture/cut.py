"""A run that is stopped at an event: what its server holds then, read without the code that pages are made with."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from cachesim.engines.contract import Server
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario


class Holds(NamedTuple):
    """Of a slot: how many tokens it is believed to hold, the positions of its rows and of those of window layers, the
    tokens behind its state (None = no state), and its checkpoints."""

    tokens: int
    rows: frozenset[int]
    window: frozenset[int]
    state: int | None
    checkpoints: list[tuple[int, ...]]


class Stop(Exception):
    """The event was reached."""


class _Cut(Silent):
    def __init__(self, k: int) -> None:
        self.k = k
        self.server: Any = None

    def started(self, server: Server) -> None:
        self.server = server
        server.log.listener = self.hear

    def hear(self, event: object) -> None:
        if len(self.server.log.events) > self.k:
            raise Stop


def cut(scenario: Scenario, profile: str, k: int) -> tuple[dict[int, Holds], list[int]]:
    """What every slot holds when event k happens, and the lengths of the stored conversations, ascending."""
    watcher = _Cut(k)
    with suppress(Stop):
        play(scenario, profile, "provenance", watcher)
    server = watcher.server
    entries = sorted(len(server.stored(key).tokens) for key in server.kept() if key[0] == "entry")
    return {slot: _holds(server, slot) for slot in range(server.n_slots)}, entries


def _holds(server: Server, slot: int) -> Holds:
    live, spans = server.live(slot), server.checkpoint_spans(slot)
    rows, window = (frozenset(int(pos) for part in live.rows if (part.window > 0) is wanted for pos in part.pos)
                    for wanted in (False, True))  # fmt: skip
    lengths = server.checkpoints(slot)
    marks = [(n, *span) for n, span in zip(lengths, spans, strict=True)] if spans else [(n,) for n in lengths]
    state = live.state.pos + 1 if live.state is not None and live.state.pos >= 0 else None
    return Holds(len(server.tokens_of(slot)), rows, window, state, marks)
