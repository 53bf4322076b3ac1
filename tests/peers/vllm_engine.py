"""The real scheduler of vLLM, driven without a model and recorded in the format of the shared recordings."""

from __future__ import annotations

import os
from collections import deque
from inspect import signature
from types import SimpleNamespace

import torch
import vllm
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1 import kv_cache_interface
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from tests.peers.vllm_connector import Jobs, connect
from tests.peers.vllm_events import Recorder

RELEASE = vllm.__version__
RETENTION = "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"
FILLER = 7                   # what the model says after its answer; the stop test cuts it
EAGLE_FAMILY = ("eagle_drop", "eagle_keep", "eagle_hash", "mtp_hash")
ATTENTION = {
    "full": (FullAttentionSpec, {}),
    "rswa": (getattr(kv_cache_interface, "RSWASpec", None), {"rswa_window": "window"}),          # since 0.25.0
    "swa": (SlidingWindowSpec, {"sliding_window": "window"}),
    "chunked": (ChunkedLocalAttentionSpec, {"attention_chunk_size": "chunk"}),
}

LATENT = {"full": MLAAttentionSpec, "swa": SlidingWindowMLASpec}          # classes of latent rows


def spec_of(group, config):
    """Return the cache spec of one group of a header."""
    block_size = group["block_size"]
    if group["kind"] == "mamba":
        align = config["ckpt_align"]
        return MambaSpec(
            block_size=block_size, shapes=((1,), (1,)), dtypes=(torch.float32, torch.float32),
            mamba_cache_mode="align" if config["caching"] else "none", num_speculative_blocks=config["num_spec"],
            **known_to(MambaSpec, num_prefill_checkpoint_blocks=int(align is not None),
                       prefill_checkpoint_alignment=align),
        )  # fmt: skip
    spec_type, names = ATTENTION[group["kind"]]
    spec_type = LATENT[group["kind"]] if group.get("latent") else spec_type
    fields = {name: group[ours] for name, ours in names.items()}
    return spec_type(
        block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32,
        **known_to(spec_type, dcp_sharded=config["dcp"] > 1), **fields,
    )  # fmt: skip


def known_to(function, **more):
    """Return the arguments that a function of this release takes."""
    return {name: value for name, value in more.items() if name in signature(function).parameters}


def set_retention(interval):
    """Set the variable that an interval is read from until 0.28.0."""
    if interval is None:
        os.environ.pop(RETENTION, None)
    else:
        os.environ[RETENTION] = str(interval)


def speculation(config):
    """Return what vLLM derives from the method of speculation: the values that a header repeats."""
    k = config["num_spec"] if config["spec"] else 0
    eagle = config["spec"] in EAGLE_FAMILY
    prefill = 0 if not eagle else k if config["spec"] == "mtp_hash" else 1
    hashes = config["spec"] not in ("eagle_drop", "eagle_keep") and "offload" not in config and RELEASE >= "0.33"
    hashed = prefill if hashes and config["caching"] else 0
    return {"num_lookahead_tokens": k * eagle, "num_prefill_lookahead": prefill, "num_hash_lookahead_tokens": hashed,
            "drop_eagle_block": eagle and not hashed and config["spec"] != "eagle_keep"}  # fmt: skip


