#!/usr/bin/env python3
"""Of two prompts that a small window pool cuts in one step, the first one is answered after its beginning.

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
PrefillAdder, SWAPrefillBudget, Req, UnifiedRadixCache and SchedulerBatchResultProcessor, first unchanged and then with
the change. Each step notes in its slots which token they are of. Other modules of the package are replaced by empty
ones. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without a fault.
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
    "managers", "managers.schedule_batch", "managers.schedule_policy", "managers.scheduler_components",
    "managers.scheduler_components.batch_result_processor", "mem_cache", "mem_cache.unified_radix_cache",
    "mem_cache.radix_cache", "mem_cache.base_prefix_cache", "mem_cache.evict_policy", "mem_cache.common",
    "mem_cache.prefill_budget", "mem_cache.cache_init_params"))}  # fmt: skip
SLOTS, WINDOW_SLOTS, WINDOW, CHUNK = 200, 32, 8, 64      # the pools, the window, --chunked-prefill-size
PROMPTS, ANSWERS = (60, 40), (8, 1)                      # tokens


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


class Idle:
    """A part that does not concern the cache: its methods do nothing."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


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
        real = name in REAL or name.startswith(f"{SRT}.mem_cache.unified_cache")
        if name.partition(".")[0] in ("triton", "sglang") and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = Empty(spec.name)
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.DynamicGradMode = made.scheduler_stage_method = lambda *args: lambda function: function
        made.get_eviction_strategy = lambda *args: SimpleNamespace(get_priority=lambda node: node.last_access_time)
        made.split_node_hash_value = lambda *args: (None, None)
        made.page_interleave_shard_size = lambda allocator: 1
        made.get_bool_env_var = made.is_hip = made.is_swa_req_ring = lambda *args: False
        made.get_disagg = made.get_context = made.get_serving = made.get_exec = made.get_memory = Off
        made.get_parallel = made.get_observability = Off
        made.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)
        made.get_schedule = lambda: SimpleNamespace(page_size=1, schedule_policy="fcfs")
        made.ceil_align = lambda n, page: -(-n // page) * page
        made.envs, made.SWATokenToKVPoolAllocator = Unset(), Slots
        return made

    def exec_module(self, module):
        pass


class Slots:
    """Allocator of K/V slots, each with a window slot. ``full``, ``windows``: the free ones."""

    device, page_size, size_swa = "cpu", 1, WINDOW_SLOTS

    def __init__(self):
        self.full, self.windows, self.peer = list(range(1, SLOTS + 1)), list(range(1, WINDOW_SLOTS + 1)), {}
        self.full_attn_allocator = SimpleNamespace(free_segment=self.free_full_segment)

    def alloc(self, n):
        made = [self.full.pop(0) for _ in range(n)]
        self.peer.update({slot: self.windows.pop(0) for slot in made})
        return torch.tensor(made, dtype=torch.int64)

    def full_available_size(self):
        return len(self.full)

    def swa_available_size(self):
        return len(self.windows)

    def available_size(self):
        return min(len(self.full), len(self.windows))

    def request_slot_reserve(self, **kwargs):
        return 0

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import SWAPrefillBudget

        return SWAPrefillBudget(self, tree, **kwargs)

    def free_swa_segment(self, slots, start_pos=0):
        self.windows += [self.peer.pop(slot) for slot in slots.tolist() if slot in self.peer]

    def translate_swa_indices_for_transfer(self, slots):
        return torch.tensor([self.peer.get(slot, 0) for slot in slots.tolist()], dtype=torch.int64)

    def free_full_segment(self, slots, start_pos=0):
        self.full += slots.tolist()

    def free_segment(self, slots, start_pos=0):
        self.free_swa_segment(slots)
        self.free_full_segment(slots)

    def free_segments(self, segments):
        for slots, start_pos in segments:
            self.free_segment(slots, start_pos)

    def free_group_begin(self):
        pass

    free_group_end = mamba_full_cache_donor = free_group_begin


def load(folder):
    sys.path.append(folder)
    sys.meta_path.insert(0, Finder())
    from sglang.srt.managers import schedule_batch, schedule_policy
    from sglang.srt.managers.scheduler_components import batch_result_processor as processor
    from sglang.srt.mem_cache import base_prefix_cache, common, radix_cache, unified_radix_cache
    from sglang.srt.mem_cache.unified_cache import components, unified_tree_core

    unified_radix_cache.is_virtual_node = lambda node: False
    processor.SchedulerBatchResultProcessor._get_prefill_hidden_capture_mode = lambda self, batch: None
    return SimpleNamespace(
        policy=schedule_policy, request=schedule_batch.Req, common=common, params=base_prefix_cache,
        key=radix_cache.RadixKey, cache=unified_radix_cache.UnifiedRadixCache, parts=components,
        core=unified_tree_core.UnifiedTreeCore, processor=processor.SchedulerBatchResultProcessor,
    )  # fmt: skip


class Server:
    """The admission, the tree and the processing of results of a server; the order of calls is that of
    ``managers/scheduler.py``. ``written``: slot -> the token that a step evaluated there."""

    def __init__(self, real):
        self.real, self.slots, self.written = real, Slots(), {}
        self.table = torch.zeros((len(PROMPTS), SLOTS), dtype=torch.int64)
        self.rows = SimpleNamespace(req_to_token=self.table, write=self.table.__setitem__, free=lambda req: None)
        self.cache = self.make_cache()
        self.processor = object.__new__(real.processor)
        for name, value in {
            "is_generation": True, "enable_overlap": False, "token_to_kv_pool_allocator": self.slots,
            "tree_cache": self.cache, "req_to_token_pool": self.rows, "enable_overlap_mlx": False,
            "draft_worker": None, "decode_offload_manager": None, "hisparse_coordinator": None,
            "model_config": SimpleNamespace(vocab_size=1 << 30, self_opened_think_start_ids=None),
            "metrics_reporter": Idle(),
            "output_streamer": Idle(), "beam_coordinator": Idle(), "model_worker": Idle(), "metrics_collector": Idle(),
        }.items():  # fmt: skip
            object.__setattr__(self.processor, name, value)
        self.chunked, self.running = None, []
        self.waiting = [self.make_request(number) for number in range(len(PROMPTS))]

    def make_cache(self):
        """Return a radix tree of full attention and windows."""
        names = tuple(self.real.parts.ComponentType[name] for name in ("FULL", "SWA"))
        params = SimpleNamespace(
            page_size=1, is_eagle=False, enable_session_radix_cache=False, eviction_policy="lru", disable=False,
            eviction_policy_config=None, token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows,
            enable_kv_cache_events=False, dynamo_kv_event_format=False, kv_event_lora_names=None,
            sliding_window_size=WINDOW, swa_retain_window=WINDOW, swa_gates_prefix_match=True,
            enable_mamba_extra_buffer=False,
        )  # fmt: skip
        cache = object.__new__(self.real.cache)
        vars(cache).update(
            req_to_token_pool=self.rows, token_to_kv_pool_allocator=self.slots, disable=False, linker=None,
            enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
            is_swa_enabled=True, is_mamba_enabled=False, host_memory_mode="cache", tree_components=names,
            enable_mamba_extra_buffer=False, enable_mamba_extra_buffer_lazy=False, claim_kv_row=lambda kv: False,
            decoder_swa_bounded_replay=False, _sliding_window_size=WINDOW, update_eviction_metrics=lambda *args: None,
            session=SimpleNamespace(try_match_prefix=lambda p: None, try_checkpoint=lambda *a, **k: False,
                                    try_inc_lock_ref=lambda *a, **k: None, try_dec_lock_ref=lambda *a, **k: None),
        )  # fmt: skip
        kinds = self.real.parts.FullComponent, self.real.parts.SWAComponent
        cache.components = {name: kind(cache, params) for name, kind in zip(names, kinds, strict=True)}
        cache._components_tuple = tuple(cache.components.values())
        cache.tree_core = self.real.core(params, cache.components)
        return cache

    def make_request(self, number):
        row = self.real.request(
            rid=number, origin_input_text="", vocab_size=1 << 30,
            origin_input_ids=array("q", range(1000 * number, 1000 * number + PROMPTS[number])),
            sampling_params=SimpleNamespace(max_new_tokens=ANSWERS[number], ignore_eos=True, custom_params=None,
                                            stop_token_ids=(), stop_strs=(), stop_regex_strs=()))  # fmt: skip
        row.time_stats, row.staged_prefetch_plan, row.dllm_config = Idle(), None, None
        return row

    def prefill(self):
        """Run a prefill step; return what it evaluates, by request: first token, end, and whether it was sampled."""
        adder = self.choose()
        for row in adder.can_run_list:
            row.kv.req_pool_idx = row.rid
            self.evaluate(row, row.prefix_len, row.extend_end)
        said = {row.rid: (row.prefix_len, row.extend_end) for row in adder.can_run_list}
        had = {row.rid: len(row.output_ids) for row in adder.can_run_list}
        self.process(adder.can_run_list)
        self.running += [row for row in adder.can_run_list if row is not self.chunked and not row.finished()]
        if self.chunked is not None:
            self.real.common.checkpoint_kv_cache(self.chunked, self.cache)
        return {row.rid: (*said[row.rid], len(row.output_ids) > had[row.rid]) for row in adder.can_run_list}

    def choose(self):
        """Return what the released admission puts into a step."""
        adder = self.real.policy.PrefillAdder(1, self.cache, self.slots, SimpleNamespace(reqs=self.running), 0.7, 16384,
                                              CHUNK)  # fmt: skip
        adder._account_prefill_cache_admission = lambda *args: None          # statistics
        if self.chunked is not None:
            self.chunked.init_next_round_input()
            self.cache.evict_sliding_windows(self.chunked, self.chunked.prefix_len)
            self.chunked = adder.add_chunked_req(self.chunked)
        result = self.real.policy.AddReqResult
        for row in self.waiting:
            if adder.budget_state() == result.OTHER:
                break
            row.init_next_round_input(self.cache)
            if adder.add_one_req(row, self.chunked is not None, None) != result.CONTINUE:
                break
        self.waiting = [row for row in self.waiting if row not in adder.can_run_list]
        self.chunked = adder.new_chunked_req or self.chunked
        if self.chunked is not None:
            self.chunked.inflight_middle_chunks += 1
        return adder

    def evaluate(self, row, start, stop):
        """Allocate slots, and note their tokens."""
        made = self.take(stop - start)
        self.table[row.rid, start:stop] = made
        text = [*row.origin_input_ids, *row.output_ids]
        self.written.update(zip(made.tolist(), text[start:stop], strict=True))
        row.kv.kv_allocated_len = row.kv.kv_committed_len = stop

    def take(self, n):
        """Return slots; the tree evicts windows for them."""
        lacking = n - self.slots.swa_available_size()
        if lacking > 0:
            self.cache.evict_for_alloc(self.real.params.EvictParams(num_tokens=0, swa_num_tokens=lacking))
        return self.slots.alloc(n)

    def process(self, rows):
        """Let the released class process the results of a prefill step."""
        batch = SimpleNamespace(
            reqs=rows, return_logprob=False, return_hidden_states=False, prefill_stats=None, decoding_reqs=(),
            forward_iter=0, spec_algorithm=SimpleNamespace(is_none=lambda: True))  # fmt: skip
        result = SimpleNamespace(
            copy_done=None, auxiliary_host_output=None, routed_experts_output=None, indexer_topk_output=None,
            logits_output=SimpleNamespace(customized_info=None, hidden_states=None, sampling_mask_output=None),
            next_token_ids=torch.tensor([900 + row.rid for row in rows]), extend_input_len_per_req=None,
            extend_logprob_start_len_per_req=None, can_run_cuda_graph=False, grammar_advanced=False)  # fmt: skip
        self.processor.process_batch_result_prefill(batch, result)

    def decode(self, row):
        """Generate the rest of an answer, and give the request's slots to the tree."""
        while len(row.output_ids) < ANSWERS[row.rid]:
            at = row.kv.kv_committed_len
            self.cache.evict_sliding_windows(row, at)
            made = self.take(1)
            self.table[row.rid, at] = made[0]
            self.written[int(made[0])] = row.output_ids[-1]
            row.kv.kv_allocated_len = row.kv.kv_committed_len = at + 1
            row.output_ids.append(910 + len(row.output_ids))
        row.finished_reason = SimpleNamespace()
        self.real.common.release_kv_cache(row, self.cache, checkpoint=True)

    def mistaken(self, number):
        """Return the number of tokens that a repeated prompt finds in the tree, and those whose slot holds another."""
        tokens = array("q", range(1000 * number, 1000 * number + PROMPTS[number]))
        key = self.real.key(tokens, None)
        found = self.cache.match_prefix(self.real.params.MatchPrefixParams(key=key))
        slots = self.cache.path_device_indices(found.last_device_node).tolist()
        pairs = zip(slots, tokens, strict=False)
        return len(slots), sum(self.written[slot] != token for slot, token in pairs)


def show(real, when):
    """Send two prompts at once; return whether one is answered after its beginning."""
    print(f"{when}:")
    server, wrong, number = Server(real), False, 0
    while server.waiting or server.chunked is not None:
        number += 1
        step = server.prefill()
        told = [f"prompt {rid}: {start} to {stop}{', a token is sampled' if sampled else ''}"
                for rid, (start, stop, sampled) in step.items()]  # fmt: skip
        print(f"  step {number}: {'; '.join(told)}")
        while server.running:
            server.decode(server.running.pop())
        for rid, (_, stop, sampled) in step.items():
            if sampled:
                n, other = server.mistaken(rid)
                print(f"    prompt {rid} was answered after {stop} of its {PROMPTS[rid]} tokens; repeated, it finds "
                      f"{n} tokens in the tree, {other} of them in slots of other tokens")  # fmt: skip
                wrong = wrong or stop < PROMPTS[rid]
    return wrong


BEFORE = """                has_chunked_req
                and get_schedule().schedule_policy == "shortest-prefill-first"
"""
AFTER = """                has_chunked_req
                or self.new_chunked_req is not None
"""


def change(real):
    """Let a prompt that would be cut wait for another one that is cut."""
    adder, made = real.policy.PrefillAdder, {}
    text = inspect.getsource(adder._select_prefill_admission)
    assert BEFORE in text
    changed = textwrap.dedent(text.replace(BEFORE, AFTER))
    exec(f"from __future__ import annotations\n{changed}", vars(real.policy), made)
    adder._select_prefill_admission = made["_select_prefill_admission"]


if __name__ == "__main__":
    real = load(sys.argv[1])
    wrong = show(real, "unchanged")
    change(real)
    after = show(real, "with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
