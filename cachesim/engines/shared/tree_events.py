"""Changes of a radix tree, as events."""

from __future__ import annotations

from typing import Any

from cachesim.events import Event, frozen


@frozen
class TreeEvent(Event, printed=False):
    """An event that a recording holds as a list: its kind and its fields."""

    def row(self) -> list[Any]:
        """Return the event as a recording holds it."""
        names: tuple[str, ...] = self.__match_args__
        return [self.ev, *(getattr(self, name) for name in names)]


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
    """A node of so many tokens lost a part: F, S or M."""

    node: int
    part: str
    tokens: int
