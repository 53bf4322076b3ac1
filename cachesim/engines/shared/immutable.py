"""What is saved once and never changed again: a copy of a server shares it, however much has been saved."""

from __future__ import annotations

from typing import Any, Self


class Immutable:
    """Nobody writes into it or into what it holds, so that its deep copy is itself."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
