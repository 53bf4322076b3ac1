"""Comparison of prompt caches, ours and theirs, with toy layers: every fetch, every queue, every byte."""

from __future__ import annotations

import inspect
from collections import Counter

from cachesim.engines.mlx_lm.lru import LRU_HEAD, LRUPromptCache
from tests.peers.talk import Dice

MODELS = ("m", "n")


class Toy:
    """A toy layer: a name, a number of tokens, and a flag that allows trims."""

    def __init__(self, name, held, trimmable, nbytes):
        self.name, self.held, self.trimmable, self.nbytes = name, held, trimmable, nbytes

    def is_trimmable(self):
        return self.trimmable

    def size(self):
        return self.held

    def trim(self, n):
        n = min(self.held, n)
        self.held -= n
        return n

    def plain(self):
        return [self.name, self.held, self.trimmable, self.nbytes]


def draw(dice, n, kinds=LRU_HEAD.kinds, trims=True):
    """Draw the next operation, a plain tuple. ``trims``: the cache has a method that evicts."""
    name = dice.weighted([("insert", 46), ("fetch", 50), ("trim_to", 4 if trims else 0)])
    model, key = dice.among(MODELS), _key(dice)
    if name == "insert":
        layers = [(f"{n}.{i}", len(key), dice.chance(75), dice.below(9)) for i in range(1 + dice.below(2))]
        return (name, model, key, layers, dice.among(kinds))
    if name == "trim_to":
        return (name, dice.below(5) - 1 if dice.chance(50) else None, dice.below(30) if dice.chance(50) else None)
    return ("fetch", model, key)


def _key(dice):
    return [dice.below(3) for _ in range(dice.among((0, 1, 2, 2, 3, 3, 4, 5, 6)))]


def do(cache, action):
    """Apply an operation to either prompt cache; the methods have equal names. Return its result, or "raises". A
    fetched layer gets a token more, as by an answer: an entry changes with it only if it is the same object."""
    name, *args = action
    try:
        if name == "insert":
            model, key, layers, kind = args
            cache.insert_cache(model, key, [Toy(*layer) for layer in layers], **_as_kind(cache, kind))
        elif name == "trim_to":
            cache.trim_to(n_sequences=args[0], n_bytes=args[1])
        else:
            layers, rest = cache.fetch_nearest_cache(*args)[:2]
            found = None if layers is None else [layer.plain() for layer in layers]
            for layer in layers or ():
                layer.held += 1
            return [found, list(rest)]
    except (KeyError, IndexError):
        return "raises"
    return None


def _as_kind(cache, kind):
    """Return the argument that names the kind of an entry: from #911 to #1019 a flag, before it none."""
    named = inspect.signature(cache.insert_cache).parameters
    if "cache_type" in named:
        return {"cache_type": kind}
    return {"checkpoint": kind == "checkpoint"} if "checkpoint" in named else {}


def queues_of(cache):
    """Return the queues of a real prompt cache by kind of entry."""
    order = cache._lru
    if hasattr(order, "_lrus"):
        return order._lrus
    if hasattr(order, "_lru_checkpoints"):                       # from #911 to #1019
        return {"normal": order._lru, "checkpoint": order._lru_checkpoints}
    return {"normal": order}


def _entry(cache, model, key):
    """Return an entry of a real prompt cache."""
    if hasattr(cache, "_trie"):
        return cache._trie.get(model, key)
    node = cache._cache[model]                                   # until #1019 dictionaries of tokens
    for token in key:
        node = node[token]
    return node["cache"]


def seen_ours(cache, like=None):
    """Return the visible state of our prompt cache, as far as a real one tells it. None: all that the newest tells."""
    queues = {kind: [[model, list(key)] for model, key in items] for kind, items in cache.queues().items()}
    entries = cache.entries().values()
    held = [layer.plain() for entry in entries for layer in entry.layers]
    told = [cache.nbytes] if like is None or hasattr(like, "nbytes") else []
    told += [cache.stats_by_type()] if like is None or hasattr(like, "stats_by_type") else []
    owners = [] if like is None or hasattr(like, "nbytes") else [[entry.owners for entry in entries]]
    return [len(cache), *told, queues, held, *owners]


def seen_theirs(cache):
    """Return the visible state of their prompt cache."""
    queues = {kind: [[model, list(key)] for model, key in items] for kind, items in queues_of(cache).items()}
    entries = [_entry(cache, model, key) for items in queues.values() for model, key in items]
    held = [layer.plain() for entry in entries for layer in entry.prompt_cache]
    told = [cache.nbytes] if hasattr(cache, "nbytes") else []
    told += [cache.stats_by_type()] if hasattr(cache, "stats_by_type") else []
    owners = [] if hasattr(cache, "nbytes") else [[entry.count for entry in entries]]
    return [len(entries), *told, queues, held, *owners]


def episode_limits(dice):
    """Draw max_size and max_bytes of an episode."""
    return 1 + dice.below(6), 1 << 63 if dice.chance(60) else 5 + dice.below(40)


def run(module, ops, seed, rules=LRU_HEAD, told=lambda answer: None):
    """Run ``ops`` operations on both prompt caches. Return the counts. ``module`` None: only ours. Raise
    AssertionError on a difference."""
    tried = Counter()
    episode = 0
    while tried["operations"] < ops:
        dice = Dice(f"lru {seed}/{episode}")
        limits = episode_limits(dice)
        ours = LRUPromptCache(*limits, rules=rules)
        theirs = _made(module.LRUPromptCache, limits) if module else None
        for n in range(min(80, ops - tried["operations"])):
            action = draw(dice, n, rules.kinds, module is None or hasattr(theirs, "trim_to"))
            tried.update(("operations", "lru " + action[0]))
            a = [do(ours, action), seen_ours(ours, theirs)]
            if theirs is not None:
                b = [do(theirs, action), seen_theirs(theirs)]
                assert a == b, f"seed {seed}, episode {episode}, operation {n}: {action}\nours {a}\ntheirs {b}"
            told(a)
            if a[0] == "raises":
                tried["raises"] += 1
                break
        episode += 1
    return tried


def _made(kind, limits):
    """Return a real prompt cache with these limits of entries and bytes; until #906 it has no limit of bytes."""
    return kind(*limits[: len(inspect.signature(kind).parameters)])
