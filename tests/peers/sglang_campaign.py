"""Drawn operations on trees of SGLang, and their digests: those of a released tree are stored, ours must give the same.

A campaign is a number: it draws parts, sizes and options of a tree, and 100 operations.
"""

import hashlib
import json
import random

from cachesim.engines.sglang.rules.tree import PRIORITIES
from tests.peers.sglang_ours import MAMBA, SWA, OurTree, is_unified, parts_of
from tests.shared import ROOT

LENGTH = 100                   # operations of a campaign
STORED = ROOT / "tests" / "unit" / "engines" / "sglang" / "released_trees.json"
POLICIES = ("lru", "lfu", "slru", "priority", "fifo")
DIGITS = 8                      # of a digest


class OneTree:
    """Our tree, with what it returned."""

    def __init__(self, rules, parts, window, drawn):
        self.parts, self.page, self.locks, self.told = parts, drawn["page_size"], [], []
        self.ours = OurTree(rules, parts, window, drawn)
        self.ends_dead = is_unified(rules.build, parts)        # an insertion may end without window slots

    def match(self, tokens, limit, space):
        """Match; return the nodes to lock."""
        facts, node = self.ours.match(tokens, limit, space)
        self.told.append(facts)
        return (node,)

    def insert(self, tokens, frontier, space, priority, counted, chunk):
        """Make room and insert whole pages; return the nodes at their end, None without room."""
        tokens = tokens[: len(tokens) // self.page * self.page]
        self.evict(*self.ours.lacks(len(tokens)))
        if not self.ours.has_room(len(tokens)):
            return None
        frontier = frontier if SWA in self.parts else 0
        self.told.append(self.ours.insert(tokens, frontier, space, priority, counted, chunk))
        return self.match(tokens, len(tokens), space)

    def evict(self, *asked):
        """Evict."""
        self.told.append(self.ours.evict(*asked))

    def lock(self, node):
        """Lock the path to a node."""
        self.locks.append((self.ours.lock(node),))

    def unlock(self, receipt):
        """Release a lock."""
        self.ours.unlock(receipt)

    def check(self):
        """Note nodes, sizes and free lists."""
        self.told.append([self.ours.sizes(), [[*free] for free in self.ours.free()], [*self.ours.nodes()]])


def draw_tree(draw, rules):
    """Draw the parts of a tree, the window, and options."""
    parts, page = draw.choice(parts_of(rules.build)), draw.choice([1, 1, 2, 4])
    window = draw.choice([2, 3, 5, 8]) if SWA in parts else 0
    policies = sorted(rules.eviction_policies & PRIORITIES.keys() & {*POLICIES})
    drawn = {"page_size": page, "max_total_tokens": draw.choice([48, 96, 200]),
             "max_mamba_cache_size": draw.choice([5, 8, 30]), "radix_eviction_policy": draw.choice(policies),
             "mamba_max_states_per_path": draw.choice([-1, -1, 1, 2]) if rules.caps_states else -1,
             "state_grid": page * draw.choice([1, 2])}  # fmt: skip
    return parts, window, drawn


def operate(draw, trees, tried):
    """Perform random operations."""
    texts = [tuple(draw.randrange(4) for _ in range(40)) for _ in range(3)]
    for _ in range(LENGTH):
        tokens = draw.choice(texts)[: draw.randrange(41)] + tuple(draw.randrange(4) for _ in range(draw.randrange(5)))
        space, kind, end = draw.choice([None, None, None, "k"]), draw.choice("mmmmiiiiue"), None
        if kind == "m":
            end = trees.match(tokens, draw.randrange(len(tokens) + 1), space)
        elif kind == "i" and tokens:
            most = len(tokens) // trees.page
            frontier = draw.choice([0, draw.randrange(most + trees.ends_dead or 1) * trees.page])
            counted = draw.choice([0, draw.randrange(len(tokens) + 1)])
            end = trees.insert(tokens, frontier, space, draw.randrange(3), counted, draw.random() < 0.5)
        elif kind == "u" and trees.locks:
            trees.unlock(*trees.locks.pop(draw.randrange(len(trees.locks))))
        else:
            window, states = draw.choice([0, 1, 7]), draw.choice([0, 1])
            trees.evict(draw.choice([0, 1, 7, 20]), window * (SWA in trees.parts), states * (MAMBA in trees.parts))
        if end is not None and draw.random() < 0.3:
            trees.lock(*end)
        trees.check()
        tried[kind] += 1


def digest(rules, number, drawn_by=None):
    """Return the digest of a campaign on our tree. ``drawn_by``: rules that tell what the release has, None = these."""
    draw = random.Random(number)
    tree = OneTree(rules, *draw_tree(draw, drawn_by or rules))
    operate(draw, tree, dict.fromkeys("miue", 0))
    return hashlib.sha256(json.dumps(tree.told).encode()).hexdigest()[:DIGITS]


def stored():
    """Return the stored digests of the campaigns 0, 1, ... on the released trees, by release."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
