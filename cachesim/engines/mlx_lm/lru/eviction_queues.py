"""In which order do entries leave? One queue per kind, oldest first; a fetch does not touch them."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import Any, Callable, Sequence

from cachesim.base.tokens import Tokens

Item = tuple[Any, Tokens]
"""(model, key)"""


class Queues:
    """The keys of all entries by kind. ``victim`` is the rule that picks a queue by the lengths of all."""

    def __init__(self, kinds: Sequence[str], victim: Callable[..., int]) -> None:
        self._queues: dict[str, deque[Item]] = {kind: deque() for kind in kinds}
        self._victim = victim

    def __deepcopy__(self, memo: dict[int, Any]) -> Queues:
        """Keys never change."""
        twin = copy(self)
        twin._queues = {kind: deque(queue) for kind, queue in self._queues.items()}
        return twin

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def lengths(self) -> dict[str, int]:
        """Entries by kind."""
        return {kind: len(queue) for kind, queue in self._queues.items()}

    def items(self) -> dict[str, tuple[Item, ...]]:
        """The queues, oldest first."""
        return {kind: tuple(queue) for kind, queue in self._queues.items()}

    def push(self, kind: str, item: Item) -> None:
        """Put a key at the end of its queue. Raises KeyError for a kind that the version does not know."""
        self._queues[kind].append(item)

    def remove(self, item: Item) -> None:
        """Take a key out of the first queue that holds it."""
        for queue in self._queues.values():
            if item in queue:
                queue.remove(item)
                return

    def pop(self) -> Item:
        """Take the victim out. Raises IndexError if the rule picked an empty queue."""
        queues = list(self._queues.values())
        return queues[self._victim([len(queue) for queue in queues])].popleft()
