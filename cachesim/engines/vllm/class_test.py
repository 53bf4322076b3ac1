"""Test of a case on the released classes of vLLM: a program for pytest that drives the scheduler on a CPU.

The program has no model. It states the tokens that each request finds in the cache, not the content of the blocks: a
case with a wrong answer is not exported.
Source: vLLM 0.30.0 to 0.33.0 vllm/v1/core/sched/scheduler.py Scheduler, kv_cache_utils.py.
"""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import BadInput
from cachesim.base.escaping import python_literal, python_name, python_quoted
from cachesim.engines.contract import ClassCase, ClassRequest, ClassTest
from cachesim.engines.shared.class_program import filled, token_list
from cachesim.engines.shared.engine_face import layers_of
from cachesim.engines.vllm.flags import Options, options
from cachesim.engines.vllm.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.engines.vllm.rules.schedule import FCFS
from cachesim.engines.vllm.start_options import resolved

KINDS = ("full", "swa", "mamba")
UNSET = ("speculative_method", "num_cpu_chunks", "multimodal", "enable_mamba_shared_prefix_checkpoint",
         "mamba_prefill_checkpoint_alignment", "long_prefill_token_threshold")  # fmt: skip
"""Options that the program does not set: a case with one of them is refused."""

PROGRAM = '''\
"""@TITLE@

Drives the scheduler of the installed vllm on a CPU, without a model, and compares the prompt tokens that each request
finds in the cache with those of @PROFILE@.

    python3 -m pytest @FILE@
"""

from types import SimpleNamespace

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

ABSENT = ("lora_config", "kv_events_config", "kv_transfer_config", "ec_transfer_config", "speculative_config")
SETTINGS = @SETTINGS@
RETENTION = @RETENTION@           # prefix_cache_retention_interval
GROUPS = @GROUPS@           # kind, tokens of a block, window
REQUESTS = [               # prompt, answer, sent with the one before, reused tokens
@REQUESTS@
]


class Settings:
    """What the scheduler reads of `VllmConfig`: each part is this object, and unknown options are off."""

    def __init__(self, **known):
        vars(self).update(
            data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=1, pipeline_parallel_size=1,
            prefill_context_parallel_size=1, max_concurrent_batches=1, prefill_schedule_interval=1,
            long_prefill_token_threshold=0, enable_chunked_prefill=True, num_speculative_tokens=0,
            num_lookahead_tokens=0, num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0,
            get_encoder_cache_manager_obj=lambda: None,
        )
        vars(self).update(known)

    def __getattr__(self, name):
        return self if name.endswith("_config") and name not in ABSENT else None


def spec(kind, block, window):
    """Return the spec of a group of layers."""
    if kind == "mamba":
        mode = SETTINGS["mamba_cache_mode"]
        return MambaSpec(block_size=block, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode=mode)
    rows = {"block_size": block, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    return SlidingWindowSpec(sliding_window=window, **rows) if kind == "swa" else FullAttentionSpec(**rows)


def serve():
    """Return the scheduler, and the function that hashes the blocks of a request."""
    register_all_kvcache_specs(None)
    kv_cache_utils.init_none_hash(sha256)
    settings = Settings(**SETTINGS)
    groups = [KVCacheGroupSpec([str(i)], spec(*group)) for i, group in enumerate(GROUPS)]
    cache = KVCacheConfig(settings.num_gpu_blocks, [], groups, prefix_cache_retention_interval=RETENTION)
    block, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache, settings)
    accept = SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, ids: ids)
    scheduler = Scheduler(settings, cache, accept, block_size=block, hash_block_size=unit, log_stats=True)
    return scheduler, kv_cache_utils.get_request_block_hasher(unit, sha256)


def run(scheduler, answers, cached):
    """Run until all requests are answered; write the reused tokens of each to `cached`."""
    while scheduler.requests:
        output = scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        assert names, "no request can run"
        said = []
        for name in names:
            request = scheduler.requests[name]
            place = request.num_output_tokens
            said.append([] if request.is_prefill_chunk else [answers[name][place]])
        places = {name: place for place, name in enumerate(names)}
        found = scheduler.update_from_output(output, ModelRunnerOutput(names, places, said))
        for part in found.values():
            for one in part.outputs:
                if one.prefill_stats:
                    cached.setdefault(one.request_id, one.prefill_stats.num_cached_tokens)


def test_@NAME@():
    scheduler, hasher = serve()
    answers = {str(i): answer for i, (_, answer, _, _) in enumerate(REQUESTS)}
    cached = {}
    for i, (prompt, answer, together, _) in enumerate(REQUESTS):
        sampling = SamplingParams(max_tokens=len(answer))
        scheduler.add_request(Request(str(i), list(prompt), sampling, None, arrival_time=float(i), block_hasher=hasher))
        if i + 1 == len(REQUESTS) or not REQUESTS[i + 1][2]:
            run(scheduler, answers, cached)
    assert [cached[str(i)] for i in range(len(REQUESTS))] == [reused for *_, reused in REQUESTS]
'''


