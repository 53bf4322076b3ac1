#!/usr/bin/env python3
"""A checkpoint and the running state of a chunk go to the same Mamba block.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released scheduler and prints its decisions, first unchanged and
then with the change. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without a fault.
"""

import sys
from types import SimpleNamespace

import torch
from vllm.model_executor.layers.mamba.checkpoint import compute_mamba_prefill_checkpoints
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

ABSENT = ("lora_config", "kv_events_config", "kv_transfer_config", "ec_transfer_config", "speculative_config")


class Settings:
    """What the scheduler reads of `VllmConfig`: each part is this object, and unknown options are off."""

    def __init__(self, **known):
        vars(self).update(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1, pipeline_parallel_size=1,
            prefill_context_parallel_size=1, max_concurrent_batches=1, prefill_schedule_interval=1, watermark=0.0,
            max_num_seqs=4, max_num_batched_tokens=64, max_in_flight_tokens=64, max_model_len=256, policy="fcfs",
            long_prefill_token_threshold=0, enable_chunked_prefill=True, scheduler_reserve_full_isl=True,
            enable_prefix_caching=True, mamba_cache_mode="align", num_gpu_blocks=64, num_speculative_tokens=0,
            num_lookahead_tokens=0, num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0,
            get_encoder_cache_manager_obj=lambda: None,
        )  # fmt: skip
        vars(self).update(known)

    def __getattr__(self, name):
        return self if name.endswith("_config") and name not in ABSENT else None


def serve(groups, retention=0, **options):
    """Return the real scheduler for these cache groups, and a function that adds a request."""
    register_all_kvcache_specs(None)
    kv_cache_utils.init_none_hash(sha256)
    settings = Settings(block_size=min(spec.block_size for spec in groups), **options)
    groups = [KVCacheGroupSpec([str(i)], spec) for i, spec in enumerate(groups)]
    cache = KVCacheConfig(settings.num_gpu_blocks, [], groups, prefix_cache_retention_interval=retention)
    block, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache, settings)
    accept = SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, ids: ids)
    scheduler = Scheduler(settings, cache, accept, block_size=block, hash_block_size=unit)
    hasher = kv_cache_utils.get_request_block_hasher(unit, sha256, settings.num_hash_lookahead_tokens)

    def send(name, prompt, answer=1):
        sampling = SamplingParams(max_tokens=answer)
        scheduler.add_request(Request(name, list(prompt), sampling, None, arrival_time=0.0, block_hasher=hasher))

    return scheduler, send


def step(scheduler):
    """Run one step without a model: each request that reaches its end says token 0."""
    output = scheduler.schedule()
    names = list(output.num_scheduled_tokens)
    said = [[] if scheduler.requests[name].is_prefill_chunk else [0] for name in names]
    scheduler.update_from_output(output, ModelRunnerOutput(names, {name: i for i, name in enumerate(names)}, said))
    return output


def attention(size):
    return FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)


def mamba(size, **more):
    return MambaSpec(block_size=size, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align", **more)


def show(when):
    """Serve a prompt of 34 tokens in chunks of two blocks; return the ends whose state and checkpoint share one."""
    drafter = SimpleNamespace(
        max_num_new_slots_for_drafting=0, num_speculative_tokens_per_batch_size=None, disable_eagle_block_drop=False,
        use_eagle=lambda: True, use_eagle_block_drop=lambda: True, needs_eagle_block_drop=lambda: True,
    )  # fmt: skip
    states = mamba(8, num_speculative_blocks=1, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=2)
    scheduler, send = serve([attention(8), states], max_num_batched_tokens=16, speculative_config=drafter,
                            num_speculative_tokens=1, num_lookahead_tokens=1, num_prefill_lookahead_tokens=1,
                            num_hash_lookahead_tokens=1)  # fmt: skip
    send("request", range(34))
    table, shared, end = [], [], 0                      # the worker only appends to its block table
    while scheduler.requests:
        output = step(scheduler)
        told = output.scheduled_cached_reqs
        for ids in [one.block_ids for one in output.scheduled_new_reqs] + [ids for ids in told.new_block_ids if ids]:
            table += ids[1]
        for count in output.num_scheduled_tokens.values():
            end += count
            _, columns = compute_mamba_prefill_checkpoints([end], [count], 8, 8, 2, False, 8, 1)
            running = -(-end // 8) - 1
            print(f"{when}: tokens {end - count} to {end - 1}, the worker's table is {table}, state in column {running}"
                  + (f", checkpoint in column {columns[0]}" if columns[0] >= 0 else ""))  # fmt: skip
            if columns[0] >= 0 and table[columns[0]] == table[running]:
                print(f"{when}: both are block {table[running]}")
                shared.append(end)
    return shared


def change():
    """Reserve a checkpoint in every chunk in which the worker writes one, whatever the retention."""
    from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator

    need = HybridKVCacheCoordinator.get_num_blocks_to_allocate

    def reserved(coordinator, **asked):
        return need(coordinator, **{**asked, "prefill_end": 0})

    HybridKVCacheCoordinator.get_num_blocks_to_allocate = reserved

if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
