#!/usr/bin/env python3
"""A lookup of a sliding-window group indexes hashes that do not exist: the engine core ends.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released scheduler and prints its decisions, first unchanged and
then with the change. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without a fault.
"""

import sys
from types import SimpleNamespace

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
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


def show(when):
    """Serve one request with a window group and multi-module MTP of 3 tokens; return the exception."""
    window = SlidingWindowSpec(block_size=4, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=6)
    scheduler, send = serve([window], num_prefill_lookahead_tokens=3, num_hash_lookahead_tokens=3)
    send("first", range(26))
    hashes = len(scheduler.requests["first"].block_hashes)
    asked = (26 - 1) // window.block_size
    try:
        step(scheduler)
    except IndexError as error:
        print(f"{when}: {hashes} hashes exist, the lookup wants {asked}: {type(error).__name__}: {error}")
        return error
    print(f"{when}: {hashes} hashes exist, the request is served")
    return None


def change():
    """Look up no block whose hash does not exist yet."""
    from vllm.v1.core.single_type_kv_cache_manager import SlidingWindowManager

    finder = SlidingWindowManager.find_longest_cache_hit.__func__

    def capped(cls, block_hashes, max_length, block_pool, **more):
        hashed = len(block_hashes) * block_pool.hash_block_size
        return finder(cls, block_hashes, min(max_length, hashed), block_pool=block_pool, **more)

    SlidingWindowManager.find_longest_cache_hit = classmethod(capped)


if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 0 if not wrong else 2)
