#!/usr/bin/env python3
"""CPU offload stores the blocks of a window at wrong places, and a later prompt loads them.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released scheduler with its offloading connector, and the worker's
released SingleDirectionOffloadingHandler, whose stream is replaced by none and whose copies by memmove. It prints their
transfers and the bytes that the second request gets, first unchanged and then with the change. Exit status: 1 if the
fault shows and the change cures it, 2 if not, 0 without a fault.
"""

import ctypes
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import OffloadingConnectorScheduler
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.kv_offload.cpu import gpu_worker
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request

SIZE, CHUNK, WINDOW, STEP, RETENTION, BLOCKS, PLACES = 2, 6, 2, 5, 12, 8, 8
"""Tokens of a block, blocks of a chunk, window, tokens of a step, tokens between places where a prompt can resume,
blocks of the pool (one of them is the null block), chunks of CPU memory."""
SHORT, FIRST, SECOND = [100, 101, 5], [*range(100, 116)], [*range(100, 112), 7]
ABSENT = ("lora_config", "kv_events_config", "ec_transfer_config", "speculative_config")


class Settings:
    """What the scheduler reads of `VllmConfig`: each part is this object, and unknown options are off."""

    def __init__(self, **known):
        vars(self).update(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1, pipeline_parallel_size=1,
            prefill_context_parallel_size=1, max_concurrent_batches=1, prefill_schedule_interval=1, watermark=0.0,
            max_num_seqs=4, max_num_batched_tokens=STEP, max_in_flight_tokens=STEP, max_model_len=32, policy="fcfs",
            long_prefill_token_threshold=0, enable_chunked_prefill=True, scheduler_reserve_full_isl=False,
            enable_prefix_caching=True, mamba_cache_mode="align", num_gpu_blocks=BLOCKS, num_speculative_tokens=0,
            num_lookahead_tokens=0, num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0, rank=0, world_size=1,
            tensor_parallel_size=1, nnodes_within_dp=1, distributed_executor_backend="uni", model="m",
            dtype="float32", get_total_num_kv_heads=lambda: 1, cache_dtype="auto", block_size=SIZE,
            prefix_cache_retention_interval=RETENTION, get_encoder_cache_manager_obj=lambda: None,
            disable_hybrid_kv_cache_manager=False,
        )  # fmt: skip
        page = 8 * SIZE * CHUNK
        page += -page % CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT
        vars(self).update(kv_transfer_config=SimpleNamespace(
            kv_connector="OffloadingConnector", kv_connector_module_path=None, engine_id="one", is_kv_consumer=True,
            is_kv_producer=True, kv_load_failure_policy="recompute", kv_connector_extra_config={
                "cpu_bytes_to_use": PLACES * page, "blocks_per_chunk": CHUNK, "eviction_policy": "lru",
                "store_threshold": 0, "offload_prompt_only": False}))  # fmt: skip
        vars(self).update(known)

    def __getattr__(self, name):
        return self if name.endswith("_config") and name not in ABSENT else None


def serve():
    """Return the real scheduler of a model with one window, and a function that adds a request."""
    register_all_kvcache_specs(None)
    kv_cache_utils.init_none_hash(sha256)
    settings = Settings()
    spec = SlidingWindowSpec(block_size=SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=WINDOW)
    cache = KVCacheConfig(BLOCKS, [], [KVCacheGroupSpec(["0"], spec)], prefix_cache_retention_interval=RETENTION)
    accept = SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, ids: ids)
    scheduler = Scheduler(settings, cache, accept, block_size=SIZE, hash_block_size=SIZE)
    hasher = kv_cache_utils.get_request_block_hasher(SIZE, sha256)

    def send(name, prompt):
        sampling = SamplingParams(max_tokens=1)
        scheduler.add_request(Request(name, list(prompt), sampling, None, arrival_time=0.0, block_hasher=hasher))

    return scheduler, send


