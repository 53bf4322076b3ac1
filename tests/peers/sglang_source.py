"""The released trees of SGLang (0.5.9 and later, the Python core), imported from an unpacked wheel.

The trees need few operations of torch; numpy provides them. Other modules of the package are replaced by empty ones.
"""

import argparse
import importlib.abc
import importlib.machinery
import os
import sys
import types
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import MagicMock

import numpy as np

from tests.peers.sglang_slots import Allocator, Rows, StateTensor, Tensor, WindowAllocator, tensor

TREE = "sglang.srt.mem_cache"
REAL = {"sglang", "sglang.srt", "sglang.srt.environ", TREE, *(f"{TREE}.{name}" for name in (
    "unified_radix_cache", "radix_cache", "swa_radix_cache", "mamba_radix_cache", "base_prefix_cache", "evict_policy",
    "events", "session_radix_cache"))}  # fmt: skip
MANAGERS = "sglang.srt.managers"
PROCESSOR = f"{MANAGERS}.scheduler_components"
SPECULATIVE = "sglang.srt.speculative"
SCHEDULE = {MANAGERS, PROCESSOR, f"{PROCESSOR}.batch_result_processor", *(
    f"{MANAGERS}.{name}" for name in ("scheduler", "schedule_policy", "schedule_batch")), *(
    f"{TREE}.{name}" for name in ("common", "prefill_budget", "cache_init_params", "allocation", "allocation_sizing",
                                  "memory_pool")),
    f"{TREE}.hicache_storage", SPECULATIVE, *(
    f"{SPECULATIVE}.{name}" for name in ("eagle_utils", "spec_utils"))}  # fmt: skip
HOST = {f"{TREE}.{name}" for name in ("hicache_storage", "hybrid_cache", "hybrid_cache.hybrid_cache_controller",
                                      "hybrid_cache.hybrid_pool_assembler", "pool_host", "pool_host.group")}
RECORDER = {f"{TREE}.{name}" for name in ("events", "utils", "cpp_utils", "cpp_utils.native_hash")} | {
    "sglang.srt.disaggregation", "sglang.srt.disaggregation.kv_events"}
RELEASE = "0.5.23"
"""Release whose classes run."""
EVENTS = False
"""True if trees record KV events."""
ABSENT = {"torch", "triton", "sglang", "psutil", "zmq", "setproctitle", "transformers", "requests", "PIL",
          "huggingface_hub", "pybase64", "orjson", "pydantic"}  # fmt: skip
"""Packages of which only the modules in REAL are imported."""


def set_environment(values):
    """Set environment variables that the released classes read; all others keep the defaults of the release."""
    for name, value in values.items():
        os.environ[name] = str(value)


