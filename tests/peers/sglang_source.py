"""The released tree of SGLang 0.5.20 or 0.5.23 (UnifiedRadixCache, Python core), imported from an unpacked wheel.

The tree needs few operations of torch; numpy provides them. Other modules of the package are replaced by empty ones.
"""

import argparse
import importlib.abc
import importlib.machinery
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np

from tests.peers.sglang_slots import Rows, StateTensor, Tensor, WindowAllocator, tensor

TREE = "sglang.srt.mem_cache"
REAL = {"sglang", "sglang.srt", TREE, *(f"{TREE}.{name}" for name in (
    "unified_radix_cache", "radix_cache", "base_prefix_cache", "evict_policy"))}  # fmt: skip
MANAGERS = "sglang.srt.managers"
PROCESSOR = f"{MANAGERS}.scheduler_components"
SCHEDULE = {MANAGERS, PROCESSOR, f"{PROCESSOR}.batch_result_processor", *(
    f"{MANAGERS}.{name}" for name in ("schedule_policy", "schedule_batch")), *(
    f"{TREE}.{name}" for name in (
        "common", "prefill_budget", "cache_init_params", "allocation_sizing", "memory_pool"))}  # fmt: skip
ON = {"SGLANG_ENABLE_WAITING_PREFIX_REFRESH", "SGLANG_OPT_UNIFIED_CACHE_FREE_OUT_OF_WINDOW_SLOTS"}


def parser(description):
    """Return the parser of a comparison's command line."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("folder", type=Path)
    made.add_argument("--ops", type=int, default=10_000)
    made.add_argument("--seed", type=int, default=0)
    return made


class _Envs:
    """Environment variables of the package, those that SETTINGS gives, and those in ON."""

    def __getattr__(self, name):
        return SimpleNamespace(get=lambda: SETTINGS["env"].get(name, "1" if name in ON else ""))


class _Off:
    """Settings of a server, all of them off."""

    def __getattr__(self, name):
        return _Off()

    def __call__(self, *args, **kwargs):
        return False

    def __bool__(self):
        return False


class Settings(SimpleNamespace):
    """Settings of a server; those that are not given are off."""

    def __getattr__(self, name):
        return _Off()


SETTINGS = {**dict.fromkeys(("exec", "spec", "memory", "schedule"), _Off()), "env": {}}
"""Settings of the server under test."""
POLICIES = {"lru": "LRU", "lfu": "LFU", "slru": "SLRU", "priority": "Priority", "fifo": "FIFO"}


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


class _Torch(types.ModuleType):
    """torch: what numpy has under the same name, or nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np, name, MagicMock(name=name))


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
        made.get_disagg = made.get_context = made.get_serving = _Off
        made.get_parallel = lambda: Settings(attn_dcp_size=1)
        for name in ("exec", "spec", "memory", "schedule"):
            setattr(made, f"get_{name}", lambda name=name: SETTINGS[name])
        made.max_speculative_num_draft_tokens = lambda: SETTINGS["spec"].speculative_num_draft_tokens
        made.SpeculativeAlgorithm = SimpleNamespace(from_string=lambda name: _Off())
        made.ceil_align = lambda n, page: -(-n // page) * page
        made.mamba_track_grid = lambda page: SETTINGS["exec"].track_grid
        made.mamba_cache_chunk_size = lambda: SETTINGS["exec"].grid
        made.mamba_checkpoint_grid = lambda page: SETTINGS["exec"].grid
        for name in ("unified_kv_triton", "hip", "xpu", "npu", "cuda"):
            setattr(made, f"is_{name}", lambda *args: False)
        made.get_bool_env_var = lambda *args: False
        made.page_interleave_shard_size = lambda allocator: 1
        made.split_node_hash_value = lambda *args: (None, None)
        made.get_eviction_strategy = _strategy
        made.SWATokenToKVPoolAllocator, made.HybridReqToTokenPool = WindowAllocator, Rows
        return made

    def exec_module(self, module):
        pass


def _strategy(policy, config):
    from sglang.srt.mem_cache import evict_policy

    return getattr(evict_policy, f"{POLICIES[policy]}Strategy")()


def load(folder, schedule=False):
    """Import the tree from the folder of an unpacked wheel; return its modules. ``schedule``: also the queue policy."""
    torch = _Torch("torch")
    torch.int64, torch.Tensor, torch.tensor, torch.device = np.int64, Tensor, tensor, str
    torch.cat = lambda parts: np.concatenate(list(parts)).view(Tensor)
    torch.empty = lambda shape, **kwargs: tensor([0] * shape if isinstance(shape, int) else [])
    torch.bool, torch.iinfo, torch.is_tensor = np.bool_, np.iinfo, lambda value: isinstance(value, np.ndarray)
    torch.full = lambda shape, value, dtype, device: np.full(shape, value, dtype).view(StateTensor)
    sys.modules["torch"] = torch
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, _Finder())
    REAL.update(SCHEDULE if schedule else ())
    from sglang.srt.mem_cache import base_prefix_cache, radix_cache, unified_radix_cache
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    more = {}
    if schedule:
        from sglang.srt.managers import schedule_batch, schedule_policy
        from sglang.srt.managers.scheduler_components import batch_result_processor
        from sglang.srt.mem_cache import allocation_sizing, common, memory_pool

        more = {"policy": schedule_policy, "common": common, "batch": schedule_batch, "sizing": allocation_sizing,
                "processor": batch_result_processor.SchedulerBatchResultProcessor,
                "pool": memory_pool.HybridReqToTokenPool}
        schedule_batch.num_beam_member_rows = lambda rows: 0
        schedule_batch.beam_retraction_order = lambda order, rows: order
        schedule_batch.NewTokenRatioTracker = SimpleNamespace(estimate_new_token_ratio_after_retract=lambda rows: 0)
    return SimpleNamespace(
        **more, params=base_prefix_cache, key=radix_cache.RadixKey, cache=unified_radix_cache.UnifiedRadixCache,
        parts=components, core=unified_tree_core.UnifiedTreeCore,
    )  # fmt: skip
