"""Inspection of the server: contents of nodes and requests, invariants of the tree."""

from __future__ import annotations

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.inspection import Key, RowsPart, StatePart, Stored, TreeCell
from cachesim.engines.sglang.worker import Worker
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.engines.shared.page_pool import NO_SLOTS, Slots
from cachesim.engines.shared.radix_node import Node
from cachesim.engines.shared.tree_points import FULL, STATE, SWA
from cachesim.model import Rows


class Inspected(Worker):
    """Inspection part of the server contract."""

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a node or its state; for a slot, the content of a request's row."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            n = min(row.computed, row.allocated)
            slots, first = row.buffer[:n], max(n - self.window, 0)
            cells = self.kv.peer[slots[first:]] if self.window else None
            rows = self._rows(slots, 0, cells, first, self.window) if n else ()
            return Stored("slot", owner, (), n, rows, self._state(row.state, n))
        node = self.tree.arena[owner]
        if kind == "state":
            return Stored(kind, owner, node.text[: node.end], node.end, (), self._state(node.value[STATE], node.end))
        if node.value[FULL] is None and self.tree.host is not None:
            copied = {i: read_rows(kept, node.host) for i, kept in self.tree.host.rows.items()}
            parts: tuple[RowsPart, ...] = (RowsPart(0, np.arange(node.start, node.end), copied),)
        else:
            parts = self._rows(node.value[FULL], node.start, node.value[SWA], node.start, 0)
        text = node.text if node.start else node.text[: node.end]
        return Stored(kind, owner, text, node.end, parts, None, node.start)

    def _rows(self, slots: Slots, start: int, cells: Slots | None, first: int, window: int) -> tuple[RowsPart, ...]:
        """Return the rows in slots of positions from ``start`` on, and those in window cells from ``first`` on. The
        window of a node is compared whole (0): a match may end inside the node."""
        parts = [RowsPart(0, np.arange(start, start + len(slots)), self._read(slots, window=False))]
        if cells is not None:
            parts.append(RowsPart(window, np.arange(first, first + len(cells)), self._read(cells, window=True)))
        return tuple(part for part in parts if part.rows)

    def _read(self, cells: Slots, window: bool) -> dict[int, Rows]:
        layers = self.kind.layers
        return {i: read_rows(kept, cells) for i, kept in self.rows.items() if bool(layers[i].window) == window}

    def _state(self, slot: int | None, n: int) -> StatePart | None:
        if STATE not in self.parts:
            return None
        held = self.states.content.get(slot, {})
        layers = [i for i, layer in enumerate(self.kind.layers) if layer.recurrence]
        return StatePart(n - 1, {i: held.get(i) for i in layers})

    def nodes(self) -> list[TreeCell]:
        """Return the nodes of the tree."""
        return self.points.cells()

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all states, ascending: requests share them."""
        return sorted(node.end for node in self.tree.nodes() if node.value[STATE] is not None)

    @property
    def at_work(self) -> int:
        """Number of requests that run, with the one that is evaluated in chunks."""
        return len(self.running) + (self.chunked is not None)

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and free slots agree with the nodes."""
        self.tree.check()
        self._check_slots(list(self.tree.nodes()))

    def _check_slots(self, nodes: list[Node]) -> None:
        """Every slot is free, in the tree, or in one request's own part of its row."""
        rows = [row for row in self.slots if row.allocated]
        own = [row.buffer[row.protected : row.allocated] for row in rows]
        held = [node.value[FULL] for node in nodes if node.value[FULL] is not None]
        slots = np.concatenate([*held, *own, NO_SLOTS])
        self.kv.full.check(slots)
        if self.tree.host is not None:
            self.tree.host.check(np.concatenate([NO_SLOTS, *(node.host for node in nodes if node.host is not None)]))
        if self.kv.window is not None:
            self.kv.window.check(self.kv.peer[slots])
        if STATE in self.parts:
            states = [node.value[STATE] for node in nodes if node.value[STATE] is not None]
            states += [slot for row in self.slots for slot in (row.state, *(row.track or ())) if slot is not None]
            if len(set(states)) < len(states):
                raise Crash("slots of states are used twice")
            self.states.check(np.array(states, np.int64))
