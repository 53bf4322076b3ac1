"""Beginnings of conversations, each kept once: is this the same list of tokens as that one, and how far do two agree?

A ``TextNode`` is a path of tokens that begins where it leaves another one, its parent. A list of n tokens has one
``Place``: the path on which its last token lies, and n. Two lists are equal exactly if their places are. What is kept
about places is found along one path, without a comparison with every other list.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterator, NamedTuple

from cachesim.base.tokens import Tokens, common_prefix


class TextNode:
    """Tokens ``start`` .. of a conversation, of which those before belong to ``parent``; ``kids`` leave it behind
    a token, by the number of tokens before and the next one."""

    __slots__ = ("kids", "notes", "number", "parent", "start", "tokens")

    def __init__(self, number: int, parent: TextNode | None, start: int, tokens: list[int]) -> None:
        self.number, self.parent, self.start, self.tokens = number, parent, start, tokens
        self.kids: dict[int, dict[int, TextNode]] = {}
        self.notes: Any = None

    @property
    def stop(self) -> int:
        """Tokens up to the end of the path."""
        return self.start + len(self.tokens)


class Place(NamedTuple):
    """The first ``n`` tokens along a path, the last of which are the path's own."""

    text: TextNode
    n: int


class Texts:
    """All conversations of a run."""

    def __init__(self) -> None:
        self.root = TextNode(0, None, 0, [])
        self.count = 1
        self.kept = 0                                   # tokens in all paths
        self.recent: dict[int, tuple[Tokens, Place]] = {}

    def place(self, tokens: Tokens, who: int, near: Place | None = None) -> Place:
        """The place of a list, made if there is none. ``who``: the slot that holds it, which has mostly held the
        beginning of it before; -1 = none. ``near``: the place of a beginning of it."""
        return self._place(tokens, 0, near or Place(*self._from(tokens, who)))

    def go_on(self, place: Place, tokens: Tokens) -> Place:
        """The place of the list that begins as a place does, and goes on with these tokens; made if there is none."""
        return self._place(tokens, place.n, Place(*owner(*place)))

    def _place(self, tokens: Tokens, before: int, near: Place) -> Place:
        """The place of a list whose first ``before`` tokens, which are not given, lie on the way to ``near``."""
        text, n = self._walk(tokens, *near, before)
        rest = list(tokens[n - before :])
        self.kept += len(rest)
        if rest and n == text.stop:                     # nothing goes on here: the path becomes longer
            text.tokens.extend(rest)
        elif rest:
            text.kids.setdefault(n, {})[rest[0]] = text = TextNode(self.count, text, n, rest)
            self.count += 1
        return Place(text, before + len(tokens))

    def tokens(self, place: Place) -> Tokens:
        """The list that has this place."""
        parts: list[list[int]] = []
        for text, n in upwards(place):
            parts.append(text.tokens[: n - text.start])
        return tuple(chain.from_iterable(reversed(parts)))

    def path(self, tokens: Tokens, who: int) -> Place:
        """The place of the longest beginning of a list that has one."""
        place = Place(*self._walk(tokens, *self._from(tokens, who)))
        if place.n == len(tokens):
            self.remember(who, tokens, place)
        return place

    def remember(self, who: int, tokens: Tokens, place: Place) -> None:
        """The next list of this slot will mostly begin like this one."""
        self.recent[who] = tokens, place

    def _from(self, tokens: Tokens, who: int) -> tuple[TextNode, int]:
        """A place on the way to that of a list."""
        near = [self.recent[who]] if who in self.recent else list(self.recent.values())
        agree, at = 0, Place(self.root, 0)
        for known, place in near:
            n = common_prefix(known, tokens)
            if n > agree:
                agree, at = n, place
        return owner(at.text, agree)

    def _walk(self, tokens: Tokens, text: TextNode, n: int, before: int = 0) -> tuple[TextNode, int]:
        """Along the paths from a place as far as they go with the list, whose first ``before`` tokens are not given."""
        stop = before + len(tokens)
        while True:
            own = min(stop, text.stop)
            if n < own:
                theirs = list(tokens[n - before : own - before])
                n += common_prefix(text.tokens[n - text.start : own - text.start], theirs)
            kid = text.kids[n].get(tokens[n - before]) if n < stop and n in text.kids else None
            if kid is None:
                return text, n
            text = kid


def owner(text: TextNode, n: int) -> tuple[TextNode, int]:
    """The path on which token n - 1 lies, at or above this one, and n."""
    while text.parent is not None and n <= text.start:
        text = text.parent
    return text, n


def upwards(place: Place) -> Iterator[tuple[TextNode, int]]:
    """The paths of a place from its own to the root, each with how far the list goes along it."""
    text: TextNode | None = place.text
    n = place.n
    while text is not None:
        yield text, n
        n, text = text.start, text.parent