def parser(description):
    """Return the parser of a comparison's command line."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("folder", type=Path)
    made.add_argument("--ops", type=int, default=10_000)
    made.add_argument("--seed", type=int, default=0)
    return made


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


NAMES = ("exec", "memory", "schedule", "serving", "spec")
SETTINGS = {**dict.fromkeys(NAMES, _Off()), "parallel": Settings(attn_dcp_size=1)}
"""Settings of the server under test."""
POLICIES = {"lru": "LRU", "lfu": "LFU", "slru": "SLRU", "priority": "Priority", "fifo": "FIFO"}


class _Names(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Empty(types.ModuleType):
    """A module with any class or function. A question about the platform (``is_...``) is answered with no."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return lambda *args, **kwargs: False
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
        real = name in REAL or name.startswith(f"{TREE}.unified_cache")     # also unified_cache_components
        if name.partition(".")[0] in ABSENT and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = _Empty(spec.name)
        made.DynamicGradMode = made.scheduler_stage_method = lambda *args: lambda function: function
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.get_disagg = made.get_context = _Off
        made.get_parallel = lambda: SETTINGS["parallel"]
        for name in NAMES:
            setattr(made, f"get_{name}", lambda name=name: SETTINGS[name])
        made.max_speculative_num_draft_tokens = lambda: SETTINGS["spec"].speculative_num_draft_tokens
        made.SpeculativeAlgorithm = SimpleNamespace(from_string=lambda name: _Off())
        made.ceil_align = lambda n, page: -(-n // page) * page
        made.mamba_track_grid = lambda page: SETTINGS["exec"].track_grid
        made.mamba_cache_chunk_size = lambda: SETTINGS["exec"].grid
        made.mamba_checkpoint_grid = lambda page: SETTINGS["exec"].grid
        made.get_bool_env_var = lambda *args: False
        made.page_interleave_shard_size = lambda allocator: 1
        made.split_node_hash_value = lambda *args: (None, None)
        made.get_eviction_strategy = _strategy
        made.SWATokenToKVPoolAllocator, made.HybridReqToTokenPool = WindowAllocator, Rows
        made.uses_shared_host_layout = lambda pool: False
        made.CacheOperation, made.Range = Operation, Range
        return made

    def exec_module(self, module):
        pass


class Operation:
    """A transfer between the device and host memory."""

    def __init__(self, host_indices, device_indices, node_id, priority=None, pool_transfers=None):
        self.node_id, self.pool_transfers = node_id, pool_transfers or ()


class Range(NamedTuple):
    """Positions of a request that a step evaluates, as releases before 0.5.22 keep them."""

    start: int
    end: int

    @property
    def length(self):
        return self.end - self.start


def _strategy(policy, config=None):
    from sglang.srt.mem_cache import evict_policy

    return getattr(evict_policy, f"{POLICIES[policy]}Strategy")()


def load(folder, schedule=False, host=False, events=False, trees=False):
    """Import the trees from the folder of an unpacked wheel; return their modules. ``schedule``: also the queue policy;
    ``host``: also the controller of host memory; ``events``: also the recorder of KV events, which is on then;
    ``trees``: also the trees that the unified one replaced, and releases that have no unified tree."""
    global EVENTS
    EVENTS = events
    torch = _Torch("torch")
    torch.__path__, torch.version = [], SimpleNamespace(hip=None)
    torch.int64, torch.Tensor, torch.tensor, torch.device = np.int64, Tensor, tensor, str
    torch.cat = lambda parts: np.concatenate(list(parts)).view(Tensor)
    torch.empty = lambda shape, **kwargs: tensor([0] * shape if isinstance(shape, int) else [])
    torch.bool, torch.iinfo, torch.is_tensor = np.bool_, np.iinfo, lambda value: isinstance(value, np.ndarray)
    torch.stack = lambda parts: np.stack(parts).view(StateTensor)
    torch.zeros = lambda shape, **kwargs: np.zeros(shape, np.int64).view(Tensor)
    torch.full = lambda shape, value, **kwargs: np.full(shape, value, np.int64).view(StateTensor)
    sys.modules["torch"] = torch
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, _Finder())
    REAL.update(SCHEDULE if schedule else ())
    REAL.update(HOST if host else ())
    REAL.update(RECORDER if events else ())
    ABSENT.difference_update({"zmq"} if events else ())
    REAL.add(f"{TREE}.hicache_storage")             # it has the names of the pools
    from sglang.srt.mem_cache import base_prefix_cache, radix_cache

    found = {"params": base_prefix_cache, "key": radix_cache.RadixKey, "plain": radix_cache.RadixCache}
    found |= older_trees(folder) if trees else {}
    found |= unified_tree(folder) if (folder / TREE.replace(".", "/") / "unified_radix_cache.py").exists() else {}
    found |= scheduling() if schedule else {}
    if host:
        from sglang.srt.mem_cache import pool_host
        from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller, hybrid_pool_assembler

        found |= {"controller": hybrid_cache_controller.HybridCacheController, "assembler": hybrid_pool_assembler,
                  "group": pool_host.HostPoolGroup, "entry": pool_host.PoolEntry,
                  "pools": sys.modules[f"{TREE}.hicache_storage"].PoolName}
    return SimpleNamespace(**found)


