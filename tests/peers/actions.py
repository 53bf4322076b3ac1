"""Operations of the comparison and their effect. Each is a plain tuple (name, numbers...).

A table has places for single caches and for batches. Contents come from a counter, so an operation is identical in
every world and on every machine.
"""

from __future__ import annotations

import numpy as np

from tests.peers.worlds import Raised, plain, seen, twin


class Table:
    """Caches of a world, by place in ``things``."""

    def __init__(self, world, dtype, shape):
        self.world = world
        self.dtype = dtype
        self.heads, self.k_width, self.v_width = shape
        self.things = {}

    def do(self, action):
        """Apply the operation. Return its result and the state of the touched caches. Raise Raised if the world
        raises."""
        name, place, *args = action
        try:
            back, touched = getattr(self, "do_" + name)(place, *args)
        except Exception as error:     # whatever the classes raise
            raise Raised(type(error).__name__) from error
        return [plain(self.world, back), *(seen(self.world, self.things[one]) for one in touched)]

    def rows(self, start, batch, new, width):
        """Return [batch, heads, new, width], with numbers that half precision represents exactly."""
        shape = (batch, self.heads, new, width)
        numbers = (np.arange(np.prod(shape)) * 7 + start * 13) % 2039 - 1000
        return self.world.array(numbers.reshape(shape).astype(self.dtype))

    def do_new(self, place, kind, *args):
        self.things[place] = self._made(kind, args)
        return None, [place]

    def _made(self, kind, args):
        if kind != "CacheList":
            return self.world.make(kind, *args)
        return self.world.make("CacheList", *(self._made(child, more) for child, *more in args))

    def do_update(self, place, start, batch, new):
        return self._updated(self.things[place], start, batch, new), [place]

    def _updated(self, cache, start, batch, new):
        name = type(cache).__name__
        if name == "CacheList":
            return [self._updated(child, start, batch, new) for child in cache.caches]
        if name == "ArraysCache":
            mask = cache.make_mask(new)
            for slot in range(len(cache.cache)):
                cache[slot] = self.rows(start + slot, batch, 2, self.k_width)
            if (name, "advance") not in self.world.lacking:
                cache.advance(new)
            return mask
        if name == "ChunkedKVCache":
            cache.maybe_trim_front()
        keys = self.rows(start, batch, new, self.k_width)
        return cache.update_and_fetch(keys, self.rows(start + 1, batch, new, self.v_width))

    def do_slot(self, place, slot, start, batch):
        self.things[place][slot] = self.rows(start, batch, 2, self.k_width)
        return None, [place]

    def do_trim(self, place, n):
        return self.things[place].trim(n), [place]

    def do_trim_layers(self, place, others, n):
        return self.world.trim([self.things[one] for one in others], n), others

    def do_copy(self, place, source):
        self.things[place] = twin(self.things[source])
        return None, [place]

    def do_restore(self, place):
        self.things[place] = self.world.restored(self.things[place])
        return None, [place]

    def do_quantize(self, place, source, group_size, bits):
        self.things[place] = self.things[source].to_quantized(group_size, bits)
        return None, [place]

    def do_pack(self, place, dtype, width, group_size, bits, start):
        """Pack and unpack numbers with fractions."""
        numbers = ((np.arange(3 * width) + start) * 7919 % 10007 / 97 - start % 100).reshape(1, 3, width)
        return self.world.packed(self.world.array(numbers.astype(dtype)), group_size, bits), []

    def do_mask(self, place, N, offset, window, right, left):
        """Compute the mask of a batch directly."""
        paddings = [None if p is None else self.world.array(np.array(p, np.int32)) for p in (right, left)]
        return self.world.causal_mask(N, offset, window, *paddings), []

    def do_merge(self, place, sources):
        singles = [self.things[one] for one in sources]
        self.things[place] = self.world.merge(singles)
        return None, [place]

    def do_extract(self, place, source, row):
        self.things[place] = self.things[source].extract(row)
        return None, [place, source]

    def do_extend(self, place, addition):
        self.things[place].extend(self.things[addition])
        return None, [place, addition]

    def do_filter(self, place, rows):
        self.things[place].filter(self.world.array(np.array(rows, np.int32)))
        return None, [place]

    def do_prepare(self, place, sizes):
        self.things[place].prepare(**sizes)
        return None, [place]

    def do_finalize(self, place):
        self.things[place].finalize()
        return None, [place]

    def do_advance(self, place, n):
        self.things[place].advance(n)
        return None, [place]
