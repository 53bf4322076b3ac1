"""Our tree of SGLang with its pools, as the comparison with a released tree drives it.

Until 0.5.15 every kind of model has a tree of its own: ``RadixCache``, ``SWARadixCache``, ``MambaRadixCache``. From
0.5.16 on models with windows or states have ``UnifiedRadixCache``, from 0.5.19 on all have it.
"""

from collections import deque

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

FULL, SWA, MAMBA = range(3)
LAYERS = {(0,): "A", (0, 1): "WA", (0, 2): "GA", (0, 1, 2): "WAG"}


UNIFIED, UNIFIED_HYBRIDS = (0, 5, 19), (0, 5, 16)
"""First releases whose models all have the unified tree, and those with windows or states."""
WITH_FULL_HIT, WITH_SWA_BRANCH, IN_ORDER = (0, 5, 17), (0, 5, 20), (0, 5, 20)
"""First releases of the unified tree whose match has the length of the path, and the branch of windows; and whose free
lists are compared in order."""


def version(release):
    """Return a release as numbers, without a post release: 0.5.12.post1 -> (0, 5, 12)."""
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def is_unified(release, parts):
    """True if a release has the unified tree for a model with these parts."""
    return version(release) >= (UNIFIED if parts == (FULL,) else UNIFIED_HYBRIDS)


def parts_of(release):
    """Return the combinations of parts for which a release has a tree."""
    both = [(FULL, SWA, MAMBA)] if is_unified(release, (FULL, SWA, MAMBA)) else []
    return [(FULL,), (FULL, SWA), (FULL, MAMBA), *both]


def facts_of(release, parts):
    """Return the names of what a match of a release returns."""
    unified, number = is_unified(release, parts), version(release)
    return {"hit", *(["full"] if unified and number >= WITH_FULL_HIT else []),
            *(["swa_branch"] if unified and SWA in parts and number >= WITH_SWA_BRANCH else []),
            *(["mamba_branch"] if MAMBA in parts else [])}  # fmt: skip


class OurTree:
    """A tree under the rules of a release; it returns what the release knows. ``drawn``: options by our names.
    ``counts``: the release counts the uses of nodes, their priorities, and all slots that an eviction frees."""

    def __init__(self, rules, parts, window, drawn):
        self.rules, self.parts, self.page = rules, parts, drawn["page_size"]
        self.facts = facts_of(rules.build, parts)
        self.counts = is_unified(rules.build, parts) or parts == (FULL,)
        self.keeps_order = version(rules.build) >= IN_ORDER
        opts = options(drawn | {"mamba_radix_cache_strategy": "extra_buffer"} if MAMBA in parts else drawn)
        spec = parse(" ".join(f"W{window}" if layer == "W" else layer for layer in LAYERS[parts]))
        context = get_runtime_context(rules, spec, opts, Log())
        size = opts.max_total_tokens
        kind = SWATokenToKVPoolAllocator if SWA in parts else PagedTokenToKVPoolAllocator
        self.kv = kind(*([size] * (1 + (SWA in parts))), opts.page_size)
        rows = HybridReqToTokenPool(1, opts.max_mamba_cache_size)
        self.pool = rows.mamba_allocator
        self.cache = UnifiedRadixCache(context, MemoryPools(rows, self.kv, MHATokenToKVPool(spec)))
        self.core = self.cache.tree_core

    def match(self, tokens, limit, space):
        """Return the hit, the length of the matched path, the branches, as far as the release has them, and the
        node."""
        found = self.cache.match_prefix(tokens, space, limit)
        facts = {"hit": found.found.device_hit_length, "full": found.found.full_kv_hit_length,
                 "swa_branch": found.swa_branching_seqlen, "mamba_branch": found.mamba_branching_seqlen}  # fmt: skip
        return {name: value for name, value in facts.items() if name in self.facts}, found.last_device_node

    def lacks(self, n):
        """Return the slots of each part that an insertion of ``n`` tokens lacks."""
        full, both = max(0, n - self.kv.full_available_size()), max(0, n - self.kv.available_size())
        state = MAMBA in self.parts and not self.pool.available_size()
        return full, both if SWA in self.parts else 0, int(state)

    def has_room(self, n):
        """True if an insertion of ``n`` tokens finds slots."""
        return self.kv.available_size() >= n and (MAMBA not in self.parts or self.pool.available_size() > 0)

    def insert(self, tokens, frontier, space, priority, counted, chunk):
        """Insert whole pages; return the length that was there before, and whether a state was."""
        n = len(tokens)
        value = self.kv.alloc_extend(NO_SLOT, 0, n)
        state = self.pool.alloc() if MAMBA in self.parts else None
        self.kv.free_swa(value[:frontier])
        found = self.cache.insert(InsertParams(
            key=tokens, extra_key=space, limit=n, value=value, text=tokens, swa_evicted_seqlen=frontier,
            inserted_len=counted, priority=priority, mamba_value=state, chunked=chunk))  # fmt: skip
        exists = MAMBA in self.parts and bool(found.mamba_exist)
        if exists:
            self.pool.free(state)
        return found.prefix_len, exists

    def evict(self, *asked):
        """Evict so many slots of each part; return how many were freed, None if the release does not count them."""
        freed = self.cache.evict(EvictParams(*asked))
        return freed if self.counts else None

    def lock(self, node):
        """Lock the path to a node; return what releases it."""
        return self.core.inc_lock_ref(node)

    def unlock(self, receipt):
        """Release a lock."""
        self.core.dec_lock_ref(receipt)

    def sizes(self):
        """Return evictable and locked slots of each part."""
        return [(one.evictable_size, one.protected_size) for one in self.core.components.values()]

    def free(self):
        """Return the free lists of rows, windows and states; sorted if the release is not compared in order."""
        if SWA in self.parts:
            lists = [self.kv.full_attn_allocator.free_pages, self.kv.swa_attn_allocator.free_pages]
        else:
            lists = [self.kv.free_pages]
        lists.append(self.pool.free_slots)
        if not self.keeps_order:
            for pages in lists:
                sort(pages)
        return lists

    def nodes(self):
        """Yield key, uses, priority (None if the release has none), and slots and locks of each part of every node."""
        self.core.changes.events.clear()
        todo = deque(self.core.root_node.children.values())
        while todo:
            node = todo.popleft()
            todo += node.children.values()
            slots = [None if node.value[part] is None else [node.value[part]] if part == MAMBA
                     else node.value[part].tolist() for part in self.parts]  # fmt: skip
            counts = (node.hit_count, node.priority) if self.counts else (None, None)
            yield tuple(node.key), *counts, slots, [node.lock_ref[part] for part in self.parts]


def sort(pages):
    """Sort a free list."""
    ordered = sorted(pages)
    pages.clear()
    pages.extend(ordered)
