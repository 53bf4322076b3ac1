"""Endless stream of short episodes of operations, drawn from a seed and the state of our classes.

It uses only ``random()`` of the generator, which gives equal numbers for a seed in every version of Python.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

SINGLES, BATCHES = (0, 1, 2, 3), ("A", "B")
LENGTH = 60                                   # operations per episode


class Family(NamedTuple):
    """Subject of an episode: the class of the single caches, its weight in the draw, and whether batches exist."""

    kind: str
    weight: int
    batched: bool


FAMILIES = (
    Family("KVCache", 6, True), Family("RotatingKVCache", 9, True), Family("ArraysCache", 4, True),
    Family("CacheList", 4, True), Family("QuantizedKVCache", 1, False), Family("ChunkedKVCache", 1, False),
    Family("ConcatenateKVCache", 1, False),
)  # fmt: skip
BATCH_CLASS = {"KVCache": "BatchKVCache", "RotatingKVCache": "BatchRotatingKVCache"}


class Dice:
    """A random generator, reduced to the methods used here."""

    def __init__(self, seed):
        self._random = Random(seed)

    def below(self, n):
        return int(self._random.random() * n)

    def among(self, things):
        return things[self.below(len(things))]

    def chance(self, percent):
        return self.below(100) < percent

    def weighted(self, pairs):
        at = self.below(sum(weight for _, weight in pairs))
        for thing, weight in pairs:
            at -= weight
            if at < 0:
                return thing
        raise AssertionError

    def size(self):
        """Draw the number of tokens of a step, often 1."""
        return 1 if self.chance(45) else 1 + self.below(6)


class Setting(NamedTuple):
    """Parameters of a whole episode."""

    family: Family
    dtype: str
    shape: tuple[int, int, int]
    step: int
    args: tuple


def setting(dice, families=FAMILIES):
    """Draw the class, its arguments, dtype and shape of an episode."""
    family = dice.weighted([(family, family.weight) for family in families])
    if family.kind == "QuantizedKVCache":
        width = 64 * (1 + dice.below(2))
        return Setting(family, dice.among(("f4", "f2")), (1, width, width), 4, (32 if dice.chance(50) else 64, 8))
    shape = (1 + dice.below(2), 1 + dice.below(3), 1 + dice.below(3))
    if family.kind == "KVCache" and dice.chance(8):
        shape = (1, 32, 64)                       # can be quantized
    return Setting(family, dice.among(("f4", "f2")), shape, dice.among((2, 4, 4, 256)), _args(dice, family.kind))


def _args(dice, kind):
    ring = ("RotatingKVCache", 3 + dice.below(7), dice.among((0, 0, 0, 1, 2)))
    if kind == "RotatingKVCache":
        return ring[1:]
    if kind == "ArraysCache":
        return (1 + dice.below(2),)
    if kind == "ChunkedKVCache":
        return (2 + dice.below(6),)
    if kind == "CacheList":
        second = ("KVCache",) if dice.chance(60) else ring
        return ((("ArraysCache", 1) if dice.chance(60) else ("KVCache",)), second)
    return ()


class Talk:
    """Operations of an episode. ``things``: our caches by place; they determine the possible operations. ``filled``:
    single caches hold tokens before they are merged, and only what is trimmable is trimmed, as in a server."""

    def __init__(self, dice, setting, things, filled=False):
        self.dice = dice
        self.set = setting
        self.things = things
        self.start = 0
        self.filled = filled

    def actions(self):
        """Yield operations. Apply each before requesting the next."""
        for place in SINGLES:
            yield self._new(place)
            if self.filled:
                yield ("update", place, self._count(11), 1, self.dice.size())
        for _ in range(LENGTH):
            yield from self._next()

    def _next(self):
        if not self.set.family.batched or self.dice.chance(27):
            yield from self._plain() if self.dice.chance(4) else self._single()
        elif "A" not in self.things or "B" not in self.things or self.dice.chance(14):
            yield from self._merge()
        else:
            yield from self._batch(self.dice.among(BATCHES))

    def _plain(self):
        """Yield an operation that needs no cache."""
        dice = self.dice
        if dice.chance(50):
            width, group_size = 32 * (1 + dice.below(4)), dice.among((32, 32, 64, 128))
            yield ("pack", None, self.set.dtype, width, group_size, dice.among((2, 3, 4, 5, 6, 8)), dice.below(5000))
        else:
            paddings = [[dice.below(4) for _ in range(2)] if dice.chance(60) else None for _ in range(2)]
            yield ("mask", None, 1 + dice.below(4), dice.below(6), dice.among((None, 1, 3)), *paddings)

    def _new(self, place):
        args = self.set.args
        if self.set.family.kind == "QuantizedKVCache":
            args = (args[0], self.dice.among((2, 3, 4, 5, 6, 8)))
        return ("new", place, self.set.family.kind, *args)

    def _count(self, n):
        self.start = (self.start + n) % 500
        return self.start

    def _single(self):
        dice, place = self.dice, self.dice.among(SINGLES)
        kind = self.set.family.kind
        name = dice.weighted([("update", 55), ("trim", 16), ("copy", 6), ("new", 8), ("restore", 4), ("layers", 6),
                              ("quantize", 3 if kind == "KVCache" else 0), ("slot", 4 if kind == "ArraysCache" else 0)])
        if name == "update":
            yield ("update", place, self._count(11), 1, dice.size())
        elif name == "trim" and not (self.filled and not _goes_back(self.things[place], boldly=False)):
            yield ("trim", place, -1 if dice.chance(2) else dice.below(7))
        elif name == "copy":
            yield ("copy", place, dice.among(SINGLES))
        elif name == "restore" and not _any_empty(self.things[place]):
            yield ("restore", place)
        elif name == "layers":
            yield ("trim_layers", place, [place, dice.among(SINGLES)], dice.below(5))
        elif name == "quantize":
            yield ("quantize", "Q", place, 32, dice.among((2, 4, 8)))       # raises unless groups fit
            yield ("update", "Q", self._count(7), 1, dice.size())
        elif name == "slot":
            yield ("slot", place, 0, self._count(3), 1)
        else:
            yield self._new(place)

    def _merge(self):
        dice = self.dice
        place = dice.among([b for b in BATCHES if b not in self.things] or BATCHES)
        if self.set.family.kind in BATCH_CLASS and dice.chance(8):
            yield self._fresh_batch(place)
            if dice.chance(50):
                more = [dice.below(3) for _ in range(_rows(self.things[place]))]
                yield ("prepare", place, {"left_padding": more})
            return
        sources = [dice.among(SINGLES) for _ in range(1 + dice.below(4))]
        yield ("merge", place, sources)

    def _fresh_batch(self, place):
        kind = BATCH_CLASS[self.set.family.kind]
        padding = [self.dice.below(4) for _ in range(1 + self.dice.below(3))]
        head = (self.set.args[0],) if kind == "BatchRotatingKVCache" else ()
        return ("new", place, kind, *head, padding)

    def _batch(self, place):
        dice, rows = self.dice, _rows(self.things[place])
        name = dice.weighted([("update", 14), ("ragged", 12), ("extract", 24), ("extend", 32), ("filter", 10),
                              ("trim", 16), ("restore", 1), ("copy", 2)])
        if name == "update":
            yield ("update", place, self._count(17), rows, dice.size())
        elif name == "ragged":
            yield from self._ragged(place, rows)
        elif name == "extract" and (dice.chance(3) or not _any_empty(self.things[place])):
            yield ("extract", dice.among(SINGLES), place, dice.below(rows))
        elif name == "extend":
            if rows + _rows(self.things[_other(place)]) <= 7:
                yield ("extend", place, _other(place))
            else:
                yield ("filter", place, [dice.below(rows)])
        elif name == "filter":
            keep = [i for i in range(rows) if dice.chance(70)] or [dice.below(rows)]
            yield ("filter", place, keep if dice.chance(70) else keep[::-1])
        elif name == "trim" and (dice.chance(2) or _goes_back(self.things[place], dice.chance(30))):
            yield ("trim", place, dice.below(4))
        elif name == "restore" and not _any_empty(self.things[place]):
            yield ("restore", place)
        elif name == "copy":
            yield ("copy", place, _other(place))

    def _ragged(self, place, rows):
        """Yield a step in which rows have different numbers of tokens, padded on the right, as a server feeds them."""
        dice = self.dice
        lengths = [1 + dice.below(5) for _ in range(rows)]
        longest = max(lengths)
        sizes = {"lengths": lengths, "right_padding": [longest - n for n in lengths]}
        yield ("prepare", place, sizes)
        yield ("update", place, self._count(19), rows, longest)
        if self.set.family.kind == "ArraysCache" and dice.chance(30):
            yield ("advance", place, 1)
        if not dice.chance(2):
            yield ("finalize", place)


def _other(place):
    return "B" if place == "A" else "A"


def _rows(cache):
    """Return the number of rows of a batch of cachesim."""
    if hasattr(cache, "caches"):
        return _rows(cache.caches[-1])
    return cache.batch_size if hasattr(cache, "batch_size") else len(cache.offset)


def _any_empty(cache):
    if hasattr(cache, "caches"):
        return any(_any_empty(child) for child in cache.caches)
    return any(s is None for s in cache.cache) if hasattr(cache, "cache") else cache.empty()




def _goes_back(cache, boldly):
    """True if a trim has an effect. If ``boldly``, also for a wrapped ring, which must not be trimmed."""
    return cache.is_trimmable() or (boldly and hasattr(cache, "rotated"))
