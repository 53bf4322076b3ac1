"""A compacted sliding window: a block of rows that moves on, and cannot move back far.

base    first position whose window rows are still there
live    rows in the block: positions base .. base + live - 1
width   what a query sees, itself included
cap     rows that the block has room for

Source: ik_llama.cpp #2253, #2266, #2310 (8337e4cd3). Derived from the code; no run of a real server was seen.
"""

from __future__ import annotations

from dataclasses import dataclass


def capacity(width: int, n_ubatch: int, pad: int = 256) -> int:
    """Rows of the block: the window and a micro-batch of at least 256, in units of ``pad`` (256 with flash
    attention, the default)."""
    size = width + max(256, n_ubatch)
    return -(-size // pad) * pad


@dataclass(slots=True)
class Window:
    """The block of one sequence."""

    width: int
    cap: int
    base: int = 0
    live: int = 0

    @property
    def end(self) -> int:
        """The position that comes next."""
        return self.base + self.live

    def advance(self, n: int) -> None:
        """Room for n tokens: where there is none, only the last ``width`` rows stay. Then they are there."""
        if self.live + n > self.cap:
            self.base += self.live - self.width
            self.live = self.width
        self.live += n

    def cut(self, p0: int, p1: int) -> bool:
        """Give up positions p0 .. p1-1. False = refused, nothing changed."""
        if p0 >= self.end or p1 <= self.base:
            return True
        if p1 < self.end:
            return False
        if p0 == 0:
            self.base = self.live = 0
            return True
        if self.base and p0 < self.base + self.width:
            return False
        self.live = p0 - self.base
        return True
