"""Changes of the radix tree, as events."""

from __future__ import annotations

from typing import Any

from cachesim.engines.shared.class_recording import RecordedEvent
from cachesim.events import frozen


@frozen
class TreeEvent(RecordedEvent, logged=True, printed=False):
    """An event of a tree, a list of its kind and all its fields."""

    def rows(self) -> list[list[Any]]:
        names: tuple[str, ...] = self.__match_args__
        return [[self.ev, *(getattr(self, name) for name in names)]]


@frozen
class Split(TreeEvent, ev="split"):
    """The first ``length`` tokens of a node became the node ``upper``."""

    node: int
    upper: int
    length: int


@frozen
class Grown(TreeEvent, ev="new"):
    """A node was added."""

    node: int
    parent: int
    length: int


@frozen
class Gone(TreeEvent, ev="gone"):
    """A node was removed."""

    node: int


@frozen
class Dropped(TreeEvent, ev="drop"):
    """A node of so many tokens lost a part: F, S or M, or a copy of one in host memory: H, HS or HM."""

    node: int
    part: str
    tokens: int


@frozen
class BackedUp(TreeEvent, ev="backup"):
    """The rows of a node were copied to host memory."""

    node: int
    tokens: int


@frozen
class Demoted(TreeEvent, ev="demote"):
    """A node was evicted to host memory: only its copy there is left."""

    node: int
    tokens: int


@frozen
class Loaded(TreeEvent, ev="load"):
    """The rows of a node were copied back from host memory."""

    node: int
    tokens: int


@frozen
class Revived(TreeEvent, ev="revive"):
    """A node that was evicted to host memory took over the slots of a request."""

    node: int
    tokens: int


@frozen
class MadeRoom(TreeEvent, ev="evict_for_alloc"):
    """An allocation asked for slots by part."""

    asked: list[int]
    freed: list[int]
