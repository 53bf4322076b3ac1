"""CPU time of an operation on the released tree of SGLang and on ours, by the number of nodes.

    python -m tests.peers.sglang_growth FOLDER [--nodes 1000 10000 100000] [--parts F FSM]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. The two trees take turns. A second run holds the
garbage collector, whose full collections visit all nodes.
"""

import argparse
import gc
import random
from pathlib import Path

from tests.peers import sglang_source as source
from tests.peers.sglang_tree import SECONDS, Trees

TOKENS = 8                      # of a prompt
TRIED = 500                     # operations of each kind
PARTS = {"F": (0,), "FS": (0, 1), "FM": (0, 2), "FSM": (0, 1, 2)}


def prompt(number, draw):
    """Return a prompt that shares half of its tokens with others."""
    return (number // 16, number // 4, number // 2, 0, number, draw.randrange(9), 0, 0)


def grow(trees, n, draw):
    """Insert prompts until both trees have n nodes."""
    number = 0
    while len(trees.tree.arena) < n:
        trees.insert(prompt(number, draw), 0, None, 0, 0, False)
        trees.tree.changes.clear()
        number += 1
    return number


def measured(trees, number, draw):
    """Return the CPU time of operations of each kind, by kind and tree."""
    found = {}
    for kind in ("match", "insert", "evict"):
        SECONDS.clear()
        for k in range(TRIED):
            if kind == "match":
                tokens = prompt(draw.randrange(number), draw)
                trees.match(tokens, TOKENS, None)
            elif kind == "insert":
                trees.insert(prompt(number + k, draw), 0, None, 0, 0, False)
            else:
                trees.evict(TOKENS, 0, 0)
            trees.tree.changes.clear()
        found[kind] = dict(SECONDS)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--parts", nargs="+", default=["F", "FSM"], choices=PARTS)
    args = parser.parse_args()
    real = source.load(args.folder)
    print("us CPU per operation       released            ours           ratio")
    for letters in args.parts:
        for nodes in args.nodes:
            parts, draw, size = PARTS[letters], random.Random(nodes), TOKENS * (2 * nodes + 2 * TRIED)
            trees = Trees(real, parts, 1, 4 if 1 in parts else 0, size, nodes * 2 + 2 * TRIED, "lru", -1, 1)
            number = grow(trees, nodes, draw)
            for collected in (True, False):
                (gc.enable if collected else gc.disable)()
                for kind, seconds in measured(trees, number, draw).items():
                    theirs, ours = (1e6 * seconds[name] / TRIED for name in ("released", "ours"))
                    print(f"{letters:4}{nodes:8} {kind:7}{theirs:10.1f}{ours:16.1f}{ours / theirs:16.2f}"
                          f"{'' if collected else '   without collections'}", flush=True)  # fmt: skip
                number += TRIED
            gc.enable()
            del trees
            gc.collect()


if __name__ == "__main__":
    main()
