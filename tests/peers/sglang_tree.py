"""Random operations on the released tree of SGLang and on ours: every result and every slot is compared.

    python -m tests.peers.sglang_tree FOLDER --ops 100000 --seed 0 [--release 0.5.20]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. The CPU times are those of the two trees in turn.
"""

import random
import time
from array import array
from collections import Counter
from types import SimpleNamespace

import numpy as np

from cachesim.engines.sglang import PROFILES
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.mem_cache.allocator import (
    NO_SLOT,
    PagedTokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
)
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams, InsertParams
from cachesim.engines.sglang.mem_cache.memory_pool import HybridReqToTokenPool, MemoryPools, MHATokenToKVPool
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.runtime_context import get_runtime_context
from cachesim.events import Log
from cachesim.model import parse
from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source

LENGTH = 100                   # operations on a tree
LAYERS = {(0,): "A", (0, 1): "WA", (0, 2): "GA", (0, 1, 2): "WAG"}


SECONDS = Counter()             # CPU time of the released tree and of ours


def released_cache(real, parts, page, slots, rows, window, policy, cap, grid, buffered=True, eagle=False, lazy=False):
    """Return a released tree on these slots and rows."""
    names = [real.parts.ComponentType[name] for name in ("FULL", "SWA", "MAMBA")]
    real.parts.mamba.mamba_cache_chunk_size = lambda: grid
    real.parts.mamba.mamba_checkpoint_grid = lambda page: grid
    mamba = SimpleNamespace(mamba_max_states_per_path=cap, enable_mamba_extra_buffer_lazy=lazy)
    real.parts.mamba.get_exec = lambda: SimpleNamespace(mamba=mamba)
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
    """The released tree and ours, with equal pools."""

    rules = PROFILES["sglang@0.5.23"]

    def __init__(self, real, parts, page, window, size, states, policy, cap, grid):
        self.real, self.parts, self.page, self.locks = real, parts, page, []
        self.slots = (memory.WindowAllocator if 1 in parts else memory.Allocator)(size, page, size)
        self.states = memory.StateSlots(states)
        self.names = [real.parts.ComponentType[name] for name in ("FULL", "SWA", "MAMBA")]
        self.cache = released_cache(real, parts, page, self.slots, memory.Rows(mamba_allocator=self.states), window,
                                    policy, cap, grid)  # fmt: skip
        opts = options({"page_size": page, "max_total_tokens": size, "max_mamba_cache_size": states, "state_grid": grid,
                        "radix_eviction_policy": policy, "mamba_max_states_per_path": cap})  # fmt: skip
        self.ours = self.our_cache(opts, window)

    def our_cache(self, opts, window):
        """Make our tree, with the pools."""
        spec = parse(" ".join(f"W{window}" if layer == "W" else layer for layer in LAYERS[self.parts]))
        context = get_runtime_context(self.rules, spec, opts, Log())
        size = opts.max_total_tokens
        kind = PagedTokenToKVPoolAllocator if 1 not in self.parts else SWATokenToKVPoolAllocator
        self.kv = kind(*([size] * (1 + (1 in self.parts))), opts.page_size)
        rows = HybridReqToTokenPool(1, opts.max_mamba_cache_size)
        self.pool = rows.mamba_allocator
        cache = UnifiedRadixCache(context, MemoryPools(rows, self.kv, MHATokenToKVPool(spec)))
        self.tree = cache.tree_core
        return cache

    def evict(self, *asked):
        params = self.real.params.EvictParams(num_tokens=asked[0], swa_num_tokens=asked[1], mamba_num=asked[2])
        theirs, ours = self.both(lambda: self.cache.evict_for_alloc(params),
                                 lambda: self.ours.evict(EvictParams(*asked)))  # fmt: skip
        assert [theirs.num_tokens_evicted, theirs.swa_num_tokens_evicted, theirs.mamba_num_evicted] == ours

    def both(self, *actions):
        """Perform an action on the released tree and on ours; return both results."""
        results = []
        for name, action in zip(("released", "ours"), actions, strict=True):
            began = time.process_time()
            results.append(action())
            SECONDS[name] += time.process_time() - began
        return results

    def match(self, tokens, limit, space):
        key = self.real.key(array("q", tokens), space, limit=limit)
        params = self.real.params.MatchPrefixParams(key=key)
        theirs, ours = self.both(lambda: self.cache.match_prefix(params),
                                 lambda: self.ours.match_prefix(tokens, space, limit))  # fmt: skip
        hit = len(theirs.device_indices) if self.rules.build == "0.5.20" else theirs.device_prefix_len
        assert (hit, theirs.full_kv_hit_length) == ours.found[1:]
        assert 1 not in self.parts or theirs.swa_branching_seqlen == ours.swa_branching_seqlen
        assert 2 not in self.parts or theirs.mamba_branching_seqlen == ours.mamba_branching_seqlen
        return theirs.last_device_node, ours.last_device_node

    def insert(self, tokens, frontier, space, priority, counted, chunk):
        n = len(tokens) // self.page * self.page
        short = [max(0, n - self.kv.full_available_size()), max(0, n - self.kv.available_size())]
        lacks_state = 2 in self.parts and not self.pool.available_size()
        self.evict(short[0], short[1] if 1 in self.parts else 0, int(lacks_state))
        if self.kv.available_size() < n or (2 in self.parts and not self.pool.available_size()):
            return None
        theirs, ours = self.slots.take(n), self.kv.alloc_extend(NO_SLOT, 0, n)
        states = (self.states.alloc(1), self.pool.alloc()) if 2 in self.parts else (None, None)
        frontier = frontier if 1 in self.parts else 0
        self.slots.free_swa_segment(theirs[:frontier])
        self.kv.free_swa(ours[:frontier])
        old = self.rules.build == "0.5.20"
        more = {"chunked": chunk, "swa_evicted_seqlen": frontier} if old else {"inserted_len": counted}
        params = self.real.params.InsertParams(
            key=self.real.key(array("q", tokens[:n]), space), value=theirs, priority=priority, mamba_value=states[0],
            **more)
        if not old:
            params.set_evicted_seqlen(self.names[1], frontier)
        ask = InsertParams(key=tokens, extra_key=space, limit=n, value=ours, text=tokens, swa_evicted_seqlen=frontier,
                           inserted_len=counted, priority=priority, mamba_value=states[1], chunked=chunk)  # fmt: skip
        one, other = self.both(lambda: self.cache.insert(params), lambda: self.ours.insert(ask))
        assert one.prefix_len == other.prefix_len
        assert 2 not in self.parts or bool(one.mamba_exist) == other.mamba_exist
        if other.mamba_exist:
            self.states.free(states[0])
            self.pool.free(states[1])
        return one.last_device_node, other.last_device_node

    def lock(self, theirs, ours):
        """Lock the same node of both trees."""
        if self.rules.build == "0.5.20":
            receipt = theirs, self.cache.inc_lock_ref(theirs).to_dec_params()
        else:
            receipt = self.cache.lock(theirs)
        self.locks.append((receipt, self.tree.inc_lock_ref(ours)))

    def unlock(self, theirs, ours):
        """Release a lock of both trees."""
        if self.rules.build == "0.5.20":
            self.cache.dec_lock_ref(*theirs)
        else:
            self.cache.unlock(theirs)
        self.tree.dec_lock_ref(ours)

    def check(self):
        """Compare all nodes, sizes and free lists."""
        core, tree = self.cache.tree_core, self.tree
        for part in self.parts:
            name = self.names[part]
            assert core.component_evictable_size_[name] == tree.components[part].evictable_size
            assert core.component_protected_size_[name] == tree.components[part].protected_size
        assert self.states.slots == self.pool.free_slots
        if 1 in self.parts:
            assert self.slots.full == self.kv.full_attn_allocator.free_pages
            assert self.slots.swa == self.kv.swa_attn_allocator.free_pages
        else:
            assert self.slots.full == self.kv.free_pages
        assert len(core.evictable_device_leaves) == len(tree.evictable_device_leaves)
        todo = [(core.root_node, tree.root_node)]
        while todo:
            one, other = todo.pop()
            assert len(one.children) == len(other.children)
            for pair in zip(one.children.values(), other.children.values(), strict=True):
                self.check_node(*pair)
                todo.append(pair)
        tree.changes.events.clear()

    def check_node(self, theirs, ours):
        assert tuple(theirs.key.token_ids) == ours.key
        assert (theirs.hit_count, theirs.priority) == (ours.hit_count, ours.priority)
        for part in self.parts:
            data, value = theirs.component_data[self.names[part]], ours.value[part]
            assert data.lock_ref == ours.lock_ref[part]
            slots = None if data.value is None else np.asarray(data.value).tolist()
            assert slots == (None if value is None else [value] if part == 2 else value.tolist())


