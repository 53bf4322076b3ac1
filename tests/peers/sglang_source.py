"""The released tree of SGLang 0.5.20 or 0.5.23 (UnifiedRadixCache, Python core), imported from an unpacked wheel.

The tree needs few operations of torch; numpy provides them. Other modules of the package are replaced by empty ones.
The allocators are ours: free lists, first in, first out.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np

TREE = "sglang.srt.mem_cache"
REAL = {"sglang", "sglang.srt", TREE, *(f"{TREE}.{name}" for name in (
    "unified_radix_cache", "radix_cache", "base_prefix_cache", "evict_policy"))}  # fmt: skip
SCHEDULE = {"sglang.srt.managers", "sglang.srt.managers.schedule_policy", *(
    f"{TREE}.{name}" for name in ("common", "prefill_budget", "cache_init_params"))}  # fmt: skip
ON = {"SGLANG_ENABLE_WAITING_PREFIX_REFRESH", "SGLANG_OPT_UNIFIED_CACHE_FREE_OUT_OF_WINDOW_SLOTS"}


class _Envs:
    """Environment variables of the package."""

    def __getattr__(self, name):
        return SimpleNamespace(get=lambda: "1" if name in ON else "")


class _Off:
    """Settings of a server, all of them off."""

    def __getattr__(self, name):
        return _Off()

    def __call__(self, *args):
        return False

    def __bool__(self):
        return False
POLICIES = {"lru": "LRU", "lfu": "LFU", "slru": "SLRU", "priority": "Priority", "fifo": "FIFO"}


class Tensor(np.ndarray):
    """An array with the methods of a tensor that the tree calls."""

    def clone(self):
        return self.copy()

    def to(self, *args, **kwargs):
        return self.copy()

    def numel(self):
        return self.size


def tensor(values, **kwargs):
    return np.array(values, np.int64).view(Tensor)


class _Names(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Empty(types.ModuleType):
    """A module with any class or function."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        body = {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, n: lambda *a, **k: None}
        made = _Names(name, (), body)
        value = made if name[0].isupper() and not name.isupper() else MagicMock(name=name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        real = name in REAL or name.startswith(f"{TREE}.unified_cache")
        if name.partition(".")[0] in ("triton", "sglang") and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = _Empty(spec.name)
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.is_swa_req_ring = lambda allocator: False
        made.envs = _Envs()
        made.get_exec = made.get_disagg = made.get_parallel = made.get_context = made.get_schedule = lambda: _Off()
        made.get_bool_env_var = made.is_hip = lambda *args: False
        made.page_interleave_shard_size = lambda allocator: 1
        made.split_node_hash_value = lambda *args: (None, None)
        made.get_eviction_strategy = _strategy
        made.SWATokenToKVPoolAllocator, made.HybridReqToTokenPool = Allocator, Rows
        return made

    def exec_module(self, module):
        pass


def _strategy(policy, config):
    from sglang.srt.mem_cache import evict_policy

    return getattr(evict_policy, f"{POLICIES[policy]}Strategy")()


class Rows(SimpleNamespace):
    """The pool of request rows; the tree reads ``mamba_allocator``."""


class Allocator:
    """K/V slots, and a window slot for each."""

    device = "cpu"

    def __init__(self, size, page, windows):
        self.page_size, self.windows = page, windows
        self.full, self.swa, self.peer = list(range(1, size // page + 1)), list(range(1, size // page + 1)), {}
        self.full_attn_allocator = SimpleNamespace(free_segment=self.free_full_segment)

    def take(self, n):
        page, out = self.page_size, []
        for _ in range(n // page):
            full, swa = self.full.pop(0), self.swa.pop(0) if self.windows else 0
            out += range(full * page, full * page + page)
            self.peer.update({full * page + k: swa * page + k if swa else 0 for k in range(page)})
        return tensor(out)

    def available_size(self):
        return len(self.full) * self.page_size

    full_available_size = available_size

    def swa_available_size(self):
        return len(self.swa) * self.page_size

    def request_slot_reserve(self, **kwargs):
        return 0

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import PrefillBudget

        return PrefillBudget(self, tree, **kwargs)

    def mamba_full_cache_donor(self):
        return None

    def free_full_segment(self, slots, start_pos=0):
        self.full += [int(slot) // self.page_size for slot in slots[:: self.page_size]]

    def free_swa_segment(self, slots, start_pos=0):
        pages = [self.peer[int(slot)] // self.page_size for slot in slots[:: self.page_size]]
        self.swa += [page for page in pages if page]
        self.clear_full_to_swa_mapping(slots)

    def free_segment(self, slots, start_pos=0):
        self.free_swa_segment(slots)
        self.free_full_segment(slots)

    def free_segments(self, segments):
        for slots, start_pos in segments:
            self.free_segment(slots, start_pos)

    def translate_swa_indices_for_transfer(self, slots):
        return tensor([self.peer[int(slot)] for slot in slots])

    translate_loc_from_full_to_swa = translate_swa_indices_for_transfer

    def clear_full_to_swa_mapping(self, slots):
        self.peer.update({int(slot): 0 for slot in slots})

    def set_full_to_swa_mapping(self, slots, window):
        self.peer.update({int(slot): int(other) for slot, other in zip(slots, window, strict=True)})


class StateSlots:
    """Slots of states."""

    def __init__(self, size):
        self.slots = list(range(1, size + 1))

    def available_size(self):
        return len(self.slots)

    schedulable_available_size = available_size

    def alloc(self, n):
        return tensor([self.slots.pop(0)]) if self.slots else None

    def free(self, slots):
        self.slots += [int(slot) for slot in slots]


def load(folder, schedule=False):
    """Import the tree from the folder of an unpacked wheel; return its modules. ``schedule``: also the queue policy."""
    torch = types.ModuleType("torch")
    torch.int64, torch.Tensor, torch.tensor, torch.device = np.int64, Tensor, tensor, str
    torch.cat = lambda parts: np.concatenate(list(parts)).view(Tensor)
    torch.empty = lambda shape, **kwargs: tensor([0] * shape if isinstance(shape, int) else [])
    torch.bool, torch.iinfo = np.bool_, np.iinfo
    sys.modules["torch"] = torch
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, _Finder())
    REAL.update(SCHEDULE if schedule else ())
    from sglang.srt.mem_cache import base_prefix_cache, radix_cache, unified_radix_cache
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    more = {}
    if schedule:
        from sglang.srt.managers import schedule_policy
        from sglang.srt.mem_cache import common

        more = {"policy": schedule_policy, "common": common}
    return SimpleNamespace(
        **more, params=base_prefix_cache, key=radix_cache.RadixKey, cache=unified_radix_cache.UnifiedRadixCache,
        parts=components, core=unified_tree_core.UnifiedTreeCore,
    )  # fmt: skip
