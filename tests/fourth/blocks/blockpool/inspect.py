"""What does the server hold right now, and from where could evaluation go on? Looking changes nothing.

A block is one object, however many conversations go through it. It is judged as the end of the longest of them, so that
all blocks of a conversation are compared with one cold run.
"""

from __future__ import annotations

from typing import Iterator

from blockpool.pool import ROWS, STATE, Block, Key, Place
from blockpool.tables import Tables
from cachesim.base.tokens import Tokens
from cachesim.engines.judge_view import Excess, Point, Stored


class Inspected(Tables):
    """What the contract of a server asks about its blocks."""

    def live(self, slot: int) -> Stored:
        """A request when it ends: its tokens, and what its blocks hold."""
        row = self.slots[slot]
        n = row.computed
        state = self.memory.state(row.states[-1] if row.states else None, n)
        return Stored("slot", slot, tuple(row.tokens), n, self.memory.part(row.rows, n) if n else (), state)

    def kept(self) -> list[Stored]:
        """Every block that can be found."""
        blocks = sorted(((one, one.place) for one in self.pool.findable() if one.place), key=lambda one: one[0].id)
        longest: dict[bytes, Tokens] = {}
        for _, place in sorted(blocks, key=lambda one: len(one[1].tokens)):
            longest.update(dict.fromkeys(place.chain, place.tokens))
        return [self._kept(block, place, longest[place.chain[-1]]) for block, place in blocks]

    def _kept(self, block: Block, place: Place, tokens: Tokens) -> Stored:
        end = len(place.tokens)
        if block.key is not None and block.key.group == STATE:
            return Stored("state", block.id, tokens, end, (), self.memory.state(block, end))
        start = end - self.block
        return Stored("block", block.id, tokens, end, self.memory.part([block], end, start), None, start)

    def points(self) -> list[Point]:
        """Every restore point: states with all rows before them; without states every boundary of a whole path."""
        return list(self._states() if self.has_states else self._paths())

    def _states(self) -> Iterator[Point]:
        for key, same in self.pool.map.items():
            block = next(iter(same.values()))
            if key.group != STATE or block.place is None:
                continue
            table = self._table(block.place)
            if table is not None:
                n = len(block.place.tokens)
                rows = self.memory.part(table, n)
                yield Point(Stored("state", -1, block.place.tokens, n, rows, self.memory.state(block, n)), n, n)

    def _paths(self) -> Iterator[Point]:
        places = [one.place for one in self.pool.findable() if one.place]
        inner = {one.chain[-2] for one in places if len(one.chain) > 1}
        for place in dict.fromkeys(place for place in places if place.chain[-1] not in inner):
            whole = self._table(place)
            if whole:
                n = len(whole) * self.block
                stored = Stored("block", -1, place.tokens[:n], n, self.memory.part(whole, n), None)
                yield Point(stored, self.block, n, self.block)

    def _table(self, place: Place) -> list[Block] | None:
        """The blocks of rows of a path, as far as they are there; None where a state would need more."""
        table: list[Block] = []
        for one in place.chain if self.has_rows else ():
            block = self.pool.find(Key(one, ROWS))
            if block is None:
                return None if self.has_states else table
            table.append(block)
        return table

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths of all states that can be found, ascending: they belong to nobody alone."""
        return sorted(len(one.place.tokens) for one in self.pool.findable()
                      if one.place and one.key and one.key.group == STATE)

    def exceeded(self) -> list[Excess]:
        """More requests at work than are allowed."""
        n, most = len(self.running), self.opts.max_num_seqs
        return [Excess("requests at work", n, most)] if n > most else []

    def check(self) -> None:
        """Raise Crash unless pool and tables agree."""
        self.pool.check(block for row in self.slots for group in row.used() for block in group)