class Worker:
    """The two directions of the worker, on memory of one byte for each block. ``pool``: a number of each block's
    content; ``memory``: the same in CPU memory, a chunk in each row."""

    def __init__(self):
        self.pool = torch.zeros((BLOCKS, 1), dtype=torch.int8)
        self.memory = torch.full((PLACES, CHUNK), -1, dtype=torch.int8)
        gpu_worker.current_platform, gpu_worker.PIN_MEMORY = MagicMock(is_xpu=lambda: False), False

    def move(self, job, is_store):
        """Run a transfer."""
        handler = object.__new__(gpu_worker.SingleDirectionOffloadingHandler)
        both = [self.pool], [self.memory]
        handler.src_tensors, handler.dst_tensors = both if is_store else both[::-1]
        handler.src_blocks_per_chunk, handler.dst_blocks_per_chunk = (1, CHUNK) if is_store else (CHUNK, 1)
        handler.layer_refs_per_group = [[gpu_worker.CanonicalKVCacheRef(tensor_idx=0, page_size_bytes=1)]]
        handler.gpu_to_cpu, handler._canonical_copy_plans, handler._transfers = is_store, None, []
        handler._buffer_pool, handler._transfer_events, handler._stream_pool = [], {}, [MagicMock()]
        handler._event_pool, handler._swap_blocks_batch = [MagicMock(), MagicMock()], copy_now
        handler._fill_group_ops = handler._fill_direct_ops
        handler.transfer_async(0, job.src_spec, job.dst_spec)


def copy_now(sources, targets, sizes, **_):
    """Copy as the kernel does."""
    for source, target, size in zip(sources.tolist(), targets.tolist(), sizes.tolist(), strict=True):
        ctypes.memmove(target, source, size)


def run(scheduler, worker, name, fresh):
    """Run steps until a request is answered. A step writes block n of the text as the number ``fresh`` + n. Return what
    the blocks of the prompt hold where the step that ends the prompt reads them: {block of the text: content}."""
    read = {}
    for _ in range(30):
        output = scheduler.schedule()
        meta = output.kv_connector_metadata
        for job in meta.load_jobs.values():
            worker.move(job, is_store=False)
        for one, count in output.num_scheduled_tokens.items():
            request = scheduler.requests[one]
            table = scheduler.kv_cache_manager.get_block_ids(one)[0]
            start = request.num_computed_tokens - count
            window = range(max(0, start - WINDOW + 1) // SIZE, -(-start // SIZE))
            read |= {at: int(worker.pool[table[at], 0]) for at in window if start % SIZE == 0}
            for at in range(start // SIZE, -(-(start + count) // SIZE)):
                worker.pool[table[at], 0] = fresh + at
        for job in meta.store_jobs.values():
            spec = job.src_spec
            blocks, first = spec.block_ids.tolist(), spec.block_indices[0]
            print(f"  {name}: stores pool blocks {blocks}, from block {first} of the text")
            worker.move(job, is_store=True)
        names = list(output.num_scheduled_tokens)
        said = [[] if scheduler.requests[one].is_prefill_chunk else [0] for one in names]
        jobs = {*meta.load_jobs, *meta.store_jobs}
        loaded = {job.req_id for job in meta.load_jobs.values()}
        report = KVConnectorOutput(finished_recving=loaded,
                                   kv_connector_worker_meta=OffloadingWorkerMetadata(dict.fromkeys(jobs, 1)))
        scheduler.update_from_output(output, ModelRunnerOutput(
            names, {one: i for i, one in enumerate(names)}, said, kv_connector_output=report))
        if name not in scheduler.requests and not jobs:
            return read
    raise SystemExit(f"{name} is not answered")


def show(when):
    """Store a prompt, forget the pool, and load it again; return whether a step reads another content."""
    print(f"{when}:")
    scheduler, send = serve()
    worker = Worker()
    send("short", SHORT)
    run(scheduler, worker, "short", fresh=1)
    send("first", FIRST)
    run(scheduler, worker, "first", fresh=1)
    row = worker.memory[0].tolist()
    print(f"  CPU memory: at the places of blocks {[at for at, n in enumerate(row) if n > 0]} of the text are "
          f"blocks {[n - 1 for n in row if n > 0]}")  # fmt: skip
    assert scheduler.reset_prefix_cache()
    worker.pool.fill_(0)
    send("second", SECOND)
    read = run(scheduler, worker, "second", fresh=51)
    wrong = {at: content for at, content in read.items() if content not in (1 + at, 51 + at)}
    for at, content in read.items():
        held = "nothing that was written" if content < 0 else f"block {(content - 1) % 50}"
        print(f"  second: reads block {at} of the text; it holds {held}")
    return bool(wrong)


def change():
    """Store no chunk that lacks a block: its last one counts as missing, too."""
    update = OffloadingConnectorScheduler._update_req_states

    def without_gaps(connector, output):
        update(connector, output)
        for status in connector._req_status.values():
            for group in status.group_states:
                for start in range(0, len(group.block_ids) - CHUNK + 1, CHUNK):
                    if 0 in group.block_ids[start : start + CHUNK]:
                        group.block_ids[start + CHUNK - 1] = 0

    OffloadingConnectorScheduler._update_req_states = without_gaps


if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 2 if wrong else 0)