def vllm_config(config):
    """Return the attributes of `VllmConfig` that the scheduler reads."""
    derived, eagle = speculation(config), config["spec"] in EAGLE_FAMILY
    batches = 1 + config["async_scheduling"]
    speculative = SimpleNamespace(
        num_speculative_tokens_per_batch_size=None, max_num_new_slots_for_drafting=0, disable_eagle_block_drop=False,
        use_eagle=lambda: eagle, needs_eagle_block_drop=lambda: eagle,
        use_eagle_block_drop=lambda: eagle and config["spec"] != "eagle_keep",
        use_multi_module_mtp=lambda: config["spec"] == "mtp_hash", uses_draft_model=lambda: False,
        use_dflash=lambda: False, use_dspark=lambda: False, num_speculative_tokens=config["num_spec"],
    )  # fmt: skip
    scheduler = SimpleNamespace(
        max_num_seqs=config["max_num_seqs"], max_num_active_seqs=None, max_num_scheduled_tokens=None,
        max_num_batched_tokens=config["max_num_batched_tokens"], long_prefill_token_threshold_adaptive=False,
        long_prefill_token_threshold=config["long_prefill_token_threshold"], policy=config["policy"],
        watermark=config["watermark"], scheduler_reserve_full_isl=config["reserve_full"], enable_chunked_prefill=True,
        prefill_schedule_interval=1, async_scheduling=config["async_scheduling"], disable_chunked_mm_input=False,
    )  # fmt: skip
    cache = SimpleNamespace(
        num_gpu_blocks=config["num_blocks"], block_size=config["cache_block_size"],
        enable_prefix_caching=config["caching"], mamba_cache_mode="align" if config["caching"] else "none",
        enable_mamba_shared_prefix_checkpoint=config["shared_prefix_checkpoint"],
        enable_mamba_fine_grained_prefix_cache=config["shared_prefix_checkpoint"],             # its name in 0.30.0
        prefix_match_unit=config["prefix_match_unit"], prefix_caching_hash_algo="sha256",
        hash_block_size=config["prefix_match_unit"],                                           # its name until 0.25.1
    )  # fmt: skip
    model = SimpleNamespace(
        uses_mrope=False, uses_xdrope=False, is_encoder_decoder=False, max_model_len=config["max_model_len"],
        runner_type="generate",
        is_diffusion=False, supports_multimodal_inputs=False, return_sampling_mask=False, is_multimodal_model=False,
        enable_return_routed_experts=False,
    )  # fmt: skip
    parallel = SimpleNamespace(
        data_parallel_index=0, data_parallel_size=1, decode_context_parallel_size=config["dcp"],
        prefill_context_parallel_size=1, pipeline_parallel_size=1,
    )  # fmt: skip
    observability = SimpleNamespace(
        per_request_spec_decode_metrics=None, kv_cache_metrics=False, enable_mfu_metrics=False,
        enable_logging_iteration_details=False,
    )  # fmt: skip
    return SimpleNamespace(
        scheduler_config=scheduler, cache_config=cache, model_config=model, parallel_config=parallel,
        observability_config=observability, lora_config=None, kv_events_config=config.get("kv_events"),
        kv_transfer_config=None,
        ec_transfer_config=None, is_mm_encoder_only=False, is_encoder_only=False,
        speculative_config=speculative if config["spec"] else None,
        ec_manager_config=SimpleNamespace(get_encoder_cache_manager_obj=lambda: None), use_v2_model_runner=False,
        aux_output_config=SimpleNamespace(enabled=False), max_concurrent_batches=batches,
        max_in_flight_tokens=batches * config["max_num_batched_tokens"],
        num_speculative_tokens=config["num_spec"] if config["spec"] else 0,
        num_lookahead_tokens=derived["num_lookahead_tokens"],
        num_prefill_lookahead_tokens=derived["num_prefill_lookahead"],
        num_hash_lookahead_tokens=derived["num_hash_lookahead_tokens"],
    )  # fmt: skip


