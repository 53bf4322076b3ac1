#!/usr/bin/env python3
"""Prompts that pass a cut prompt take the slots that it still needs, with --schedule-policy shortest-prefill-first.

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
SchedulePolicy, PrefillAdder, PrefillBudget, Req and UnifiedRadixCache, first unchanged and then with the change. Other
modules of the package are replaced by empty ones. Exit status: 1 if the fault shows and the change cures it, 2 if it
does not, 0 without a fault.
"""

import importlib.abc
import importlib.machinery
import inspect
import sys
import textwrap
import types
from array import array
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

TREE, MANAGERS = "sglang.srt.mem_cache", "sglang.srt.managers"
REAL = {"sglang", "sglang.srt", MANAGERS, TREE, *(
    f"{MANAGERS}.{name}" for name in ("schedule_batch", "schedule_policy")), *(f"{TREE}.{name}" for name in (
        "unified_radix_cache", "radix_cache", "base_prefix_cache", "evict_policy", "common", "prefill_budget",
        "cache_init_params"))}  # fmt: skip
SLOTS, CHUNK, RATIO = 100, 16, 0.7        # --max-total-tokens, --chunked-prefill-size, new_token_ratio
LONG, SHORT, ANSWER = 60, 12, 2           # tokens of the long prompt, of the others, and of each answer
SHORTS = 4                                # one arrives before each turn but the first


