"""The trees of the releases of SGLang from 0.5.9 on, each with the interface of ``sglang_ours.OurTree``."""

import sys
from array import array
from collections import deque
from inspect import signature

import numpy as np

from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source
from tests.peers.sglang_ours import FULL, IN_ORDER, MAMBA, SWA, facts_of, is_unified, sort, version

BRANCHES = {"swa_branching_seqlen": "swa_branch", "mamba_branching_seqlen": "mamba_branch"}


def released_tree(real, release, parts, window, drawn):
    """Return the tree of a release for a model with these parts, with its pools."""
    kinds = {(FULL,): PlainTree, (FULL, SWA): WindowTree, (FULL, MAMBA): StateTree}
    kind = UnifiedTree if is_unified(release, parts) else kinds[parts]
    return kind(real, release, parts, window, drawn)


class ReleasedTree:
    """A tree of a release and its pools. A subclass makes the tree and reads its nodes."""

    name = ""                   # name of the class among the modules, "" = the unified tree
    counts = True               # it counts uses and priorities of nodes, and all slots that an eviction frees
    frees_overlap = True        # an insertion frees the slots of tokens that the tree had

    def __init__(self, real, release, parts, window, drawn):
        self.real, self.parts, self.page = real, parts, drawn["page_size"]
        self.keeps_order, self.facts = version(release) >= IN_ORDER, facts_of(release, parts)
        size = drawn["max_total_tokens"]
        self.slots = (memory.WindowAllocator if SWA in parts else memory.Allocator)(size, self.page, size)
        self.states = memory.StateSlots(drawn["max_mamba_cache_size"])
        self.cache = self.make(window, drawn)

    def params(self, window, drawn):
        """Return the parameters from which a release makes a tree."""
        grid, most = drawn["state_grid"], drawn["mamba_max_states_per_path"]
        known = source.Settings(mamba_cache_chunk_size=grid, mamba_max_states_per_path=most)
        unified = [sys.modules[self.real.parts.MambaComponent.__module__]] if hasattr(self.real, "parts") else []
        for module in (*self.real.modules, *unified):
            module.mamba_cache_chunk_size, module.mamba_checkpoint_grid = lambda: grid, lambda page: grid
            module.get_global_server_args = module.get_server_args = lambda: known
            module.get_exec = lambda: source.Settings(mamba=known)
        return source.Settings(
            page_size=self.page, is_eagle=False, disable=False, enable_metrics=False, enable_kv_cache_events=False,
            disable_finished_insert=False, eviction_policy=drawn["radix_eviction_policy"], eviction_policy_config=None,
            token_to_kv_pool_allocator=self.slots, req_to_token_pool=memory.Rows(mamba_allocator=self.states,
                                                                                 mamba_pool=self.states),
            sliding_window_size=window, enable_mamba_extra_buffer=True)  # fmt: skip

    def make(self, window, drawn):
        """Make the tree."""
        return getattr(self.real, self.name)(self.params(window, drawn))

    def key(self, tokens, space, limit=None):
        """Return the key of tokens, as the release takes it."""
        is_array = "limit" in signature(self.real.key.__init__).parameters
        most = len(tokens) if limit is None else limit
        return self.real.key(array("q", tokens[:most]) if is_array else list(tokens[:most]), space)

    def match(self, tokens, limit, space):
        """Return what the release knows of a match, by our names, and the node."""
        found = self.cache.match_prefix(self.real.params.MatchPrefixParams(key=self.key(tokens, space, limit)))
        hit = getattr(found, "device_prefix_len", None)
        facts = {"hit": len(found.device_indices) if hit is None else hit}
        if "full" in self.facts:
            facts["full"] = found.full_kv_hit_length
        for name, ours in BRANCHES.items():
            if ours in self.facts:
                branch = getattr(found, name)
                facts[ours] = branch if branch is not None and branch > facts["hit"] else None
        return facts, found.last_device_node

    def insert(self, tokens, frontier, space, priority, counted, chunk):
        """Insert whole pages; return the length that was there before, and whether a state was."""
        value = self.slots.take(len(tokens))
        state = self.states.alloc(1) if MAMBA in self.parts else None
        self.slots.free_swa_segment(value[:frontier])
        known = signature(self.real.params.InsertParams).parameters
        more = {"chunked": chunk, "inserted_len": counted, "swa_evicted_seqlen": frontier}
        params = self.real.params.InsertParams(
            key=self.key(tokens, space), value=value, priority=priority, mamba_value=state,
            **{name: value for name, value in more.items() if name in known})
        if hasattr(params, "set_evicted_seqlen"):
            params.set_evicted_seqlen(self.real.parts.ComponentType["SWA"], frontier)
        found = self.cache.insert(params)
        if not self.frees_overlap:
            self.slots.free_segment(value[: found.prefix_len])
        exists = MAMBA in self.parts and bool(found.mamba_exist)
        if exists:
            self.states.free(state)
        return found.prefix_len, exists

    def evict(self, full, windows, states):
        """Evict so many slots of each part; return how many were freed, None if the release does not count all."""
        params = self.real.params.EvictParams(num_tokens=full, swa_num_tokens=windows, mamba_num=states)
        found = getattr(self.cache, "evict_for_alloc", self.cache.evict)(params)
        if not self.counts:
            return None
        return [found.num_tokens_evicted, found.swa_num_tokens_evicted, found.mamba_num_evicted]

    def lock(self, node):
        """Lock the path to a node; return what releases it."""
        if hasattr(self.cache, "lock"):
            return self.cache.lock(node)
        found = self.cache.inc_lock_ref(node)
        if hasattr(found, "to_dec_params"):
            return node, found.to_dec_params()
        if hasattr(found, "swa_uuid_for_lock"):
            return node, self.real.params.DecLockRefParams(swa_uuid_for_lock=found.swa_uuid_for_lock)
        return (node, found) if SWA in self.parts else (node,)

    def unlock(self, receipt):
        """Release a lock."""
        if hasattr(self.cache, "unlock"):
            self.cache.unlock(receipt)
        else:
            self.cache.dec_lock_ref(*receipt)

    def free(self):
        """Return the free lists of rows, windows and states; sorted if the release is not compared in order."""
        lists = [self.slots.full, *([self.slots.swa] if SWA in self.parts else []), self.states.slots]
        if not self.keeps_order:
            for pages in lists:
                sort(pages)
        return lists

    def nodes(self):
        """Yield key, uses, priority, and slots and locks of each part of every node."""
        todo = deque(self.root().children.values())
        while todo:
            node = todo.popleft()
            todo += node.children.values()
            counts = (node.hit_count, node.priority) if self.counts else (None, None)
            slots, locks = zip(*(self.part(node, part) for part in self.parts), strict=True)
            yield (tuple(node.key.token_ids[: len(node.key)]), *counts,
                   [None if one is None else np.asarray(one).tolist() for one in slots], [*locks])

    def root(self):
        """Return the root of the tree."""
        return self.cache.root_node


