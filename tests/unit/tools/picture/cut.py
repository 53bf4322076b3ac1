"""Contents of a server at chosen events of a run, read independently of the code for pages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from cachesim.engines.contract import Server
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario


class Holds(NamedTuple):
    """Contents of a slot: length of the token list, positions of its rows, of window layers' rows and of index
    rows, number of compressed rows by ratio, tokens before its state (None = no state), and its checkpoints."""

    tokens: int
    rows: frozenset[int]
    window: frozenset[int]
    index: frozenset[int]
    compressed: dict[int, int]
    state: int | None
    checkpoints: list[tuple[int, ...]]


Contents = tuple[dict[int, Holds], list[int]]
"""Contents of every slot, and the sorted lengths of the stored conversations."""


class Stop(Exception):
    """Raised when the last of the events is reached."""


class _Cuts(SilentObserver):
    def __init__(self, events: Sequence[int]) -> None:
        self.left = sorted(events, reverse=True)
        self.found: dict[int, Contents] = {}
        self.server: Any = None

    def started(self, server: Server) -> None:
        self.server = server
        server.log.listener = self.hear

    def hear(self, event: object) -> None:
        while self.left and len(self.server.log.events) > self.left[-1]:
            self.found[self.left.pop()] = _contents(self.server)
        if not self.left:
            raise Stop


def cuts(scenario: Scenario, profile: str, events: Sequence[int]) -> dict[int, Contents]:
    """Return what the server contains when each of these events happens. One run ends at the last of them."""
    watcher = _Cuts(events)
    with suppress(Stop):
        play(scenario, profile, "provenance", watcher)
    return watcher.found


def cut(scenario: Scenario, profile: str, k: int) -> Contents:
    """Return what the server contains when event k happens."""
    return cuts(scenario, profile, [k])[k]


def _contents(server: Any) -> Contents:
    entries = sorted(len(server.inspection.stored(key).tokens) for key in server.inspection.kept() if key[0] == "entry")
    return {slot: _holds(server, slot) for slot in range(server.inspection.n_slots)}, entries


def _holds(server: Server, slot: int) -> Holds:
    live, spans = server.inspection.live(slot), server.sequences.checkpoint_spans(slot)
    packed = [part for part in live.rows if part.every > 1]
    kinds = [(part, "index" if min(part.rows, default=0) < 0 else "window" if part.window else "rows")
             for part in live.rows if part.every == 1 and (part.rows or not packed)]  # fmt: skip
    rows, window, index = (frozenset(int(pos) for part, kind in kinds if kind == wanted for pos in part.pos)
                           for wanted in ("rows", "window", "index"))  # fmt: skip
    lengths = server.inspection.checkpoints(slot)
    marks = [(n, *span) for n, span in zip(lengths, spans, strict=True)] if spans else [(n,) for n in lengths]
    state = live.state.pos + 1 if live.state is not None and live.state.pos >= 0 else None
    shown = {part.every: (state or 0) // part.every for part in packed}
    compressed = {ratio: count for ratio, count in shown.items() if count}
    assert all(all(rows.digest[: shown[part.every]]) for part in packed for rows in part.rows.values())
    return Holds(len(server.inspection.tokens_of(slot)), rows, window, index, compressed, state, marks)
