"""Restore points of a radix tree: its nodes, and the states at their ends.

A node has up to three parts: the rows of full attention of its tokens, their rows of a window, and a recurrent state
after its last token. It stands for its whole prefix, of which it holds the last tokens. So a split changes no restore
point: the lower half keeps its key and its usable lengths, the upper half is a further point.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Protocol

from cachesim.base.tokens import Tokens
from cachesim.engines.inspection import Key, Point, TreeCell
from cachesim.events import Gained, Log, Lost

FULL, SWA, STATE = 0, 1, 2
"""Parts of a node: full attention, window, recurrent state."""
PARTS = ("rows", "window", "state")
"""Names of the parts in pictures."""
HOST = "copy in host memory"
Lengths = tuple[int, int]
UNUSABLE: Lengths = 1, 0


class Reported(NamedTuple):
    """The last report of a node: usable lengths of its prefix, those of its state (None = no state), the position from
    which on its window is live, and whether only its copy in host memory is left."""

    usable: Lengths
    state: Lengths | None
    live: int
    gone: bool


class PointNode(Protocol):
    """A node: tokens ``start`` .. ``end`` - 1 of ``text``; ``value``: its parts, None = the node lacks it; ``host``:
    its copy in host memory."""

    id: int
    end: int
    text: Tokens
    value: list[Any]
    host: Any
    parent: Any
    children: dict[Any, Any]

    @property
    def start(self) -> int:
        """Length of the prefix before the node [tokens]."""
        ...


class PointTree(Protocol):
    """A tree: the ``parts`` of its nodes, page and window [tokens], changed nodes, and removed parts with the deciding
    rule."""

    parts: tuple[int, ...]
    page: int
    window: int
    touched: dict[Any, None]
    lost: list[tuple[Any, int, str]]

    def nodes(self) -> Iterator[Any]:
        """Yield all nodes but the root."""
        ...


class TreePoints:
    """Reports restore points to the log while it has a listener."""

    def __init__(self, tree: PointTree, log: Log) -> None:
        self.tree, self.log = tree, log
        self.known: dict[int, Reported] = {}

    def kept(self) -> list[Key]:
        """Return the keys of all nodes and states."""
        return [key_of(node, part) for node in self.tree.nodes() for part in (FULL, STATE)
                if node.value[part] is not None or (part == FULL and node.host is not None)]  # fmt: skip

    def cells(self) -> list[TreeCell]:
        """Return the nodes for a picture."""
        names = {part: PARTS[part] for part in self.tree.parts}
        return [TreeCell(node.id, node.parent.id if node.parent else 0, node.start, node.end,
                         [*(name for part, name in names.items() if node.value[part] is not None),
                          *([HOST] if node.host is not None else ())],
                         [name for part, name in names.items() if node.value[part] is None],
                         node.lock[FULL]) for node in self.tree.nodes()]  # fmt: skip

    def update(self) -> None:
        """Report the nodes that have changed, and those behind them whose window has."""
        tree = self.tree
        if tree.touched and self.log.listens_to(Gained):
            rules = {node.id: rule for node, _, rule in tree.lost}
            for node, part, rule in tree.lost:
                if part != SWA and node.id in self.known:
                    self.log.emit(Lost(None, key_of(node, part), "evicted", rule))
            for node in sorted(tree.touched, key=lambda node: node.start):
                if node.value[FULL] is not None or node.host is not None:
                    self._report(node, rules.get(node.id, ""))
                else:
                    self.known.pop(node.id, None)
        tree.touched.clear()
        tree.lost.clear()

    def _report(self, node: PointNode, rule: str) -> None:
        todo = [node]
        while todo:
            node = todo.pop()
            before = self.known.get(node.id)
            now = self.known[node.id] = self._lengths(node)
            if before != now:
                self._emit(node, before, now, rule)
            if before is not None and before.live != now.live:
                todo += [child for child in node.children.values() if child.id in self.known]

    def _lengths(self, node: PointNode) -> Reported:
        """Return at which lengths the prefix of a node is usable."""
        tree, page, end, live = self.tree, self.tree.page, node.end, 0
        if SWA in tree.parts:
            before = self.known.get(node.parent.id) if node.parent is not None else None
            live = end if node.value[SWA] is None else 0 if before is None else min(before.live, node.start)
        lo = live + -(-max(tree.window if live else 0, page) // page) * page
        usable = (lo, end) if lo <= end else UNUSABLE
        if STATE not in tree.parts:
            return Reported(usable, None, live, node.value[FULL] is None)
        state = None if node.value[STATE] is None else (end, end) if lo <= end else UNUSABLE
        return Reported(UNUSABLE, state, live, False)

    def _emit(self, node: PointNode, before: Reported | None, now: Reported, rule: str) -> None:
        parent, cause = node.parent, "evicted" if rule else "stored"
        assert parent is not None
        key = key_of(node, FULL)
        if before is None or (before.usable, before.gone) != (now.usable, now.gone):
            tokens, start, after = node.text[node.start : node.end], node.start, key_of(parent, FULL)
            if before is not None:
                tokens, start, after = (), node.end, key
            point = Point(key, node.end, tokens, start, after if start else None, *now.usable, self.tree.page)
            self.log.emit(Gained(None, point, cause, rule))
        if now.state is not None and (before is None or before.state != now.state):
            point = Point(key_of(node, STATE), node.end, (), node.end, key, *now.state)
            self.log.emit(Gained(None, point, cause, rule))


def key_of(node: PointNode, part: int) -> Key:
    """Return the key of a node's restore point, or of that of its state."""
    return "state" if part == STATE else "node", node.id, 0
