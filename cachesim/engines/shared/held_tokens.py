"""The tokens of a slot, which know how many of them nobody has touched since somebody looked."""

from __future__ import annotations

import zlib
from array import array
from typing import Any, Iterable, Mapping

from cachesim.base.errors import Crash
from cachesim.base.tokens import Tokens


class HeldTokens(list[int]):
    """A list of tokens. What is only appended changes none of those before, and costs nothing here."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        super().__init__(tokens)
        self._kept, self.changes = 0, 0
        self._summed = 0, 0, 0                          # tokens that are in a checksum, ``changes`` then, and it
        self._reader: object = None

    def __deepcopy__(self, memo: Mapping[int, Any]) -> HeldTokens:
        return HeldTokens(self)

    def look(self, reader: object) -> Moment:
        """All tokens as they are now. From now on only this reader can ask how many of them are ``kept``; None looks
        without being noticed."""
        if reader is not None:
            self._kept, self._reader = len(self), reader
        return Moment(self)

    def kept(self, reader: object) -> int | None:
        """How many of the first tokens has nobody touched since this reader looked? None = it was not the last one."""
        return self._kept if reader is self._reader and reader is not None else None

    def crc32(self) -> int:
        """CRC-32 of all tokens as 64-bit integers. What was only appended since the last call is added to it."""
        n, changes, known = self._summed
        if changes != self.changes:
            n, known = 0, 0
        known = zlib.crc32(array("q", self[n:]).tobytes(), known)
        self._summed = len(self), self.changes, known
        return known

    def _touch(self, at: Any) -> None:
        """What is at this index, or in this slice, changes."""
        if isinstance(at, slice):
            first, _, step = at.indices(len(self))
            at = first if step > 0 else 0
        self._kept = min(self._kept, at if at >= 0 else 0)
        self.changes += 1

    def __setitem__(self, at: Any, value: Any) -> None:
        self._touch(at)
        super().__setitem__(at, value)

    def __delitem__(self, at: Any) -> None:
        self._touch(at)
        super().__delitem__(at)

    def clear(self) -> None:
        """Remove all tokens."""
        self._touch(0)
        super().clear()

    def _elsewhere(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the tokens of a slot are appended, cut off or written over")

    insert = pop = remove = reverse = sort = __imul__ = _elsewhere


class Moment:
    """The tokens that a list had when it was looked at: a copy is made when somebody asks, which must be before any of
    them is touched. What is appended does no harm."""

    __slots__ = ("_all", "_changes", "_held", "_n")

    def __init__(self, held: HeldTokens) -> None:
        self._held, self._n, self._changes = held, len(held), held.changes
        self._all: Tokens | None = None

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, at: slice) -> Tokens:
        """Some of the tokens. Raises Crash where they were touched meanwhile."""
        if self._all is not None:
            return self._all[at]
        if self._held.changes != self._changes:
            raise Crash("the tokens of a slot are asked for after they have changed")
        found = tuple(self._held[at] if len(self._held) == self._n else self._held[: self._n][at])
        if len(found) == self._n:
            self._all = found
        return found

    def left(self, reader: object) -> Tokens:
        """As many of the first ones as are known to be there still. ``reader``: who has looked."""
        if self._all is not None or self._held.changes == self._changes:
            return self[:]
        return tuple(self._held[: min(self._held.kept(reader) or 0, self._n)])
