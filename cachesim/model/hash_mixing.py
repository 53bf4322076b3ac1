"""Constants and uint64 operations of provenance, and the random number generator.

All arithmetic is modulo 2**64. ``mix`` is the finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of the input
affects every bit of the output, so sums of mixed values collide only by chance. The cached path (``provenance.py``) and
the whole-sequence path (``whole_provenance.py``) share only this file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Sequence, TypeVar

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.keyed_tokens import key_of
from cachesim.model.grid import Digests, Positions, frozen

MASK = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN = 0x9E3779B97F4A7C15
_PART = 1 << 13               # longer arrays are mixed in parts: large temporary arrays cost more than the arithmetic
_FEW = 8                      # up to so many tokens Python's integers are faster than arrays


def word(n: int) -> Digests:
    """Return a constant as an array without dimensions, which NumPy handles faster than a scalar."""
    return frozen(np.array(n, np.uint64))


_S30, _S27, _S31, _C1, _C2, _TIMES = (word(n) for n in (30, 27, 31, _FIRST, _SECOND, _GOLDEN))
STEP = np.uint64(0xD6E8FEB86659FD93)
"""B of the rolling hash h_i = B*h_{i-1} + mix(c_i); odd, so it is invertible and the hash loses nothing."""
TAPS = tuple(word(c) for c in (0xA24BAED4963EE407, 0x9FB21C651E98DF25, 0xC2B2AE3D27D4EB4F))
"""Odd factors of the inputs 1, 2 and 3 tokens back in a short convolution; the newest input has the factor 1."""


class LayerKeys(NamedTuple):
    """Constants that separate the digests of a layer of a model from all others."""

    row: Digests              # () of K/V rows
    own: Digests              # () odd factor of a token's own digest
    out: Digests              # () added to the output
    ints: tuple[int, int, int]    # the three as Python integers


def mix(z: Digests) -> Digests:
    """Return a new array with every element scrambled."""
    if z.ndim and len(z) > _PART:
        whole = np.empty_like(z)
        for at in range(0, len(z), _PART):
            whole[at : at + _PART] = mix(z[at : at + _PART])
        return whole
    part = z >> _S30
    z = z ^ part
    np.multiply(z, _C1, z)
    np.right_shift(z, _S27, part)
    np.bitwise_xor(z, part, z)
    np.multiply(z, _C2, z)
    np.right_shift(z, _S31, part)
    np.bitwise_xor(z, part, z)
    return z


def mix_int(z: int) -> int:
    """Return ``mix`` of a Python integer."""
    z &= MASK
    z = ((z ^ (z >> 30)) * _FIRST) & MASK
    z = ((z ^ (z >> 27)) * _SECOND) & MASK
    return z ^ (z >> 31)


@lru_cache(maxsize=1024)
def layer_keys(seed: int, layer: int) -> LayerKeys:
    """Return the constants of a layer, from the seed of the model and the layer's index."""
    base = mix_int(mix_int(seed + _GOLDEN) + (layer + 1) * _GOLDEN)
    row, own, out = (mix_int(base + i * _GOLDEN) for i in (1, 2, 3))
    return LayerKeys(word(row), word(own | 1), word(out), (row, own | 1, out))


@lru_cache(maxsize=256)
def _first(seed: int) -> Digests:
    """Return the constant that is added to every token."""
    return word(mix_int(seed))


@lru_cache(maxsize=4096)
def _token_digest(identity: int, seed: int) -> int:
    """Return the input digest of a token. Raise OverflowError if its key is out of range."""
    key = key_of(identity)
    if not 0 <= key <= MASK:
        raise OverflowError
    found = mix_int((identity & MASK) * _GOLDEN + int(_first(seed)))
    return mix_int(found + mix_int(key)) if key else found


