"""Inspection of the server."""

from __future__ import annotations

from cachesim.engines.inspection import Key, Stored
from cachesim.engines.sglang.worker import Worker


class Inspected(Worker):
    """Inspection part of the server contract."""

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a node or a request."""
        raise NotImplementedError

    def kept(self) -> list[Key]:
        """Return the keys of all nodes."""
        return []
