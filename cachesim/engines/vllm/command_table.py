"""Arguments of `vllm serve` by release, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and their conditions: >= and <= name a
release, = a value without effect. A row is one line, which makes this module long.
Source: vLLM 0.24.0 to 0.33.0 (PyPI) vllm/entrypoints/*/cli_args.py make_arg_parser.
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.command_line import parse_integer
from cachesim.engines.shared.command_table import (
    AllowedSizes,
    ArgumentStyle,
    CommandTable,
    LoggedSize,
    ParsedArgument,
    json_object,
    read_human_integer,
    read_model_overrides,
    release_names,
    table_rows,
)
from cachesim.engines.vllm.flags import FITTING, FLOAT32
from cachesim.engines.vllm.kv_offload.cpu_manager import ARC, LRU
from cachesim.engines.vllm.rules.schedule import EAGLE

OPTIONS = """
j --additional-config
j --attention-config -ac
1 --distributed-executor-backend =mp =uni
1 --device-memory-utilization >=0.31.0
1 --dtype =auto =half =float16 =bfloat16
1 --attention-backend =FLASH_ATTN =FLASHINFER =TRITON_ATTN =TRITON_MLA =FLASH_ATTN_MLA =FLEX_ATTENTION
0 --enable-mamba-fine-grained-prefix-cache --no-enable-mamba-fine-grained-prefix-cache >=0.30.0 <=0.30.0
1 --kv-offloading-size
0 --async-scheduling --no-async-scheduling
1 --block-size
1 --decode-context-parallel-size -dcp
0 --disable-mamba-shared-prefix-checkpoint >=0.33.0
0 --disable-prefix-caching >=0.33.0
0 --enable-mamba-shared-prefix-checkpoint --no-enable-mamba-shared-prefix-checkpoint >=0.31.0
0 --enable-prefix-caching --no-enable-prefix-caching
1 --gpu-memory-utilization
j --hf-overrides
1 --kv-cache-memory-bytes
j --kv-transfer-config
1 --kv-cache-dtype
1 --long-prefill-token-threshold
1 --mamba-block-size
1 --mamba-cache-dtype
1 --mamba-cache-mode
1 --mamba-ssm-cache-dtype
1 --max-model-len
1 --max-num-batched-tokens
1 --max-num-seqs
1 --num-gpu-blocks-override
1 --prefix-cache-retention-interval >=0.29.0
1 --prefix-match-unit >=0.26.0
0 --scheduler-reserve-full-isl --no-scheduler-reserve-full-isl
1 --scheduling-policy
1 --spec-method
1 --spec-model
1 --spec-tokens
j --speculative-config -sc
1 --tensor-parallel-size -tp
1 --watermark
"""

MODELS = """
1 --model
"""

SIZES = """
j --compilation-config -cc
1 --cpu-offload-gb
+ --cpu-offload-params
+ --cudagraph-capture-sizes
0 --enable-expert-parallel --no-enable-expert-parallel -ep
0 --enable-lora --no-enable-lora
0 --enforce-eager --no-enforce-eager
+ --kv-cache-dtype-skip-layers
0 --language-model-only --no-language-model-only
j --limit-mm-per-prompt
1 --max-cudagraph-capture-size
1 --max-lora-rank
1 --mm-ipc-gpu-memory-gb >=0.25.1
1 --offload-backend
1 --offload-group-size
1 --offload-num-in-group
+ --offload-params
1 --offload-prefetch-step
1 --optimization-level
1 --quantization -q
j --quantization-config
0 --skip-mm-profiling --no-skip-mm-profiling
"""

LIMITS = """
1 --max-cpu-loras
1 --max-loras
1 --max-num-queued-reqs >=0.29.0
1 --max-num-queued-tokens >=0.29.0
"""

NOT_SIMULATED = """
1 --config
1 --convert =auto =none
1 --cp-kv-cache-interleave-size =1
1 --data-parallel-size -dp =1
1 --dcp-kv-cache-interleave-size =1
j --diffusion-config -dc
0 --disable-chunked-mm-input
0 --disable-chunked-prefill >=0.33.0
0 --disable-hybrid-kv-cache-manager
0 --disable-sliding-window
j --ec-transfer-config
j --engram-config >=0.30.0
1 --hf-config-path
1 --kv-offloading-backend =native
0 --kv-sharing-fast-prefill
0 --long-prefill-token-threshold-adaptive >=0.31.0
1 --max-num-active-seqs >=0.31.0
1 --max-long-partial-prefills <=0.26.0 =1
1 --max-num-partial-prefills <=0.26.0 =1
1 --max-num-scheduled-tokens >=0.26.0
0 --mm-encoder-only
1 --model-class-overrides >=0.25.1
0 --no-enable-chunked-prefill
0 --no-swa-bounded-replay >=0.31.0
1 --performance-mode =balanced
1 --pipeline-parallel-size -pp =1
1 --prefill-context-parallel-size -pcp =1
1 --prefill-schedule-interval =1
1 --runner =auto =generate
1 --scheduler-cls
0 --use-replayssm >=0.27.1
1 --worker-cls =auto
"""

WITHOUT_EFFECT = """
0 --aggregate-engine-logging
1 --all2all-backend
0 --allow-credentials --no-allow-credentials
0 --allow-deprecated-quantization --no-allow-deprecated-quantization
j --allowed-headers
1 --allowed-local-media-path
+ --allowed-media-domains
j --allowed-methods
j --allowed-origins
1 --anthropic-disabled-thinking-effort >=0.31.0
+ --api-key
1 --api-server-count -asc
j --aux-output-config >=0.31.0
0 --calculate-kv-scales --no-calculate-kv-scales <=0.27.1
1 --chat-template
1 --chat-template-content-format
1 --code-revision
1 --cohere-format >=0.27.1
0 --cohere-is-reasoning-model --no-cohere-is-reasoning-model >=0.27.1
+ --collect-detailed-traces
1 --config-format
1 --cpu-distributed-timeout-seconds
0 --cudagraph-metrics --no-cudagraph-metrics
1 --custom-histogram-buckets >=0.32.0
1 --data-parallel-address -dpa
1 --data-parallel-backend -dpb
0 --data-parallel-external-lb --no-data-parallel-external-lb -dpe
0 --data-parallel-hybrid-lb --no-data-parallel-hybrid-lb -dph
0 --data-parallel-multi-port-external-lb -dpm
1 --data-parallel-rank -dpn
1 --data-parallel-rpc-port -dpp
1 --data-parallel-size-local -dpl
1 --data-parallel-start-rank -dpr
1 --data-parallel-supervisor-port
1 --dbo-decode-token-threshold
1 --dbo-prefill-token-threshold
1 --dcp-comm-backend
0 --dcp-q-replicate --no-dcp-q-replicate >=0.29.0
j --default-chat-template-kwargs
1 --default-mm-loras
1 --device-ids
1 --disable-access-log-for-endpoints
0 --disable-auto-tool-choice >=0.33.0
0 --disable-batch-sharded-sampling >=0.33.0
0 --disable-cascade-attn --no-disable-cascade-attn
0 --disable-cumem-allocator >=0.33.0
0 --disable-custom-all-reduce --no-disable-custom-all-reduce
0 --disable-dbo >=0.33.0
0 --disable-elastic-ep >=0.33.0
0 --disable-ep-weight-filter >=0.33.0
0 --disable-eplb >=0.33.0
0 --disable-expert-parallel >=0.33.0
0 --disable-fastapi-docs --no-disable-fastapi-docs
0 --disable-fault-tolerance >=0.33.0
0 --disable-flash-late-interaction >=0.33.0
0 --disable-flashinfer-autotune >=0.33.0
0 --disable-force-include-usage >=0.33.0
0 --disable-hc-sp >=0.33.0
0 --disable-layerwise-nvtx-tracing >=0.33.0
0 --disable-log-deltas >=0.33.0
0 --disable-log-outputs >=0.33.0
0 --disable-log-requests >=0.33.0
0 --disable-log-stats
0 --disable-logging-iteration-details >=0.33.0
0 --disable-lora >=0.33.0
0 --disable-mamba-cache-stochastic-rounding >=0.33.0
0 --disable-mfu-metrics >=0.33.0
0 --disable-mixed-moe-lora-format >=0.33.0
0 --disable-mm-embeds >=0.33.0
0 --disable-moe-shared-loras >=0.33.0
0 --disable-nccl-comm-suspend >=0.33.0
0 --disable-nccl-for-dp-synchronization --no-disable-nccl-for-dp-synchronization
0 --disable-offline-docs >=0.33.0
0 --disable-per-request-metrics >=0.33.0
0 --disable-prompt-embeds >=0.33.0
0 --disable-prompt-tokens-details >=0.33.0
0 --disable-request-id-headers >=0.33.0
0 --disable-return-routed-experts >=0.33.0
0 --disable-scale-out >=0.33.0
0 --disable-server-load-tracking >=0.33.0
0 --disable-shm-tensor-arena >=0.33.0
0 --disable-sleep-mode >=0.33.0
0 --disable-ssl-refresh >=0.33.0
0 --disable-tokenizer-info-endpoint >=0.33.0
0 --disable-tower-connector-lora >=0.33.0
0 --disable-trace-replay >=0.33.0
0 --disable-uvicorn-access-log --no-disable-uvicorn-access-log
1 --distributed-timeout-seconds
1 --download-dir
1 --dp-supervisor-probe-failure-threshold
1 --dp-supervisor-probe-interval-s
1 --dp-supervisor-probe-timeout-s
1 --dp-sync-interval >=0.30.0
j --ec-manager-config >=0.28.0
1 --elastic-ep-max-dp-size >=0.30.0
0 --enable-auto-tool-choice --no-enable-auto-tool-choice
0 --enable-batch-sharded-sampling --no-enable-batch-sharded-sampling >=0.29.0
0 --enable-bf16x3-router-gemm --no-enable-bf16x3-router-gemm >=0.26.0 <=0.29.0
0 --enable-cascade-attn >=0.33.0
0 --enable-chunked-mm-input >=0.33.0
0 --enable-chunked-prefill
0 --enable-cumem-allocator --no-enable-cumem-allocator
0 --enable-custom-all-reduce >=0.33.0
0 --enable-dbo --no-enable-dbo
0 --enable-elastic-ep --no-enable-elastic-ep
0 --enable-ep-weight-filter --no-enable-ep-weight-filter
0 --enable-eplb --no-enable-eplb
0 --enable-fastapi-docs >=0.33.0
0 --enable-fault-tolerance --no-enable-fault-tolerance >=0.27.1
0 --enable-flash-late-interaction --no-enable-flash-late-interaction
0 --enable-flashinfer-autotune --no-enable-flashinfer-autotune
0 --enable-force-include-usage --no-enable-force-include-usage
0 --enable-hc-sp --no-enable-hc-sp >=0.32.0
0 --enable-hybrid-kv-cache-manager >=0.33.0
0 --enable-layerwise-nvtx-tracing --no-enable-layerwise-nvtx-tracing
0 --enable-log-deltas --no-enable-log-deltas
0 --enable-log-outputs --no-enable-log-outputs
0 --enable-log-requests --no-enable-log-requests
0 --enable-logging-iteration-details --no-enable-logging-iteration-details
0 --enable-mamba-cache-stochastic-rounding --no-enable-mamba-cache-stochastic-rounding
0 --enable-mfu-metrics --no-enable-mfu-metrics
0 --enable-mixed-moe-lora-format --no-enable-mixed-moe-lora-format
0 --enable-mm-embeds --no-enable-mm-embeds
0 --enable-moe-shared-loras --no-enable-moe-shared-loras >=0.26.0
0 --enable-nccl-comm-suspend --no-enable-nccl-comm-suspend >=0.30.0
0 --enable-nccl-for-dp-synchronization >=0.33.0
0 --enable-offline-docs --no-enable-offline-docs
0 --enable-per-request-metrics --no-enable-per-request-metrics >=0.25.1
0 --enable-prompt-embeds --no-enable-prompt-embeds
0 --enable-prompt-tokens-details --no-enable-prompt-tokens-details
0 --enable-request-id-headers --no-enable-request-id-headers
0 --enable-return-routed-experts --no-enable-return-routed-experts
0 --enable-scale-out --no-enable-scale-out >=0.30.0
0 --enable-server-load-tracking --no-enable-server-load-tracking
0 --enable-shm-tensor-arena --no-enable-shm-tensor-arena >=0.32.0
0 --enable-sleep-mode --no-enable-sleep-mode
0 --enable-sliding-window >=0.33.0
0 --enable-ssl-refresh --no-enable-ssl-refresh
0 --enable-tokenizer-info-endpoint --no-enable-tokenizer-info-endpoint
0 --enable-tower-connector-lora --no-enable-tower-connector-lora
0 --enable-trace-replay --no-enable-trace-replay >=0.29.0
0 --enable-uvicorn-access-log >=0.33.0
j --eplb-config
0 --exclude-tools-when-tool-choice-none --no-exclude-tools-when-tool-choice-none
1 --expert-placement-strategy
0 --fail-on-environ-validation --no-fail-on-environ-validation
j --fault-tolerance-config >=0.27.1
1 --fingerprint-mode
1 --fingerprint-value
0 --fully-sharded-loras --no-fully-sharded-loras
1 --gdn-prefill-backend
1 --generation-config
0 --grpc
1 --grpc-port >=0.32.0
1 --h11-max-header-count
1 --h11-max-incomplete-event-size
0 --headless
? --hf-token
1 --host
+ --ignore-patterns
0 --interleave-mm-strings --no-interleave-mm-strings
1 --io-processor-plugin
j --ir-op-priority
1 --jit-monitor-mode >=0.25.1
0 --jit-monitor-verbose --no-jit-monitor-verbose
1 --kda-decode-backend >=0.30.0
1 --kda-prefill-backend >=0.27.1
j --kernel-config
0 --kv-cache-metrics --no-kv-cache-metrics
1 --kv-cache-metrics-sample
j --kv-events-config
1 --linear-backend
1 --load-format
1 --log-config-file
0 --log-error-stack --no-log-error-stack
1 --log-level >=0.31.0
j --logging-config >=0.31.0
+ --logits-processors
1 --logprobs-mode
1 --lora-dtype
+ --lora-modules
+ --lora-target-modules
1 --mamba-backend
1 --mamba-cache-philox-rounds
1 --mamba-ssu-algorithm >=0.27.1
1 --master-addr
1 --master-port
1 --max-log-len
1 --max-logprobs
1 --max-lora-cls-labels >=0.31.0
1 --max-parallel-loading-workers
j --media-io-kwargs
1 --middleware
0 --mm-device-do-normalize --no-mm-device-do-normalize >=0.28.0
1 --mm-encoder-attn-backend
1 --mm-encoder-attn-dtype
1 --mm-encoder-fp8-scale-path
1 --mm-encoder-fp8-scale-save-margin
1 --mm-encoder-fp8-scale-save-path
1 --mm-encoder-tp-mode
1 --mm-hasher-algorithm >=0.27.1
1 --mm-processor-cache-gb
1 --mm-processor-cache-type
1 --mm-processor-device >=0.28.0
j --mm-processor-kwargs
1 --mm-shm-cache-max-object-size-mb
1 --mm-tensor-ipc
1 --model-impl
j --model-loader-extra-config
1 --moe-backend
0 --monokernel --no-monokernel >=0.33.0
1 --nnodes -n
0 --no-disable-chunked-mm-input
0 --no-disable-hybrid-kv-cache-manager
0 --no-disable-sliding-window
0 --no-kv-sharing-fast-prefill
0 --no-long-prefill-token-threshold-adaptive >=0.31.0
0 --no-mm-encoder-only
0 --no-use-replayssm >=0.27.1
1 --node-rank -r
0 --numa-bind --no-numa-bind
+ --numa-bind-cpus
+ --numa-bind-nodes
1 --otlp-traces-endpoint
1 --override-attention-dtype <=0.27.1
j --override-generation-config
1 --per-request-spec-decode-metrics >=0.29.0
j --pooler-config
1 --port
1 --prefix-caching-hash-algo
j --profiler-config
j --pt-load-map-location
0 --ray-workers-use-nsight --no-ray-workers-use-nsight
j --reasoning-config
j --reasoning-effort-map >=0.33.0
1 --reasoning-parser
1 --reasoning-parser-plugin
1 --renderer-num-workers
1 --replayssm-buffer-len >=0.27.1
1 --response-role
0 --return-sampling-mask --no-return-sampling-mask >=0.28.0
0 --return-tokens-as-token-ids --no-return-tokens-as-token-ids
1 --revision
1 --root-path
1 --safetensors-load-strategy
1 --safetensors-prefetch-block-size
1 --safetensors-prefetch-num-threads
1 --seed
+ --served-model-name
1 --show-hidden-metrics-for-version
1 --shutdown-timeout
0 --skip-tokenizer-init --no-skip-tokenizer-init
1 --sleep-mode-backend >=0.33.0
0 --sleep-mode-offload-cudagraph --no-sleep-mode-offload-cudagraph >=0.32.0
+ --sleep-preserve-parameter-names >=0.31.0
1 --sparse-indexer-topk-backend >=0.30.0
0 --specialize-active-lora --no-specialize-active-lora
1 --sse-keep-alive-interval >=0.29.0
1 --ssl-ca-certs
1 --ssl-cert-reqs
1 --ssl-certfile
1 --ssl-ciphers
1 --ssl-keyfile
1 --stream-interval
j --structured-outputs-config
0 --swa-bounded-replay >=0.31.0
1 --tokenizer
1 --tokenizer-mode
1 --tokenizer-revision
0 --tokens-only --no-tokens-only
1 --tool-call-parser
1 --tool-parser-plugin
1 --tool-server
1 --tool-strict-level >=0.31.0
0 --trust-remote-code --no-trust-remote-code
0 --trust-request-chat-template --no-trust-request-chat-template
0 --trust-request-mm-kwargs --no-trust-request-mm-kwargs >=0.31.0
1 --ubatch-size
1 --uds
0 --use-fp64-gumbel --no-use-fp64-gumbel
0 --use-tqdm-on-load --no-use-tqdm-on-load
1 --uvicorn-log-level
1 --video-pruning-method >=0.27.1
1 --video-pruning-rate
j --watchdog-config >=0.33.0
j --watermark-config >=0.30.0
j --weight-transfer-config
1 --worker-extension-cls
"""

# Keys of --speculative-config that change no decision here: the draft model, its kernels and its sampling.
DRAFTER_KEYS = frozenset({
    "model", "enforce_eager", "draft_tensor_parallel_size", "tensor_parallel_size", "quantization", "moe_backend",
    "attention_backend", "kv_cache_dtype", "max_model_len", "revision", "code_revision", "prompt_lookup_max",
    "prompt_lookup_min", "draft_lm_head_quantization", "use_local_argmax_reduction", "use_heterogeneous_vocab",
    "draft_load_config", "rejection_sample_method", "draft_sample_method", "disable_padded_drafter_batch",
    "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
    "suffix_decoding_min_token_prob", "draft_vocab_prune", "index_share_for_mtp_iteration",
})  # fmt: skip
SIMULATED_METHODS = ("ngram", "draft_model", *EAGLE)
OFFLOAD_KEYS: Mapping[str, type] = {
    "blocks_per_chunk": int, "eviction_policy": str, "store_threshold": int, "offload_prompt_only": bool,
}  # fmt: skip
"""Keys of kv_connector_extra_config that are options here."""
SIMULATED_CONNECTOR = "OffloadingConnector"
CONNECTORS = {
    "MooncakeStoreConnector": "the store of Mooncake", "FlexKVConnectorV1": "the cache of FlexKV",
    "HF3FSKVConnector": "storage in 3FS", "SimpleCPUOffloadConnector": "its copies in CPU memory",
    "HiSparseConnector": "its copies in CPU memory", "ExampleConnector": "its files",
    "SharedStorageConnector": "its files", "MultiConnector": "several connectors at a time",
}  # fmt: skip
"""Connectors, and what of them is not simulated."""
FAMILIES = {
    "LMCache": "the cache of LMCache in CPU memory and storage", "Nixl": "the server on its other side",
    "Mooncake": "the server on its other side", "MoRIIO": "the server on its other side",
    "P2p": "the server on its other side",
}  # fmt: skip
"""Beginnings of the names of connectors; a server on the other side computes prompts, or generates."""
CHUNKS = "the number of chunks in CPU memory depends on the size of a block"


def read_max_model_len(text: str) -> ParsedArgument:
    """Read ``8192``, ``32k``, ``auto`` or -1: the server then takes as many as its pool holds."""
    if text in ("auto", "-1"):
        return ParsedArgument({"max_model_len": FITTING})
    return ParsedArgument({"max_model_len": read_human_integer(text)})


def read_batched_tokens(text: str) -> ParsedArgument:
    """Read the most tokens of a step, ``8192`` or ``8k``."""
    return ParsedArgument({"max_num_batched_tokens": read_human_integer(text)})


def _method(name: Any) -> ParsedArgument:
    """Return the drafting method of this name."""
    method = "mtp" if isinstance(name, str) and name.endswith("_mtp") else name
    if method not in SIMULATED_METHODS:
        return ParsedArgument(refused=(f"method {quoted(name)}",))
    return ParsedArgument({"speculative_method": method})


def _drafted(number: Any) -> Mapping[str, int]:
    """Return the option of the number of drafted tokens. Raise BadInput."""
    if type(number) is not int or number < 1:
        raise BadInput(f"num_speculative_tokens: expected an integer above 0, found {quoted(number)}")
    return {"num_speculative_tokens": number}


def read_speculative_config(value: Any) -> ParsedArgument:
    """Read the JSON value of --speculative-config. Raise BadInput."""
    config = json_object(value)
    found = _method(config["method"]) if "method" in config else ParsedArgument(needs={
        "speculative_method": "the method of --speculative-config is derived from the draft model"})  # fmt: skip
    options = {**found.options}
    if "num_speculative_tokens" in config:
        options |= _drafted(config["num_speculative_tokens"])
    if "disable_lookahead_block_hashes" in config:
        options["disable_lookahead_block_hashes"] = config["disable_lookahead_block_hashes"] is True
    read = {"method", "num_speculative_tokens", "disable_lookahead_block_hashes"}
    rest = [key for key in config if key not in read]
    refused = [key for key in rest if key not in DRAFTER_KEYS and config[key] not in (None, False)]
    return ParsedArgument(
        options, [key for key in rest if key not in refused], [*found.refused, *refused], needs=found.needs
    )


def read_kv_transfer_config(value: Any) -> ParsedArgument:
    """Read the JSON value of --kv-transfer-config: offloading to CPU memory is simulated. Raise BadInput."""
    config = json_object(value)
    name = config.get("kv_connector")
    if name != SIMULATED_CONNECTOR:
        return ParsedArgument(refused=(f"kv_connector {quoted(name)} ({_missing_connector(name)})",))
    more = json_object(config.get("kv_connector_extra_config", {}))
    options: dict[str, Any] = {}
    for key, kind in OFFLOAD_KEYS.items():
        if key in more and type(more[key]) is not kind:
            raise BadInput(f"{key}: expected {kind.__name__}, found {quoted(more[key])}")
        if key in more:
            options[key] = more[key]
    if options.get("eviction_policy", LRU) not in (LRU, ARC):
        return ParsedArgument(refused=(f"eviction_policy {quoted(options['eviction_policy'])}",))
    sizes = ("cpu_bytes_to_use", "cpu_bytes_to_use_per_rank")
    if more.get("spec_name", "CPUOffloadingSpec") != "CPUOffloadingSpec":
        return ParsedArgument(refused=(f"spec_name {quoted(more['spec_name'])}",))
    refused = [key for key in more if key not in OFFLOAD_KEYS and key not in (*sizes, "spec_name")]
    ignored = [key for key in (*config, *more) if key in (*sizes, "kv_role", "spec_name")]
    return ParsedArgument(options, ignored, refused, needs={"num_cpu_chunks": CHUNKS})


def _missing_connector(name: Any) -> str:
    """Return what of a connector is not simulated."""
    text = str(name)
    missing = CONNECTORS.get(text, "") or next((FAMILIES[one] for one in FAMILIES if text.startswith(one)), "")
    return f"{missing}{'; ' if missing else ''}only {SIMULATED_CONNECTOR} is simulated"


def read_offloading_size(text: str) -> ParsedArgument:
    """Read the size of CPU memory, which does not give the number of chunks."""
    return (
        ParsedArgument() if text in ("0", "0.0") else ParsedArgument(ignored=(text,), needs={"num_cpu_chunks": CHUNKS})
    )


def read_hf_overrides(value: Any) -> ParsedArgument:
    """Read changes of the model's configuration: other positions change the length of the model. Raise BadInput."""
    found = read_model_overrides(value)
    return found._replace(options={"allow_long_max_model_len": True}) if found.ignored else found