def unified_tree(folder):
    """Import the unified tree; return its modules. ``core``: None = the release has no core of its own."""
    from sglang.srt.mem_cache import unified_radix_cache

    unified_radix_cache.StreamingSession = lambda inner: Settings(slots={}, **{
        f"try_{name}": lambda *args, **kwargs: None for name in ("match_prefix", "inc_lock_ref", "dec_lock_ref")})
    if not (folder / TREE.replace(".", "/") / "unified_cache").exists():
        from sglang.srt.mem_cache import unified_cache_components

        return {"cache": unified_radix_cache.UnifiedRadixCache, "parts": unified_cache_components, "core": None}
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    return {"cache": unified_radix_cache.UnifiedRadixCache, "parts": components,
            "core": unified_tree_core.UnifiedTreeCore}  # fmt: skip


def older_trees(folder):
    """Import the trees for windows and for states that a release has beside the unified one; return their classes."""
    if not (folder / TREE.replace(".", "/") / "mamba_radix_cache.py").exists():
        return {"modules": ()}
    from sglang.srt.mem_cache import mamba_radix_cache, swa_radix_cache

    mamba_radix_cache.TokenToKVPoolAllocator = mamba_radix_cache.PagedTokenToKVPoolAllocator = Allocator
    return {"modules": (mamba_radix_cache, swa_radix_cache), "windows": swa_radix_cache.SWARadixCache,
            "states": mamba_radix_cache.MambaRadixCache}  # fmt: skip


class Mode(IntEnum):
    """Kind of a step."""

    EXTEND = 1
    DECODE = 2

    def is_extend(self):
        return self is Mode.EXTEND

    def is_decode(self):
        return self is Mode.DECODE


class Sampling:
    """The samplers of a batch, which do nothing."""

    penalizer_orchestrator = SimpleNamespace(is_required=False)

    def filter_batch(self, *args):
        pass

    merge_batch = filter_batch


class NoHidden(int):
    """The mode in which a step returns no hidden states."""

    def need_capture(self):
        return False


def scheduling():
    """Import what schedules requests; return its modules and classes."""
    from sglang.srt.managers import schedule_batch, schedule_policy, scheduler
    from sglang.srt.managers.scheduler_components import batch_result_processor
    from sglang.srt.mem_cache import allocation, allocation_sizing, common, memory_pool
    from sglang.srt.speculative import spec_utils

    schedule_batch.ForwardMode = Mode
    schedule_batch.num_beam_member_rows = lambda rows: 0
    schedule_batch.beam_retraction_order = lambda order, rows: order
    schedule_batch.NewTokenRatioTracker = SimpleNamespace(estimate_new_token_ratio_after_retract=lambda rows: 0)
    schedule_batch.get_batch_return_hidden_states_mode = lambda rows: NoHidden()
    batch_result_processor.get_server_return_hidden_states_mode = lambda: NoHidden()
    schedule_batch.CaptureHiddenMode = SimpleNamespace(NULL=NoHidden())
    schedule_batch.SamplingBatchInfo = SimpleNamespace(from_schedule_batch=lambda batch, vocabulary: Sampling())
    scheduler.PrefillStats = SimpleNamespace(from_adder=lambda *args, **more: None)
    schedule_batch.mamba_track_grid = spec_utils.mamba_track_grid
    schedule_batch.async_h2d = memory_pool.async_h2d = lambda values, **more: tensor(values)
    allocation.attention_backends = lambda: ("torch_native", "torch_native")
    allocation.support_triton = lambda backend: False
    allocation.assign_req_to_token_pool_func = assign_slots
    allocation._device_type = lambda batch: "cuda"
    return {"policy": schedule_policy, "common": common, "batch": schedule_batch, "sizing": allocation_sizing,
            "scheduler": scheduler.Scheduler, "NULL_MODE": scheduler.DisaggregationMode.NULL,
            "processor": batch_result_processor.SchedulerBatchResultProcessor, "rows": memory_pool.ReqToTokenPool,
            "hybrid_rows": memory_pool.HybridReqToTokenPool,
            "prepare_track": spec_utils.prepare_mamba_track_for_verify}  # fmt: skip


def assign_slots(rows, table, starts, stops, slots, n):
    """Write slots to the rows of requests, as the kernel of the release does."""
    at = 0
    for row, start, stop in zip(rows, starts, stops, strict=True):
        table[row, start:stop] = slots[at : at + stop - start]
        at += stop - start