def campaign(real, seed, tried):
    """Perform random operations on a pair of trees."""
    draw = random.Random(seed)
    parts, page = draw.choice([(0,), (0, 1), (0, 2), (0, 1, 2)]), draw.choice([1, 1, 2, 4])
    trees = Trees(real, parts, page, draw.choice([2, 3, 5, 8]) if 1 in parts else 0, draw.choice([48, 96, 200]),
                  draw.choice([4, 8, 30]), draw.choice(list(source.POLICIES)), draw.choice([-1, -1, 1, 2]),
                  page * draw.choice([1, 2]))  # fmt: skip
    texts = [tuple(draw.randrange(4) for _ in range(40)) for _ in range(3)]
    for _ in range(LENGTH):
        tokens = draw.choice(texts)[: draw.randrange(41)] + tuple(draw.randrange(4) for _ in range(draw.randrange(5)))
        space, kind, end = draw.choice([None, None, None, "k"]), draw.choice("mmmmiiiiue"), None
        if kind == "m":
            end = trees.match(tokens, draw.randrange(len(tokens) + 1), space)
        elif kind == "i" and tokens:
            frontier = draw.choice([0, draw.randrange(len(tokens) + 1) // page * page])
            counted = draw.choice([0, draw.randrange(len(tokens) + 1)])
            end = trees.insert(tokens, frontier, space, draw.randrange(3), counted, draw.random() < 0.5)
        elif kind == "u" and trees.locks:
            trees.unlock(*trees.locks.pop(draw.randrange(len(trees.locks))))
        else:
            window, states = draw.choice([0, 1, 7]), draw.choice([0, 1])
            trees.evict(draw.choice([0, 1, 7, 20]), window * (1 in parts), states * (2 in parts))
        if end is not None and draw.random() < 0.3:
            trees.lock(*end)
        trees.check()
        tried[kind] += 1


def main():
    parser = source.parser(__doc__)
    parser.add_argument("--release", default="0.5.23", choices=("0.5.23", "0.5.20"))
    args = parser.parse_args()
    Trees.rules = PROFILES[f"sglang@{args.release}"]
    real, tried = source.load(args.folder), Counter()
    for number in range(-(-args.ops // LENGTH)):
        try:
            campaign(real, args.seed + number, tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {args.seed + number}") from error
    names = {"m": "match", "i": "insert", "u": "unlock", "e": "evict"}
    kinds = ", ".join(f"{n} {names[kind]}" for kind, n in tried.most_common())
    print(f"{tried.total()} operations ({kinds}), 0 mismatches")
    released, ours = SECONDS["released"], SECONDS["ours"]
    print(f"CPU time: released tree {released:.1f} s, ours {ours:.1f} s, {ours / released:.2f} x")


if __name__ == "__main__":
    main()