def multiples(unit: int) -> AllowedSizes:
    """Return the blocks of an attention backend: multiples of a ``unit`` [tokens], which it takes itself if
    the command line states none."""
    return AllowedSizes("block_size", (unit,), unit, multiples=True, refuses=True)


BACKENDS = {
    "FLASHINFER_MLA": multiples(32), "TOKENSPEED_MLA": multiples(32), "FLASHINFER_MLA_SPARSE": multiples(32),
    "CPU_ATTN": multiples(32), "AMX_MLA": multiples(32), "FLASHMLA": multiples(64), "FLASHMLA_SPARSE": multiples(64),
    "FLASH_ATTN_MLA_SPARSE": multiples(64), "HPC_ATTN": multiples(64), "CUTLASS_MLA": multiples(128),
}
"""Attention backend -> its blocks. Source: vLLM vllm/v1/attention/backends get_supported_kernel_block_sizes,
vllm/v1/attention/backend.py supports_block_size, get_preferred_block_size (0.30.0 to 0.33.0)."""


KERNEL_KEYS = frozenset({"gdn_prefill_backend", "kda_decode_backend", "kda_prefill_backend", "enable_cpu_binding"})
"""Keys of --additional-config that choose kernels alone, or the processors of a process. Source: vLLM 0.33.0
model_executor/layers/mamba/gdn, models/kimi_k3; vllm-project/vllm-ascend vllm_ascend/ascend_config.py."""


