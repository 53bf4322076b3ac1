#!/usr/bin/env python3
"""A request loads 24 tokens from CPU memory, and with them the Mamba state after 32.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released AsyncScheduler with its offloading connector, and notes
for each block of states after how many tokens its state is. It prints what the second request starts from, first
unchanged and then with the change. Exit status: 1 if the fault shows and the change cures it, 2 if not, 0 without a
fault.
"""

import sys
from collections import deque
from types import SimpleNamespace

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import OffloadingConnectorScheduler
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request

ROWS, STATES, STEP, RETENTION, BLOCKS, PLACES = 8, 16, 16, 32, 16, 6
"""Tokens of a block of rows and of states, tokens of a step, tokens between places where a prompt can resume, blocks of
the pool (one of them is the null block), blocks of CPU memory."""
FIRST, SECOND = [*range(100, 189)], [*range(100, 139)]
ABSENT = ("lora_config", "kv_events_config", "ec_transfer_config", "speculative_config")


class Settings:
    """What the scheduler reads of `VllmConfig`: each part is this object, and unknown options are off."""

    def __init__(self):
        vars(self).update(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1, pipeline_parallel_size=1,
            prefill_context_parallel_size=1, max_concurrent_batches=2, prefill_schedule_interval=1, watermark=0.0,
            max_num_seqs=4, max_num_batched_tokens=STEP, max_in_flight_tokens=2 * STEP, max_model_len=128,
            policy="fcfs", long_prefill_token_threshold=0, enable_chunked_prefill=True, scheduler_reserve_full_isl=True,
            enable_prefix_caching=True, mamba_cache_mode="align", num_gpu_blocks=BLOCKS, num_speculative_tokens=0,
            num_lookahead_tokens=0, num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0, rank=0, world_size=1,
            tensor_parallel_size=1, nnodes_within_dp=1, distributed_executor_backend="uni", model="m",
            dtype="float32", get_total_num_kv_heads=lambda: 1, cache_dtype="auto", block_size=ROWS,
            prefix_cache_retention_interval=RETENTION, get_encoder_cache_manager_obj=lambda: None,
            disable_hybrid_kv_cache_manager=False,
        )  # fmt: skip
        page = CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT
        vars(self).update(kv_transfer_config=SimpleNamespace(
            kv_connector="OffloadingConnector", kv_connector_module_path=None, engine_id="one", is_kv_consumer=True,
            is_kv_producer=True, kv_load_failure_policy="recompute", kv_connector_extra_config={
                "cpu_bytes_to_use": PLACES * page, "blocks_per_chunk": 1, "eviction_policy": "lru",
                "store_threshold": 0, "offload_prompt_only": True}))  # fmt: skip

    def __getattr__(self, name):
        return self if name.endswith("_config") and name not in ABSENT else None


def serve():
    """Return the real scheduler of a hybrid model, and a function that adds a request."""
    register_all_kvcache_specs(None)
    kv_cache_utils.init_none_hash(sha256)
    rows = FullAttentionSpec(block_size=ROWS, num_kv_heads=1, head_size=1, dtype=torch.float32)
    states = MambaSpec(block_size=STATES, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align")
    groups = [KVCacheGroupSpec(["0"], rows), KVCacheGroupSpec(["1"], states)]
    cache = KVCacheConfig(BLOCKS, [], groups, prefix_cache_retention_interval=RETENTION)
    settings = Settings()
    block, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache, settings)
    accept = SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, ids: ids)
    scheduler = AsyncScheduler(settings, cache, accept, block_size=block, hash_block_size=unit)
    hasher = kv_cache_utils.get_request_block_hasher(unit, sha256)

    def send(name, prompt):
        sampling = SamplingParams(max_tokens=1)
        scheduler.add_request(Request(name, list(prompt), sampling, None, arrival_time=0.0, block_hasher=hasher))

    return scheduler, send