def token_digests(tokens: Sequence[int], seed: int) -> Digests:
    """Return the tokens' input digests for the first layer, independent of their positions: (n,). ``tokens`` are
    identities: the key of a token is mixed in."""
    try:
        if len(tokens) <= _FEW and all(type(token) is int for token in tokens):     # numpy is slow
            return np.array([_token_digest(token, seed) for token in tokens], np.uint64)
        ids = _ids(tokens)
        if ids is None:
            return np.array([_token_digest(int(token), seed) for token in tokens], np.uint64)
    except (OverflowError, ValueError, TypeError):
        raise BadInput("a token is an integer from 0 to 2**64 - 1") from None
    ids *= _TIMES
    ids += _first(seed)
    return mix(ids)


def _ids(tokens: Sequence[int]) -> Digests | None:
    """Return the tokens as an array, (n,); None = some have a key. Raise OverflowError for a token below 0."""
    try:
        ids = np.array(tokens, np.int64)           # a single pass over all common prompts
        least = int(ids.min())
    except OverflowError:
        if max(tokens) > MASK:
            return None
        least, ids = min(tokens), np.array([max(0, token) for token in tokens], np.uint64)
    if least < 0:
        raise OverflowError
    return ids.view(np.uint64)


def place(positions: Positions) -> Digests:
    """Return the odd factors 2*pos + 1 that tie a K/V row's digest to its position, (n,). Padding has negative
    positions."""
    return (2 * positions + 1).astype(np.uint64)


def inverse(odd: Digests) -> Digests:
    """Return the inverses of odd numbers modulo 2**64, (n,). Newton's method; each round doubles the correct bits."""
    found = odd.copy()                          # correct in the lowest 3 bits
    for _ in range(5):
        found *= np.uint64(2) - odd * found
    return found


def powers(n: int) -> tuple[Digests, Digests]:
    """Return STEP**(i+1) and its inverse, (n,) each, for the closed form of the rolling hash."""
    size = max(512, 1 << (n - 1).bit_length())
    up, down = _powers(size)
    return up[:n], down[:n]


@lru_cache(maxsize=32)
def _powers(size: int) -> tuple[Digests, Digests]:
    up: Digests = np.multiply.accumulate(np.full(size, STEP))
    return frozen(up), frozen(inverse(up))


# Random numbers from a seed, identical on every machine and in every version: splitmix64 (Steele, Lea, Flood 2014).

T = TypeVar("T")


class Rng:
    """A stream of random numbers. Different ``path`` values give independent streams of a seed."""

    def __init__(self, seed: int, *path: str) -> None:
        self.state = mix_int(seed & MASK)
        for name in path:
            for byte in name.encode():
                self.state = mix_int(self.state ^ (byte + 1))

    def below(self, n: int) -> int:
        """Return a number from 0 to n-1."""
        self.state = (self.state + _GOLDEN) & MASK
        return mix_int(self.state) * n >> 64

    def between(self, low: int, high: int) -> int:
        """Return a number from low to high, inclusive."""
        return low + self.below(high - low + 1)

    def one(self, of: Sequence[T]) -> T:
        """Return a random element."""
        return of[self.below(len(of))]

    def shuffle(self, items: list[T]) -> None:
        """Shuffle a list in place: each element from the last on is swapped with one that ``below`` draws before it."""
        draws = max(0, len(items) - 1)
        states = word(self.state) + np.arange(1, draws + 1, dtype=np.uint64) * _TIMES
        self.state = (self.state + draws * _GOLDEN) & MASK
        drawn, below, half = mix(states), np.arange(draws + 1, 1, -1, dtype=np.uint64), np.uint64(32)
        low = (drawn & np.uint64(0xFFFFFFFF)) * below >> half
        others = ((drawn >> half) * below + low >> half).tolist()        # drawn * below >> 64
        for last, other in zip(range(draws, 0, -1), others, strict=True):
            items[last], items[other] = items[other], items[last]

    def chance(self, percent: int) -> bool:
        """Return True with this probability in percent."""
        return self.below(100) < percent
