"""What changed between two trees, and what of ours was read from there?"""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import cached_property
from typing import Iterable, Iterator, NamedTuple

from tests.upstream.cpp import Symbol, code_lines, normal, regions, symbols
from tests.upstream.sources import Item, Place
from tests.upstream.trees import Tree

SAME, CHANGED, MOVED, LOST = "same", "changed", "moved", "lost"
"""A place: as it was; other code; a symbol or mark that only one tree has; one that neither has."""


class Side:
    """One tree, its symbols by file."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @cached_property
    def symbols(self) -> dict[str, list[Symbol]]:
        """Symbols by file."""
        return {file: list(symbols(text)) for file, text in self.tree.items()}

    def find(self, place: Place) -> list[Symbol]:
        """The symbols of this name in the file, or in any other if the file has none (it may have been moved)."""
        for name in filter(None, (place.later, place.symbol)):
            here = [one for one in self.symbols.get(place.file, ()) if _named(one, name)]
            here = here or [one for file in self.symbols.values() for one in file if _named(one, name)]
            if here:
                return here
        return []

    def texts(self, place: Place) -> list[str]:
        """What stands at a place: bodies, or the parts of them that its marks stand for."""
        found = self.find(place)
        if not place.marks:
            return [one.text for one in found]
        return [
            one.text[start:stop] for mark in place.marks for one in found for start, stop in regions(one.text, mark)
        ]

    def has(self, place: Place, mark: str) -> bool:
        """Whether the mark stands in the symbol."""
        return any(mark.rstrip("{ ") in one.text for one in self.find(place))


def _named(symbol: Symbol, name: str) -> bool:
    return symbol.name == name or symbol.name.endswith(f"::{name}")


class Finding(NamedTuple):
    """What became of the places of one item."""

    item: Item
    states: tuple[tuple[Place, str], ...]

    def any(self, *states: str) -> bool:
        """Whether a place is in one of these states."""
        return any(state in states for _, state in self.states)


def judge(items: Iterable[Item], old: Side, new: Side) -> list[Finding]:
    """All items with the states of their places."""
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
    """A symbol that differs: ``kind`` new, gone or changed; the names of our items that were read from it; the first
    line of each changed stretch that none of them covers."""

    file: str
    symbol: str
    line: int
    kind: str
    items: tuple[str, ...]
    open: tuple[str, ...] = ()


def differences(old: Side, new: Side, items: Iterable[Item]) -> Iterator[Difference]:
    """The functions, types, constants and macros that differ, file by file."""
    known = [(item, place) for item in items for place in item.places]
    for file in sorted({*old.tree, *new.tree}):
        before, after = _bodies(old, file), _bodies(new, file)
        for name in {**after, **before}:
            a, b = before.get(name, []), after.get(name, [])
            if [normal(one.text) for one in a] == [normal(one.text) for one in b]:
                continue
            near = [(item, place) for item, place in known if any(_named(one, place.symbol) for one in a + b)]
            kind = "new" if not a else "gone" if not b else "changed"
            names = tuple(dict.fromkeys(item.name for item, _ in near))
            rest = _uncovered(a, b, [place for _, place in near]) if kind == "changed" else ()
            yield Difference(file, name, (b or a)[0].line, kind, names, rest)


def _bodies(side: Side, file: str) -> dict[str, list[Symbol]]:
    out: dict[str, list[Symbol]] = {}
    for one in side.symbols.get(file, ()):
        out.setdefault(one.name, []).append(one)
    return out


def _uncovered(a: list[Symbol], b: list[Symbol], near: list[Place]) -> tuple[str, ...]:
    """First lines of changed stretches that lie outside the places of ours in a function."""
    if any(not place.marks for place in near):
        return ()
    texts = [_others(side, set(_lines(side, near))) for side in (a, b)]
    out = []
    for tag, i, j, k, n in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag != "equal" and "".join(texts[0][i:j]) != "".join(texts[1][k:n]):
            out.append(next(line for line in [*texts[1][k:n], *texts[0][i:j]] if line))
    return tuple(out)


def _others(side: list[Symbol], covered: set[int]) -> list[str]:
    """The lines of these bodies, one behind the other; empty where they are covered."""
    every = [line for one in side for line in code_lines(one.text)]
    return ["" if i in covered else line for i, line in enumerate(every)]


def _lines(side: list[Symbol], near: list[Place]) -> Iterator[int]:
    """Numbers of the lines of these bodies, one behind the other, that the marks of the places stand for."""
    first = 0
    for one in side:
        for place in near:
            for mark in place.marks:
                for start, stop in regions(one.text, mark):
                    yield from range(first + one.text.count("\n", 0, start), first + one.text.count("\n", 0, stop) + 1)
        first += len(one.text.splitlines())
