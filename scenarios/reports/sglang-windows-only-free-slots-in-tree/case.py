#!/usr/bin/env python3
"""In a model of windows only, the tree takes over slots that the request's window has given back.

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
PureSWARadixCache, PureSWATokenToKVPoolAllocator, ReqKvInfo, free_swa_out_of_window_slots and release_kv_cache, first
unchanged and then with the change. Other modules of the package are replaced by empty ones. Exit status: 1 if the
fault shows and the change cures it, 2 if it does not, 0 without a fault.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from array import array
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

SRT = "sglang.srt"
REAL = {"sglang", SRT, *(f"{SRT}.{name}" for name in (
    "managers", "managers.schedule_batch", "mem_cache", "mem_cache.radix_cache", "mem_cache.pure_swa_radix_cache",
    "mem_cache.base_prefix_cache", "mem_cache.cache_init_params", "mem_cache.evict_policy", "mem_cache.common",
    "mem_cache.allocator", "mem_cache.allocator.base", "mem_cache.allocator.token",
    "mem_cache.allocator.swa"))}  # fmt: skip
WINDOW, SLOTS, PROMPT, ANSWER = 4, 64, list(range(100, 110)), 20


class Names(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Empty(types.ModuleType):
    """A module with any class or function. A question about the platform is answered with no."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return lambda *args, **kwargs: False
        kind = name[0].isupper() and not name.isupper()
        body = {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, n: lambda *a, **k: None}
        value = Names(name, (), body) if kind else MagicMock(name=name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        real = name in REAL or name.startswith(f"{SRT}.mem_cache.unified_cache")
        if name.partition(".")[0] in ("triton", "sglang", "huggingface_hub", "psutil") and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = Empty(spec.name)
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.ceil_align = lambda n, page: -(-n // page) * page
        made.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
        made.get_serving = lambda: SimpleNamespace(strip_thinking_cache=False)
        made.split_node_hash_value = lambda *args: (None, None)
        return made

    def exec_module(self, module):
        pass


def load(folder):
    sys.path.append(folder)
    sys.meta_path.insert(0, Finder())
    from sglang.srt.managers import schedule_batch
    from sglang.srt.mem_cache import base_prefix_cache, common, pure_swa_radix_cache, radix_cache
    from sglang.srt.mem_cache.allocator import swa, token

    return SimpleNamespace(
        batch=schedule_batch, common=common, params=base_prefix_cache, key=radix_cache.RadixKey, tree=radix_cache,
        cache=pure_swa_radix_cache.PureSWARadixCache, swa=swa.PureSWATokenToKVPoolAllocator,
        token=token.TokenToKVPoolAllocator,
    )  # fmt: skip


class Rows:
    """The row of slots of the only running request."""

    req_to_token = torch.zeros((1, SLOTS), dtype=torch.int64)

    def write(self, where, what):
        self.req_to_token[where] = what

    def free(self, req):
        req.kv.req_pool_idx = None


def make_cache(real):
    """Return the released tree of windows only on the released allocator."""
    slots = object.__new__(real.swa)
    slots.page_size, slots.device, slots.free_group, slots._size_full, slots._size_swa = 1, "cpu", None, SLOTS, SLOTS
    slots.swa_attn_allocator = slots.full_attn_allocator = real.token(SLOTS, torch.float32, "cpu", None, False)
    slots._swa_req_ring = False
    real.tree.get_eviction_strategy = lambda *args: SimpleNamespace(get_priority=lambda node: node.last_access_time)
    return real.cache(SimpleNamespace(
        disable=False, req_to_token_pool=Rows(), token_to_kv_pool_allocator=slots, page_size=1, is_eagle=False,
        eviction_policy="lru", eviction_policy_config=None, enable_kv_cache_events=False, enable_metrics=False,
        dynamo_kv_event_format=False, kv_event_lora_names=None, sliding_window_size=WINDOW,
        draft_swa_window=0))  # fmt: skip


def make_request(real):
    """Return a request with the released methods that matter here."""
    made = SimpleNamespace(
        rid="r", origin_input_ids=array("q", PROMPT), output_ids=array("q"), kv=real.batch.ReqKvInfo(), lock=None,
        extra_key=None, cache_salt=None, priority=0, finished_len=None, reasoning_tokens=0, extend_end=len(PROMPT),
        skip_radix_cache_insert=False, finished=lambda: len(made.output_ids) == ANSWER,
    )  # fmt: skip
    made.owned_kv_len = types.MethodType(real.batch.Req.owned_kv_len, made)
    made.refresh_fill_ids = lambda: setattr(made, "full_untruncated_fill_ids", made.origin_input_ids + made.output_ids)
    made.refresh_fill_ids()
    return made


def serve(cache, req, checkpoint):
    """Evaluate the prompt, publish it, and generate the answer, as the scheduler does; do not end the request."""
    n = len(PROMPT)
    row = cache.req_to_token_pool.req_to_token[0]
    row[:n] = cache.token_to_kv_pool_allocator.alloc(n)
    req.kv.req_pool_idx, req.kv.kv_committed_len, req.kv.kv_allocated_len = 0, n, n
    req.lock = cache.lock(cache.root_node)
    checkpoint(req, cache)
    while len(req.output_ids) < ANSWER:
        cache.evict_sliding_windows(req, n)
        row[n] = cache.token_to_kv_pool_allocator.alloc(1)[0]
        req.output_ids.append(200 + len(req.output_ids))
        n += 1
        req.kv.kv_committed_len = req.kv.kv_allocated_len = n


def show(real, when):
    """Serve a request and its next turn; return whether a slot is in the tree and free at the same time."""
    cache, req = make_cache(real), make_request(real)
    slots = cache.token_to_kv_pool_allocator
    serve(cache, req, real.common.checkpoint_kv_cache)
    component = next(iter(req.kv.component_evicted_seqlens), None)
    given_back = req.kv.get_evicted_seqlen(component) - req.kv.swa_dead_lo(1)
    real.common.release_kv_cache(req, cache, checkpoint=True)
    tokens = array("q", PROMPT + list(req.output_ids))
    found = cache.match_prefix(real.params.MatchPrefixParams(key=real.key(tokens, None)))
    held = cache.path_device_indices(found.last_device_node).tolist()
    free = slots.swa_attn_allocator.free_pages.tolist()
    twice = sorted(set(held) & set(free))
    print(f"{when}: the window gave {given_back} slots back; the tree holds {len(held)} slots, "
          f"{len(twice)} of them are free: {twice}")  # fmt: skip
    taken = slots.alloc(len(free)).tolist()
    print(f"{when}: other requests take all free slots; of the prefix of {len(held)} tokens that the next turn "
          f"finds they have {len(set(held) & set(taken))}")  # fmt: skip
    cache.evict(real.params.EvictParams(num_tokens=len(held)))
    free = sorted(slots.swa_attn_allocator.free_pages.tolist())
    lent = sorted(set(free) & set(taken))
    print(f"{when}: the tree evicts its {len(held)} slots: {len(lent)} that other requests have are free again: {lent}")
    return bool(twice)


def change(real):
    """Let the tree end where the window has given a slot back."""
    checkpoint = real.cache.checkpoint

    def whole(cache, req, *, up_to):
        shared = req.kv.swa_dead_lo(cache.page_size)
        gone = max(req.kv.component_evicted_seqlens.values(), default=0) > shared
        checkpoint(cache, req, up_to=shared if gone else up_to)

    real.cache.checkpoint = whole


if __name__ == "__main__":
    real = load(sys.argv[1])
    wrong = show(real, "unchanged")
    change(real)
    after = show(real, "with the change")
    sys.exit(1 if wrong and not after else 2 if wrong else 0)
