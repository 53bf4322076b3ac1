"""Random operations on the released tree of SGLang with host memory (HiCache) and on ours: all slots are compared.

    python -m tests.peers.sglang_host FOLDER --ops 100000 --seed 0

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Released are the tree, its components, the controller
and the group of pools. The pools are ours; copies need no time: they end with the insertion, loads when ``settle`` ends
them. Trees are drawn with windows and states.
"""

import logging
import random
from array import array
from collections import Counter, deque
from types import SimpleNamespace

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer, Request
from cachesim.engines.sglang import PROFILES
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.rules.host import BACK, POLICIES
from cachesim.engines.shared.request_queue import ReceivedRequest
from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source
from tests.peers.sglang_campaign import LENGTH
from tests.peers.sglang_tree import Trees

RULES = PROFILES["sglang@0.5.23"]
NAMES = "KV", "SWA", "MAMBA"
"""Names of the released pools by part."""


class HostPool:
    """Slots of host memory. Free lists are first in, first out."""

    layout, device, can_use_write_back_jit, shared_allocation_domain = "page_first", "cpu", False, None

    def __init__(self, size, page, is_state=False):
        self.page_size, self.size, self.logical_size, self.is_state = page, size, size, is_state
        self.pages = deque(range(1, size // page + 1))

    def available_size(self):
        return len(self.pages) * self.page_size

    def alloc(self, n):
        if n > self.available_size():
            return None
        pages = [self.pages.popleft() * self.page_size for _ in range(n // self.page_size)]
        slots = memory.tensor([page + at for page in pages for at in range(self.page_size)])
        return slots.view(memory.StateTensor) if self.is_state else slots

    def free(self, slots):
        self.pages += [int(slot) // self.page_size for slot in slots[:: self.page_size]]


def ack(op):
    """Return the end of a transfer."""
    done = SimpleNamespace(synchronize=lambda: None)
    return SimpleNamespace(node_ids=[op.node_id], finish_event=done, num_tokens_by_pool={}, num_bytes=0,
                           timing_enabled=False)  # fmt: skip


def controller_class(released):
    """Return the released controller, whose transfers need no time once they are submitted. ``moved`` is called with
    the direction and each of their parts."""

    class Controller(released):
        def start_writing(self):
            for op in self.write_queue:
                self.moved("write", op.pool_transfers)
                self.ack_write_queue.append(ack(op))
            self.write_queue.clear()

        def start_loading(self):
            for op in self.load_queue:
                self.moved("load", op.pool_transfers)
                self.ack_load_queue.append(ack(op))
            self.load_queue.clear()
            return -1

    return Controller


def host_pools(parts, opts, size, swa_size, states):
    """Return the pools of host memory for a server of these sizes, by part."""
    page, ratio = opts["page_size"], opts["hicache_ratio"]
    made = {0: HostPool((int(size * ratio) // page + 1) * page, page)}
    if 1 in parts:
        made[1] = HostPool((int(swa_size * ratio) // page + 1) * page, page)
    if 2 in parts:
        made[2] = HostPool(int(states * ratio) + 1, 1, is_state=True)
    return made


def attach(real, cache, hosts, policy, slots, states, moved=lambda *args: None):
    """Give a released tree host memory."""
    types, core = real.parts.ComponentType, cache.tree_core
    kinds = {0: types["FULL"], 1: types["SWA"], 2: types["MAMBA"]}
    assembler = real.assembler
    more = {1: {"host_evict_fn": lambda n: cache.evict_host(n, kinds[1]),
                "device_evict_fn": lambda n: assembler._evict_swa_for_device_alloc(cache, n),
                **assembler._swa_allocation_callbacks(slots.swa_attn_allocator)},
            2: {"host_evict_fn": lambda n: cache.evict_host(n, kinds[2]),
                "device_evict_fn": lambda n: assembler._evict_mamba_for_device_alloc(cache, n),
                "device_alloc_fn": states.alloc, "device_free_fn": states.free}}  # fmt: skip
    group = real.group([assembler.build_pool_entry(
        name=real.pools[NAMES[part]], host_pool=pool, device_pool=None, layer_mapping={}, transfer_layer_id_max=1,
        is_anchor=part == 0, **more.get(part, {})) for part, pool in hosts.items()])  # fmt: skip
    controller = object.__new__(controller_class(real.controller))
    vars(controller).update(
        mem_pool_host=group, mem_pool_device_allocator=slots, write_policy=policy, device="cpu", write_queue=[],
        load_queue=[], ack_write_queue=[], ack_load_queue=[], pp_prefetch_command_group=None, moved=moved)  # fmt: skip
    vars(cache).update(
        cache_controller=controller, host_pool_group=group, sidecar_pool_specs=(), ongoing_write_through={},
        ongoing_load_back={}, load_back_threshold=10, enable_storage=False, pp_rank=0, enable_storage_metrics=False,
        _drain_async_work=lambda: None,
        _sync_hicache_ready_counts=lambda: (len(controller.ack_write_queue), len(controller.ack_load_queue), (), ()))
    for part, name in enumerate(("_full_kv_pool_host", "_swa_kv_pool_host", "_mamba_pool_host")):
        if part in hosts:
            vars(cache.components[kinds[part]])[name] = hosts[part]
    core.set_hicache_enabled()
    core.has_swa_host_pool = 1 in hosts
    core.write_through_threshold = 2 - (policy == POLICIES[0])
    core.is_write_back = policy == BACK
    core.enable_session_radix_cache = False


class HostTrees(Trees):
    """The two trees, each with host memory."""

    def __init__(self, real, rules, parts, window, drawn):
        super().__init__(real, rules, parts, window, {**drawn, "enable_hierarchical_cache": True})
        released = self.theirs
        self.cache, self.slots, self.states = released.cache, released.slots, released.states
        self.names = [real.parts.ComponentType[name] for name in released.names()]
        self.tree, self.pool = self.ours.core, self.ours.pool
        self.controller = self.ours.cache.cache_controller
        self.hosts = host_pools(parts, drawn, drawn["max_total_tokens"], drawn["max_total_tokens"],
                                drawn["max_mamba_cache_size"])  # fmt: skip
        attach(real, self.cache, self.hosts, drawn["hicache_write_policy"], self.slots, self.states)

    def match(self, tokens, limit, space):
        key = self.real.key(array("q", tokens), space, limit=limit)
        theirs = self.cache.match_prefix(self.real.params.MatchPrefixParams(key=key))
        ours = self.ours.cache.match_prefix(tokens, space, limit)
        assert (theirs.device_prefix_len, theirs.full_kv_hit_length) == ours.found[1:]
        assert (theirs.host_hit_length, theirs.swa_host_hit_length, theirs.mamba_host_hit_length) == (
            ours.host_hit_length, ours.swa_host_hit_length, ours.mamba_host_hit_length)  # fmt: skip
        assert 1 not in self.parts or theirs.swa_branching_seqlen == ours.swa_branching_seqlen
        assert 2 not in self.parts or theirs.mamba_branching_seqlen == ours.mamba_branching_seqlen
        return theirs, ours

    def insert(self, *ask):
        ends = super().insert(*ask)
        self.cache.flush_pending_backups()
        self.cache.writing_check(finish_count=len(self.cache.cache_controller.ack_write_queue))
        self.controller.check_writes()
        return ends and tuple(found.last_device_node for found in ends)

    def load(self, theirs, ours, holds_state):
        """Load what a match found in host memory; return whether it was done. ``holds_state``: the request has a slot
        for its running state already. None = both servers ended for lack of one."""
        states = (self.states.alloc(1), self.pool.alloc()) if holds_state else (None, None)
        kv = SimpleNamespace(holds_mamba=holds_state, mamba_pool_idx=states[0][0] if holds_state else None)
        row = SimpleNamespace(kv=kv, rid=0, last_node=theirs.last_device_node,
                              swa_host_hit_length=theirs.swa_host_hit_length,
                              mamba_host_hit_length=theirs.mamba_host_hit_length)  # fmt: skip
        task = ReceivedRequest(0, Request((1,), 1), Answer(0))
        req = Req(0, task, TokenList((1,)), last_node=ours.last_device_node, best_match_node=ours.best_match_node)
        req.kv.mamba_pool_idx = states[1]
        asked = self.real.params.InitLoadBackParams(best_match_node=theirs.best_match_node,
                                                    host_hit_length=theirs.host_hit_length, req=row)  # fmt: skip
        try:
            done = self.cache.init_load_back(asked)[0]
        except AssertionError as error:
            assert "alloc mamba" in str(error)
            try:
                self.ours.cache.load_back.init_load_back(req)
            except ProcessAborted:
                return None
            raise
        assert done == self.ours.cache.load_back.init_load_back(req)
        assert (None if row.kv.mamba_pool_idx is None else int(row.kv.mamba_pool_idx)) == req.kv.mamba_pool_idx
        if req.kv.mamba_pool_idx is not None:
            self.states.free([row.kv.mamba_pool_idx])
            self.pool.free(req.kv.mamba_pool_idx)
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
        for part, pool in self.controller.mem_pool_host.items():
            free = pool.free_slots if part == 2 else pool.free_pages
            assert self.hosts[part].pages == free
        assert len(core.evictable_host_leaves) == len(tree.evictable_host_leaves)
        for name, part in zip(self.names[1:], self.parts[1:], strict=True):
            assert members(core.host_lru_lists[name]) == [
                node.key for node in tree.components[part].host_lru_list.members()]
        if core.is_write_back:              # only then they are read
            doubles = [node.key.token_ids for node in core.full_host_duplicates.values()]
            assert doubles == [array("q", node.key) for node in tree.full_host_duplicates]
        todo = [(core.root_node, tree.root_node)]
        while todo:
            one, other = todo.pop()
            pairs = list(zip(one.children.values(), other.children.values(), strict=True))
            for pair in pairs:
                self.check_copies(*pair)
            todo += pairs
        tree.changes.clear()

    def check_copies(self, theirs, ours):
        """Compare the copies of a node in host memory."""
        for name, part in zip(self.names, self.parts, strict=True):
            data, mine = theirs.component_data[name], ours.host_value[part]
            slots = None if data.host_value is None else [int(slot) for slot in data.host_value]
            assert slots == (None if mine is None else [mine] if part == 2 else mine.tolist())
            assert data.host_lock_ref == ours.host_lock_ref[part]


def members(lru):
    """Return the keys of the members of a released list, the most recent first."""
    found, node = [], lru.head.lru_next[lru._pt]
    while node is not lru.tail:
        found.append(tuple(node.key.token_ids))
        node = node.lru_next[lru._pt]
    return found


def campaign(real, seed, tried):
    """Perform random operations on a pair of trees."""
    draw = random.Random(seed)
    parts, page = draw.choice([(0,), (0, 1), (0, 2), (0, 1, 2)]), draw.choice([1, 1, 2, 4])
    window = draw.choice([2, 3, 5, 8, 16]) if 1 in parts else 0
    trees = HostTrees(real, RULES, parts, window, {
        "page_size": page, "max_total_tokens": draw.choice([72, 96, 200]),
        "max_mamba_cache_size": draw.choice([5, 8, 30]), "hicache_ratio": draw.choice([0.3, 0.6, 1.0, 2.0, 4.0]),
        "hicache_write_policy": draw.choice(POLICIES), "radix_eviction_policy": draw.choice(list(source.POLICIES)),
        "mamba_max_states_per_path": draw.choice([-1, -1, 1, 2]), "state_grid": page * draw.choice([1, 2]),
    })  # fmt: skip
    texts = [tuple(draw.randrange(4) for _ in range(60)) for _ in range(5)]
    for _ in range(LENGTH):
        tokens = draw.choice(texts)[: draw.randrange(61)] + tuple(draw.randrange(4) for _ in range(draw.randrange(5)))
        space, kind, end = draw.choice([None, None, None, "k"]), draw.choice("mmllllliiiiueees"), None
        if kind in "ml":
            theirs, ours = trees.match(tokens, draw.randrange(len(tokens) + 1), space)
            end = theirs.last_device_node, ours.last_device_node
            if kind == "l" and (ours.host_hit_length or ours.swa_host_hit_length or ours.mamba_host_hit_length):
                holds = 2 in parts and trees.pool.available_size() > 0 and draw.random() < 0.3
                done = trees.load(theirs, ours, holds)
                tried["ends for lack of a state"] += done is None
                if done is None:
                    return
                tried["loaded" if done else "not loaded"] += 1
                end = None
        elif kind == "i" and tokens:
            frontier = draw.choice([0, draw.randrange(len(tokens) + 1) // page * page])
            counted = draw.choice([0, draw.randrange(len(tokens) + 1)])
            end = trees.insert(tokens, frontier, space, draw.randrange(3), counted, draw.random() < 0.5)
        elif kind == "u" and trees.locks:
            trees.unlock(*trees.locks.pop(draw.randrange(len(trees.locks))))
        elif kind == "s":
            trees.settle()
        else:
            window, states = draw.choice([0, 1, 7]), draw.choice([0, 1])
            trees.evict(draw.choice([0, 1, 7, 20]), window * (1 in parts), states * (2 in parts))
        if end is not None and draw.random() < 0.3:
            trees.lock(*end)
        trees.check()
        tried["operations"] += 1


def main():
    args = source.parser(__doc__).parse_args()
    logging.disable()
    real, tried = source.load(args.folder, host=True), Counter()
    number = 0
    while tried["operations"] < args.ops:
        try:
            campaign(real, args.seed + number, tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {args.seed + number}") from error
        number += 1
    print(f"{', '.join(f'{n} {name}' for name, n in tried.items())}, 0 mismatches")


if __name__ == "__main__":
    main()
