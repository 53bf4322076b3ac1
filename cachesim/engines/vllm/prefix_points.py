"""Restore points of groups of layers that share a pool: prefixes from which evaluation can resume.

A prefix is a chain of units of tokens, named by the number of its last unit. Each group keeps pieces of it: blocks of
rows, of all tokens or of those in a window, or a state. A prefix is usable while every group has the pieces that the
next token reads; then it is a restore point.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import Key, RestorePoint
from cachesim.engines.shared.restore_point_tracker import LengthCounter, RestorePointTracker
from cachesim.events import Log

ALL = "all"
WINDOW = "window"
CHUNK = "chunk"
STATE = "state"


class GroupPieces(NamedTuple):
    """What a group keeps of a prefix. ``block``: tokens of a piece; ``size``: window or chunk [tokens]."""

    kind: str
    block: int
    size: int = 0


class UnitChain(NamedTuple):
    """The units of a request, each of ``unit`` tokens: their numbers, and the tokens; ``text`` knows all tokens."""

    numbers: Sequence[int]
    unit: int
    tokens: Sequence[int]
    text: object


@dataclass(slots=True, eq=False)
class Prefix:
    """A prefix of ``end`` tokens; ``unit``: its last ones. Bit g of ``has``: group g has a piece that ends here; of
    ``whole``: group g keeps all rows, and every piece up to here exists; ``text`` knows all tokens; ``start``: rows
    before it belong to a shorter restore point. ``longer``: the newest of the prefixes that extend it by one unit,
    ``older`` and ``newer``: its neighbours among those. Containers here would slow down every garbage collection."""

    number: int
    end: int
    unit: Tokens
    before: Prefix | None
    text: object
    has: int = 0
    whole: int = 0
    longer: Prefix | None = None
    older: Prefix | None = None
    newer: Prefix | None = None
    start: int = 0
    is_usable: bool = False

    def back(self, tokens: int) -> Prefix | None:
        """Return the prefix without its last tokens, None = the empty one or one that is not known."""
        at: Prefix | None = self
        while at is not None and tokens > 0:
            tokens -= len(at.unit)
            at = at.before
        return at

    def below(self, tokens: int) -> Iterator[Prefix]:
        """Yield the prefixes that extend this one by at most so many tokens."""
        todo = [self.longer]
        while todo:
            found = todo.pop()
            while found is not None:
                todo.append(found.older)
                if found.end - self.end > tokens:
                    break
                yield found
                found = found.longer

    def link(self) -> None:
        """Become the newest prefix that extends the one before."""
        if self.before is not None:
            self.older = self.before.longer
            self.before.longer = self
            if self.older is not None:
                self.older.newer = self

    def unlink(self) -> None:
        """Leave the prefixes that extend the one before."""
        if self.newer is not None:
            self.newer.older = self.older
        elif self.before is not None:
            self.before.longer = self.older
        if self.older is not None:
            self.older.newer = self.newer


class PrefixPoints(RestorePointTracker):
    """Restore points of a pool. ``align``: a prefix is usable at multiples of it [tokens]; ``copies``: further pieces
    of a group at the end of a prefix, by group and number of the prefix; ``reach``: for each group with windows or
    chunks, tokens of its consecutive pieces up to the end of a prefix, as far as a token reads them."""

    def __init__(self, log: Log, groups: Sequence[GroupPieces], align: int) -> None:
        super().__init__(log)
        self.groups = groups
        self.align = align
        self.known: dict[int, Prefix] = {}
        self.copies: dict[tuple[int, int], int] = {}
        self.reach: list[dict[int, int]] = [{} for _ in groups]
        self.lengths = LengthCounter()                     # of the restore points

    def prefix(self, key: Key) -> Prefix:
        """Return the prefix of a restore point."""
        return self.known[key[2]]

    def gained(self, group: int, chain: UnitChain, n: int) -> None:
        """Report a computed piece at the end of a prefix, the first ``n`` units of a chain."""
        node = self._node(chain, n)
        if node.has >> group & 1:
            self.copies[group, node.number] = self.copies.get((group, node.number), 0) + 1
        else:
            node.has |= 1 << group
            self._changed(group, node, "stored", "")

    def gone(self, group: int, number: int, cause: str, rule: str) -> None:
        """Report that a piece at the end of the prefix with this number is gone."""
        node = self.known.get(number)
        if node is None or not node.has >> group & 1:
            return
        further = self.copies.pop((group, number), 0)
        if further > 1:
            self.copies[group, number] = further - 1
        if not further:
            node.has ^= 1 << group
            self._changed(group, node, cause, rule)
            self._forget(node)

    def _node(self, chain: UnitChain, n: int) -> Prefix:
        """Return the prefix with these units; create it and those before it."""
        numbers = chain.numbers
        unit = chain.unit
        at = n
        while at and numbers[at - 1] not in self.known:
            at -= 1
        node = self.known[numbers[at - 1]] if at else None
        for i in range(at, n):
            number = numbers[i]
            end = (i + 1) * unit
            node = Prefix(number, end, tuple(chain.tokens[end - unit : end]), node, text=chain.text)
            node.link()
            self.known[number] = node
        assert node is not None
        return node

    def _forget(self, node: Prefix | None) -> None:
        """Remove prefixes that nothing is kept of."""
        while node is not None and not node.longer and not node.has:
            del self.known[node.number]
            node.unlink()
            node = node.before

    def _changed(self, group: int, node: Prefix, cause: str, rule: str) -> None:
        """Find the prefixes that a piece makes usable or unusable."""
        pieces = self.groups[group]
        touched = [node]
        if pieces.kind == ALL:
            touched += self._flip(group, node)
            before = node.before
            while before is not None and before.end > node.end - pieces.block:
                touched.append(before)
                before = before.before
        elif pieces.kind != STATE:
            touched = self._extend(group, node)
        for one in touched:
            usable = self._is_usable(one)
            if usable != one.is_usable:
                one.is_usable = usable
                self._report(one, cause, rule)

    def _flip(self, group: int, node: Prefix) -> list[Prefix]:
        """Update which prefixes have every piece of a group; return those that changed, and their parts of a block."""
        block = self.groups[group].block
        bit = 1 << group
        found = list[Prefix]()
        todo = [node]
        while todo:
            one = todo.pop()
            before = one.back(block)
            whole = one.has & bit if one.end % block == 0 and (one.end == block or (
                before is not None and before.whole & bit)) else 0
            if whole == one.whole & bit:
                continue
            one.whole ^= bit
            for longer in one.below(block):
                found.append(longer)
                if longer.end - one.end == block:
                    todo.append(longer)
        return found

    def _extend(self, group: int, node: Prefix) -> list[Prefix]:
        """Update the reach of a prefix and of those that extend it; return those that changed."""
        pieces = self.groups[group]
        block = pieces.block
        most = -(-pieces.size // block) * block
        reach = self.reach[group]
        found = list[Prefix]()
        todo = [node]
        while todo:
            one = todo.pop()
            before = one.back(block)
            known = reach.get(before.number, 0) if before is not None else 0
            now = min(most, known + block) if one.has >> group & 1 else 0
            if now == reach.get(one.number, 0):
                continue
            if now:
                reach[one.number] = now
            else:
                del reach[one.number]
            found.append(one)
            todo += reversed([longer for longer in one.below(block) if longer.end - one.end == block])
        return found

    def _is_usable(self, node: Prefix) -> bool:
        return node.end % self.align == 0 and all(map(self._has, range(len(self.groups)), repeat(node)))

    def _has(self, group: int, node: Prefix) -> bool:
        """True if a group has what the token after a prefix reads."""
        pieces = self.groups[group]
        end = node.end
        block = pieces.block
        rest = end % block
        bit = 1 << group
        if pieces.kind == STATE:
            return bool(node.has & bit)
        if pieces.kind == ALL:
            if not rest:
                return bool(node.whole & bit)
            before = node.back(rest)
            if end > block and (before is None or not before.whole & bit):
                return False
            return bool(node.has & bit) or any(one.has & bit for one in node.below(block - rest))
        if rest:
            return False
        first = max(0, end - pieces.size + 1) if pieces.kind == WINDOW else end // pieces.size * pieces.size
        return self.reach[group].get(node.number, 0) >= end - first

    def _report(self, node: Prefix, cause: str, rule: str) -> None:
        key = "block", -1, node.number
        self.lengths.count(node.end, 1 if node.is_usable else -1)
        if not node.is_usable:
            self.lose(key, cause, rule)
            return
        units = [node.unit]
        after = node.before
        while after is not None and not after.is_usable:
            units.append(after.unit)
            after = after.before
        node.start = after.end if after is not None else 0
        tokens = tuple(token for unit in reversed(units) for token in unit)
        origin = None if after is None else ("block", -1, after.number)
        point = RestorePoint(key, node.end, tokens, start=node.start, after=origin, lo=node.end, hi=node.end)
        self.hold(point, "stored", anew=True)
