"""Restore points of a pool of blocks, reported as blocks are gained and lost.

A chain is a sequence of blocks, identified by a hash over all of its tokens. A block of rows holds the last tokens of
its chain and is usable as long as every prefix of the chain has a block. A state covers the whole chain and needs the
rows of all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Hashable, NamedTuple

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import Key, RestorePoint
from cachesim.events import Gained, Log, Lost


class Chain(NamedTuple):
    """A chain: its hash, the hash of the chain without its last block (None = first block), the tokens of the last
    block, and the total number of tokens."""

    hash: Hashable
    before: Hashable | None
    tokens: Tokens
    end: int


@dataclass(slots=True)
class _Node:
    """A chain, the blocks that hold its last tokens, the states after it, and the chains that extend it (``kids``).
    ``whole``: every prefix of the chain has a block."""

    chain: Chain
    rows: list[Key] = field(default_factory=list)
    states: list[Key] = field(default_factory=list)
    kids: dict[Hashable, _Node] = field(default_factory=dict)
    whole: bool = False


class BlockPoints:
    """Restore points of a pool of blocks. ``rows``, ``states``: True if the model has layers that need such blocks."""

    def __init__(self, log: Log, rows: bool, states: bool) -> None:
        self.log, self.has_rows, self.has_states = log, rows, states
        self.nodes: dict[Hashable, _Node] = {}
        self.keys: dict[Key, _Node] = {}

    def rows(self, key: Key, chain: Chain) -> None:
        """Report a computed block with the last tokens of a chain. The blocks of the chain's prefixes are computed,
        too."""
        node = self._node(key, chain)
        node.rows.append(key)
        if not node.whole and (chain.before is None or self.nodes[chain.before].whole):
            self._complete(node)
        else:
            self._report(node, key)

    def state(self, key: Key, chain: Chain, text: Tokens) -> None:
        """Report a computed state after a chain with these tokens (``text``)."""
        node = self._node(key, chain)
        node.states.append(key)
        if node.rows:
            self._report(node, key)
        else:
            lengths = (1, 0) if self.has_rows else (chain.end, chain.end)
            self.log.emit(Gained(None, RestorePoint(key, chain.end, text, 0, None, *lengths), "stored", ""))

    def lost(self, key: Key, cause: str, rule: str) -> None:
        """Report that a block no longer holds its former content."""
        node = self.keys.pop(key, None)
        if node is None:
            return
        blocks = node.rows if key in node.rows else node.states
        blocks.remove(key)
        self.log.emit(Lost(None, key, cause, rule))
        if blocks is node.rows and not blocks and node.whole:
            self._break(node, cause, rule)
        while not (node.rows or node.states or node.kids):
            del self.nodes[node.chain.hash]
            before = self.nodes.get(node.chain.before)
            if before is None:
                break
            before.kids.pop(node.chain.hash, None)      # absent if the chain was reported before its prefix
            node = before

    def _node(self, key: Key, chain: Chain) -> _Node:
        node = self.nodes.get(chain.hash)
        if node is None:
            node = self.nodes[chain.hash] = _Node(chain)
            if (before := self.nodes.get(chain.before)) is not None:
                before.kids[chain.hash] = node
        self.keys[key] = node
        return node

    def _report(self, node: _Node, key: Key) -> None:
        """Emit a ``Gained`` event for a block that is new or usable again."""
        chain = node.chain
        usable = node.whole and self.has_states == (key in node.states)
        lengths = (chain.end, chain.end) if usable else (1, 0)
        if key in node.states:
            point = RestorePoint(key, chain.end, (), chain.end, node.rows[0], *lengths)
        else:
            after = None if chain.before is None else self.nodes[chain.before].rows[0]
            point = RestorePoint(key, chain.end, chain.tokens, chain.end - len(chain.tokens), after, *lengths)
        self.log.emit(Gained(None, point, "stored", ""))

    def _complete(self, node: _Node) -> None:
        """Emit a ``Gained`` event for every block of a chain that just became usable, because each of its prefixes now
        has a block, and for the blocks of the chains that extend it."""
        todo = [node]
        while todo:
            found = todo.pop()
            found.whole = True
            for key in (*found.rows, *found.states):
                self._report(found, key)
            todo += [kid for kid in found.kids.values() if kid.rows]

    def _break(self, node: _Node, cause: str, rule: str) -> None:
        """Emit a ``Gained`` event without usable lengths for every block of a chain that lost its last block, and of
        the chains that extend it."""
        todo = [node]
        while todo:
            found = todo.pop()
            found.whole, end = False, found.chain.end
            for key in found.states if self.has_states else found.rows:
                self.log.emit(Gained(None, RestorePoint(key, end, (), end, key, 1, 0), cause, rule))
            todo += [kid for kid in found.kids.values() if kid.whole]
