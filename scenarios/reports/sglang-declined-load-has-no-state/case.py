#!/usr/bin/env python3
"""A request whose load from host memory is declined starts behind its prefix with an empty state (HiCache, write_back).

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
PrefillAdder, Req, ScheduleBatch, HybridReqToTokenPool, UnifiedRadixCache and HybridCacheController, first unchanged and
then with the change. Each step notes in the slot of a state after how many tokens it is; copies to and from host memory
need no time. Other modules of the package are replaced by empty ones. Exit status: 1 if the fault shows and the change
cures it, 2 if it does not, 0 without a fault.
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

SRT = "sglang.srt"
REAL = {"sglang", SRT, *(f"{SRT}.{name}" for name in (
    "managers", "managers.schedule_batch", "managers.schedule_policy", "mem_cache", "mem_cache.unified_radix_cache",
    "mem_cache.radix_cache", "mem_cache.base_prefix_cache", "mem_cache.evict_policy", "mem_cache.common",
    "mem_cache.prefill_budget", "mem_cache.cache_init_params", "mem_cache.memory_pool", "mem_cache.hicache_storage",
    "mem_cache.hybrid_cache", "mem_cache.hybrid_cache.hybrid_cache_controller",
    "mem_cache.hybrid_cache.hybrid_pool_assembler", "mem_cache.pool_host", "mem_cache.pool_host.group"))}  # fmt: skip
SLOTS, STATES, HOST_SLOTS = 128, 26, 257
STATE_SETTINGS = SimpleNamespace(mamba_max_states_per_path=-1, enable_mamba_extra_buffer_lazy=False,
                                 enable_mamba_extra_buffer=False)  # fmt: skip


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


class Operation:
    """A transfer between the device and host memory."""

    def __init__(self, host_indices, device_indices, node_id, priority=None, pool_transfers=None):
        self.node_id, self.pool_transfers = node_id, pool_transfers or ()


class Empty(types.ModuleType):
    """A module with any class or function."""

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
        if name.partition(".")[0] in ("triton", "sglang", "psutil") and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = Empty(spec.name)
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.get_eviction_strategy = lambda *args: SimpleNamespace(get_priority=lambda node: node.last_access_time)
        made.split_node_hash_value = lambda *args: (None, None)
        made.page_interleave_shard_size = made.mamba_cache_chunk_size = made.mamba_checkpoint_grid = lambda *args: 1
        made.get_bool_env_var = lambda *args: False
        made.get_disagg = made.get_context = made.get_serving = made.get_memory = made.get_parallel = Off
        made.get_exec = lambda: SimpleNamespace(mamba=STATE_SETTINGS, features=Off())
        made.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
        made.get_schedule = lambda: SimpleNamespace(page_size=1, schedule_policy="fcfs")
        made.async_h2d = lambda values, **more: torch.tensor(values)
        made.uses_shared_host_layout = lambda pool: False
        made.envs, made.CacheOperation = Unset(), Operation
        return made

    def exec_module(self, module):
        pass


class Slots:
    """Allocator of slots on the device or in host memory; ``slots`` are the free ones."""

    device, page_size, layout, can_use_write_back_jit, shared_allocation_domain = "cpu", 1, "page_first", False, None

    def __init__(self, size):
        self.size = self.logical_size = size
        self.slots = list(range(1, size + 1))

    def alloc(self, n):
        if n > len(self.slots):
            return None
        return torch.tensor([self.slots.pop(0) for _ in range(n)], dtype=torch.int64)

    def free(self, slots, start_pos=0):
        self.slots += slots.tolist()

    free_segment = free_full_segment = free

    def free_segments(self, segments):
        for slots, _ in segments:
            self.free(slots)

    def available_size(self):
        return len(self.slots)

    full_available_size = schedulable_available_size = available_size

    def request_slot_reserve(self, **kwargs):
        return 0

    def mamba_full_cache_donor(self):
        return None

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import PrefillBudget

        return PrefillBudget(self, tree, **kwargs)


def load(folder):
    sys.path.append(folder)
    sys.meta_path.insert(0, Finder())
    torch.Tensor.pin_memory = lambda self: self
    torch.compile = lambda *args, **kwargs: lambda function: function
    from sglang.srt.managers import schedule_batch, schedule_policy
    from sglang.srt.mem_cache import (
        base_prefix_cache,
        common,
        hicache_storage,
        memory_pool,
        pool_host,
        unified_radix_cache,
    )
    from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller, hybrid_pool_assembler
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    return SimpleNamespace(
        policy=schedule_policy, request=schedule_batch.Req, batch=schedule_batch.ScheduleBatch, common=common,
        params=base_prefix_cache, cache=unified_radix_cache.UnifiedRadixCache, tree=unified_radix_cache,
        parts=components, core=unified_tree_core.UnifiedTreeCore, rows=memory_pool.HybridReqToTokenPool,
        controller=hybrid_cache_controller.HybridCacheController, assembler=hybrid_pool_assembler,
        group=pool_host.HostPoolGroup, pools=hicache_storage.PoolName,
    )  # fmt: skip


def controller_class(released, moved):
    """Return the released controller. Its transfers end when they start; ``moved`` gets their direction and parts."""

    def end(op):
        return SimpleNamespace(node_ids=[op.node_id], finish_event=SimpleNamespace(synchronize=lambda: None),
                               num_tokens_by_pool={}, num_bytes=0, timing_enabled=False)  # fmt: skip

    class Controller(released):
        def start_writing(self):
            for op in self.write_queue:
                moved("write", op.pool_transfers)
                self.ack_write_queue.append(end(op))
            self.write_queue.clear()

        def start_loading(self):
            for op in self.load_queue:
                moved("load", op.pool_transfers)
                self.ack_load_queue.append(end(op))
            self.load_queue.clear()
            return -1

    return Controller


class Server:
    """The admission, the rows, the tree and host memory of a server; the order of calls is that of
    ``managers/scheduler.py``. ``held``: slot of a state -> the number of tokens that it includes."""

    def __init__(self, real):
        self.real, self.slots, self.states = real, Slots(SLOTS), Slots(STATES)
        self.held, self.held_in_host, self.number = {}, {}, 0
        self.rows = self.make_rows()
        self.cache = self.make_cache()
        self.attach_host_memory()

    def make_rows(self):
        rows = object.__new__(self.real.rows)
        pool = SimpleNamespace(replayssm_write_pos=None, replayssm_spec_write_pos=None, size=STATES,
                               copy_from=lambda have, want: self.held.update({int(want): self.held[int(have)]}))
        vars(rows).update(
            size=8, device="cpu", req_to_token=torch.zeros((9, SLOTS), dtype=torch.int64), free_slots=list(range(1, 9)),
            req_generation=torch.zeros(9, dtype=torch.int64), _aux_cache=None, mamba_allocator=self.states,
            mamba_pool=pool, mamba_ckpt_pool=None, enable_mamba_extra_buffer=False,
            enable_mamba_extra_buffer_lazy=False,
            req_index_to_mamba_index_mapping=torch.zeros(9, dtype=torch.int32),
        )  # fmt: skip
        return rows

    def make_cache(self):
        """Return a radix tree of full attention and states."""
        names = tuple(self.real.parts.ComponentType[name] for name in ("FULL", "MAMBA"))
        params = SimpleNamespace(
            page_size=1, is_eagle=False, enable_session_radix_cache=False, eviction_policy="lru", disable=False,
            eviction_policy_config=None, token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows,
            enable_kv_cache_events=False, dynamo_kv_event_format=False, kv_event_lora_names=None,
            sliding_window_size=None, swa_retain_window=0, swa_gates_prefix_match=True,
            enable_mamba_extra_buffer=False,
        )  # fmt: skip
        cache = object.__new__(self.real.cache)
        vars(cache).update(
            req_to_token_pool=self.rows, token_to_kv_pool_allocator=self.slots, disable=False, linker=None,
            enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
            is_swa_enabled=False, is_mamba_enabled=True, host_memory_mode="cache", tree_components=names,
            enable_mamba_extra_buffer=False, enable_mamba_extra_buffer_lazy=False, claim_kv_row=lambda kv: False,
            decoder_swa_bounded_replay=False, update_eviction_metrics=lambda *args: None,
            session=SimpleNamespace(try_match_prefix=lambda p: None, try_checkpoint=lambda *a, **k: False,
                                    try_inc_lock_ref=lambda *a, **k: None, try_dec_lock_ref=lambda *a, **k: None),
        )  # fmt: skip
        kinds = self.real.parts.FullComponent, self.real.parts.MambaComponent
        cache.components = {name: kind(cache, params) for name, kind in zip(names, kinds, strict=True)}
        cache._components_tuple = tuple(cache.components.values())
        cache.tree_core = self.real.core(params, cache.components)
        return cache

    def attach_host_memory(self):
        """Give the tree host memory with the write policy write_back."""
        real, cache = self.real, self.cache
        full, mamba = cache.tree_components
        pools = {"KV": Slots(HOST_SLOTS), "MAMBA": Slots(STATES)}
        more = {"host_evict_fn": lambda n: cache.evict_host(n, mamba), "device_alloc_fn": self.states.alloc,
                "device_evict_fn": lambda n: real.assembler._evict_mamba_for_device_alloc(cache, n),
                "device_free_fn": self.states.free}  # fmt: skip
        group = real.group([real.assembler.build_pool_entry(
            name=real.pools[name], host_pool=pool, device_pool=None, layer_mapping={}, transfer_layer_id_max=1,
            is_anchor=name == "KV", **(more if name == "MAMBA" else {})) for name, pool in pools.items()])  # fmt: skip
        controller = object.__new__(controller_class(real.controller, self.move_states))
        vars(controller).update(
            mem_pool_host=group, mem_pool_device_allocator=self.slots, write_policy="write_back", device="cpu",
            write_queue=[], load_queue=[], ack_write_queue=[], ack_load_queue=[], pp_prefetch_command_group=None)
        vars(cache).update(
            cache_controller=controller, host_pool_group=group, sidecar_pool_specs=(), ongoing_write_through={},
            ongoing_load_back={}, load_back_threshold=10, enable_storage=False, pp_rank=0, enable_storage_metrics=False,
            _drain_async_work=lambda: None, _sync_hicache_ready_counts=lambda: (
                len(controller.ack_write_queue), len(controller.ack_load_queue), (), ()))  # fmt: skip
        cache.components[full]._full_kv_pool_host = pools["KV"]
        cache.components[mamba]._mamba_pool_host = pools["MAMBA"]
        cache.tree_core.set_hicache_enabled()
        vars(cache.tree_core).update(has_swa_host_pool=False, write_through_threshold=2, is_write_back=True,
                                     enable_session_radix_cache=False)  # fmt: skip

    def move_states(self, direction, transfers):
        """Copy states to host memory or back."""
        for one in transfers:
            if one.name == self.real.pools.MAMBA:
                for device, host in zip(one.device_indices.tolist(), one.host_indices.tolist(), strict=True):
                    if direction == "write":
                        self.held_in_host[host] = self.held[device]
                    else:
                        self.held[device] = self.held_in_host[host]

    def make_request(self, tokens):
        row = self.real.request(
            rid=self.number, origin_input_text="", vocab_size=1 << 30, origin_input_ids=array("q", tokens),
            sampling_params=SimpleNamespace(max_new_tokens=2, ignore_eos=False, custom_params=None))  # fmt: skip
        row.time_stats = SimpleNamespace(wait_queue_entry_time=self.number)
        row.staged_prefetch_plan = row.dllm_config = None
        self.number += 1
        return row

    def serve(self, *prompts, answer=()):
        """Evaluate prompts in one step, each with an answer of two tokens, and end them. Return what they reuse: the
        number of tokens, the number of tokens that their state includes, and whether anything was loaded."""
        cache = self.cache
        cache.check_hicache_events()
        adder = self.real.policy.PrefillAdder(1, cache, self.slots, SimpleNamespace(reqs=[]), 0.7, 16384, 8192)
        adder._account_prefill_cache_admission = lambda *args: None          # statistics
        for row in [self.make_request(tokens) for tokens in prompts]:
            row.init_next_round_input(cache)
            adder.add_one_req(row, False, None)
        rows = adder.can_run_list
        assert len(rows) == len(prompts)
        cache.ready_to_load_host_cache()
        found = self.start(rows)
        for row in rows:
            self.evaluate(row, row.prefix_len, row.extend_end)
            row.output_ids.append(answer[0] if answer else 0)
            self.real.common.checkpoint_kv_cache(row, cache)
        for row in rows:
            row.refresh_fill_ids()
            self.evaluate(row, row.extend_end, row.extend_end + 1)
            row.output_ids.append(answer[1] if answer else 0)
            row.finished_reason = SimpleNamespace()
            self.real.common.release_kv_cache(row, cache, checkpoint=True)
        cache.flush_pending_backups()
        return found

    def start(self, rows):
        """Give the rows of a step their places and first states; return what they reuse."""
        for row in rows:
            row.reused = self.cache.path_device_indices(row.last_node) if row.prefix_len else None
        self.rows.alloc(rows)
        batch = SimpleNamespace()
        self.real.batch._collect_deferred_mamba_cow_and_clear(batch, rows)
        self.held.update({int(slot): 0 for slot in (() if batch.mamba_clear_indices is None
                                                    else batch.mamba_clear_indices)})  # fmt: skip
        if batch.mamba_cow_src_indices is not None:
            for have, want in zip(batch.mamba_cow_src_indices, batch.mamba_cow_dst_indices, strict=True):
                self.held[int(want)] = self.held[int(have)]
        for row in rows:
            if row.prefix_len:
                self.rows.req_to_token[row.kv.req_pool_idx, : row.prefix_len] = row.reused
        return [(row.prefix_len, self.held[int(row.kv.mamba_pool_idx)], row.host_loaded_length) for row in rows]

    def evaluate(self, row, start, stop):
        """Allocate slots; the state of the request is now behind them."""
        lacking = stop - start - self.slots.available_size()
        if lacking > 0:
            self.cache.evict_for_alloc(self.real.params.EvictParams(num_tokens=lacking))
        self.rows.req_to_token[row.kv.req_pool_idx, start:stop] = self.slots.alloc(stop - start)
        row.kv.kv_allocated_len = row.kv.kv_committed_len = stop
        self.held[int(row.kv.mamba_pool_idx)] = stop


def show(real, when):
    """Let two requests return to turns of a conversation in host memory; return whether one has a foreign state."""
    server, turns = Server(real), [list(range(100 * k, 100 * k + 20)) for k in range(4)]
    texts = [[]]
    for k in range(3):
        texts.append([*texts[-1], *turns[k]])
        server.serve(texts[-1], answer=(1000 + k, 2000 + k))
        texts[-1] += [1000 + k, 2000 + k]
    server.serve(list(range(5000, 5090)))
    found = server.serve([*texts[3], 7], [*texts[2], 8])
    print(f"{when}:")
    for name, (reused, state, loaded) in zip(("third", "second"), found, strict=True):
        print(f"  after the {name} turn: {loaded} tokens are loaded; the request starts behind {reused} tokens with "
              f"the state after {state}")  # fmt: skip
    return any(reused != state for reused, state, _ in found)


BEFORE = "        return 0, last_best_match_device_node_id\n"
AFTER = f"""        if self.is_mamba_enabled:
            at = last_best_match_device_node_id
            self.components[ComponentType.MAMBA].finalize_match_result_in_cache(
                MatchPrefixParams(key=None, cow_mamba=True, req=req), MatchResult(0, at, at, at))
{BEFORE}"""


def change(real):
    """Give a request whose load is declined the state at the end of the prefix that it has on the device."""
    text, made = inspect.getsource(real.cache.init_load_back), {}
    assert text.endswith(BEFORE)
    changed = textwrap.dedent(text[: -len(BEFORE)] + AFTER)
    exec(f"from __future__ import annotations\n{changed}", vars(real.tree), made)
    real.cache.init_load_back = made["init_load_back"]


if __name__ == "__main__":
    real = load(sys.argv[1])
    wrong = show(real, "unchanged")
    change(real)
    after = show(real, "with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
