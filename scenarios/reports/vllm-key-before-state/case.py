#!/usr/bin/env python3
"""A Mamba block gets the key of a boundary that the chunk runs over, and keeps the state of an earlier position.

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


def attention(size):
    return FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)


def mamba(size, **more):
    return MambaSpec(block_size=size, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align", **more)


def show(when):
    """Let a request resume inside a block; return the keyed states that do not exist."""
    states = mamba(8, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=4)
    scheduler, send = serve([attention(8), states], prefix_match_unit=4)
    common, wrong = list(range(100, 108)), []
    for name, prompt in (("longer", [*common, 1, 2, 3, 4, 5]), ("shorter", [*common[:4], 6]),
                         ("resumed", [*common, *range(10, 20)]), ("victim", [*common, 7, 8, 9])):  # fmt: skip
        send(name, prompt)
        while scheduler.requests:
            output = scheduler.schedule()
            request, count = scheduler.requests[name], output.num_scheduled_tokens[name]
            end = request.num_computed_tokens
            _, columns = compute_mamba_prefill_checkpoints([end], [count], 4, 8, 4, False, 4)
            table = scheduler.kv_cache_manager.get_blocks(name).blocks[1]
            running = -(-end // 8) - 1
            if any(block in wrong for new in output.scheduled_new_reqs for block in new.block_ids[1]):
                print(f"{when}: {name!r} hits {end - count} tokens and starts from it")
            for column, block in enumerate(table):
                key = block.block_hash_num_tokens
                if key and end - count < key < end and column not in (running, *columns):
                    print(f"{when}: {name!r} computes {end - count} to {end - 1}; block {block.block_id} has the "
                          f"key for {key} tokens and holds the state after {end - count}")  # fmt: skip
                    wrong.append(block.block_id)
            names = list(output.num_scheduled_tokens)
            said = [[] if request.is_prefill_chunk else [0]]
            scheduler.update_from_output(output, ModelRunnerOutput(names, {name: 0}, said))
    print(f"{when}: {len(wrong)} keys of states that do not exist")
    return wrong


def change():
    """Export no checkpoint from a chunk that starts inside a block, so that the chunk stops at the block's end."""
    from vllm.v1.core.sched import scheduler

    valid = scheduler.is_mamba_prefill_checkpoint_valid
    scheduler.is_mamba_prefill_checkpoint_valid = lambda query_start, mamba_block_size, **more: (
        query_start % mamba_block_size == 0
        and valid(query_start=query_start, mamba_block_size=mamba_block_size, **more)
    )

if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