class UnifiedTree(ReleasedTree):
    """UnifiedRadixCache, whose nodes and sizes are in its core from 0.5.17 on."""

    def make(self, window, drawn):
        """Make the tree; a release with a core makes it for ``released_cache``."""
        if self.real.core is not None and hasattr(self.real.cache, "evict_for_alloc"):
            from tests.peers.sglang_tree import released_cache

            rows = memory.Rows(mamba_allocator=self.states, mamba_pool=self.states)
            return released_cache(self.real, self.parts, self.page, self.slots, rows, window,
                                  drawn["radix_eviction_policy"], drawn["mamba_max_states_per_path"],
                                  drawn["state_grid"])  # fmt: skip
        params = self.params(window, drawn)
        params.tree_components = tuple(self.real.parts.ComponentType[name] for name in self.names())
        params.component_registry_override = None
        params.swa_retain_window = window
        params.enable_session_radix_cache = False
        for name in ("tp_cache_group", "attn_cp_cache_group", "attn_tp_cache_group", "pp_cache_group"):
            setattr(params, name, None)
        params.pp_rank, params.pp_size = 0, 1
        return self.real.cache(params)

    def names(self):
        """Return the names of the parts."""
        return [("FULL", "SWA", "MAMBA")[part] for part in self.parts]

    def core(self):
        """Return the object that has the nodes and sizes."""
        return getattr(self.cache, "tree_core", self.cache)

    def root(self):
        """Return the root of the tree."""
        return self.core().root_node

    def sizes(self):
        """Return evictable and locked slots of each part."""
        kinds = [self.real.parts.ComponentType[name] for name in self.names()]
        core = self.core()
        return [(core.component_evictable_size_[kind], core.component_protected_size_[kind]) for kind in kinds]

    def part(self, node, part):
        """Return slots and locks of a part of a node."""
        data = node.component_data[self.real.parts.ComponentType[("FULL", "SWA", "MAMBA")[part]]]
        return data.value, data.lock_ref


class PlainTree(ReleasedTree):
    """RadixCache."""

    name, frees_overlap = "plain", False

    def sizes(self):
        """Return evictable and locked slots of each part."""
        return [(self.cache.evictable_size_, self.cache.protected_size_)]

    def part(self, node, part):
        """Return slots and locks of a node."""
        return node.value, node.lock_ref


class WindowTree(ReleasedTree):
    """SWARadixCache. It has no slots of windows but those that its slots of rows stand for."""

    name, counts = "windows", False

    def sizes(self):
        """Return evictable and locked slots of each part."""
        cache = self.cache
        return [(cache.full_evictable_size_, cache.full_protected_size_),
                (cache.swa_evictable_size_, cache.swa_protected_size_)]  # fmt: skip

    def part(self, node, part):
        """Return slots and locks of a part of a node."""
        if part == FULL:
            return node.value, node.full_lock_ref
        return None if node.swa_tombstone else self.slots.translate_loc_from_full_to_swa(node.value), node.swa_lock_ref


class StateTree(ReleasedTree):
    """MambaRadixCache."""

    name, counts = "states", False

    @property
    def frees_overlap(self):
        """True if an insertion frees the slots of tokens that the tree had: from 0.5.10 on."""
        return "prev_prefix_len" in signature(self.cache._insert_helper).parameters

    def sizes(self):
        """Return evictable and locked slots of each part."""
        cache = self.cache
        return [(cache.full_evictable_size_, cache.full_protected_size_),
                (cache.mamba_evictable_size_, cache.mamba_protected_size_)]  # fmt: skip

    def part(self, node, part):
        """Return slots and locks of a part of a node."""
        return (node.value, node.full_lock_ref) if part == FULL else (node.mamba_value, node.mamba_lock_ref)
