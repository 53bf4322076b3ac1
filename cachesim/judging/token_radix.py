"""Radix tree over token lists. Each list has a ``RadixPlace``: the node that holds its last token, and its length.
Two lists are equal exactly if their places are equal. Data about places is found along a path of nodes, without
comparing every pair of lists."""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterator, NamedTuple

from cachesim.base.tokens import Tokens, common_prefix


class RadixNode:
    """Tokens from position ``start`` on of a conversation; the tokens before ``start`` belong to ``parent``.
    ``branches[n][t]`` is the child that leaves after n tokens with token t. ``notes`` is free for the user of the
    tree."""

    __slots__ = ("branches", "notes", "number", "parent", "start", "tokens")

    def __init__(self, number: int, parent: RadixNode | None, start: int, tokens: list[int]) -> None:
        self.number = number
        self.parent = parent
        self.start = start
        self.tokens = tokens
        self.branches: dict[int, dict[int, RadixNode]] = {}
        self.notes: Any = None

    @property
    def stop(self) -> int:
        """Return the number of tokens up to the end of the node."""
        return self.start + len(self.tokens)


class RadixPlace(NamedTuple):
    """The first ``n`` tokens of the path that ends in the node ``node``, which holds the last of them."""

    node: RadixNode
    n: int


class TokenRadix:
    """Radix tree of all conversations of a run."""

    def __init__(self) -> None:
        self.root = RadixNode(0, None, 0, [])
        self.count = 1
        self.kept = 0                                   # tokens in all nodes

    def place(self, tokens: Tokens) -> RadixPlace:
        """Return the place of a list; add it if it is new."""
        return self._place(tokens, 0, RadixPlace(self.root, 0))

    def extend(self, place: RadixPlace, tokens: Tokens) -> RadixPlace:
        """Return the place of the list that consists of the tokens of ``place`` and ``tokens``; add it if it is new."""
        return self._place(tokens, place.n, RadixPlace(*owner_node(*place)))

    def _place(self, tokens: Tokens, before: int, near: RadixPlace) -> RadixPlace:
        """Return the place of a list. The first ``before`` tokens are not given; they lie on the way to ``near``."""
        node, n = self._walk(tokens, *near, before)
        rest = list(tokens[n - before :])
        self.kept += len(rest)
        if rest and n == node.stop:                     # nothing follows yet: the node gets longer
            node.tokens.extend(rest)
        elif rest:
            node.branches.setdefault(n, {})[rest[0]] = node = RadixNode(self.count, node, n, rest)
            self.count += 1
        return RadixPlace(node, before + len(tokens))

    def tokens(self, place: RadixPlace) -> Tokens:
        """Return the tokens of the list at a place."""
        parts: list[list[int]] = []
        for node, n in ancestors(place):
            parts.append(node.tokens[: n - node.start])
        return tuple(chain.from_iterable(reversed(parts)))

    def longest_known(self, tokens: Tokens) -> RadixPlace:
        """Return the place of the longest prefix of a list that the tree contains."""
        return RadixPlace(*self._walk(tokens, self.root, 0, 0))

    def _walk(self, tokens: Tokens, node: RadixNode, n: int, before: int) -> tuple[RadixNode, int]:
        """Follow the list from (``node``, ``n``) down the tree as far as they agree; the first ``before`` tokens of the
        list are not given."""
        stop = before + len(tokens)
        while True:
            own = min(stop, node.stop)
            if n < own:
                theirs = list(tokens[n - before : own - before])
                ours = node.tokens[n - node.start : own - node.start]
                n = own if ours == theirs else n + common_prefix(ours, theirs)
            branch = node.branches[n].get(tokens[n - before]) if n < stop and n in node.branches else None
            if branch is None:
                return node, n
            node = branch


def owner_node(node: RadixNode, n: int) -> tuple[RadixNode, int]:
    """Return the node that holds token n - 1, which is ``node`` or an ancestor, and n."""
    while node.parent is not None and n <= node.start:
        node = node.parent
    return node, n


def ancestors(place: RadixPlace) -> Iterator[tuple[RadixNode, int]]:
    """Yield the nodes from a place up to the root, each with the number of tokens of the list up to the end of its
    part."""
    node: RadixNode | None = place.node
    n = place.n
    while node is not None:
        yield node, n
        n, node = node.start, node.parent
