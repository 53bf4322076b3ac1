"""The tokens of a slot, which know how many of them nobody has touched since somebody looked."""

from __future__ import annotations

from typing import Any, Iterable, Mapping


class HeldTokens(list[int]):
    """A list of tokens. What is only appended changes none of those before, and costs nothing here."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        super().__init__(tokens)
        self._kept = 0
        self._reader: object = None

    def __deepcopy__(self, memo: Mapping[int, Any]) -> HeldTokens:
        return HeldTokens(self)

    def look(self, reader: object) -> tuple[int, ...]:
        """All tokens. From now on this reader can ask how many of them are ``kept``, and nobody else."""
        self._kept, self._reader = len(self), reader
        return tuple(self)

    def kept(self, reader: object) -> int | None:
        """How many of the first tokens has nobody touched since this reader looked? None = it was not the last one."""
        return self._kept if reader is self._reader else None

    def _touch(self, at: Any) -> None:
        """What is at this index, or in this slice, changes."""
        if isinstance(at, slice):
            first, _, step = at.indices(len(self))
            at = first if step > 0 else 0
        self._kept = min(self._kept, at if at >= 0 else 0)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._touch(at)
        super().__setitem__(at, value)

    def __delitem__(self, at: Any) -> None:
        self._touch(at)
        super().__delitem__(at)

    def clear(self) -> None:
        """Remove all tokens."""
        self._kept = 0
        super().clear()

    def _elsewhere(self, *_: Any, **__: Any) -> Any:
        raise TypeError("the tokens of a slot are appended, cut off or written over")

    insert = pop = remove = reverse = sort = __imul__ = _elsewhere