class Worker:
    """The memory of states. ``pool``, ``memory``: block of the pool or of CPU memory -> tokens after which its state
    is. Steps are reported in the order in which they began, a load with its
    step and a store with the next one."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.pool, self.memory = {}, {}
        self.steps, self.stored = deque(), []

    def begin(self, name):
        """Schedule and evaluate a step. Return tokens in the cache, and tokens of the state, where a request starts
        from a state."""
        output = self.scheduler.schedule()
        meta = output.kv_connector_metadata
        for job in meta.load_jobs.values():
            self.copy(job.src_spec, self.memory, job.dst_spec, self.pool)
        ended = [*self.stored, *meta.load_jobs]
        for source, target in ((copy.src_block_id, copy.dst_block_id) for copy in output.kv_cache_block_copies or ()):
            self.pool[target] = self.pool.get(source)
        count = output.num_scheduled_tokens.get(name, 0)
        found = None
        if count:
            start = self.scheduler.requests[name].num_computed_tokens - count
            table = self.scheduler.kv_cache_manager.get_block_ids(name)[1]
            fresh = any(one.req_id == name for one in output.scheduled_new_reqs)
            if fresh and start:
                found = start, self.pool.get(table[(start - 1) // STATES])
            self.pool[table[(start + count - 1) // STATES]] = start + count
        for job in meta.store_jobs.values():
            self.copy(job.src_spec, self.pool, job.dst_spec, self.memory)
        self.stored = [*meta.store_jobs]
        loaded = {job.req_id for job in meta.load_jobs.values()}
        ends = count and not self.scheduler.requests[name].is_prefill_chunk
        self.steps.append((output, ended, loaded, [0] if ends else []))
        return found

    @staticmethod
    def copy(source, held, target, taker):
        """Copy the states of a transfer; a block of rows has nothing to copy."""
        for here, there in zip(source.block_ids.tolist(), target.block_ids.tolist(), strict=True):
            taker[there] = held.get(here)

    def end(self):
        """Report the oldest step."""
        output, ended, loaded, said = self.steps.popleft()
        names = list(output.num_scheduled_tokens)
        report = KVConnectorOutput(finished_recving=loaded,
                                   kv_connector_worker_meta=OffloadingWorkerMetadata(dict.fromkeys(ended, 1)))
        self.scheduler.update_from_output(output, ModelRunnerOutput(
            names, {one: i for i, one in enumerate(names)}, [said] * len(names), kv_connector_output=report))

    def run(self, name):
        """Run two steps at a time until a request is answered and its transfers have ended. Return what it starts
        from."""
        found = None
        for _ in range(40):
            found = self.begin(name) or found
            if len(self.steps) > 1:
                self.end()
            if not self.scheduler.has_requests():
                while self.steps:
                    self.end()
                return found
        raise SystemExit(f"{name} is not answered")


def show(when):
    """Serve a prompt and its beginning; return whether the beginning starts from a state of other tokens."""
    scheduler, send = serve()
    worker = Worker(scheduler)
    send("first", FIRST)
    worker.run("first")
    send("second", SECOND)
    found = worker.run("second")
    if found is None:
        print(f"{when}: the second request evaluates its whole prompt")
        return False
    print(f"{when}: the second request starts behind {found[0]} tokens, from the state after {found[1]}")
    return found[0] != found[1]


def change():
    """End a load where a state ends: look up again with fewer tokens while it does not."""
    look_up = OffloadingConnectorScheduler._lookup_complete_chunks

    def at_states(connector, status, most=None):
        local, size = status.num_locally_computed_tokens, connector._mamba_align_size
        found = look_up(connector, status, most)
        while found and size and (local + found) % size:
            end = (local + found) // size * size
            found = look_up(connector, status, end + 1 - local) if end > local else 0
        return found

    OffloadingConnectorScheduler._lookup_complete_chunks = at_states


if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 2 if wrong else 0)
