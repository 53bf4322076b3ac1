"""What is stored under one key?"""

from __future__ import annotations

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """The layers of one state, its size in bytes when it came in, its queue. ``owners``: in versions that
    count them. ``snapshot``: a copy made under a prefix."""

    layers: list[Any]
    nbytes: int
    kind: str
    owners: int = 1
    snapshot: bool = False
