"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A block is one object, however many conversations go through it. It is judged as part of the one that it was computed
for, so that all blocks of a conversation are compared with one cold run.
"""

from __future__ import annotations

from blockpool.tables import Tables
from cachesim.engines.inspection import Excess, Key, Stored


class Inspected(Tables):
    """What the contract of a server asks about its blocks."""

    def stored(self, key: Key, start: int = 0) -> Stored:
        """What a block holds; of a slot, what the blocks of a request hold."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            n = row.computed
            state = self.memory.state(row.states[-1] if row.states else None, n)
            return Stored("slot", owner, (), n, self.memory.part(row.rows, n) if n else (), state)
        block = self.pool.blocks[owner - 1]
        assert block.place is not None
        tokens, end = block.place
        if kind == "state":
            return Stored(kind, owner, tokens, end, (), self.memory.state(block, end))
        first = end - self.block
        return Stored(kind, owner, tokens, end, self.memory.part([block], end, first), None, first)

    def kept(self) -> list[Key]:
        """Every block that can be found, and is computed."""
        return sorted(self.points.keys, key=lambda key: key[1])

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths of all states that can be found, ascending: they belong to nobody alone."""
        return sorted(node.chain.end for key, node in self.points.keys.items() if key[0] == "state")

    def exceeded_limits(self) -> list[Excess]:
        """More requests at work than are allowed."""
        n, most = len(self.running), self.opts.max_num_seqs
        return [Excess("requests at work", n, most)] if n > most else []

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        self.pool.check(block for row in self.slots for group in row.used() for block in group)