def test_program(case: ClassCase) -> str:
    """Return the text of the program for a case. Raise BadInput for a case that it cannot express."""
    rules = PROFILES[case.profile]
    spec = layers_of(case.model, rules).spec
    opts = options(resolved(rules, spec, rules.options(case.options)))
    config = get_kv_cache_config(rules, opts, spec)
    _check(opts, config)
    name = python_name(case.name)
    values = {
        "PROFILE": case.profile, "FILE": f"test_{name}.py", "NAME": name,
        "SETTINGS": python_literal(_settings(opts, config)),
        "RETENTION": str(opts.prefix_cache_retention_interval if opts.prefix_cache_retention_interval >= 0 else None),
        "GROUPS": python_literal([_group(group) for group in config.kv_cache_groups]),
        "REQUESTS": "\n".join(map(_request, case.requests)), "TITLE": python_quoted(case.title),
    }  # fmt: skip
    return filled(PROGRAM, values)


def _check(opts: Options, config: KVCacheConfig) -> None:
    """Raise BadInput for options and groups that the program does not set up."""
    used = [name for name in UNSET if getattr(opts, name)]
    if used:
        raise BadInput(f"no test on vLLM's classes is written for {', '.join(used)}")
    if opts.scheduling_policy != FCFS or opts.decode_context_parallel_size != 1:
        raise BadInput("no test on vLLM's classes is written for priorities or several ranks")
    if other := [group.kind for group in config.kv_cache_groups if group.kind not in KINDS]:
        raise BadInput(f"no test on vLLM's classes is written for groups of kind {other[0]}")


def _settings(opts: Options, config: KVCacheConfig) -> dict[str, Any]:
    """Return the options that the scheduler reads, by the names of its configuration."""
    return {
        "num_gpu_blocks": opts.num_gpu_blocks, "max_model_len": config.max_model_len,
        "max_num_seqs": opts.max_num_seqs, "max_num_batched_tokens": opts.max_num_batched_tokens,
        "max_in_flight_tokens": opts.max_num_batched_tokens, "policy": opts.scheduling_policy,
        "watermark": opts.watermark, "scheduler_reserve_full_isl": opts.scheduler_reserve_full_isl,
        "enable_prefix_caching": opts.enable_prefix_caching,
        "mamba_cache_mode": "align" if opts.enable_prefix_caching else "none",
        "prefix_match_unit": opts.prefix_match_unit or None,
        "block_size": min(group.block_size for group in config.kv_cache_groups),
    }  # fmt: skip


def _group(group: KVCacheGroupSpec) -> tuple[str, int, int]:
    return group.kind, group.block_size, group.window


def _request(request: ClassRequest) -> str:
    """Return a request as a row of the program."""
    answer = python_literal(list(request.answer))
    return f"    ({token_list(request.prompt)}, {answer}, {request.is_together}, {request.reused}),"


CLASS_TEST = ClassTest({"async_scheduling": False}, test_program)
