"""The restore points of blocks in chains, reported as they come and go.

A chain is known by its hash, which stands for all of its tokens. A block of rows holds the last tokens of its chain; it
is of use as long as there is a block for every beginning of the chain. A state stands for the whole chain, and needs
the rows of all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Hashable, NamedTuple

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import Key, Point
from cachesim.events import Gained, Log, Lost


class Chain(NamedTuple):
    """A chain: its hash, that of the chain before its last block (None = it is the first block), the tokens of the last
    block, and the number of all tokens."""

    hash: Hashable
    before: Hashable | None
    tokens: Tokens
    end: int


@dataclass(slots=True)
class _Node:
    """A chain, the blocks that hold its last tokens, the states after it, the chains that go on from it. ``whole``:
    there is a block for every beginning of it."""

    chain: Chain
    rows: list[Key] = field(default_factory=list)
    states: list[Key] = field(default_factory=list)
    kids: dict[Hashable, _Node] = field(default_factory=dict)
    whole: bool = False


class BlockPoints:
    """The restore points of a pool of blocks. ``rows``, ``states``: has the model layers that need such blocks?"""

    def __init__(self, log: Log, rows: bool, states: bool) -> None:
        self.log, self.has_rows, self.has_states = log, rows, states
        self.nodes: dict[Hashable, _Node] = {}
        self.keys: dict[Key, _Node] = {}

    def rows(self, key: Key, chain: Chain) -> None:
        """A block with the last tokens of a chain is there, and computed; so are those of its beginnings."""
        node = self._node(key, chain)
        node.rows.append(key)
        if not node.whole and (chain.before is None or self.nodes[chain.before].whole):
            self._complete(node)
        else:
            self._tell(node, key)

    def state(self, key: Key, chain: Chain, text: Tokens) -> None:
        """The state after a chain with these tokens is there, and computed."""
        node = self._node(key, chain)
        node.states.append(key)
        if node.rows:
            self._tell(node, key)
        else:
            lengths = (1, 0) if self.has_rows else (chain.end, chain.end)
            self.log.emit(Gained(None, Point(key, chain.end, text, 0, None, *lengths), "stored", ""))

    def lost(self, key: Key, cause: str, rule: str) -> None:
        """A block holds something else now."""
        node = self.keys.pop(key, None)
        if node is None:
            return
        mine = node.rows if key in node.rows else node.states
        mine.remove(key)
        self.log.emit(Lost(None, key, cause, rule))
        if mine is node.rows and not mine and node.whole:
            self._break(node, cause, rule)
        while not (node.rows or node.states or node.kids):
            del self.nodes[node.chain.hash]
            before = self.nodes.get(node.chain.before)
            if before is None:
                break
            before.kids.pop(node.chain.hash, None)      # not there if it was reported before its beginning
            node = before

    def _node(self, key: Key, chain: Chain) -> _Node:
        node = self.nodes.get(chain.hash)
        if node is None:
            node = self.nodes[chain.hash] = _Node(chain)
            if (before := self.nodes.get(chain.before)) is not None:
                before.kids[chain.hash] = node
        self.keys[key] = node
        return node

    def _tell(self, node: _Node, key: Key) -> None:
        """A block has come, or can be used again."""
        chain = node.chain
        usable = node.whole and self.has_states == (key in node.states)
        lengths = (chain.end, chain.end) if usable else (1, 0)
        if key in node.states:
            point = Point(key, chain.end, (), chain.end, node.rows[0], *lengths)
        else:
            after = None if chain.before is None else self.nodes[chain.before].rows[0]
            point = Point(key, chain.end, chain.tokens, chain.end - len(chain.tokens), after, *lengths)
        self.log.emit(Gained(None, point, "stored", ""))

    def _complete(self, node: _Node) -> None:
        """There is a block for every beginning of a chain: those that go on from it may be of use again."""
        todo = [node]
        while todo:
            one = todo.pop()
            one.whole = True
            for key in (*one.rows, *one.states):
                self._tell(one, key)
            todo += [kid for kid in one.kids.values() if kid.rows]

    def _break(self, node: _Node, cause: str, rule: str) -> None:
        """There is no block for the end of a chain any more: what goes on from it is of no use."""
        todo = [node]
        while todo:
            one = todo.pop()
            one.whole = False
            for key in one.states if self.has_states else one.rows:
                self.log.emit(Gained(None, Point(key, one.chain.end, (), one.chain.end, key, 1, 0), cause, rule))
            todo += [kid for kid in one.kids.values() if kid.whole]