def read_additional_config(value: Any) -> ParsedArgument:
    """Read the JSON value of --additional-config: choices of kernels do not matter, keys of plugins may. Raise
    BadInput."""
    config = json_object(value)
    return ParsedArgument(
        ignored=[key for key in config if key in KERNEL_KEYS], refused=[key for key in config if key not in KERNEL_KEYS]
    )


def read_executor(text: str) -> ParsedArgument:
    """Read the kind of executor: only processes of vLLM's own take a step before the one before has ended."""
    if text == "ray":
        return ParsedArgument({"async_scheduling": False})
    return ParsedArgument(limits=(text,))


def read_dtype(text: str) -> ParsedArgument:
    """Read the type of the model's numbers, which rows and states have, too, unless another is given for them."""
    if text in ("float", FLOAT32):
        return ParsedArgument({"model_dtype": FLOAT32})
    return ParsedArgument(refused=(quoted(text),))


def read_backend(text: str) -> ParsedArgument:
    """Read the name of an attention backend, which can need longer blocks."""
    known = BACKENDS.get(text.upper())
    return ParsedArgument(allowed=(known,)) if known else ParsedArgument(limits=(text,))


def read_attention_config(value: Any) -> ParsedArgument:
    """Read the JSON value of --attention-config, of which the backend can need longer blocks. Raise BadInput."""
    config = json_object(value)
    others = [key for key in config if key != "backend"]
    backend = config.get("backend")
    found = read_backend(str(backend)) if backend else ParsedArgument()
    return found._replace(ignored=others)


