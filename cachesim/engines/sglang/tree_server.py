"""Server whose prefixes are in a radix tree over pools of slots: allocation, and inspection of nodes and requests.

An engine decides what enters the tree and what leaves it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cachesim.engines.inspection import Key, RowsPart, StatePart, Stored, TreeCell
from cachesim.engines.sglang.mem_cache import tree_events as ev
from cachesim.engines.sglang.mem_cache.allocator import KvPools, Slots, StatePool
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA, TreePoints
from cachesim.engines.shared.kv_rows import RowTable, read_rows
from cachesim.engines.shared.request_queue import RequestQueue
from cachesim.events import Event
from cachesim.model import Rows


class TreeServer(RequestQueue):
    """The memory of a server. ``rows``: what the slots hold, by layer; ``parts`` of a node; ``window`` [tokens]. The
    ``tree`` evicts by the rules of its engine. Rows of requests have ``buffer``, their slots, ``allocated`` of them in
    use, the first ``protected`` in the tree; ``state``, the slot of the running state, and ``track``, slots of
    others."""

    tree: Any
    points: TreePoints
    kv: KvPools
    states: StatePool
    rows: RowTable
    parts: tuple[int, ...]
    window: int

    def report(self, head: Event | None = None) -> None:
        """Log an event, then the changes of the tree that it caused."""
        if head is not None:
            self.emit(head)
        for event in self.tree.changes:
            self.emit(event)
        self.tree.changes.clear()
        self.points.update()

    def free_slots(self, part: int) -> int:
        """Return the slots of a part that are free or can be evicted."""
        return int(self.tree.available(part) + self.tree.evictable[part])

    def evict(self, *asked: int) -> None:
        """Evict for an allocation that lacks so many slots of each part."""
        if any(asked):
            freed = self.tree.evict(asked)
            self.report(ev.MadeRoom(list(asked), freed))

    def make_room(self, tokens: int) -> None:
        """Evict until so many slots are free, of full attention and of the window."""
        window = self.kv.window
        lacking = max(0, tokens - window.available) if window is not None else 0
        self.evict(max(0, tokens - self.kv.full.available), lacking, 0)

    def cells(self, layer: int, request: int, start: int, stop: int) -> Slots:
        """Return the slots of a layer for positions start .. stop-1 of a request."""
        slots: Slots = self.slots[request].buffer[start:stop]
        return self.kv.peer[slots] if self.kind.layers[layer].window else slots

    def first_read(self, part: str, start: int) -> int:
        """Return the first position that a token at ``start`` reads in this part of the memory."""
        return max(0, start - self.window + 1) if part == "swa" else 0

    # Inspection.

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
        if node.value[FULL] is None:
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

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and free slots agree with the nodes. Every slot is free, in
        the tree, or in one request's own part of its row."""
        rows = [row for row in self.slots if row.allocated]
        states = [slot for row in self.slots for slot in (row.state, *(row.track or ())) if slot is not None]
        self.tree.check()
        self.tree.check_pools([row.buffer[row.protected : row.allocated] for row in rows], states)
