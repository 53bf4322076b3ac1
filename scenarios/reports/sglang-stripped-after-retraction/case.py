#!/usr/bin/env python3
"""A retracted request with reasoning ends the scheduler, or frees slots of the tree, under --strip-thinking-cache.

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
UnifiedRadixCache and release_kv_cache, first unchanged and then with the change. Other modules of the package are
replaced by empty ones. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without a fault.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from array import array
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

TREE = "sglang.srt.mem_cache"
REAL = {"sglang", "sglang.srt", "sglang.srt.managers", "sglang.srt.managers.schedule_batch", TREE, *(
    f"{TREE}.{name}" for name in ("unified_radix_cache", "radix_cache", "base_prefix_cache", "evict_policy", "common"))}
PROMPT, FIRST, ANSWER = list(range(100, 108)), 4, 7       # prompt, tokens before and after the retraction


class Names(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Empty(types.ModuleType):
    """A module with any class or function."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        kind = name[0].isupper() and not name.isupper()
        body = {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, n: lambda *a, **k: None}
        value = Names(name, (), body) if kind else MagicMock(name=name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        real = name in REAL or name.startswith(f"{TREE}.unified_cache")
        if name.partition(".")[0] in ("triton", "sglang") and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = Empty(spec.name)
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.get_eviction_strategy = lambda *args: SimpleNamespace(get_priority=lambda node: node.last_access_time)
        made.split_node_hash_value = lambda *args: (None, None)
        return made

    def exec_module(self, module):
        pass


class Pool:
    """Slots, or states; ``free`` lists them."""

    device, page_size = "cpu", 1

    def __init__(self, size):
        self.slots = list(range(1, size + 1))

    def alloc(self, n):
        return torch.tensor([self.slots.pop(0) for _ in range(n)])

    def free(self, slots, start_pos=0):
        self.slots += slots.view(-1).tolist()

    free_segment = free

    def free_segments(self, segments):
        for slots, _ in segments:
            self.free(slots)

    def available_size(self):
        return len(self.slots)


def load(folder):
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, Finder())
    from sglang.srt.managers import schedule_batch
    from sglang.srt.mem_cache import base_prefix_cache, common, radix_cache, unified_radix_cache
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    schedule_batch.get_serving = common.get_serving = lambda: SimpleNamespace(strip_thinking_cache=True)
    common.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
    env = SimpleNamespace(get=lambda: False)
    unified_radix_cache.envs = SimpleNamespace(
        SGLANG_OPT_UNIFIED_CACHE_FREE_OUT_OF_WINDOW_SLOTS=env, SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=env
    )
    return SimpleNamespace(
        batch=schedule_batch, params=base_prefix_cache, common=common, key=radix_cache.RadixKey,
        cache=unified_radix_cache.UnifiedRadixCache, parts=components, core=unified_tree_core.UnifiedTreeCore,
    )  # fmt: skip


def make_cache(real, hybrid):
    """Return a tree of full attention, or one with recurrent states and the extra buffer."""
    slots, states = Pool(64), Pool(16)

    class Rows:
        req_to_token = torch.zeros((2, 64), dtype=torch.int64)
        mamba_allocator, mamba_ckpt_pool, mamba_ping_pong_track_buffer_size = states, None, 2
        get_mamba_ping_pong_keep_idx = staticmethod(lambda req: req.kv.mamba_last_track_idx)

        def write(self, where, what):
            self.req_to_token[where] = what

        def donate_mamba_ping_pong_slot(self, req, new):
            at = req.kv.mamba_last_track_idx
            given, req.kv.mamba_ping_pong_track_buffer[at] = req.kv.mamba_ping_pong_track_buffer[at].clone(), new[0]
            return given.view(1)

        def free_mamba_cache(self, req, mamba_ping_pong_track_buffer_to_keep=None):
            for at, slot in enumerate(req.kv.mamba_ping_pong_track_buffer):
                if at != mamba_ping_pong_track_buffer_to_keep:
                    states.free(slot)

        def free(self, req):
            req.kv.req_pool_idx = None

    if hybrid:
        from sglang.srt.mem_cache import memory_pool

        memory_pool.HybridReqToTokenPool = Rows
        real.parts.mamba.mamba_cache_chunk_size = lambda: 1
        real.parts.mamba.mamba_checkpoint_grid = lambda page: 1
        mamba = SimpleNamespace(mamba_max_states_per_path=-1, enable_mamba_extra_buffer_lazy=False)
        real.parts.mamba.get_exec = lambda: SimpleNamespace(mamba=mamba)
    rows, kinds = Rows(), (real.parts.FullComponent, real.parts.MambaComponent)[: 1 + hybrid]
    names = tuple(real.parts.ComponentType[name] for name in ("FULL", "MAMBA")[: 1 + hybrid])
    params = SimpleNamespace(
        page_size=1, is_eagle=False, enable_session_radix_cache=False, eviction_policy="lru",
        eviction_policy_config=None, token_to_kv_pool_allocator=slots, req_to_token_pool=rows, disable=False,
        enable_kv_cache_events=False, dynamo_kv_event_format=False, kv_event_lora_names=None,
        sliding_window_size=None, swa_retain_window=0, swa_gates_prefix_match=True, enable_mamba_extra_buffer=True,
    )  # fmt: skip
    cache = object.__new__(real.cache)
    vars(cache).update(
        req_to_token_pool=rows, token_to_kv_pool_allocator=slots, disable=False, linker=None, page_size=1,
        enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
        is_swa_enabled=False, is_mamba_enabled=bool(hybrid), host_memory_mode="cache", tree_components=names,
        enable_mamba_extra_buffer=True, enable_mamba_extra_buffer_lazy=False, claim_kv_row=lambda kv: False,
        session=SimpleNamespace(try_match_prefix=lambda p: None, try_checkpoint=lambda *a, **k: False),
        update_eviction_metrics=lambda *args: None,
    )  # fmt: skip
    cache.components = {name: kind(cache, params) for name, kind in zip(names, kinds, strict=True)}
    cache._components_tuple = tuple(cache.components.values())
    cache.tree_core = real.core(params, cache.components)
    return cache


