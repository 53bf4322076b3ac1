#!/usr/bin/env python3
"""A state inside a chunk gets the key of its whole block when the answer completes the hash.

    python3 case.py

Needs vllm 0.33.0, no GPU and no model: it drives the released AsyncScheduler and prints its decisions, first unchanged
and then with the change. Exit status: 1 if the fault shows and the change cures it, 2 if it does not, 0 without one.
"""

import sys
from collections import deque
from types import SimpleNamespace

import torch
from vllm.model_executor.layers.mamba.checkpoint import compute_mamba_prefill_checkpoints
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.single_type_kv_cache_manager import MambaManager, register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

ABSENT = ("lora_config", "kv_events_config", "kv_transfer_config", "ec_transfer_config", "speculative_config")


class Settings:
    """What the scheduler reads of `VllmConfig`: each part is this object, and unknown options are off."""

    def __init__(self, **known):
        vars(self).update(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1, pipeline_parallel_size=1,
            prefill_context_parallel_size=1, max_concurrent_batches=2, prefill_schedule_interval=1, watermark=0.0,
            max_num_seqs=4, max_num_batched_tokens=64, max_in_flight_tokens=128, max_model_len=256, policy="fcfs",
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
    scheduler = AsyncScheduler(settings, cache, accept, block_size=block, hash_block_size=unit)
    hasher = kv_cache_utils.get_request_block_hasher(unit, sha256, settings.num_hash_lookahead_tokens)

    def send(name, prompt, answer=1):
        sampling = SamplingParams(max_tokens=answer)
        scheduler.add_request(Request(name, list(prompt), sampling, None, arrival_time=0.0, block_hasher=hasher))

    return scheduler, send


def attention(size):
    return FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)


def mamba(size, **more):
    return MambaSpec(block_size=size, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align", **more)


BLOCK, UNIT, MODULES = 4, 2, 2
DRAFTER = SimpleNamespace(
    max_num_new_slots_for_drafting=0, num_speculative_tokens_per_batch_size=None, disable_eagle_block_drop=False,
    use_eagle=lambda: True, use_eagle_block_drop=lambda: True, needs_eagle_block_drop=lambda: True,
    use_multi_module_mtp=lambda: True, num_speculative_tokens=MODULES, uses_draft_model=lambda: False,
    use_dflash=lambda: False, use_dspark=lambda: False,
)  # fmt: skip
FIRST, ANSWER, LATER = list(range(100, 109)), [50, 51, 52, 53], [60, 61, 62]


def show(when):
    """Serve a prompt and the next turn, each step scheduled before the results of the one before it. Return whether the
    next turn starts from a state of fewer tokens than its key says."""
    states = mamba(BLOCK, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=UNIT,
                   num_speculative_blocks=MODULES)
    scheduler, send = serve([attention(BLOCK), states], speculative_config=DRAFTER, num_speculative_tokens=MODULES,
                            num_lookahead_tokens=MODULES, num_prefill_lookahead_tokens=MODULES,
                            num_hash_lookahead_tokens=MODULES)  # fmt: skip
    held, keys, wrong = {}, {}, False
    for name, prompt, answer in (("first turn", FIRST, ANSWER), ("next turn", [*FIRST, *ANSWER, *LATER], [1])):
        send(name, prompt, len(answer))
        flying, said = deque(), 0
        while scheduler.requests:
            output = scheduler.schedule()
            flying.append(output)
            for block, state in held.items():
                key = scheduler.kv_cache_manager.block_pool.blocks[block].block_hash_num_tokens
                if key not in (None, keys.get(block)):
                    print(f"{when}: block {block} holds the state after {state} tokens, and has the key of {key}")
                    keys[block] = key
            for new in output.scheduled_new_reqs:
                start, table = new.num_computed_tokens, new.block_ids[1]
                source = table[start // BLOCK - 1] if start else 0
                if start:
                    print(f"{when}: the {name} finds {start} tokens, and starts from block {source}, the state after "
                          f"{held[source]}")  # fmt: skip
                    wrong |= held[source] != start
                end = start + output.num_scheduled_tokens[name]
                (offset,), (column,) = compute_mamba_prefill_checkpoints(
                    [end], [end - start], UNIT, BLOCK, UNIT, False, BLOCK, MODULES)
                if offset and not start:
                    held[table[column]] = start + offset
            if len(flying) > 1 or not output.num_scheduled_tokens:
                done = flying.popleft()
                names = list(done.num_scheduled_tokens)
                rows = [answer[said : said + 1] for _ in names]
                said += len(names)
                scheduler.update_from_output(
                    done, ModelRunnerOutput(names, {one: i for i, one in enumerate(names)}, rows))
    return wrong


def change():
    """Count the block of an exported state as cached, so that no later key of the whole block is given to it."""
    publish = MambaManager._cache_partial_tail_block

    def count_exported(manager, request, num_tokens, retention_interval):
        found = publish(manager, request, num_tokens, retention_interval=retention_interval)
        name = request.request_id
        if found is not None and name in manager._checkpoints:
            cached = manager.num_cached_block.get(name, 0)
            manager.num_cached_block[name] = max(cached, manager._checkpoints[name][1] + 1)
        return found

    MambaManager._cache_partial_tail_block = count_exported


if __name__ == "__main__":
    wrong = show("unchanged")
    change()
    after = show("with the change")
    sys.exit(1 if wrong and not after else 2 if wrong else 0)
