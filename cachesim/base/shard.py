"""A part of some work, for one of several machines that know nothing of each other."""

from __future__ import annotations

from typing import NamedTuple


class Shard(NamedTuple):
    """Part ``number`` of ``of``, from 1."""

    number: int
    of: int

    def span(self, total: int) -> tuple[int, int]:
        """The part of the pieces 0 .. total-1 (conversations, jobs) that is done: the first, and the one behind the
        last. The parts follow each other without a gap, and differ by one piece at most."""
        return (self.number - 1) * total // self.of, self.number * total // self.of

    @property
    def suffix(self) -> str:
        """What is added to the name of a file, so that parts can share a folder."""
        return "" if self == WHOLE else f".{self.number}of{self.of}"


WHOLE = Shard(1, 1)
MOST = 100_000
