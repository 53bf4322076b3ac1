"""Share of a job for a machine, when several machines divide the work without communicating."""

from __future__ import annotations

from typing import NamedTuple


class Shard(NamedTuple):
    """Part ``number`` of ``of`` parts, counted from 1."""

    number: int
    of: int

    def span(self, total: int) -> tuple[int, int]:
        """Return the half-open range of items (conversations, jobs) of this shard, out of 0 .. total-1. The shards are
        contiguous and their sizes differ by at most 1."""
        return (self.number - 1) * total // self.of, self.number * total // self.of

    @property
    def suffix(self) -> str:
        """Suffix for file names, so that shards can share a folder."""
        return "" if self == WHOLE else f".{self.number}of{self.of}"


WHOLE = Shard(1, 1)
MOST = 100_000
