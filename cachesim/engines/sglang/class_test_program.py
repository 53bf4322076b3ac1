"""Program that drives the released classes of SGLang (0.5.20 to 0.5.23) on a CPU; ``class_test`` fills it in.

Source: SGLang 0.5.23 python/sglang/srt/managers/scheduler.py Scheduler, mem_cache/unified_radix_cache.py.
"""

PROGRAM = '''\
"""@TITLE@

Drives the scheduler, requests, batches, admission, tree and host memory of sglang on a CPU, without a model, and
compares the prompt tokens that each request reuses with those of @PROFILE@. The worker and the free
lists are stand-ins. The worker notes in each slot after which text its row or state is: the test also fails if a
request reads what another text left, if it is answered before the end of its prompt, or if the scheduler ends.

    python3 -m pytest @FILE@

SGLANG=FOLDER runs the classes of an unpacked wheel (0.5.20 to 0.5.23), otherwise those of the installed package. Needs
torch (for CPUs suffices), numpy and msgspec. Other modules of the package are replaced by empty ones.
"""

import importlib.abc
import importlib.machinery
import inspect
import os
import sys
import types
from array import array
from collections import deque
from enum import IntEnum
from math import lcm
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import MagicMock

import torch

OPTIONS = @OPTIONS@
PARTS = @PARTS@           # what a node of the tree can have
WINDOW = @WINDOW@           # tokens, 0 = no windows
REQUESTS = [               # prompt, answer, how it is sent, reused tokens
@REQUESTS@
]
MOST = 10_000              # turns of the loop until all requests are answered

SRT, TREE = "sglang.srt", "sglang.srt.mem_cache"
REAL = {"sglang", SRT, *(f"{SRT}.{name}" for name in (
    "environ", "managers", "managers.schedule_batch", "managers.schedule_policy", "managers.scheduler",
    "managers.scheduler_components", "managers.scheduler_components.batch_result_processor", "speculative",
    "speculative.eagle_utils", "speculative.spec_utils")), TREE, *(f"{TREE}.{name}" for name in (
        "allocation", "allocation_sizing", "base_prefix_cache", "cache_init_params", "common", "evict_policy", "events",
        "hicache_storage", "hybrid_cache", "hybrid_cache.hybrid_cache_controller",
        "hybrid_cache.hybrid_pool_assembler", "memory_pool", "pool_host", "pool_host.group", "prefill_budget",
        "radix_cache", "unified_radix_cache"))}
ABSENT = {"triton", "sglang", "psutil", "zmq", "setproctitle", "transformers", "requests", "PIL", "huggingface_hub",
          "pybase64", "orjson", "pydantic"}


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
            return lambda *args, **more: False
        kind = name[0].isupper() and not name.isupper()
        body = {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, n: lambda *a, **k: None}
        value = Names(name, (), body) if kind else MagicMock(name=name)
        setattr(self, name, value)
        return value


class Off:
    """Settings, all of them off but those given."""

    def __init__(self, **known):
        vars(self).update(known)

    def __getattr__(self, name):
        return Off()

    def __call__(self, *args, **more):
        return False

    def __bool__(self):
        return False


class Idle:
    """An object whose methods do nothing, but those given."""

    def __init__(self, **known):
        vars(self).update(known)

    def __getattr__(self, name):
        return lambda *args, **more: None


class Operation:
    """A transfer between the device and host memory."""

    def __init__(self, host_indices, device_indices, node_id, priority=None, pool_transfers=None):
        self.host_indices, self.device_indices, self.node_id = host_indices, device_indices, node_id
        self.pool_transfers = pool_transfers or ()


class Range(NamedTuple):
    """Positions that a step evaluates (before 0.5.22)."""

    start: int
    end: int
    length = property(lambda self: self.end - self.start)


class Mode(IntEnum):
    """Kind of a step."""

    EXTEND = 1
    DECODE = 2

    def is_extend(self):
        return self is Mode.EXTEND

    def is_decode(self):
        return self is Mode.DECODE


GRID = OPTIONS["state_grid"]
BUFFERED = OPTIONS["mamba_radix_cache_strategy"] != "no_buffer"
LAZY = OPTIONS["mamba_radix_cache_strategy"] == "extra_buffer_lazy"
OVERLAP = not OPTIONS["disable_overlap_schedule"]
STATES = Off(mamba_max_states_per_path=OPTIONS["mamba_max_states_per_path"], enable_mamba_extra_buffer=BUFFERED,
             enable_mamba_extra_buffer_lazy=LAZY)
SETTINGS = {
    "disagg": Off(), "context": Off(), "serving": Off(strip_thinking_cache=OPTIONS["strip_thinking_cache"]),
    "exec": Off(mamba=STATES), "memory": Off(radix_eviction_policy=OPTIONS["radix_eviction_policy"]),
    "parallel": Off(attn_dcp_size=1, pp_size=1, pp_max_micro_batch_size=OPTIONS["max_running_requests"]),
    "spec": Off(speculative_algorithm=None, speculative_num_steps=0, speculative_eagle_topk=1,
                speculative_num_draft_tokens=1),
    "schedule": Off(page_size=OPTIONS["page_size"], schedule_policy=OPTIONS["schedule_policy"],
                    prefill_max_requests=None, chunked_prefill_size=OPTIONS["chunked_prefill_size"]),
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each that the released classes import and do not need here."""

    def find_spec(self, name, path, target=None):
        real = name in REAL or name.startswith(f"{TREE}.unified_cache")
        if name.partition(".")[0] in ABSENT and not real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = Empty(spec.name)
        made.DynamicGradMode = made.scheduler_stage_method = lambda *args: lambda function: function
        made.rank_consensus = lambda *args, **more: args[0] if args and callable(args[0]) else lambda f: f
        for name, value in SETTINGS.items():
            setattr(made, f"get_{name}", lambda value=value: value)
        made.ceil_align = lambda n, page: -(-n // page) * page
        made.mamba_track_grid = lambda *args: lcm(GRID, OPTIONS["mamba_track_interval"])
        made.mamba_cache_chunk_size = made.mamba_checkpoint_grid = lambda *args: GRID
        made.max_speculative_num_draft_tokens = made.page_interleave_shard_size = lambda *args: 1
        made.get_bool_env_var = made.uses_shared_host_layout = lambda *args: False
        made.SpeculativeAlgorithm = SimpleNamespace(from_string=lambda name: Off())
        made.split_node_hash_value = lambda *args: (None, None)
        made.get_eviction_strategy = strategy
        made.CacheOperation, made.Range, made.SWATokenToKVPoolAllocator = Operation, Range, WindowRows
        return made

    def exec_module(self, module):
        pass


def strategy(policy, config=None):
    """Return the released order of evictions."""
    from sglang.srt.mem_cache import evict_policy

    name = {"priority": "Priority"}.get(policy, policy.upper())
    return getattr(evict_policy, f"{name}Strategy")()


class Slots:
    """Slots of states, or of host memory. Free pages are first in, first out."""

    device, layout, can_use_write_back_jit, shared_allocation_domain = "cpu", "page_first", False, None

    def __init__(self, size, page=1):
        self.page_size, self.size, self.logical_size = page, size, size
        self.pages = deque(range(1, size // page + 1))

    def available_size(self):
        return len(self.pages) * self.page_size

    schedulable_available_size = available_size

    def alloc(self, n):
        """Return ``n`` slots, None if fewer are free."""
        if n > self.available_size():
            return None
        pages = [self.pages.popleft() * self.page_size for _ in range(n // self.page_size)]
        return torch.tensor([page + at for page in pages for at in range(self.page_size)], dtype=torch.int64)

    def free(self, slots, start_pos=0):
        self.pages += [int(slot) // self.page_size for slot in slots[:: self.page_size]]

    free_segment = free

    def alloc_group_begin(self, n):
        pass

    def alloc_group_end(self):
        pass


class Rows:
    """Slots of rows of full attention."""

    device = "cpu"

    def __init__(self, size, page):
        self.page_size, self.size = page, size
        self.full_attn_allocator = Slots(size, page)

    def fresh_page(self):
        """Return the first slot of a free page."""
        return int(self.full_attn_allocator.alloc(self.page_size)[0])

    def next_slot(self, last):
        """Return the slot after ``last`` in its page."""
        return last + 1

    def alloc_extend(self, prefix_lens, starts, seq_lens, stops, last_loc, n):
        """Return the slots of the positions start .. stop - 1 of each request; None if pages are short."""
        page, spans = self.page_size, list(zip(starts.tolist(), stops.tolist()))
        if sum(-(-stop // page) - -(-start // page) for start, stop in spans) * page > self.available_size():
            return None
        made = []
        for (start, stop), last in zip(spans, last_loc.tolist()):
            for at in range(start, stop):
                last = self.next_slot(last) if at % page else self.fresh_page()
                made.append(last)
        return torch.tensor(made, dtype=torch.int64)

    def alloc(self, n):
        one = torch.tensor([n])
        return self.alloc_extend(None, one * 0, None, one, one * 0, n)

    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        return self.alloc_extend(None, seq_lens_cpu - 1, None, seq_lens_cpu, last_loc, len(seq_lens_cpu))

    def get_extend_allocation_demand(self, prefix_lens, seq_lens, *, conservative_num_tokens, shard_size):
        return conservative_num_tokens

    def available_size(self):
        return self.full_attn_allocator.available_size()

    full_available_size = available_size

    def evict_to_free_tokens(self, cache, n):
        if n > self.available_size():
            cache.evict_for_alloc(base_prefix_cache.EvictParams(num_tokens=n - self.available_size()))

    def check_decode_capacity(self, num_tokens, tree_cache, **more):
        self.evict_to_free_tokens(tree_cache, num_tokens)
        return self.available_size() >= num_tokens

    def create_prefill_budget(self, tree, **more):
        from sglang.srt.mem_cache import prefill_budget

        return prefill_budget.PrefillBudget(self, tree, **more)

    def request_slot_reserve(self, **more):
        return 0

    def free_group_begin(self):
        pass

    free_group_end = mamba_full_cache_donor = free_group_begin

    def free_full_segment(self, slots, start_pos=0):
        self.full_attn_allocator.free(slots)

    free_full = free_full_segment

    def free_full_segments(self, segments):
        for slots, start_pos in segments:
            self.free_full_segment(slots, start_pos)

    def free_segment(self, slots, start_pos=0):
        self.free_full_segment(slots)

    def free(self, slots, start_pos=0):
        self.free_segment(slots)

    def free_segments(self, segments):
        for slots, start_pos in segments:
            self.free_segment(slots, start_pos)


class WindowRows(Rows):
    """Slots of rows of a model with windows: each slot of full attention has a window slot. Releases before 0.5.21 ask
    for the kind of the rows, not for their budget."""

    def __init__(self, size, window_size, page):
        super().__init__(size, page)
        self.size_swa, self.swa_attn_allocator = window_size, Slots(window_size, page)
        self.full_to_swa_index_mapping = torch.zeros(size + page, dtype=torch.int64)

    def fresh_page(self):
        slot = super().fresh_page()
        self.full_to_swa_index_mapping[slot] = self.swa_attn_allocator.alloc(self.page_size)[0]
        return slot

    def next_slot(self, last):
        self.full_to_swa_index_mapping[last + 1] = self.full_to_swa_index_mapping[last] + 1
        return last + 1

    def swa_available_size(self):
        return self.swa_attn_allocator.available_size()

    def available_size(self):
        return min(self.full_available_size(), self.swa_available_size())

    def evict_to_free_tokens(self, cache, n):
        full, window = max(0, n - self.full_available_size()), max(0, n - self.swa_available_size())
        if full or window:
            cache.evict_for_alloc(base_prefix_cache.EvictParams(num_tokens=full, swa_num_tokens=window))

    def create_prefill_budget(self, tree, **more):
        from sglang.srt.mem_cache import prefill_budget

        return prefill_budget.SWAPrefillBudget(self, tree, **more)

    def free_swa_segment(self, slots, start_pos=0):
        held = self.full_to_swa_index_mapping[slots]
        self.swa_attn_allocator.pages += [int(one) // self.page_size for one in held[:: self.page_size] if one]
        self.full_to_swa_index_mapping[slots] = 0

    free_swa = free_swa_segment

    def free_segment(self, slots, start_pos=0):
        self.free_swa_segment(slots)
        self.free_full_segment(slots)

    def translate_loc_from_full_to_swa(self, slots):
        return self.full_to_swa_index_mapping[slots]

    translate_swa_indices_for_transfer = translate_loc_from_full_to_swa

    def clear_full_to_swa_mapping(self, slots):
        self.full_to_swa_index_mapping[slots] = 0

    def set_full_to_swa_mapping(self, slots, window):
        self.full_to_swa_index_mapping[slots] = window


sys.path[:0] = filter(None, [os.environ.get("SGLANG")])
os.environ["SGLANG_SWA_EVICTION_INTERVAL"] = str(OPTIONS["swa_eviction_interval"])
for place in ("CHECK", "DEPRIORITIZE"):
    os.environ[f"IN_BATCH_PREFIX_CACHING_{place}_THRESHOLD"] = str(OPTIONS["in_batch_threshold"])
torch.Tensor.pin_memory = lambda self: self
torch.tensor = lambda data, pin_memory=False, tensor=torch.tensor, **more: tensor(data, **more)
torch.compile = lambda *args, **more: lambda function: function
sys.meta_path.insert(0, Finder())
from sglang.srt.managers import schedule_batch, schedule_policy, scheduler  # noqa: E402
from sglang.srt.managers.scheduler_components import batch_result_processor  # noqa: E402
from sglang.srt.mem_cache import allocation, base_prefix_cache, memory_pool, unified_radix_cache  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import PoolName  # noqa: E402
from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller, hybrid_pool_assembler  # noqa: E402
from sglang.srt.mem_cache.pool_host import HostPoolGroup  # noqa: E402
from sglang.srt.mem_cache.unified_cache import components, unified_tree_core  # noqa: E402

schedule_batch.ForwardMode = Mode
NO_HIDDEN = type("NoHidden", (int,), {"need_capture": lambda self: False})()
schedule_batch.num_beam_member_rows = lambda rows: 0
schedule_batch.beam_retraction_order = lambda order, rows: order
schedule_batch.NewTokenRatioTracker = SimpleNamespace(estimate_new_token_ratio_after_retract=lambda rows: 0)
schedule_batch.get_batch_return_hidden_states_mode = lambda rows: NO_HIDDEN
batch_result_processor.get_server_return_hidden_states_mode = lambda: NO_HIDDEN
schedule_batch.CaptureHiddenMode = SimpleNamespace(NULL=NO_HIDDEN)
schedule_batch.SamplingBatchInfo = SimpleNamespace(from_schedule_batch=lambda batch, vocabulary: SimpleNamespace(
    penalizer_orchestrator=SimpleNamespace(is_required=False), filter_batch=lambda *args: None,
    merge_batch=lambda *args: None))
schedule_batch.async_h2d = memory_pool.async_h2d = lambda values, dtype=torch.int64, **more: (
    torch.tensor(values, dtype=dtype))
scheduler.PrefillStats = SimpleNamespace(from_adder=lambda *args, **more: None)
allocation.attention_backends = lambda: ("torch_native", "torch_native")
allocation.support_triton = lambda backend: False
allocation._device_type = lambda batch: "cuda"
unified_radix_cache.is_virtual_node = lambda node: False


class Worker:
    """What the device holds: slot -> the text up to its token, or up to the end of its state. A step of the worker
    fails if a request reads a slot of another text, or if its answer begins before the end of its prompt."""

    def __init__(self, server):
        self.server = server
        self.full, self.windows, self.states, self.lengths = {}, {}, {}, {}
        self.host = {name: {} for name in ("KV", "SWA", "MAMBA")}

    def run(self, batch):
        """Evaluate a batch; return the result as the processor reads it."""
        extend, said = batch.forward_mode.is_extend(), []
        if extend:
            self.start_states(batch)
        for k, row in enumerate(batch.reqs):
            prompt, answer, *_ = REQUESTS[row.number]
            start = prefix_of(row) if extend else self.lengths[row.number]
            stop = end_of(row) if extend else start + 1
            text = (*prompt, *answer, *[0] * 9)        # steps in flight go on behind the answer
            self.evaluate(row, text, start, stop)
            if row.kv.holds_mamba:
                self.move_state(batch, k, row, text, start, stop)
            self.lengths[row.number] = stop
            whole = len(prompt) + len(row.output_ids)
            assert not extend or row.inflight_middle_chunks or stop == whole, (
                f"request {row.number} is answered after {stop} of {whole} tokens")
            said.append(text[stop])
        return result_of(said)

    def evaluate(self, row, text, start, stop):
        """Read the rows of a request, and write those of a step."""
        slots = self.server.rows.req_to_token[row.kv.req_pool_idx, :stop].tolist()
        for at in range(start):
            self.check(row, at, self.full.get(slots[at]), text, "row")
        for at in range(start, stop):
            self.full[slots[at]] = text[: at + 1]
        if WINDOW:
            windows = self.server.slots.translate_loc_from_full_to_swa(torch.tensor(slots)).tolist()
            for at in range(max(0, start - WINDOW + 1), start):
                self.check(row, at, self.windows.get(windows[at]), text, "window row")
            for at in range(start, stop):
                self.windows[windows[at]] = text[: at + 1]

    def check(self, row, at, held, text, what):
        assert held == text[: at + 1], f"request {row.number} reads a {what} of another text at position {at}"

    def start_states(self, batch):
        """Give rows that start the states that the batch names."""
        for slot in () if batch.mamba_clear_indices is None else batch.mamba_clear_indices.tolist():
            self.states[slot] = ()
        if batch.mamba_cow_src_indices is not None:
            for have, want in zip(batch.mamba_cow_src_indices.tolist(), batch.mamba_cow_dst_indices.tolist()):
                self.states[want] = self.states.get(have)

    def move_state(self, batch, k, row, text, start, stop):
        """Read the running state of a request, and write it and the tracked one."""
        slot = int(row.kv.mamba_pool_idx)
        held = self.states.get(slot)
        assert held == text[:start], (
            f"request {row.number} continues after {start} tokens with the state after {len(held or ())}")
        self.states[slot] = text[:stop]
        if batch.forward_mode.is_extend():
            name = "mamba_prefill_track_mask_cpu"               # from 0.5.21 on
            mask = getattr(batch, name if name in vars(batch) else "mamba_track_mask")
            if mask is not None and len(mask) and bool(mask[k]):
                self.states[int(batch.mamba_track_indices[k])] = text[: row.kv.mamba_last_track_seqlen]
        elif batch.mamba_track_mask_cpu and batch.mamba_track_mask_cpu[k]:
            self.states[int(batch.mamba_track_indices[k])] = text[:stop]

    def copy_state(self, have, want):
        self.states[int(want[0])] = self.states[int(have[0])]

    def transfer(self, op, is_write):
        """Copy rows and states to host memory or back."""
        device = {"KV": self.full, "SWA": self.windows, "MAMBA": self.states}
        parts = [("KV", op.device_indices, op.host_indices)]
        parts += [(one.name.name, one.device_indices, one.host_indices) for one in op.pool_transfers]
        for name, here, there in parts:
            if here is None or there is None or name not in device:
                continue
            for one, other in zip(here.tolist(), there.tolist()):
                if is_write:
                    self.host[name][other] = device[name].get(one)
                else:
                    device[name][one] = self.host[name].get(other)


def prefix_of(row):
    """Return the first token that a prefill step evaluates of a request."""
    return row.prefix_len if "prefix_len" in vars(row) else len(row.prefix_indices)


def end_of(row):
    """Return the token behind the last one that a prefill step evaluates of a request."""
    return row.extend_range.end if "extend_range" in vars(row) else row.extend_end


def result_of(tokens):
    return SimpleNamespace(
        copy_done=None, auxiliary_host_output=None, routed_experts_output=None, indexer_topk_output=None,
        logits_output=SimpleNamespace(customized_info=None, hidden_states=None, sampling_mask_output=None),
        next_token_ids=torch.tensor(tokens), extend_input_len_per_req=None, extend_logprob_start_len_per_req=None,
        can_run_cuda_graph=False, grammar_advanced=False, grammar_retained_tokens=None,
        num_correct_drafts_per_req_cpu=None, num_non_draft_tokens_per_req=1, accept_lens=torch.ones(len(tokens)),
        speculative_output_stride=1, block_accept_lens=None, cap_lens=None, num_correct_drafts=0,
        num_block_accept_tokens=0, num_cap_tokens=0, get_num_generated_tokens=lambda n: 0)


class Scheduler(scheduler.Scheduler):
    """The released scheduler, with stand-ins for its worker and for what reaches it from outside."""

    gracefully_exit = property(lambda self: not self.turns)
    result_queue = property(lambda self: self.pending, lambda self, value: None)
    ipc_channels = property(lambda self: SimpleNamespace(send_to_tokenizer=Idle()))

    def ingest_requests(self):
        self.turns -= 1

    def run_batch(self, batch):
        return self.worker.run(batch)

    def process_batch_result(self, batch, result):
        process = self.batch_result_processor
        decode = batch.forward_mode.is_decode()
        (process.process_batch_result_decode if decode else process.process_batch_result_prefill)(batch, result)
        if "flush_pending_backups" in vars(type(self.tree_cache)):             # from 0.5.21 on
            self.tree_cache.flush_pending_backups()

    def _prefetch_kvcache(self, req):
        pass

    on_idle = _apply_war_barrier = lambda self: None
    _abort_on_queued_limit = lambda self, req: False
    send_abort_output = launch_batch_sample_if_needed = lambda self, *args: None


class Controller(hybrid_cache_controller.HybridCacheController):
    """The released controller of host memory, whose transfers need no time."""

    def start_writing(self):
        self.move(self.write_queue, self.ack_write_queue, is_write=True)

    def start_loading(self):
        self.move(self.load_queue, self.ack_load_queue, is_write=False)
        return -1

    def move(self, queue, acks, is_write):
        for op in queue:
            self.worker.transfer(op, is_write)
            acks.append(SimpleNamespace(
                node_ids=[op.node_id], finish_event=SimpleNamespace(synchronize=lambda: None), num_tokens_by_pool={},
                num_bytes=0, timing_enabled=False))
        queue.clear()


class Server:
    """The released classes around slots that this program follows."""

    def __init__(self):
        self.page = OPTIONS["page_size"]
        rows = OPTIONS["max_total_tokens"]
        self.slots = WindowRows(rows, OPTIONS["swa_tokens"], self.page) if WINDOW else Rows(rows, self.page)
        self.states = Slots(OPTIONS["max_mamba_cache_size"])
        self.worker = Worker(self)
        self.rows, self.requests = self.make_rows(), []
        self.cache = self.make_cache()
        if OPTIONS["enable_hierarchical_cache"]:
            self.attach_host_memory()
        self.scheduler = self.make_scheduler()

    def make_rows(self):
        most, states = OPTIONS["max_running_requests"], "MAMBA" in PARTS
        rows = object.__new__(memory_pool.HybridReqToTokenPool if states else memory_pool.ReqToTokenPool)
        tracked = 1 + OVERLAP
        first = (1 if LAZY else tracked) if BUFFERED else 0
        table = torch.zeros((most + 1, 2 * OPTIONS["max_total_tokens"]), dtype=torch.int32)
        vars(rows).update(
            size=most, device="cpu", req_to_token=table, free_slots=list(range(1, most + 1)),
            req_generation=torch.zeros(most + 1, dtype=torch.int64), _aux_cache=None, mamba_allocator=self.states,
            enable_mamba_extra_buffer=BUFFERED, enable_mamba_extra_buffer_lazy=LAZY,
            mamba_ping_pong_track_buffer_size=tracked, mamba_initial_tracking_slots=first, mamba_ckpt_pool=None,
            req_index_to_mamba_index_mapping=torch.zeros(most + 1, dtype=torch.int32),
            req_index_to_mamba_ping_pong_track_buffer_mapping=torch.zeros((most + 1, tracked), dtype=torch.int64),
            mamba_pool=SimpleNamespace(replayssm_write_pos=None, replayssm_spec_write_pos=None,
                                       copy_from=self.worker.copy_state))
        return rows

    def make_cache(self):
        names = tuple(components.ComponentType[name] for name in PARTS)
        kinds = {"FULL": components.FullComponent, "SWA": components.SWAComponent, "MAMBA": components.MambaComponent}
        params = SimpleNamespace(
            page_size=self.page, is_eagle=False, enable_session_radix_cache=False, disable=False,
            eviction_policy=OPTIONS["radix_eviction_policy"], eviction_policy_config=None,
            token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows, enable_kv_cache_events=False,
            dynamo_kv_event_format=False, kv_event_lora_names=None, sliding_window_size=WINDOW,
            swa_retain_window=WINDOW, swa_gates_prefix_match=True, enable_mamba_extra_buffer=BUFFERED)
        cache = object.__new__(unified_radix_cache.UnifiedRadixCache)
        vars(cache).update(
            req_to_token_pool=self.rows, token_to_kv_pool_allocator=self.slots, disable=False, linker=None,
            enable_session_radix_cache=False, buffer_pipeline=None, cache_controller=None, metrics_collector=None,
            is_swa_enabled="SWA" in PARTS, is_mamba_enabled="MAMBA" in PARTS, host_memory_mode="cache",
            decoder_swa_bounded_replay=False, pretty_print=lambda: None, _sliding_window_size=WINDOW or None,
            tree_components=names, enable_mamba_extra_buffer=BUFFERED, update_eviction_metrics=lambda *args: None,
            session=Off(**{f"try_{name}": lambda *args, **more: None for name in (
                "match_prefix", "inc_lock_ref", "dec_lock_ref")}))
        cache.components = {name: kinds[part](cache, params) for part, name in zip(PARTS, names)}
        cache._components_tuple = tuple(cache.components.values())
        cache.tree_core = unified_tree_core.UnifiedTreeCore(params, cache.components)
        return cache

    def attach_host_memory(self):
        """Give the tree host memory."""
        cache, ratio, policy = self.cache, OPTIONS["hicache_ratio"], OPTIONS["hicache_write_policy"]
        assembler, kinds = hybrid_pool_assembler, dict(zip(PARTS, cache.tree_components))
        sizes = {"FULL": self.slots.size, "MAMBA": self.states.size}
        more = {"FULL": {},
                "MAMBA": {"host_evict_fn": lambda n: cache.evict_host(n, kinds["MAMBA"]),
                          "device_evict_fn": lambda n: assembler._evict_mamba_for_device_alloc(cache, n),
                          "device_alloc_fn": self.states.alloc, "device_free_fn": self.states.free}}
        if WINDOW:
            sizes["SWA"] = self.slots.size_swa
            more["SWA"] = {"host_evict_fn": lambda n: cache.evict_host(n, kinds["SWA"]),
                           "device_evict_fn": lambda n: assembler._evict_swa_for_device_alloc(cache, n),
                           **assembler._swa_allocation_callbacks(self.slots.swa_attn_allocator)}
        last = "transfer_layer_id_max"
        if last not in inspect.signature(assembler.build_pool_entry).parameters:
            last = "transfer_layer_num"                         # before 0.5.21
        names, pools = {"FULL": "KV", "SWA": "SWA", "MAMBA": "MAMBA"}, {}
        for part in PARTS:
            page = 1 if part == "MAMBA" else self.page
            pools[part] = Slots((int(sizes[part] * ratio) // page + 1) * page, page)
            attribute = f"_{part.lower()}_{'' if part == 'MAMBA' else 'kv_'}pool_host"
            setattr(cache.components[kinds[part]], attribute, pools[part])
        group = HostPoolGroup([assembler.build_pool_entry(
            name=PoolName[names[part]], host_pool=pools[part], device_pool=None, layer_mapping={},
            is_anchor=part == "FULL", **{last: 1}, **more[part]) for part in PARTS])
        controller = object.__new__(Controller)
        vars(controller).update(
            worker=self.worker, mem_pool_host=group, mem_pool_device_allocator=self.slots, write_policy=policy,
            device="cpu", write_queue=[], load_queue=[], ack_write_queue=[], ack_load_queue=[],
            pp_prefetch_command_group=None)
        vars(cache).update(
            cache_controller=controller, host_pool_group=group, sidecar_pool_specs=(), ongoing_write_through={},
            ongoing_load_back={}, load_back_threshold=10, enable_storage=False, pp_rank=0,
            enable_storage_metrics=False, _drain_async_work=lambda: None, _sync_hicache_ready_counts=lambda: (
                len(controller.ack_write_queue), len(controller.ack_load_queue), (), ()))
        cache.tree_core.set_hicache_enabled()
        vars(cache.tree_core).update(
            has_swa_host_pool="SWA" in PARTS, write_through_threshold=2 - (policy == "write_through"),
            is_write_back=policy == "write_back", enable_session_radix_cache=False)

    def make_scheduler(self):
        """Return the released scheduler with its loop, around these pools."""
        one, chunk = object.__new__(Scheduler), OPTIONS["chunked_prefill_size"]
        ratio = type("Ratio", (), {"current": property(lambda self: OPTIONS["new_token_ratio"], lambda *args: None),
                                   "decay_step": lambda self: None})()
        schedule_policy.PrefillAdder._account_prefill_cache_admission = lambda *args: None         # statistics
        vars(one).update(dict.fromkeys((
            "_engine_paused", "enable_unified_memory", "require_mlp_sync", "enable_hicache_storage",
            "enable_unified_cache_external_linker", "enable_lmcache", "enable_hisparse", "enable_priority_preemption",
            "enable_priority_scheduling", "enable_lora", "is_mixed_chunk", "enable_fpm", "_sched_idled",
            "abort_on_priority_when_disabled", "enable_skip_finishing_decode"), False))
        vars(one).update(dict.fromkeys((
            "dllm_config", "hisparse_coordinator", "min_free_slots_delayer", "prefill_delayer", "dynamic_chunk_sizer",
            "truncation_align_size", "decode_offload_manager", "_pending_chunked_abort_req", "chunked_req",
            "last_batch", "mm_receiver"), None))
        vars(one).update(dict.fromkeys((
            "max_prefill_bs", "processed_tokens_counter", "priority_scheduling_preemption_threshold", "forward_ct",
            "_prefill_decode_interval_remaining", "prefill_decode_interval", "turns"), 0))
        no_drafts = {name: lambda: False for name in ("is_dflash_family", "is_uno", "supports_grammar_overlap")}
        vars(one).update(
            worker=self.worker, pending=deque(), tree_cache=self.cache, page_size=self.page, waiting_queue=[],
            token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows, enable_overlap=OVERLAP,
            policy=schedule_policy.SchedulePolicy(OPTIONS["schedule_policy"], self.cache, False, False, False),
            running_batch=schedule_batch.ScheduleBatch(reqs=[], batch_is_full=False), is_generation=True,
            spec_algorithm=SimpleNamespace(is_none=lambda: True, **no_drafts), is_hybrid_swa="SWA" in PARTS,
            chunked_prefill_size=chunk if chunk > 0 else None, max_prefill_tokens=OPTIONS["max_prefill_tokens"],
            max_running_requests=OPTIONS["max_running_requests"], new_token_ratio_tracker=ratio,
            disaggregation_mode=scheduler.DisaggregationMode.NULL, load_inquirer=Idle(), invariant_checker=Idle(),
            model_config=SimpleNamespace(
                vocab_size=1 << 30, is_encoder_decoder=False, self_opened_think_start_ids=None,
                hf_text_config=SimpleNamespace(mamba_chunk_size=GRID)),
            beam_coordinator=Idle(pending_member_rows=lambda batch: 0), output_streamer=Idle(),
            grammar_manager=Idle(has_waiting_grammars=lambda: False), tp_worker=Idle(
                model_runner=SimpleNamespace(attn_backend=None, prefill_aware_swa=False)),
            dp_attn_adapter=Idle(maybe_prepare_mlp_sync_batch=lambda batch, **more: batch,
                                 maybe_convert_decode_to_extend=lambda batch: batch),
            ngram_embedding_manager=Idle(prepare_for_forward=lambda batch, **more: batch),
            metrics_reporter=Idle(num_generated_tokens=0, forward_ct_decode=0, enable_metrics=False),
            enable_hierarchical_cache=OPTIONS["enable_hierarchical_cache"])
        process = object.__new__(batch_result_processor.SchedulerBatchResultProcessor)
        known = {name: vars(one)[name] for name in (
            "is_generation", "enable_overlap", "model_config", "token_to_kv_pool_allocator", "tree_cache",
            "req_to_token_pool", "metrics_reporter", "output_streamer", "beam_coordinator")}
        for name, value in {**known, "enable_overlap_mlx": False, "draft_worker": None, "decode_offload_manager": None,
                            "hisparse_coordinator": None, "model_worker": Idle(), "metrics_collector": Idle()}.items():
            object.__setattr__(process, name, value)
        one.batch_result_processor = process
        return one

    def submit(self, number, prompt, answer, salt):
        """Receive a request."""
        sampling = SimpleNamespace(max_new_tokens=len(answer), stop_token_ids=set(), stop_strs=[], stop_regex_strs=[],
                                   ignore_eos=False, custom_params=None)
        row = schedule_batch.Req(
            rid=str(number), origin_input_text="", origin_input_ids=array("q", prompt), extra_key=salt,
            sampling_params=sampling, vocab_size=1 << 30)
        row.time_stats, row.number = Idle(wait_queue_entry_time=0), number
        row.reasoning_tokens = int(OPTIONS["strip_thinking_cache"])          # tokens of its answer
        row.staged_prefetch_plan = row.dllm_config = None
        self.requests.append(row)
        self.scheduler.waiting_queue.append(row)

    def run(self, turns):
        """Run so many turns of the released loop, or until no request is left."""
        one = self.scheduler
        while turns and (one.waiting_queue or one.chunked_req or one.pending or one.last_batch
                         or one.running_batch.reqs):
            one.turns, turns = 1, turns - 1
            (one.event_loop_overlap if OVERLAP else one.event_loop_normal)()
            for row in self.requests:
                after = REQUESTS[row.number][2].get("cancel_after", MOST) - 1 - OVERLAP    # it ends later
                if len(row.output_ids) >= after and not row.finished():
                    one.abort_request(SimpleNamespace(
                        abort_all=False, rid=row.rid, finished_reason=None, abort_message=None))


def test_@NAME@():
    server = Server()
    for number, (prompt, answer, how, _) in enumerate(REQUESTS):
        server.run(how["after"] if "after" in how else MOST)
        server.submit(number, prompt, answer, how.get("cache_salt"))
    server.run(MOST)
    assert all(row.finished() for row in server.requests), "requests are not answered"
    assert [row.cached_tokens for row in server.requests] == [reused for *_, reused in REQUESTS]
'''