COMMAND_TABLE = CommandTable(
    starts=(("vllm", "serve"), ("-m", "vllm.entrypoints.openai.api_server"), ("-m", "vllm.entrypoints.api_server")),
    arguments=table_rows(
        "vllm",
        options=OPTIONS,
        models=MODELS,
        sizes=SIZES,
        limits=LIMITS,
        not_simulated=NOT_SIMULATED,
        no_effect=WITHOUT_EFFECT,
    ),
    releases=release_names(
        "vllm", "0.24.0 0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0"),
    style=ArgumentStyle(underscores=True),
    positional=True,
    images=("vllm",),
    readers={
        "--additional-config": read_additional_config,
        "--attention-backend": read_backend,
        "--distributed-executor-backend": read_executor,
        "--dtype": read_dtype,
        "--attention-config": read_attention_config,
        "--max-model-len": read_max_model_len,
        "--max-num-batched-tokens": read_batched_tokens,
        "--speculative-config": read_speculative_config,
        "--spec-method": _method,
        "--spec-model": lambda text: ParsedArgument(ignored=(text,)),
        "--spec-tokens": lambda text: ParsedArgument(_drafted(parse_integer(text))),
        "--kv-transfer-config": read_kv_transfer_config,
        "--kv-offloading-size": read_offloading_size,
        "--hf-overrides": read_hf_overrides,
    },
    renamed={
        "--speculative-model": "--speculative-config", "--num-speculative-tokens": "--speculative-config",
        "--cuda-graph-sizes": "--cudagraph-capture-sizes", "--task": "--runner", "--swap-space": "",
        "--rope-scaling": "--hf-overrides", "--rope-theta": "--hf-overrides", "--use-v2-block-manager": "",
        "--num-scheduler-steps": "", "--enable-reasoning": "--reasoning-parser", "--device": "",
        "--guided-decoding-backend": "--structured-outputs-config", "--max-seq-len-to-capture": "",
        "--disable-log-requests": "--no-enable-log-requests", "--num-lookahead-slots": "", "--preemption-mode": "",
        "--max-num-partial-prefills": "", "--worker-use-ray": "--distributed-executor-backend",
        "--enable-mamba-fine-grained-prefix-cache": "--enable-mamba-shared-prefix-checkpoint",
        "--enable-mamba-shared-prefix-checkpoint": "--enable-mamba-fine-grained-prefix-cache",
        "--disable-frontend-multiprocessing": "",
    },
    options_file="--config",
    sized="num_gpu_blocks",
    variables=("VLLM_",),
    logged=(
        LoggedSize(r"\bKV cache size: ([\d,]+) tokens\b", "kv_cache_size_tokens"),
        LoggedSize(r"\bMaximum concurrency for ([\d,]+) tokens per request\b", "max_model_len"),
        LoggedSize(r"# (?:GPU|cuda|CUDA) blocks: (\d+)\b", "num_gpu_blocks"),
        LoggedSize(r"\bvllm:cache_config_info\{[^\n]*\bnum_gpu_blocks=\"(\d+)\"", "num_gpu_blocks"),
        LoggedSize(r"\bSetting attention block size to (\d+) tokens\b", "attention_block_size"),
    ),
    replicas=frozenset({"--data-parallel-size", "-dp"}),
    switches={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "allow_long_max_model_len"},
)  # fmt: skip