def make_request(real, done):
    """Return a request with the released methods that matter here."""
    made = SimpleNamespace(
        origin_input_ids=array("q", PROMPT), output_ids=array("q"), kv=real.batch.ReqKvInfo(), rid="r", lock=None,
        extra_key=None, cache_salt=None, priority=0, session_id=None, kv_rotation_base=None, finished_len=None,
        reasoning_tokens=0, skip_radix_cache_insert=False, refresh_fill_ids=lambda: None, finished=lambda: bool(done),
    )  # fmt: skip
    made.owned_kv_len = types.MethodType(real.batch.Req.owned_kv_len, made)
    return made


def prefill(real, cache, req, hybrid):
    """Match prompt and answer so far, evaluate the rest, and publish it, as the scheduler does."""
    tokens = req.full_untruncated_fill_ids = req.origin_input_ids + req.output_ids
    found = cache.match_prefix(real.params.MatchPrefixParams(key=real.key(tokens, None, limit=len(tokens) - 1)))
    hit = found.device_prefix_len
    req.kv.req_pool_idx, req.kv.cache_protected_len, req.lock = 0, hit, cache.lock(found.last_device_node)
    cache.req_to_token_pool.req_to_token[0, :hit] = cache.path_device_indices(found.last_device_node)
    cache.req_to_token_pool.req_to_token[0, hit : len(tokens)] = cache.token_to_kv_pool_allocator.alloc(
        len(tokens) - hit)
    req.kv.kv_committed_len = req.kv.kv_allocated_len = req.extend_end = len(tokens)
    if hybrid:
        pool = cache.req_to_token_pool.mamba_allocator
        req.kv.mamba_ping_pong_track_buffer, req.kv.mamba_last_track_idx = pool.alloc(2), 0
        req.kv.mamba_last_track_seqlen = len(tokens)
    real.common.checkpoint_kv_cache(req, cache)


def decode(cache, req, upto):
    while len(req.output_ids) < upto:
        n = req.kv.kv_committed_len
        cache.req_to_token_pool.req_to_token[0, n] = cache.token_to_kv_pool_allocator.alloc(1)[0]
        req.output_ids.append(200 + len(req.output_ids))
        req.reasoning_tokens += 1
        req.kv.kv_committed_len = req.kv.kv_allocated_len = n + 1


def show(real, when, hybrid):
    """Retract, resume and finish a request; return whether something is wrong."""
    done = []
    cache, req = make_cache(real, hybrid), make_request(real, done)
    what = f"{when}, {'recurrent states, extra buffer' if hybrid else 'full attention'}"
    prefill(real, cache, req, hybrid)
    decode(cache, req, FIRST)
    real.common.release_kv_cache(req, cache, checkpoint=False)                     # retracted
    req.kv = real.batch.ReqKvInfo()
    prefill(real, cache, req, hybrid)                                              # resumed
    protected = req.kv.cache_protected_len
    decode(cache, req, ANSWER)
    done.append(True)
    print(f"{what}: the tree holds {protected} tokens of the resumed request, owned_kv_len is {req.owned_kv_len()}")
    try:
        real.common.release_kv_cache(req, cache, checkpoint=True)
    except AssertionError as error:
        print(f"{what}: AssertionError {error}")
        return True
    tokens = array("q", PROMPT + list(range(200, 200 + FIRST)))
    found = cache.match_prefix(real.params.MatchPrefixParams(key=real.key(tokens, None)))
    held = cache.path_device_indices(found.last_device_node).tolist()
    twice = sorted(set(held) & set(cache.token_to_kv_pool_allocator.slots))
    print(f"{what}: a match returns {len(held)} slots, {len(twice)} of them are on the free list: {twice}")
    return bool(twice)


def change(real):
    """Let a request own at least what it has published."""
    own = real.batch.Req.owned_kv_len
    real.batch.Req.owned_kv_len = lambda self: max(own(self), self.kv.cache_protected_len)


if __name__ == "__main__":
    real = load(sys.argv[1])
    wrong = [show(real, "unchanged", hybrid) for hybrid in (0, 1)]
    change(real)
    after = [show(real, "with the change", hybrid) for hybrid in (0, 1)]
    sys.exit(1 if any(wrong) and not any(after) else 0 if not any(wrong) else 2)
