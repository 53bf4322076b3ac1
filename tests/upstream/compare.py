"""Differences between two trees, and the rules that were read from the changed code."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import cached_property
from typing import Iterable, Iterator, NamedTuple

from tests.upstream.cpp import Symbol, code_lines, normal, regions, symbols
from tests.upstream.sources import Item, Place
from tests.upstream.trees import Tree

SAME, CHANGED, MOVED, LOST = "same", "changed", "moved", "lost"
"""States of a place: unchanged; code differs; symbol or mark in a single tree only; in neither tree."""


class Side:
    """Tree with its symbols by file."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @cached_property
    def symbols(self) -> dict[str, list[Symbol]]:
        """Symbols by file."""
        return {file: list(symbols(text)) for file, text in self.tree.items()}

    def find(self, place: Place) -> list[Symbol]:
        """Return the symbols of this name in the file, or in any other file if it was moved."""
        for name in filter(None, (place.later, place.symbol)):
            here = [found for found in self.symbols.get(place.file, ()) if _named(found, name)]
            here = here or [found for file in self.symbols.values() for found in file if _named(found, name)]
            if here:
                return here
        return []

    def texts(self, place: Place) -> list[str]:
        """Return the texts of a place: bodies, or the regions of its marks in them."""
        found = self.find(place)
        if not place.marks:
            return [symbol.text for symbol in found]
        return [
            symbol.text[start:stop]
            for mark in place.marks for symbol in found for start, stop in regions(symbol.text, mark)
        ]

    def has(self, place: Place, mark: str) -> bool:
        """True if the mark occurs in the symbol."""
        return any(mark.rstrip("{ ") in symbol.text for symbol in self.find(place))


def _named(symbol: Symbol, name: str) -> bool:
    return symbol.name == name or symbol.name.endswith(f"::{name}")


class Finding(NamedTuple):
    """States of the places of an item."""

    item: Item
    states: tuple[tuple[Place, str], ...]

    def any(self, *states: str) -> bool:
        """True if a place is in any of these states."""
        return any(state in states for _, state in self.states)


def judge(items: Iterable[Item], old: Side, new: Side) -> list[Finding]:
    """Return all items with the states of their places."""
    return [Finding(item, tuple((place, _state(place, old, new)) for place in item.places)) for item in items]


def _state(place: Place, old: Side, new: Side) -> str:
    before, after = old.find(place), new.find(place)
    if not before and not after:
        return LOST
    if not before or not after:
        return MOVED
    held = [(old.has(place, mark), new.has(place, mark)) for mark in place.marks]
    if any(not a and not b for a, b in held):
        return LOST
    if any(a != b for a, b in held):
        return MOVED
    return SAME if list(map(normal, old.texts(place))) == list(map(normal, new.texts(place))) else CHANGED


class Difference(NamedTuple):
    """Symbol that differs between two trees."""

    file: str
    symbol: str
    line: int
    kind: str                        # new, gone or changed
    items: tuple[str, ...]           # items that were read from it
    open: tuple[str, ...] = ()       # first line of each changed passage that no item covers


def differences(old: Side, new: Side, items: Iterable[Item]) -> Iterator[Difference]:
    """Yield the functions, types, constants and macros that differ, file by file."""
    known = [(item, place) for item in items for place in item.places]
    for file in sorted({*old.tree, *new.tree}):
        before, after = _bodies(old, file), _bodies(new, file)
        for name in {**after, **before}:
            a, b = before.get(name, []), after.get(name, [])
            if [normal(symbol.text) for symbol in a] == [normal(symbol.text) for symbol in b]:
                continue
            near = [(item, place) for item, place in known if any(_named(symbol, place.symbol) for symbol in a + b)]
            kind = "new" if not a else "gone" if not b else "changed"
            names = tuple(dict.fromkeys(item.name for item, _ in near))
            rest = _uncovered(a, b, [place for _, place in near]) if kind == "changed" else ()
            yield Difference(file, name, (b or a)[0].line, kind, names, rest)


def _bodies(side: Side, file: str) -> dict[str, list[Symbol]]:
    out: dict[str, list[Symbol]] = {}
    for symbol in side.symbols.get(file, ()):
        out.setdefault(symbol.name, []).append(symbol)
    return out


def _uncovered(a: list[Symbol], b: list[Symbol], near: list[Place]) -> tuple[str, ...]:
    """Return the first lines of changed passages outside of the places of our items in a function."""
    if any(not place.marks for place in near):
        return ()
    texts = [_others(side, set(_lines(side, near))) for side in (a, b)]
    out = []
    for tag, i, j, k, n in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag != "equal" and "".join(texts[0][i:j]) != "".join(texts[1][k:n]):
            out.append(next(line for line in [*texts[1][k:n], *texts[0][i:j]] if line))
    return tuple(out)


def _others(side: list[Symbol], covered: set[int]) -> list[str]:
    """Return the lines of these bodies, concatenated; covered lines are empty."""
    every = [line for symbol in side for line in code_lines(symbol.text)]
    return ["" if i in covered else line for i, line in enumerate(every)]


def _lines(side: list[Symbol], near: list[Place]) -> Iterator[int]:
    """Yield the line numbers, in the concatenated bodies, of the regions of the places' marks."""
    first = 0
    for symbol in side:
        for place in near:
            for mark in place.marks:
                for start, stop in regions(symbol.text, mark):
                    above, to = symbol.text.count("\n", 0, start), symbol.text.count("\n", 0, stop)
                    yield from range(first + above, first + to + 1)
        first += len(symbol.text.splitlines())
