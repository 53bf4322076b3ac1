"""Random operations on the trees of a release of SGLang and on ours: every result, every node and slot is compared.

    python -m tests.peers.sglang_tree FOLDER --ops 100000 --seed 0 [--release 0.5.20] [--write] [--ended]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. The CPU times are those of the two trees in turn.
``--write`` stores digests of the first 50 campaigns, with which ``make grades`` finds the rules that they refute.
"""

import json
import random
import sys
import time
from collections import Counter
from itertools import zip_longest
from types import SimpleNamespace

from cachesim.engines.sglang import PROFILES
from tests.peers import sglang_source as source
from tests.peers.sglang_campaign import LENGTH, STORED, digest, draw_tree, operate, stored
from tests.peers.sglang_ours import SWA, OurTree, is_unified, version
from tests.peers.sglang_released import released_tree

CAMPAIGNS = 50                 # digests that are stored
SECONDS = Counter()             # CPU time of the released tree and of ours


def released_cache(real, parts, page, slots, rows, window, policy, cap, grid, buffered=True, eagle=False, lazy=False):
    """Return a released tree on these slots and rows."""
    names = [real.parts.ComponentType[name] for name in ("FULL", "SWA", "MAMBA")]
    module = sys.modules[real.parts.MambaComponent.__module__]
    module.mamba_cache_chunk_size = lambda: grid
    module.mamba_checkpoint_grid = lambda page: grid
    mamba = SimpleNamespace(mamba_max_states_per_path=cap, enable_mamba_extra_buffer_lazy=lazy)
    module.get_exec = lambda: SimpleNamespace(mamba=mamba)
    kinds = (real.parts.FullComponent, real.parts.SWAComponent, real.parts.MambaComponent)
    cache = object.__new__(real.cache)
    params = SimpleNamespace(
        page_size=page, is_eagle=eagle, enable_session_radix_cache=False, eviction_policy=policy,
        eviction_policy_config=None, token_to_kv_pool_allocator=slots, req_to_token_pool=rows,
        enable_kv_cache_events=source.EVENTS, dynamo_kv_event_format=False, kv_event_lora_names=None,
        sliding_window_size=window, swa_retain_window=window, swa_gates_prefix_match=True,
        enable_mamba_extra_buffer=buffered, disable=False,
    )  # fmt: skip
    vars(cache).update(
        req_to_token_pool=rows, token_to_kv_pool_allocator=slots, disable=False, linker=None,
        enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
        is_swa_enabled=1 in parts, is_mamba_enabled=2 in parts, host_memory_mode="cache",
        decoder_swa_bounded_replay=False, pretty_print=lambda: None,
        _sliding_window_size=window if 1 in parts else None, tree_components=tuple(names[part] for part in parts),
        enable_mamba_extra_buffer=buffered, update_eviction_metrics=lambda *args: None,
        session=source.Settings(**{f"try_{name}": lambda *args, **kwargs: None for name in (
            "match_prefix", "inc_lock_ref", "dec_lock_ref")}),
    )  # fmt: skip
    cache.components = {names[part]: kinds[part](cache, params) for part in parts}
    cache._components_tuple = tuple(cache.components.values())
    cache.tree_core = real.core(params, cache.components)
    return cache


class Trees:
    """A released tree and ours, with equal pools. ``drawn``: options by our names; ``rematches``: every insertion is
    followed by a match of its tokens, else only that of a chunk, as on the server."""

    def __init__(self, real, rules, parts, window, drawn, rematches=True):
        self.rematches = rematches
        self.real, self.parts, self.page, self.locks = real, parts, drawn["page_size"], []
        self.theirs = released_tree(real, rules.build, parts, window, drawn)
        self.ours = OurTree(rules, parts, window, drawn)
        self.ends_dead = is_unified(rules.build, parts)        # an insertion may end without window slots

    def both(self, name, *args):
        """Perform an operation on the released tree and on ours; return both results."""
        results = []
        for side, tree in (("released", self.theirs), ("ours", self.ours)):
            began = time.process_time()
            results.append(getattr(tree, name)(*args))
            SECONDS[side] += time.process_time() - began
        return results

    def match(self, tokens, limit, space):
        """Match on both trees; return the nodes."""
        (theirs, node), (ours, other) = self.both("match", tokens, limit, space)
        assert theirs == ours, (theirs, ours)
        return node, other

    def insert(self, tokens, frontier, space, priority, counted, chunk):
        """Make room on both trees and insert whole pages; return the nodes at their end, None without room."""
        tokens = tokens[: len(tokens) // self.page * self.page]
        self.evict(*self.ours.lacks(len(tokens)))
        if not self.ours.has_room(len(tokens)):
            return None
        frontier = frontier if SWA in self.parts else 0
        theirs, ours = self.both("insert", tokens, frontier, space, priority, counted, chunk)
        assert theirs == ours, (theirs, ours)
        return self.match(tokens, len(tokens), space) if chunk or self.rematches else None

    def evict(self, *asked):
        """Evict on both trees."""
        theirs, ours = self.both("evict", *asked)
        assert theirs == ours, (theirs, ours)

    def lock(self, theirs, ours):
        """Lock the same node of both trees."""
        self.locks.append((self.theirs.lock(theirs), self.ours.lock(ours)))

    def unlock(self, theirs, ours):
        """Release a lock of both trees."""
        self.theirs.unlock(theirs)
        self.ours.unlock(ours)

    def check(self):
        """Compare all nodes, sizes and free lists."""
        assert self.theirs.sizes() == self.ours.sizes()
        assert [[*free] for free in self.theirs.free()] == [[*free] for free in self.ours.free()]
        for theirs, ours in zip_longest(self.theirs.nodes(), self.ours.nodes()):
            assert theirs == ours, (theirs, ours)


def write(rules, number):
    """Store the digests of the first campaigns of a release, which must have been compared."""
    found = {**stored(), rules.build: [digest(rules, one) for one in range(number)]}
    order = sorted(found, key=version)
    STORED.write_text(json.dumps({release: found[release] for release in order}, indent=1) + "\n")


def main():
    parser = source.parser(__doc__)
    parser.add_argument("--release", default="0.5.23")
    parser.add_argument("--write", action="store_true", help="store digests")
    parser.add_argument("--ended", action="store_true", help="no match follows the insertion of an ended request")
    args = parser.parse_args()
    rules = PROFILES[f"sglang@{args.release}"]
    real, tried = source.load(args.folder, trees=True), Counter()
    for number in range(-(-args.ops // LENGTH)):
        draw = random.Random(args.seed + number)
        try:
            operate(draw, Trees(real, rules, *draw_tree(draw, rules), rematches=not args.ended), tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {args.seed + number}") from error
    names = {"m": "match", "i": "insert", "u": "unlock", "e": "evict"}
    kinds = ", ".join(f"{n} {names[kind]}" for kind, n in tried.most_common())
    print(f"SGLang {args.release}: {tried.total()} operations ({kinds}), 0 mismatches")
    released, ours = SECONDS["released"], SECONDS["ours"]
    if args.write:
        write(rules, CAMPAIGNS)
    print(f"CPU time: released tree {released:.1f} s, ours {ours:.1f} s, {ours / released:.2f} x")


if __name__ == "__main__":
    main()
