"""Inspection of the server: contents of its blocks, and where evaluation could resume.

A block is a single object, whatever the number of conversations that contain it. It is judged as part of the
conversation for which it was computed, so that all blocks of a conversation are compared with a single cold run.
"""

from __future__ import annotations

from blockpool.tables import Tables
from cachesim.engines.inspection import ExceededLimit, Key, StoredObject
from cachesim.engines.shared.server_loop import SlotInspection


class Inspection(SlotInspection):
    """Inspection part of the server contract."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables.slots)
        self.tables = tables

    def occupied_slots(self) -> list[int]:
        """Return the requests in progress: a finished request leaves only blocks that others can find."""
        return [row.id for row in self.tables.running]

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the content of a block; for a slot, the content of a request's blocks."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            n = row.computed
            state = self.tables.memory.state(row.states[-1] if row.states else None, n)
            return StoredObject("slot", owner, (), n, self.tables.memory.part(row.rows, n) if n else (), state)
        tokens, end = self.tables.places[owner]
        if kind == "state":
            return StoredObject(kind, owner, tokens, end, (), self.tables.memory.state(owner, end))
        first = end - self.tables.block
        return StoredObject(kind, owner, tokens, end, self.tables.memory.part([owner], end, first), None, first)

    def kept(self) -> list[Key]:
        """Return every computed block that can be found."""
        return sorted(self.tables.points.keys, key=lambda key: key[1])

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all states that can be found, ascending: states are shared by all requests."""
        return sorted(node.chain.end for key, node in self.tables.points.keys.items() if key[0] == "state")

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return an excess if more requests run than allowed."""
        n, most = len(self.tables.running), self.tables.opts.max_num_seqs
        return [ExceededLimit("requests at work", n, most)] if n > most else []

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        self.tables.pool.check(block for row in self.slots for group in row.used() for block in group)
