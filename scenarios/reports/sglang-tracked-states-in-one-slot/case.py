#!/usr/bin/env python3
"""A step in flight overwrites the tracked state that an ended request hands over, under the overlap schedule.

    python3 case.py FOLDER

FOLDER: an unpacked wheel of sglang 0.5.23. Needs torch (CPU) and msgspec, no GPU and no model: it drives the released
ScheduleBatch, Req, SchedulerBatchResultProcessor and MambaComponent, first unchanged and then with the change. A
launched step notes in the slot that the batch names after how many tokens its state is. Other modules of the package
are replaced by empty ones. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without a
fault. The second case, with drafts, has no change.
"""

import importlib.abc
import importlib.machinery
import inspect
import sys
import textwrap
import types
from array import array
from enum import IntEnum
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

SRT = "sglang.srt"
REAL = {"sglang", SRT, *(f"{SRT}.{name}" for name in (
    "managers", "managers.schedule_batch", "managers.scheduler_components",
    "managers.scheduler_components.batch_result_processor", "mem_cache", "mem_cache.base_prefix_cache",
    "mem_cache.radix_cache", "mem_cache.evict_policy", "mem_cache.memory_pool", "mem_cache.hicache_storage",
    "speculative", "speculative.spec_utils"))}  # fmt: skip
SET = SimpleNamespace(interval=8)       # --mamba-track-interval


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
        states = SimpleNamespace(enable_mamba_extra_buffer=True, enable_mamba_extra_buffer_lazy=False)
        made.get_exec = lambda: SimpleNamespace(mamba=states)
        made.get_disagg = made.get_context = made.get_serving = made.get_memory = made.get_schedule = Off
        made.get_spec = made.get_parallel = Off
        made.mamba_track_grid = made.mamba_cache_chunk_size = lambda *args: SET.interval
        made.rank_consensus = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda f: f
        made.DynamicGradMode = made.scheduler_stage_method = lambda *args: lambda function: function
        made.get_bool_env_var = lambda *args: False
        made.async_h2d = lambda values, **more: torch.tensor(values)
        return made

    def exec_module(self, module):
        pass


class Mode(IntEnum):
    DECODE = 2


def load(folder):
    sys.path.append(folder)
    sys.meta_path.insert(0, Finder())
    torch.Tensor.pin_memory = lambda self: self
    torch.compile = lambda *args, **kwargs: lambda function: function
    from sglang.srt.managers import schedule_batch
    from sglang.srt.managers.scheduler_components import batch_result_processor as processor
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.mem_cache.unified_cache.components import MambaComponent
    from sglang.srt.speculative import spec_utils

    processor.SchedulerBatchResultProcessor._mamba_can_cache_finished_req = lambda self, *args: True
    schedule_batch.ForwardMode = Mode
    schedule_batch.alloc_for_decode = commit_one
    schedule_batch.strip_beam_tail = schedule_batch.append_beam_tail = lambda batch: None
    return SimpleNamespace(batch=schedule_batch.ScheduleBatch, request=schedule_batch.Req, spec=spec_utils,
                           module=processor, processor=processor.SchedulerBatchResultProcessor,
                           pool=memory_pool.HybridReqToTokenPool, states=MambaComponent)  # fmt: skip


def commit_one(batch, token_per_req):
    """Allocate the slot of a decode step: the request has one more computed token."""
    for req in batch.reqs:
        req.kv.kv_committed_len += 1


