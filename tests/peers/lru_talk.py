"""Comparison of prompt caches, ours and theirs, with toy layers: every fetch, every queue, every byte."""

from __future__ import annotations

from collections import Counter

from cachesim.engines.mlx_lm.lru import LRU_HEAD, LRUPromptCache
from tests.peers.talk import Dice

KINDS = ("assistant", "user", "system")
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


def draw(dice, n):
    """Draw the next operation, a plain tuple."""
    name = dice.weighted([("insert", 46), ("fetch", 50), ("trim_to", 4)])
    model, key = dice.among(MODELS), _key(dice)
    if name == "insert":
        layers = [(f"{n}.{i}", len(key), dice.chance(75), dice.below(9)) for i in range(1 + dice.below(2))]
        return (name, model, key, layers, dice.among(KINDS))
    if name == "trim_to":
        return (name, dice.below(5) - 1 if dice.chance(50) else None, dice.below(30) if dice.chance(50) else None)
    return ("fetch", model, key)


def _key(dice):
    return [dice.below(3) for _ in range(dice.among((0, 1, 2, 2, 3, 3, 4, 5, 6)))]


def do(cache, action):
    """Apply an operation to either prompt cache; the methods have equal names. Return its result."""
    name, *args = action
    if name == "insert":
        model, key, layers, kind = args
        cache.insert_cache(model, key, [Toy(*layer) for layer in layers], cache_type=kind)
    elif name == "trim_to":
        cache.trim_to(n_sequences=args[0], n_bytes=args[1])
    else:
        layers, rest = cache.fetch_nearest_cache(*args)[:2]
        return [None if layers is None else [layer.plain() for layer in layers], list(rest)]
    return None


def seen_ours(cache):
    """Return the visible state of our prompt cache."""
    queues = {kind: [[model, list(key)] for model, key in items] for kind, items in cache.queues().items()}
    held = [layer.plain() for entry in cache.entries().values() for layer in entry.layers]
    return [len(cache), cache.nbytes, cache.stats_by_type(), queues, held]


def seen_theirs(cache):
    """Return the visible state of their prompt cache."""
    queues = {kind: [[model, list(key)] for model, key in items] for kind, items in cache._lru._lrus.items()}
    keys = [item for items in queues.values() for item in items]
    held = [layer.plain() for model, key in keys for layer in cache._trie.get(model, key).prompt_cache]
    return [len(cache), cache.nbytes, cache.stats_by_type(), queues, held]


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
        theirs = module.LRUPromptCache(*limits) if module else None
        for n in range(min(80, ops - tried["operations"])):
            action = draw(dice, n)
            tried.update(("operations", "lru " + action[0]))
            a = [do(ours, action), seen_ours(ours)]
            if theirs is not None:
                b = [do(theirs, action), seen_theirs(theirs)]
                assert a == b, f"seed {seed}, episode {episode}, operation {n}: {action}\nours {a}\ntheirs {b}"
            told(a)
        episode += 1
    return tried
