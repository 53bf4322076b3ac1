"""Which stored keys lie on the way of a query? One trie of tokens per model; a node may carry an entry."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Generic, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.tokens import Tokens

T = TypeVar("T")


class SearchResult(NamedTuple):
    """What a walk found. ``common``: tokens walked. ``exact``: an entry lies at the end of the query. ``at``: length of
    the longest prefix of the query, the whole included, that is a key (0: none or only the empty key). ``longer``: the
    shortest key that begins with the tokens walked, None if no token was walked. ``known``: this model has a trie."""

    known: bool
    exact: bool
    at: int
    longer: Tokens | None
    common: int


class Node(Generic[T]):
    """A place in the trie: the next tokens in the order in which they came, and an entry or None."""

    __slots__ = ("entry", "next")

    def __init__(self) -> None:
        self.next: dict[int, Node[T]] = {}
        self.entry: T | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Node[T]:
        """Node by node: a trie is as deep as its longest key, and calls within calls have an end."""
        twins: list[tuple[Node[T], Node[T]]] = [(self, Node())]
        memo[id(self)] = twins[0][1]
        for old, new in twins:
            new.entry = old.entry if old.entry is None else deepcopy(old.entry, memo)
            new.next = {token: Node() for token in old.next}
            twins += zip(old.next.values(), new.next.values(), strict=True)
        return twins[0][1]


class PromptTrie(Generic[T]):
    """Keys (model, tokens) with one value each; the values are kept by key too, since a walk is as long as the key."""

    def __init__(self) -> None:
        self._roots: dict[Any, Node[T]] = {}
        self._values: dict[tuple[Any, Tokens], T] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptTrie[T]:
        """Keys are not copied: nothing in them can change."""
        twin: PromptTrie[T] = PromptTrie()
        twin._roots = {model: deepcopy(root, memo) for model, root in self._roots.items()}
        twin._values = {key: deepcopy(value, memo) for key, value in self._values.items()}
        return twin

    def add(self, model: Any, tokens: Sequence[int], value: T) -> T | None:
        """Put a value under the key; the value that was there."""
        node = self._roots.setdefault(model, Node())
        for token in tokens:
            after = node.next.get(token)
            if after is None:
                after = node.next[token] = Node()
            node = after
        before, node.entry = node.entry, value
        self._values[model, tuple(tokens)] = value
        return before

    def get(self, model: Any, tokens: Sequence[int]) -> T:
        """The value under the key. Raises KeyError if there is none."""
        value = self._values.get((model, tuple(tokens)))
        if value is not None:
            return value
        self._path(model, tokens)                  # raises KeyError where the walk ends
        raise KeyError(tuple(tokens))

    def has(self, model: Any, tokens: Sequence[int]) -> bool:
        """Whether there is a value under the key."""
        try:
            self.get(model, tokens)
        except KeyError:
            return False
        return True

    def pop(self, model: Any, tokens: Sequence[int]) -> T:
        """Take the value out, and the nodes that led to nothing else. Raises KeyError if there is none."""
        path = self._path(model, tokens)
        entry, path[-1].entry = path[-1].entry, None
        if entry is None:
            raise KeyError(tuple(tokens))
        del self._values[model, tuple(tokens)]
        for i in range(len(tokens), 0, -1):
            if path[i].next or path[i].entry is not None:
                break
            del path[i - 1].next[tokens[i - 1]]
        return entry

    def prefixes(self, model: Any, tokens: Sequence[int]) -> list[int]:
        """Lengths of the proper prefixes of a stored key that are keys themselves."""
        found, node = [], self._roots[model]
        for i, token in enumerate(tokens):
            if node.entry is not None:
                found.append(i)
            node = node.next[token]
        return found

    def _path(self, model: Any, tokens: Sequence[int]) -> list[Node[T]]:
        path = [self._roots[model]]
        for token in tokens:
            path.append(path[-1].next[token])
        return path

    def search(self, model: Any, tokens: Sequence[int]) -> SearchResult:
        """Walk the query as far as there are nodes."""
        node = self._roots.get(model)
        if node is None:
            return SearchResult(False, False, 0, None, 0)
        walked, at = 0, 0
        while walked < len(tokens) and tokens[walked] in node.next:
            node = node.next[tokens[walked]]
            walked += 1
            if node.entry is not None:
                at = walked
        exact = walked == len(tokens) and node.entry is not None
        longer = None if exact or not walked else (*tokens[:walked], *shortest(node))
        return SearchResult(True, exact, at, longer, walked)


def shortest(node: Node[Any]) -> Tokens:
    """The fewest tokens from here to an entry. Of equals the branch that was added last, depth first."""
    best: Tokens | None = None
    for extra in _entries(node):
        if best is None or len(extra) < len(best):
            best = extra
    return best or ()


def _entries(node: Node[Any]) -> Iterator[Tokens]:
    """Ways to the entries below, nothing below an entry, last branch first."""
    waiting: list[tuple[Node[Any], Tokens]] = [(node, ())]
    while waiting:
        here, extra = waiting.pop()
        if here.entry is not None:
            yield extra
        else:
            waiting.extend((there, (*extra, token)) for token, there in here.next.items())
