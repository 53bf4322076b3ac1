"""Radix tree of the stored keys of a model, with entries at its nodes.

The original has a node for each token. Here a node stands for all tokens up to the next branch or entry, so a key of
100,000 tokens is a single node and a walk compares slices. All results are identical to the original's.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Generic, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.base.tokens import Tokens, common_prefix

T = TypeVar("T")


class SearchResult(NamedTuple):
    """Result of looking up a prompt (the query) among the keys of a model's entries."""

    known: bool             # this model has a trie
    exact: bool             # an entry lies at the end of the query
    at: int                 # length of the longest key that is a prefix of the query or the query (0: none or empty)
    longer: Tokens | None   # the shortest key that begins with the walked tokens; None if none was walked
    common: int             # tokens walked


class Node(Generic[T]):
    """A branch or an entry: the tokens on the edge to it, its children by first token in order of insertion, and an
    entry or None."""

    __slots__ = ("entry", "next", "tokens")

    def __init__(self, tokens: Tokens = (), entry: T | None = None) -> None:
        self.tokens = tokens
        self.next: dict[int, Node[T]] = {}
        self.entry: T | None = entry

    def __deepcopy__(self, memo: dict[int, Any]) -> Node[T]:
        """Copy node by node, because a trie can be deeper than Python's recursion limit. Tokens are immutable and
        shared."""
        twins: list[tuple[Node[T], Node[T]]] = [(self, Node(self.tokens))]
        memo[id(self)] = twins[0][1]
        for old, new in twins:
            new.entry = old.entry if old.entry is None else deepcopy(old.entry, memo)
            new.next = {first: Node(node.tokens) for first, node in old.next.items()}
            twins += zip(old.next.values(), new.next.values(), strict=True)
        return twins[0][1]

    def split(self, length: int) -> None:
        """Split the node after ``length`` tokens; the rest becomes a child. The place among the siblings stays."""
        below: Node[T] = Node(self.tokens[length:], self.entry)
        below.next, self.next = self.next, {self.tokens[length]: below}
        self.tokens, self.entry = self.tokens[:length], None

    def join(self) -> None:
        """Merge the only child into this node."""
        (below,) = self.next.values()
        self.tokens += below.tokens
        self.next, self.entry = below.next, below.entry


class TrieWalk(NamedTuple, Generic[T]):
    """Walk of a query: the nodes reached, from the root; the token count up to each; and the tokens walked beyond the
    last node, towards ``within``."""

    nodes: list[Node[T]]
    lengths: list[int]
    extra: int
    within: Node[T] | None

    @property
    def walked(self) -> int:
        """Tokens of the query for which the original has nodes."""
        return self.lengths[-1] + self.extra


class PromptTrie(Generic[T]):
    """Map from (model, tokens) to a value."""

    def __init__(self) -> None:
        self._roots: dict[Any, Node[T]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptTrie[T]:
        """Copy the trees; models are immutable and shared."""
        twin: PromptTrie[T] = PromptTrie()
        twin._roots = {model: deepcopy(root, memo) for model, root in self._roots.items()}
        return twin

    def add(self, model: Any, tokens: Sequence[int], value: T) -> T | None:
        """Store a value under the key. Return the previous value or None."""
        key = tuple(tokens)
        walk = _walk(self._roots.setdefault(model, Node()), key)
        node, rest = walk.nodes[-1], key[walk.walked :]
        if walk.within is not None:
            node = walk.within
            node.split(walk.extra)
        if rest:
            node.next[rest[0]] = Node(rest, value)
            return None
        before, node.entry = node.entry, value
        return before

    def get(self, model: Any, tokens: Sequence[int]) -> T:
        """Return the value under the key. Raise KeyError without a value."""
        entry = self._path(model, tokens)[-1].entry
        if entry is None:
            raise KeyError(tuple(tokens))
        return entry

    def has(self, model: Any, tokens: Sequence[int]) -> bool:
        """True if the key has a value."""
        try:
            self.get(model, tokens)
        except KeyError:
            return False
        return True

    def pop(self, model: Any, tokens: Sequence[int]) -> T:
        """Remove and return the value, with nodes that lead to no other value. Raise KeyError without a value."""
        path = self._path(model, tokens)
        node = path[-1]
        entry, node.entry = node.entry, None
        if entry is None:
            raise KeyError(tuple(tokens))
        if not node.next and len(path) > 1:
            del path[-2].next[path.pop().tokens[0]]
            node = path[-1]
        if node.entry is None and len(node.next) == 1 and len(path) > 1:
            node.join()
        return entry

    def prefixes(self, model: Any, tokens: Sequence[int]) -> list[int]:
        """Return the lengths of the proper prefixes of a stored key that are keys themselves."""
        lengths, at = [], 0
        for node in self._path(model, tokens):
            at += len(node.tokens)
            if node.entry is not None and at < len(tokens):
                lengths.append(at)
        return lengths

    def _path(self, model: Any, tokens: Sequence[int]) -> list[Node[T]]:
        """Return the nodes on the path to a key. Raise KeyError where the walk of the original ends."""
        key = tuple(tokens)
        walk = _walk(self._roots[model], key)
        if walk.walked < len(key):
            raise KeyError(key[walk.walked])
        if walk.within is not None:
            raise KeyError(key)
        return walk.nodes

    def search(self, model: Any, tokens: Sequence[int]) -> SearchResult:
        """Walk the query as far as stored keys match it."""
        root = self._roots.get(model)
        if root is None:
            return SearchResult(False, False, at=0, longer=None, common=0)
        key = tuple(tokens)
        walk = _walk(root, key)
        ends = [at for node, at in zip(walk.nodes, walk.lengths, strict=True) if node.entry is not None]
        exact = ends[-1:] == [len(key)]
        if exact or not walk.walked:
            longer = None
        elif walk.within is None:
            longer = key[: walk.walked] + shortest(walk.nodes[-1])
        else:
            longer = key[: walk.walked] + walk.within.tokens[walk.extra :] + shortest(walk.within)
        return SearchResult(True, exact, at=ends[-1] if ends else 0, longer=longer, common=walk.walked)


def _walk(root: Node[T], key: Tokens) -> TrieWalk[T]:
    nodes = [root]
    lengths = [0]
    at = len(root.tokens)
    while at < len(key) and (node := nodes[-1].next.get(key[at])) is not None:
        shared = common_prefix(node.tokens, key[at : at + len(node.tokens)])
        if shared < len(node.tokens):
            return TrieWalk(nodes, lengths, shared, node)
        at += shared
        nodes.append(node)
        lengths.append(at)
    return TrieWalk(nodes, lengths, 0, None)


def shortest(node: Node[Any]) -> Tokens:
    """Return the shortest token path from this node to an entry. Between equal lengths the branch that was added last
    wins, depth first."""
    none: tuple[int, list[Tokens]] = 0, []
    _, best = min(_entries(node), key=lambda found: found[0], default=none)
    return tuple(token for part in best for token in part)


def _entries(node: Node[Any]) -> Iterator[tuple[int, list[Tokens]]]:
    """Yield the paths to the entries below with their lengths, last branch first. Does not descend below an entry."""
    waiting: list[tuple[Node[Any], int, list[Tokens]]] = [(node, 0, [])]
    while waiting:
        here, length, way = waiting.pop()
        if here.entry is not None:
            yield length, way
        else:
            waiting.extend((there, length + len(there.tokens), [*way, there.tokens]) for there in here.next.values())