class RealServer:
    """A scheduler of vLLM and the requests of one recording; each operation returns one step of it."""

    def __init__(self, config, requests, recorded=True):
        """Build the scheduler that a header describes, and complete the header with what vLLM resolves."""
        register_all_kvcache_specs(None)
        kv_cache_utils.init_none_hash(sha256)
        groups = [KVCacheGroupSpec([f"layer.{i}"], spec_of(group, config), is_eagle_group=group["eagle"])
                  for i, group in enumerate(config["groups"])]  # fmt: skip
        cache_config = KVCacheConfig(
            num_blocks=config["num_blocks"], kv_cache_tensors=[], kv_cache_groups=groups,
            **known_to(KVCacheConfig, prefix_cache_retention_interval=config["retention"]),
        )  # fmt: skip
        set_retention(config["retention"])
        config["cache_block_size"] = min(group["block_size"] for group in config["groups"])
        config.update(speculation(config))
        settings = vllm_config(config)
        if "offload" in config:
            connect(settings, config)
        block_size, unit = kv_cache_utils.resolve_kv_cache_block_sizes(cache_config, settings)
        self.scheduler = (AsyncScheduler if config["async_scheduling"] else Scheduler)(
            settings, cache_config, SimpleNamespace(accept_tokens=lambda *_: True, validate_tokens=lambda _, ids: ids,
                                                    should_advance=lambda *_, **more: False),
            block_size=block_size, hash_block_size=unit, log_stats=True,
        )  # fmt: skip
        self.scheduler.max_num_encoder_input_tokens = config["max_num_batched_tokens"]
        self.scheduler.encoder_cache_manager = EncoderCacheManager(config["max_num_batched_tokens"])
        self.manager = self.scheduler.kv_cache_manager
        config |= {
            "scheduler_block_size": block_size, "hash_block_size": unit,
            "partial_hits": getattr(self.manager.coordinator, "enable_partial_hash_hits", False),
            "align_split": self.scheduler.need_mamba_block_aligned_split,
        }  # fmt: skip
        self.config, self.requests = config, requests
        self.jobs = Jobs(self.scheduler, config["offload"]["blocks_per_chunk"]) if "offload" in config else None
        self.recorder, self.recorded = Recorder(self.scheduler, recorded), recorded
        self.hasher = kv_cache_utils.get_request_block_hasher(unit, sha256, **known_to(
            kv_cache_utils.get_request_block_hasher, num_hash_lookahead_tokens=config["num_hash_lookahead_tokens"]))
        self.loras = {}
        self.pending = deque()  # steps in flight: output, tokens of each request, requests that do not get them

    def add(self, number):
        """Add a request."""
        told = self.requests[str(number)]
        lora = told.get("lora")
        if lora is not None:
            lora = LoRARequest(lora, self.loras.setdefault(lora, len(self.loras) + 1), f"/{lora}")
        sampling = SamplingParams(max_tokens=len(told["answer"]))
        sampling.skip_reading_prefix_cache = bool(told.get("skip_read"))
        request = Request(
            str(number), list(told["prompt"]), sampling, None, arrival_time=float(number), lora_request=lora,
            cache_salt=told.get("salt"), priority=told.get("priority", 0), block_hasher=self.hasher,
            mm_features=[MultiModalFeatureSpec(None, "image", name, PlaceholderRange(offset, length))
                         for offset, length, name in told.get("images", ())],
        )  # fmt: skip
        self.scheduler.add_request(request)
        return {"op": "add", "req": number, "hashes": [self.recorder.number(h) for h in request.block_hashes]}

    def abort(self, number):
        """End a request at the client's wish."""
        self.scheduler.finish_requests(str(number), RequestStatus.FINISHED_ABORTED)
        return {"op": "abort", "req": number, "ev": self.recorder.take()}

    def reset(self, running):
        """Reset the prefix cache. The tokens in flight of requests that restart are not delivered."""
        for name in [request.request_id for request in self.scheduler.running] if running else ():
            for _, _, dropped in self.pending:
                dropped.add(name)
        ok = self.scheduler.reset_prefix_cache(reset_running_requests=running)
        return {"op": "reset", "running": running, "ok": ok, "ev": self.recorder.take()}

    def schedule(self):
        """Schedule a step and decide what its forward pass says."""
        output = self.scheduler.schedule()
        run, said = [], {}
        for name, count in output.num_scheduled_tokens.items():
            request, told = self.scheduler.requests[name], self.requests[name]
            start = request.num_computed_tokens - count
            drafts = output.scheduled_spec_decode_tokens.get(name, [])
            row = [int(name), start, count]
            said[name] = []
            if not request.is_prefill_chunk:
                flying = [len(tokens[name]) for _, tokens, dropped in self.pending
                          if name in tokens and name not in dropped]  # fmt: skip
                first = request.num_output_tokens + sum(flying)
                rest = told["answer"][first:] + [FILLER] * (len(drafts) + 1)
                accepted = next((i for i, draft in enumerate(drafts) if draft != rest[i]), len(drafts))
                if self.config["async_scheduling"] and drafts:       # the worker drafts: any number may be right
                    accepted = self.right_drafts(name, first, len(drafts))
                said[name] = rest[: accepted + 1]
                if drafts:
                    row += [len(drafts), accepted]
            run.append(row)
        if run or self.jobs:               # a step without tokens has no output, but a connector reports
            self.pending.append((output, said, set()))
        step = {"op": "schedule", "ev": self.recorder.take(), "run": run}
        if self.jobs:
            step |= self.jobs.take(output)
        if output.new_block_ids_to_zero:
            step["zero"] = output.new_block_ids_to_zero
        if getattr(output, "kv_cache_block_copies", None):
            step["copies"] = [[copy.src_block_id, copy.dst_block_id] for copy in output.kv_cache_block_copies]
        return step

    def right_drafts(self, name, first, drafted):
        """Return how many drafts of the worker are right, behind ``first`` tokens of the answer."""
        return (7 * int(name) + first) % (drafted + 1)

    def update(self, drafts, ended=()):
        """Process the oldest output; `drafts` maps requests to the tokens proposed for them, or makes this map then;
        `ended`: numbers of the transfers that the worker reports."""
        output, said, _ = self.pending.popleft()
        names = list(said)
        told = {name: len(tokens) for name, tokens in said.items() if tokens}
        results = self.scheduler.update_from_output(output, ModelRunnerOutput(
            names, {name: i for i, name in enumerate(names)}, [list(said[name]) for name in names],
            kv_connector_output=self.jobs.end(ended) if self.jobs else None))  # fmt: skip
        step = {"op": "update", "tokens": told, "ev": self.recorder.take()}
        if ended:
            step["ended"] = list(ended)
        outputs = [one for part in results.values() for one in part.outputs]
        finished = [int(one.request_id) for one in outputs if one.finish_reason is not None]
        cached = {one.request_id: one.prefill_stats.num_cached_tokens for one in outputs if one.prefill_stats}
        step |= {key: value for key, value in (("finished", finished), ("cached", cached)) if value}
        if drafts := drafts() if callable(drafts) else drafts:
            names = list(drafts)
            self.scheduler.update_draft_token_ids(DraftTokenIds(names, [list(drafts[name]) for name in names]))
            step["drafts"] = drafts
        if self.recorded:
            step["state"] = self.state()
        return step

    def state(self):
        """Return free list, queues and progress."""
        running = self.scheduler.running
        first = getattr(self.scheduler, "kv_holding_waiting", None) or getattr(self.scheduler, "skipped_waiting", ())
        waiting = [*first, *self.scheduler.waiting]
        return {
            "free": [b.block_id for b in self.manager.block_pool.free_block_queue.get_all_free_blocks()],
            "running": [int(r.request_id) for r in running], "waiting": [int(r.request_id) for r in waiting],
            "computed": {r.request_id: r.num_computed_tokens for r in running},
        }  # fmt: skip

    def final(self):
        """Return the state after the last step, with the keyed blocks and the statistics."""
        stats = self.scheduler.kv_cache_manager.prefix_cache_stats
        names = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")
        found = self.state() | {"pool": self.recorder.pool(), "stats": {name: getattr(stats, name) for name in names}}
        return found | ({"cpu": self.jobs.memory(self.recorder.number)} if self.jobs else {})
