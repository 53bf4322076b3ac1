#!/usr/bin/env python3
"""The scheduler schedules no token of its only request, in every step.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released scheduler and prints its decisions, first unchanged and
then with the changes. Exit status: 1 if both faults show and the changes cure them, 2 if not, 0 without a fault.
"""

import sys
from types import SimpleNamespace

import torch
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


STEPS = 50
DRAFTER = SimpleNamespace(
    max_num_new_slots_for_drafting=0, num_speculative_tokens_per_batch_size=None, disable_eagle_block_drop=False,
    use_eagle=lambda: True, use_eagle_block_drop=lambda: True, needs_eagle_block_drop=lambda: True,
)  # fmt: skip


def answer(when, scheduler, name):
    """Run steps until a request is answered; return True if it is."""
    done = []
    while scheduler.requests and len(done) < STEPS:
        done.append(step(scheduler).num_scheduled_tokens.get(name, 0))
    shown = [count for at, count in enumerate(done) if count or not at or done[at - 1]]
    left = "answered" if not scheduler.requests else f"not answered after {len(done)} steps"
    print(f"{when}: tokens of {name!r} in each step {shown}{', ...' if scheduler.requests else ''}: {left}")
    return not scheduler.requests


def shortened(when):
    """Serve a prompt of 5 tokens in steps of 4, with two modules that read ahead."""
    scheduler, send = serve([attention(4), mamba(4)], max_num_batched_tokens=4, max_in_flight_tokens=4,
                            speculative_config=DRAFTER, num_speculative_tokens=2, num_lookahead_tokens=2,
                            num_prefill_lookahead_tokens=2, num_hash_lookahead_tokens=2)  # fmt: skip
    send("prompt of 5", range(5))
    return answer(when, scheduler, "prompt of 5")


def padded(when):
    """Serve a prompt of 9 tokens in steps of 2, with 2 drafts; then the same prompt again."""
    scheduler, send = serve([attention(4)], max_num_batched_tokens=2, max_in_flight_tokens=2,
                            speculative_config=DRAFTER, num_speculative_tokens=2, num_lookahead_tokens=2,
                            num_prefill_lookahead_tokens=1, num_hash_lookahead_tokens=1)  # fmt: skip
    send("first", range(9))
    answer(when, scheduler, "first")
    send("again", range(9))
    return answer(when, scheduler, "again")


def change():
    """Shorten no chunk to nothing; pad no request of which a whole step has no room."""
    leave = Scheduler._reserve_prefill_lookahead
    plan = Scheduler.schedule

    def leave_some(scheduler, request, num_computed_tokens, num_new_tokens):
        return leave(scheduler, request, num_computed_tokens, num_new_tokens) or num_new_tokens

    def schedule(scheduler, *args, **more):
        drafts = scheduler.num_spec_tokens
        if 1 + drafts > scheduler.max_num_scheduled_tokens and not scheduler.running:
            scheduler.num_spec_tokens = 0                   # what decides on the padding
        try:
            return plan(scheduler, *args, **more)
        finally:
            scheduler.num_spec_tokens = drafts

    Scheduler._reserve_prefill_lookahead = leave_some
    Scheduler.schedule = schedule


if __name__ == "__main__":
    wrong = [not shortened("unchanged"), not padded("unchanged")]
    change()
    right = [shortened("with the changes"), padded("with the changes")]
    sys.exit(1 if all(wrong) and all(right) else 2 if any(wrong) else 0)