class Names(type):
    """A class with any attribute: its name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Off:
    """Settings, all of them off."""

    def __getattr__(self, name):
        return Off()

    def __call__(self, *args, **kwargs):
        return False

    def __bool__(self):
        return False


class Unset:
    """Environment variables, all of them empty."""

    def __getattr__(self, name):
        return SimpleNamespace(get=lambda: "compact" if name.endswith("_MODE") else "")


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
        made.page_interleave_shard_size = lambda allocator: 1
        made.get_bool_env_var = made.is_hip = made.is_swa_req_ring = lambda *args: False
        made.get_disagg = made.get_context = made.get_serving = made.get_exec = made.get_memory = Off
        made.get_spec = made.get_parallel = Off
        made.get_schedule = lambda: SimpleNamespace(page_size=1, schedule_policy="shortest-prefill-first")
        made.envs = Unset()
        return made

    def exec_module(self, module):
        pass


class Slots:
    """Allocator of K/V slots; ``slots`` are the free ones."""

    device, page_size = "cpu", 1

    def __init__(self, size):
        self.slots = list(range(1, size + 1))

    def alloc(self, n):
        return torch.tensor([self.slots.pop(0) for _ in range(n)], dtype=torch.int64)

    def available_size(self):
        return len(self.slots)

    def request_slot_reserve(self, **kwargs):
        return 0

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import PrefillBudget

        return PrefillBudget(self, tree, **kwargs)


def load(folder):
    sys.path.append(folder)
    sys.meta_path.insert(0, Finder())
    from sglang.srt.managers import schedule_batch, schedule_policy
    from sglang.srt.mem_cache import base_prefix_cache, common, unified_radix_cache
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    return SimpleNamespace(
        policy=schedule_policy, request=schedule_batch.Req, common=common, params=base_prefix_cache,
        cache=unified_radix_cache.UnifiedRadixCache, parts=components, core=unified_tree_core.UnifiedTreeCore,
    )  # fmt: skip


class Server:
    """The queue, the admission and the tree of a server. The order of calls is that of ``managers/scheduler.py``."""

    def __init__(self, real):
        self.real, self.slots = real, Slots(SLOTS)
        self.rows = torch.zeros((SHORTS + 1, SLOTS), dtype=torch.int64)
        self.cache = self.make_cache()
        self.policy = real.policy.SchedulePolicy("shortest-prefill-first", self.cache, False, False, False)
        self.running, self.waiting, self.chunked = [], [], None

    def make_cache(self):
        """Return a radix tree of full attention."""
        rows = SimpleNamespace(req_to_token=self.rows, write=self.rows.__setitem__)
        names = (self.real.parts.ComponentType["FULL"],)
        params = SimpleNamespace(
            page_size=1, is_eagle=False, enable_session_radix_cache=False, eviction_policy="lru", disable=False,
            eviction_policy_config=None, token_to_kv_pool_allocator=self.slots, req_to_token_pool=rows,
            enable_kv_cache_events=False, dynamo_kv_event_format=False, kv_event_lora_names=None,
            sliding_window_size=None, swa_retain_window=0, swa_gates_prefix_match=True,
            enable_mamba_extra_buffer=False,
        )  # fmt: skip
        cache = object.__new__(self.real.cache)
        vars(cache).update(
            req_to_token_pool=rows, token_to_kv_pool_allocator=self.slots, disable=False, linker=None, page_size=1,
            enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
            is_swa_enabled=False, is_mamba_enabled=False, host_memory_mode="cache", tree_components=names,
            enable_mamba_extra_buffer=False, enable_mamba_extra_buffer_lazy=False, claim_kv_row=lambda kv: False,
            decoder_swa_bounded_replay=False, update_eviction_metrics=lambda *args: None,
            session=SimpleNamespace(try_match_prefix=lambda p: None, try_checkpoint=lambda *a, **k: False,
                                    try_inc_lock_ref=lambda *a, **k: None, try_dec_lock_ref=lambda *a, **k: None),
        )  # fmt: skip
        cache.components = {names[0]: self.real.parts.FullComponent(cache, params)}
        cache._components_tuple = tuple(cache.components.values())
        cache.tree_core = self.real.core(params, cache.components)
        return cache

    def submit(self, number, tokens):
        row = self.real.request(
            rid=number, origin_input_text="", origin_input_ids=array("q", range(1000 * number, 1000 * number + tokens)),
            sampling_params=SimpleNamespace(max_new_tokens=ANSWER, ignore_eos=False, custom_params=None))  # fmt: skip
        row.time_stats = SimpleNamespace(wait_queue_entry_time=number)
        row.staged_prefetch_plan = row.dllm_config = None
        self.waiting.append(row)

    def turn(self):
        """Choose and allocate a prefill step; return what it does, and whether the allocation fails."""
        adder = self.choose()
        said, needed = [], sum(row.extend_len for row in adder.can_run_list)
        for row in adder.can_run_list:
            said.append(f"{'long' if not row.rid else f'short {row.rid}'}: {row.prefix_len} to {row.extend_end}")
        lacking = needed - self.slots.available_size() - self.cache.evictable_size()
        if lacking > 0:
            return f"{', '.join(said)}: {lacking} slots are missing", True
        for row in adder.can_run_list:
            self.evaluate(row)
        return f"{', '.join(said) or 'no prefill step'}: {self.slots.available_size()} slots are free", False

    def choose(self):
        self.policy.calc_priority(self.waiting)
        adder = self.real.policy.PrefillAdder(1, self.cache, self.slots, SimpleNamespace(reqs=self.running), RATIO,
                                              16384, CHUNK)  # fmt: skip
        adder._account_prefill_cache_admission = lambda *args: None          # statistics
        if self.chunked is not None:
            self.chunked.init_next_round_input()
            adder.chunked_req_limit = self.policy.shortest_prefill_chunk_limit(
                self.chunked, self.waiting, adder.rem_chunk_tokens, 1)
            self.chunked = adder.add_chunked_req(self.chunked)
        result = self.real.policy.AddReqResult
        for row in self.waiting:
            if adder.budget_state() == result.OTHER:
                break
            row.init_next_round_input(self.cache)
            if adder.add_one_req(row, self.chunked is not None, None) != result.CONTINUE:
                break
        self.chunked = adder.new_chunked_req or self.chunked
        self.waiting = [row for row in self.waiting if row not in adder.can_run_list]
        return adder

    def evaluate(self, row):
        """Allocate the slots of a chunk, and publish it."""
        row.kv.req_pool_idx = row.rid
        self.rows[row.rid, row.prefix_len : row.extend_end] = self.slots.alloc(row.extend_len)
        row.kv.kv_allocated_len = row.kv.kv_committed_len = row.extend_end
        if row is not self.chunked:
            row.output_ids.append(7)
            self.running.append(row)
        self.real.common.checkpoint_kv_cache(row, self.cache)


def show(real, when):
    """Evaluate a long prompt while short ones arrive; return whether the server runs out of slots."""
    server = Server(real)
    server.submit(0, LONG)
    print(f"{when}:")
    ends, number = False, 0
    while not ends and (not number or server.chunked is not None):
        number += 1
        said, ends = server.turn()
        print(f"  turn {number}: {said}")
        if number <= SHORTS:
            server.submit(number, SHORT)
    print(f"  {'Out of memory' if ends else 'the long prompt is evaluated'}; {len(server.waiting)} short prompts wait")
    return ends


LIMIT = "min(req.sampling_params.max_new_tokens, CLIP_MAX_NEW_TOKENS)"
CHANGED = {
    "add_chunked_req": (f"{LIMIT}\n            if not truncated\n            else 0\n",
                        f"{LIMIT} + cand_extend_input_len - new_len\n"),
    "_commit_prefill_admission": ("        admission.max_new_tokens,\n",
                                  f"        {LIMIT} + len(req.full_untruncated_fill_ids) - req.extend_end,\n"),
}  # fmt: skip
"""Method -> what it passes to _update_prefill_budget, before and after the change."""


def change(real):
    """Let each chunk of a prompt reserve what is left of the prompt, and its answer."""
    adder, made = real.policy.PrefillAdder, {}
    for name, (before, after) in CHANGED.items():
        text = textwrap.dedent(inspect.getsource(getattr(adder, name)))
        assert before in text
        exec(text.replace(before, after), vars(real.policy), made)
        setattr(adder, name, made[name])


if __name__ == "__main__":
    real = load(sys.argv[1])
    wrong = show(real, "unchanged")
    change(real)
    after = show(real, "with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
