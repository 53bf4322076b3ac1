"""CPU time of an operation on the released tree of SGLang and on ours, by the number of nodes.

    python -m tests.peers.sglang_growth FOLDER [--nodes 1000 10000 100000] [--parts F FSM] [--tried 500]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Each tree performs its operations in one go, slots
included: an eviction of the released tree visits all leaves, and would leave the other cold caches. A second run stops
the garbage collector, whose full collections visit all nodes.
"""

import argparse
import gc
import random
import time
from array import array
from pathlib import Path

from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams, InsertParams
from tests.peers import sglang_source as source
from tests.peers.sglang_tree import Trees

TOKENS = 8                      # of a prompt
PARTS = {"F": (0,), "FS": (0, 1), "FM": (0, 2), "FSM": (0, 1, 2)}


def prompt(number, draw):
    """Return a prompt that shares half of its tokens with others."""
    return (number // 16, number // 4, number // 2, 0, number, draw.randrange(9), 0, 0)


def ours(trees, kind, tokens):
    """Perform an operation on our tree."""
    cache = trees.ours
    if kind == "match":
        cache.match_prefix(tokens, None, TOKENS)
    elif kind == "insert":
        state = trees.pool.alloc() if 2 in trees.parts else None
        slots = trees.kv.alloc_extend(NO_SLOT, 0, TOKENS)
        cache.insert(InsertParams(key=tokens, extra_key=None, limit=TOKENS, value=slots, text=tokens,
                                  mamba_value=state))  # fmt: skip
    else:
        cache.evict(EvictParams(TOKENS))
    cache.changes.clear()


def released(trees, kind, tokens):
    """Perform an operation on the released tree."""
    params, key = trees.real.params, trees.real.key(array("q", tokens), None)
    if kind == "match":
        trees.cache.match_prefix(params.MatchPrefixParams(key=key))
    elif kind == "insert":
        state = trees.states.alloc(1) if 2 in trees.parts else None
        trees.cache.insert(params.InsertParams(key=key, value=trees.slots.take(TOKENS), priority=0, mamba_value=state,
                                               inserted_len=0))  # fmt: skip
    else:
        trees.cache.evict_for_alloc(params.EvictParams(num_tokens=TOKENS, swa_num_tokens=0, mamba_num=0))


def seconds(operation, trees, kind, tokens):
    """Return the CPU time of an operation on each of these prompts."""
    began = time.process_time()
    for one in tokens:
        operation(trees, kind, one)
    return time.process_time() - began


def measure(real, letters, nodes, tried):
    """Print the CPU time of so many operations of each kind at this size."""
    parts, draw, size = PARTS[letters], random.Random(nodes), TOKENS * (2 * nodes + 2 * tried)
    trees = Trees(real, parts, 1, 4 if 1 in parts else 0, size, nodes * 2 + 2 * tried, "lru", -1, 1)
    number = 0
    while len(trees.tree.nodes_by_id) < nodes:
        fresh = prompt(number, draw)
        ours(trees, "insert", fresh)
        released(trees, "insert", fresh)
        number += 1
    for collected in (True, False):
        (gc.enable if collected else gc.disable)()
        for kind in ("match", "insert", "evict"):
            fresh = [prompt(draw.randrange(number) if kind == "match" else number + k, draw) for k in range(tried)]
            one, other = (1e6 * seconds(operation, trees, kind, fresh) / tried for operation in (released, ours))
            print(f"{letters:4}{nodes:8} {kind:7}{one:10.1f}{other:16.1f}{other / one:16.2f}"
                  f"{'' if collected else '   without collections'}", flush=True)  # fmt: skip
        number += tried
    gc.enable()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--parts", nargs="+", default=["F", "FSM"], choices=PARTS)
    parser.add_argument("--tried", type=int, default=500)
    args = parser.parse_args()
    real = source.load(args.folder)
    print("us CPU per operation       released            ours           ratio")
    for letters in args.parts:
        for nodes in args.nodes:
            measure(real, letters, nodes, args.tried)
            gc.collect()


if __name__ == "__main__":
    main()
