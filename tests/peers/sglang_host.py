"""Random operations on the released tree of SGLang with host memory (HiCache) and on ours: all slots are compared.

    python -m tests.peers.sglang_host FOLDER --ops 100000 --seed 0

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Controller and pool of the host are ours: copies end at
once, loads when ``settle`` ends them.
"""

import logging
import random
from array import array
from collections import Counter, deque
from types import SimpleNamespace

from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams
from cachesim.engines.sglang.mem_cache.hicache_controller import HiCacheController
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache
from cachesim.engines.sglang.rules.host import BACK, POLICIES
from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source
from tests.peers.sglang_tree import LENGTH, Trees


class HostPool:
    """Slots of host memory. Free lists are first in, first out."""

    anchor_entry = SimpleNamespace(host_pool=SimpleNamespace(shared_allocation_domain=None), host_evict_fn=None)

    def __init__(self, size, page):
        self.page, self.pages = page, deque(range(1, size // page + 1))

    def available_size(self):
        return len(self.pages) * self.page

    def free(self, slots, pool=None):
        self.pages += [int(slot) // self.page for slot in slots[:: self.page]]


class Controller:
    """Copies that need no time once they are submitted."""

    pp_prefetch_command_group = None

    def __init__(self, policy, pool, slots):
        self.write_policy, self.mem_pool_host, self.slots = policy, pool, slots
        self.ack_write_queue, self.ack_load_queue, self.submitted = [], [], []

    def write(self, device, node_id, extra_pools, flush):
        pages = [self.mem_pool_host.pages.popleft() for _ in range(len(device) // self.mem_pool_host.page)]
        self.ack_write_queue.append(ack(node_id))
        return memory.tensor([page * self.mem_pool_host.page + at for page in pages
                              for at in range(self.mem_pool_host.page)])  # fmt: skip

    def load(self, host_indices, node_id, extra_pools):
        self.submitted.append(ack(node_id))
        return self.slots.take(len(host_indices))

    def start_writing(self):
        pass

    def start_loading(self):
        self.ack_load_queue += self.submitted
        self.submitted = []
        return -1


def attach(cache, full, hosts, policy, slots):
    """Give a released tree of full attention host memory."""
    core = cache.tree_core
    vars(cache).update(
        cache_controller=Controller(policy, hosts, slots), host_pool_group=hosts, sidecar_pool_specs=(),
        ongoing_write_through={}, ongoing_load_back={}, load_back_threshold=10, enable_storage=False, pp_rank=0,
        enable_storage_metrics=False, _drain_async_work=lambda: None,
        _sync_hicache_ready_counts=lambda: (len(cache.cache_controller.ack_write_queue),
                                            len(cache.cache_controller.ack_load_queue), (), ()))
    cache.components[full]._full_kv_pool_host = hosts
    core.set_hicache_enabled()
    core.write_through_threshold = 2 - (policy == POLICIES[0])
    core.is_write_back = policy == BACK


def ack(node):
    """Return the end of a copy."""
    done = SimpleNamespace(synchronize=lambda: None)
    return SimpleNamespace(node_ids=[node], finish_event=done, num_tokens_by_pool={}, num_bytes=0, timing_enabled=False)


class HostTrees(Trees):
    """The two trees, each with host memory."""

    def __init__(self, real, page, size, host, policy, eviction):
        super().__init__(real, (0,), page, 0, size, 4, eviction, -1, page)
        opts = options({"page_size": page, "max_total_tokens": size, "max_mamba_cache_size": 4,
                        "radix_eviction_policy": eviction, "enable_hierarchical_cache": True,
                        "hicache_write_policy": policy})  # fmt: skip
        self.ours = self.our_cache(opts, 0)
        self.controller = HiCacheController(self.ours.context, self.tree, HostKVCache(host, page, {}))
        self.ours.cache_controller = self.controller
        self.hosts = HostPool(host, page)
        attach(self.cache, self.names[0], self.hosts, policy, self.slots)

    def match(self, tokens, limit, space):
        key = self.real.key(array("q", tokens), space, limit=limit)
        theirs = self.cache.match_prefix(self.real.params.MatchPrefixParams(key=key))
        ours = self.ours.match_prefix(tokens, space, limit)
        assert (theirs.device_prefix_len, theirs.full_kv_hit_length) == ours.found[1:]
        assert theirs.host_hit_length == ours.best_match_node.end - ours.last_device_node.end
        return theirs.last_device_node, ours.last_device_node, theirs.best_match_node, ours.best_match_node

    def insert(self, *ask):
        ends = super().insert(*ask)
        self.cache.writing_check(finish_count=len(self.cache.cache_controller.ack_write_queue))
        self.controller.check_writes()
        return ends

    def load(self, best, last):
        """Load the matched tokens that are in host memory only; return whether it was done."""
        n = sum(len(node.key) for node in self.controller.evicted_path(last))
        if n > self.ours.schedulable_size(0) - sum(
                len(node.key) for node in last.path() if node.value[0] is not None and not node.lock_ref[0]):
            return None                     # the scheduler does not admit the request
        done = self.cache.load_back(best)
        assert done == (self.rules.load_back(n).value is not None)
        if done:
            lock = self.tree.inc_lock_ref(last)
            if n > self.kv.available_size():
                self.ours.evict(EvictParams(n - self.kv.available_size()))
            self.controller.load(last, self.kv.alloc_extend(NO_SLOT, 0, n))
            self.tree.dec_lock_ref(lock)
        return done

    def settle(self):
        """End all loads."""
        self.cache.ready_to_load_host_cache()
        self.cache.loading_check(finish_count=len(self.cache.cache_controller.ack_load_queue))
        self.controller.check_loads()

    def check(self):
        super().check()
        self.tree.check()
        core, tree = self.cache.tree_core, self.tree
        assert self.hosts.pages == self.controller.mem_pool_host.free_pages
        assert len(core.evictable_host_leaves) == len(tree.evictable_host_leaves)
        if core.is_write_back:              # only then they are read
            doubles = [node.key.token_ids for node in core.full_host_duplicates.values()]
            assert doubles == [array("q", node.key) for node in tree.full_host_duplicates]
        tree.changes.clear()

    def _check_node(self, theirs, ours):
        super()._check_node(theirs, ours)
        host = theirs.component_data[self.names[0]].host_value
        assert (None if host is None else host.tolist()) == (
            None if ours.host_value is None else ours.host_value.tolist())


def campaign(real, seed, tried):
    """Perform random operations on a pair of trees."""
    draw = random.Random(seed)
    page, size = draw.choice([1, 1, 2, 4]), draw.choice([72, 96, 200])
    trees = HostTrees(real, page, size, draw.choice([24, 60, 120, 400]), draw.choice(POLICIES),
                      draw.choice(list(source.POLICIES)))  # fmt: skip
    texts = [tuple(draw.randrange(4) for _ in range(60)) for _ in range(5)]
    for _ in range(LENGTH):
        tokens = draw.choice(texts)[: draw.randrange(61)] + tuple(draw.randrange(4) for _ in range(draw.randrange(5)))
        space, kind, end = draw.choice([None, None, None, "k"]), draw.choice("mmllllliiiiueees"), None
        if kind in "ml":
            *end, best, last = trees.match(tokens, draw.randrange(len(tokens) + 1), space)
            if kind == "l" and last is not end[1]:
                done = trees.load(best, last)
                tried["loaded" if done else "too short to load"] += done is not None
                end = None
        elif kind == "i" and tokens:
            counted = draw.choice([0, draw.randrange(len(tokens) + 1)])
            end = trees.insert(tokens, 0, space, draw.randrange(3), counted, draw.random() < 0.5)
        elif kind == "u" and trees.locks:
            trees.unlock(*trees.locks.pop(draw.randrange(len(trees.locks))))
        elif kind == "s":
            trees.settle()
        else:
            trees.evict(draw.choice([0, 1, 7, 20]), 0, 0)
        if end is not None and draw.random() < 0.3:
            trees.lock(*end)
        trees.check()
        tried["operations"] += 1


def main():
    args = source.parser(__doc__).parse_args()
    logging.disable()
    source.REAL.add(f"{source.TREE}.hicache_storage")           # descriptions of transfers
    real, tried = source.load(args.folder), Counter()
    for number in range(-(-args.ops // LENGTH)):
        try:
            campaign(real, args.seed + number, tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {args.seed + number}") from error
    print(f"{', '.join(f'{n} {name}' for name, n in tried.items())}, 0 mismatches")


if __name__ == "__main__":
    main()