class Server:
    """A request that has evaluated its prompt, and the steps that it takes part in. ``slots``: slot -> the number of
    tokens that its state includes."""

    def __init__(self, real, prompt, tracked, drafts):
        self.real, self.drafts, self.slots = real, drafts, {11: tracked, 12: None}
        self.pool = object.__new__(real.pool)
        self.pool.mamba_ping_pong_track_buffer_size = 2
        self.pool.req_index_to_mamba_ping_pong_track_buffer_mapping = torch.tensor([[11, 12]])
        self.req = real.request(
            rid=0, origin_input_text="", origin_input_ids=array("q", range(prompt)), vocab_size=1000,
            sampling_params=SimpleNamespace(max_new_tokens=99, ignore_eos=False, custom_params=None))  # fmt: skip
        self.req.output_ids = array("q", [500])
        kv = self.req.kv
        kv.req_pool_idx, kv.kv_committed_len, kv.mamba_ping_pong_track_buffer = 0, prompt, torch.tensor([11, 12])
        kv.mamba_last_track_idx, kv.mamba_last_track_seqlen, kv.mamba_next_track_idx = 0, tracked, 1
        algorithm = SimpleNamespace(is_none=lambda: not drafts)
        self.batch = real.batch(reqs=[self.req], req_to_token_pool=self.pool, enable_overlap=True,
                                spec_algorithm=algorithm, tree_cache=SimpleNamespace(page_size=1))  # fmt: skip
        self.batch.req_pool_indices = torch.tensor([0])
        self.batch.seq_lens = self.batch.seq_lens_cpu = self.batch.orig_seq_lens = torch.tensor([prompt])
        self.batch.model_config = SimpleNamespace(is_encoder_decoder=False)
        self.batch.sampling_info = SimpleNamespace(penalizer_orchestrator=SimpleNamespace(is_required=False))
        self.batch.hisparse_coordinator, self.batch.device = None, "cpu"
        self.processor = object.__new__(real.processor)
        for name, value in (("tree_cache", self.batch.tree_cache), ("draft_worker", None)):
            object.__setattr__(self.processor, name, value)
        self.length = prompt                # tokens that the launched steps evaluate

    def launch(self):
        """Launch a step; return what its processing reads."""
        step, start = 1 + self.drafts, self.length
        self.length += step
        if self.drafts:
            self.req.decode_batch_idx += 1
            self.real.spec.prepare_mamba_track_for_verify(self.batch)
        else:
            self.batch.prepare_for_decode()
        tracked = self.length // SET.interval * SET.interval
        if tracked > start:
            slot = int(self.batch.mamba_track_indices[0])
            print(f"  a step up to {self.length} tokens puts the state after {tracked} into slot {slot}")
            self.slots[slot] = tracked
        return self.batch.copy()

    def process(self, launched, is_last):
        """Process the results of a step."""
        self.req.output_ids.extend([600] * (1 + self.drafts))
        if self.drafts:
            self.req.kv.kv_committed_len += 1 + self.drafts
        if is_last:
            self.req.finished_reason = SimpleNamespace()
        result = SimpleNamespace(num_correct_drafts_per_req_cpu=[self.drafts], num_non_draft_tokens_per_req=1,
                                 grammar_retained_tokens=None)  # fmt: skip
        try:
            self.processor._handle_finish_state_updated_req(self.req, launched, result, 0, None)
        except AttributeError as error:     # what follows the tracked states does not concern them
            if "mamba" in str(error):
                raise

    def handed_over(self):
        """Return after how many tokens the request's state is said to be, and after how many it is."""
        cache = SimpleNamespace(req_to_token_pool=self.pool)
        n = len(self.req.origin_input_ids) + len(self.req.output_ids) - 1
        length, place = self.real.states._select_finished_checkpoint(SimpleNamespace(cache=cache), self.req, n)
        slot = int(self.req.kv.mamba_ping_pong_track_buffer[place])
        print(f"  the request ends: the tree gets slot {slot} as the state after {length} tokens; "
              f"it holds the state after {self.slots[slot]}")  # fmt: skip
        return length, self.slots[slot]


def show(real, when, prompt, tracked, steps, drafts=0):
    """Run steps in the order of ``event_loop_overlap``: each is launched before the one before it is processed."""
    print(f"{when}:")
    server = Server(real, prompt, tracked, drafts)
    launched = server.launch()
    for number in range(1, steps + 1):
        following = server.launch()
        server.process(launched, is_last=number == steps)
        launched = following
    length, held = server.handed_over()
    return length != held


BEFORE = "                req.kv.mamba_last_track_seqlen = req.kv.kv_committed_len - lookahead\n"
AFTER = f"""{BEFORE}                if req.kv.mamba_next_track_idx == req.kv.mamba_last_track_idx:
                    req.kv.mamba_next_track_idx = batch.req_to_token_pool.get_mamba_ping_pong_other_idx(
                        req.kv.mamba_last_track_idx)
"""


def change(real):
    """Let a request take its other place if the state just tracked is in the place that is next."""
    name = "_handle_finish_state_updated_req"
    text, made = inspect.getsource(getattr(real.processor, name)), {}
    assert BEFORE in text
    changed = textwrap.dedent(text.replace(BEFORE, AFTER))
    exec(f"from __future__ import annotations\n{changed}", vars(real.module), made)
    setattr(real.processor, name, made[name])


if __name__ == "__main__":
    real = load(sys.argv[1])
    asked = {"prompt": 15, "tracked": 8, "steps": 8}
    wrong = show(real, "the first decode step tracks a state, unchanged", **asked)
    SET.interval = 4
    drafts = show(real, "drafts of 3 tokens, all accepted, unchanged", prompt=20, tracked=20, steps=1, drafts=3)
    SET.interval = 8
    change(real)
    after = show(real, "the first decode step tracks a state, with the change", **asked)
    sys.exit(1 if wrong and drafts and not after else 0 if not wrong and not drafts else 2)
