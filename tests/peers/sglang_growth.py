"""CPU time of the released classes of SGLang and of ours, by the number of nodes.

    python -m tests.peers.sglang_growth FOLDER [--nodes 1000 10000 100000] [--parts F FSM] [--tried 500] [--server]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. With ``--server``, requests fill the trees of two whole
servers, ours with provenance; the exit code is 1 if ours needs more than MOST times the CPU time of the released one,
or if its time grows with a higher power than EXPONENT of the number of nodes. Otherwise each tree performs its
operations in one go, slots included: an eviction of the released tree visits all leaves, and would leave the other cold
caches. A second run stops the garbage collector, whose full collections visit all nodes.
"""

import argparse
import gc
import logging
import math
import random
import sys
import time
from array import array
from pathlib import Path

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE, PROFILES
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams, InsertParams
from tests.peers import sglang_source as source
from tests.peers.sglang_schedule import compare
from tests.peers.sglang_server import RealServer
from tests.peers.sglang_tree import Trees
from tests.peers.sglang_turns import MODELS, draw_server

TOKENS = 8                      # of a prompt
WINDOW = 4
MOST, EXPONENT = 3, 1.1         # times the CPU time of the released server, and its growth
PARTS = {"F": (0,), "FS": (0, 1), "FM": (0, 2), "FSM": (0, 1, 2)}


def prompt(number, draw):
    """Return a prompt that shares half of its tokens with others."""
    return (number // 16, number // 4, number // 2, 0, number, draw.randrange(9), 0, 0)


def ours(trees, kind, tokens):
    """Perform an operation on our tree."""
    cache = trees.ours.cache
    if kind == "match":
        cache.match_prefix(tokens, None, TOKENS)
    elif kind == "insert":
        state = trees.ours.pool.alloc() if 2 in trees.parts else None
        slots = trees.ours.kv.alloc_extend(NO_SLOT, 0, TOKENS)
        cache.insert(InsertParams(key=tokens, extra_key=None, limit=TOKENS, value=slots, text=tokens,
                                  mamba_value=state))  # fmt: skip
    else:
        cache.evict(EvictParams(TOKENS))
    cache.changes.clear()


def released(trees, kind, tokens):
    """Perform an operation on the released tree."""
    params, key = trees.real.params, trees.real.key(array("q", tokens), None)
    if kind == "match":
        trees.theirs.cache.match_prefix(params.MatchPrefixParams(key=key))
    elif kind == "insert":
        state = trees.theirs.states.alloc(1) if 2 in trees.parts else None
        slots = trees.theirs.slots.take(TOKENS)
        trees.theirs.cache.insert(params.InsertParams(key=key, value=slots, priority=0, mamba_value=state,
                                                      inserted_len=0))  # fmt: skip
    else:
        trees.theirs.cache.evict_for_alloc(params.EvictParams(num_tokens=TOKENS, swa_num_tokens=0, mamba_num=0))


def seconds(operation, trees, kind, tokens):
    """Return the CPU time of an operation on each of these prompts."""
    began = time.process_time()
    for one in tokens:
        operation(trees, kind, one)
    return time.process_time() - began


def measure(real, letters, nodes, tried):
    """Print the CPU time of so many operations of each kind at this size."""
    parts, draw, size = PARTS[letters], random.Random(nodes), TOKENS * (2 * nodes + 2 * tried)
    trees = Trees(real, PROFILES["sglang@0.5.23"], parts, WINDOW if 1 in parts else 0, {
        "page_size": 1, "max_total_tokens": size, "max_mamba_cache_size": nodes * 2 + 2 * tried, "state_grid": 1,
        "radix_eviction_policy": "lru", "mamba_max_states_per_path": -1})  # fmt: skip
    number = 0
    while len(trees.ours.core.nodes_by_id) < nodes:
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


def serve(real, letters, nodes):
    """Send requests to both servers until their trees have so many nodes. Return the CPU times of the released server
    and of ours."""
    parts, draw, tokens = PARTS[letters], random.Random(nodes), TOKENS * nodes
    opts = {**draw_server(random.Random(0), (0,), PROFILES["sglang@0.5.23"]), "page_size": 1,
            "max_total_tokens": tokens,
            "max_running_requests": 2, "swa_tokens": tokens if 1 in parts else 0, "max_mamba_cache_size": 2 * nodes,
            "chunked_prefill_size": 64, "mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True,
            "schedule_policy": "fcfs", "radix_eviction_policy": "lru", "enable_hierarchical_cache": False,
            "speculative_algorithm": "", "draft_window": 0, "state_grid": 1,
            "mamba_max_states_per_path": -1}  # fmt: skip
    theirs = RealServer(real, parts, WINDOW if 1 in parts else 0, opts, 2)
    mine = ENGINE.start("sglang@0.5.23", MODELS[parts].format(WINDOW), opts, "provenance")
    spent, number, tree = [0.0, 0.0], 0, mine.scheduler.tree_cache.tree_core
    while len(tree.nodes_by_id) < nodes:
        fresh, began = prompt(number, draw), time.process_time()
        theirs.submit(number, fresh, (500,), None, 0, 0, 1)
        while theirs.is_busy:
            theirs.update()
        middle = time.process_time()
        mine.complete(Request(fresh, 1, forced=(500,)))
        spent = [spent[0] + middle - began, spent[1] + time.process_time() - middle]
        number += 1
    compare(theirs, mine)
    return spent


def servers(real, letters, sizes):
    """Print the CPU times of two servers by the number of nodes; return whether ours stays within its bounds."""
    found, holds = [], True
    for nodes in sizes:
        released_one, our_one = serve(real, letters, nodes)
        found.append((nodes, our_one))
        ratio, growth = our_one / released_one, ""
        if len(found) > 1:
            (first, least), (last, most) = found[0], found[-1]
            power = math.log(most / least) / math.log(last / first)
            growth, holds = f", exponent {power:.2f} from {first} nodes on", holds and power <= EXPONENT
        holds = holds and ratio <= MOST
        print(f"{letters:4}{nodes:8} nodes: released {released_one:.1f} s, ours with provenance {our_one:.1f} s, "
              f"{ratio:.2f} x{growth}", flush=True)  # fmt: skip
        gc.collect()
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--parts", nargs="+", default=["F", "FSM"], choices=PARTS)
    parser.add_argument("--tried", type=int, default=500)
    parser.add_argument("--server", action="store_true")
    args = parser.parse_args()
    if args.server:
        logging.disable()
        real = source.load(args.folder, schedule=True, host=True)
        return 0 if all([servers(real, letters, args.nodes) for letters in args.parts]) else 1
    real = source.load(args.folder)
    print("us CPU per operation       released            ours           ratio")
    for letters in args.parts:
        for nodes in args.nodes:
            measure(real, letters, nodes, args.tried)
            gc.collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
