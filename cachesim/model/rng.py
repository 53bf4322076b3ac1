"""Numbers from a seed, the same on every machine and in every version: splitmix64 (Steele, Lea, Flood 2014)."""

from __future__ import annotations

from typing import Sequence, TypeVar

from cachesim.model.hash_mixing import MASK, mix_int

T = TypeVar("T")
_GAMMA = 0x9E3779B97F4A7C15


class Rng:
    """One stream of numbers. ``path`` makes streams of one seed independent."""

    def __init__(self, seed: int, *path: str) -> None:
        self.state = mix_int(seed & MASK)
        for name in path:
            for byte in name.encode():
                self.state = mix_int(self.state ^ (byte + 1))

    def below(self, n: int) -> int:
        """0 .. n-1."""
        self.state = (self.state + _GAMMA) & MASK
        return mix_int(self.state) * n >> 64

    def between(self, low: int, high: int) -> int:
        """low .. high."""
        return low + self.below(high - low + 1)

    def one(self, of: Sequence[T]) -> T:
        """One of them."""
        return of[self.below(len(of))]

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < percent
