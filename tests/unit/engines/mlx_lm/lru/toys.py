"""Toy layers that consist of a length, and prompt caches that collect their events."""

from __future__ import annotations

from cachesim.engines.mlx_lm.lru import LRU_HEAD, LRUPromptCache

MODEL = "model"


class Layer:
    """A layer of ``held`` tokens, ``trimmable`` or not, of ``nbytes`` bytes (default: 1 per token)."""

    def __init__(self, held, trimmable=True, nbytes=None):
        self.held, self.trimmable = held, trimmable
        self.nbytes = held if nbytes is None else nbytes

    def is_trimmable(self):
        return self.trimmable

    def size(self):
        return self.held

    def trim(self, n):
        n = min(n, self.held)
        self.held -= n
        return n


def attention(key, nbytes=None):
    """Return the layers of an attention model that holds the key."""
    return [Layer(len(key), nbytes=nbytes)]


def hybrid(key, nbytes=None):
    """Return the layers of a hybrid model that holds the key; the second layer cannot be trimmed."""
    return [Layer(len(key), nbytes=nbytes), Layer(len(key), trimmable=False, nbytes=nbytes)]


def store(*keys, rules=LRU_HEAD, layers=attention, **options):
    """Return a prompt cache with these keys, and the list of its later events."""
    told = []
    cache = LRUPromptCache(rules=rules, on_event=told.append, **options)
    for key in keys:
        cache.insert_cache(MODEL, key, layers(key))
    told.clear()
    return cache, told


def stored(cache):
    """Return the keys by kind, oldest first, without empty kinds."""
    return {kind: [list(key) for _, key in items] for kind, items in cache.queues().items() if items}


def keys(cache):
    """Return all keys, by kind and age."""
    return [key for held in stored(cache).values() for key in held]
