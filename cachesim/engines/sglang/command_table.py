"""Arguments of SGLang's server by release, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and their conditions: >= and <= name a
release, = a value without effect. A row is one line, which makes this module long.
Source: SGLang 0.5.9 and 0.5.20 to 0.5.23 (PyPI) python/sglang/srt/server_args.py ServerArgs.add_cli_args.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.errors import quoted
from cachesim.engines.sglang.flags import BYTES
from cachesim.engines.shared.command_table import (
    AllowedSizes,
    CommandTable,
    LoggedSize,
    ParsedArgument,
    Reader,
    read_human_integer,
    read_model_overrides,
    release_names,
    table_rows,
)

OPTIONS = """
1 --chunked-prefill-size
1 --context-length
0 --disable-overlap-schedule
0 --disable-radix-cache
0 --enable-hicache >=0.5.23
0 --enable-hierarchical-cache
1 --hicache-ratio
1 --hicache-write-policy
1 --mamba-full-memory-ratio
1 --mamba-max-states-per-path >=0.5.20
1 --mamba-radix-cache-strategy >=0.5.20
1 --mamba-scheduler-strategy <=0.5.9
j --json-model-override-args
1 --mamba-track-interval
1 --kv-cache-dtype
1 --max-mamba-cache-size
1 --mem-fraction-static
1 --max-prefill-tokens
1 --max-running-requests
1 --max-total-tokens
1 --page-size
1 --radix-eviction-policy
1 --schedule-policy
1 --speculative-algorithm
1 --device =cuda =cpu =hpu =rocm
1 --attention-backend =fa3 =flashinfer =triton =torch_native
1 --decode-attention-backend =fa3 =flashinfer =triton =torch_native
1 --prefill-attention-backend =fa3 =flashinfer =triton =torch_native
1 --speculative-draft-attention-backend =fa3 =flashinfer =triton
1 --speculative-num-steps
0 --strip-thinking-cache >=0.5.20
1 --swa-full-tokens-ratio
1 --tensor-parallel-size --tp-size
"""

MODELS = """
1 --model-path --model
"""

SIZES = """
1 --cpu-offload-gb
1 --cuda-graph-backend-decode >=0.5.20
1 --cuda-graph-backend-prefill >=0.5.20
+ --cuda-graph-bs <=0.5.9
+ --cuda-graph-bs-decode >=0.5.20
+ --cuda-graph-bs-prefill >=0.5.20
j --cuda-graph-config >=0.5.20
1 --cuda-graph-max-bs <=0.5.9
1 --cuda-graph-max-bs-decode >=0.5.20
1 --cuda-graph-max-bs-prefill >=0.5.20
1 --cuda-graph-prefill-max-context --context-bucket >=0.5.21
1 --cuda-graph-tc-compiler >=0.5.20 <=0.5.21
0 --disable-cuda-graph
0 --disable-cuda-graph-padding
0 --disable-decode-cuda-graph >=0.5.20
0 --disable-prefill-cuda-graph >=0.5.20
1 --dsa-decode-backend >=0.5.20
1 --dsa-prefill-backend >=0.5.20
1 --dsv4-attn-backend >=0.5.20
1 --dtype =auto =half =float16 =bfloat16
0 --enable-deepseek-v4-fp4-indexer >=0.5.20
0 --enable-lora
0 --enable-piecewise-cuda-graph <=0.5.9
0 --enable-torch-compile
1 --mamba-ssm-dtype
1 --max-lora-rank
1 --nsa-decode-backend <=0.5.9
1 --nsa-prefill-backend <=0.5.9
1 --piecewise-cuda-graph-compiler <=0.5.9
1 --piecewise-cuda-graph-max-tokens <=0.5.9
+ --piecewise-cuda-graph-tokens <=0.5.9
1 --quantization
1 --speculative-draft-kv-cache-dtype >=0.5.20
1 --speculative-draft-model-quantization
1 --torch-compile-max-bs
"""

LIMITS = """
0 --allow-auto-truncate
1 --max-loaded-loras
1 --max-loras-per-batch
1 --max-queued-requests
1 --speculative-num-draft-tokens
"""

NOT_SIMULATED = """
1 --dwdp-size >=0.5.20 =1
1 --speculative-draft-sink-size >=0.5.21
0 --enable-double-sparsity <=0.5.9
1 --hybrid-kvcache-ratio <=0.5.9
1 --attention-context-parallel-size --attn-cp-size =1
1 --attn-dp-size --attention-data-parallel-size >=0.5.22 =1
1 --c128-page-size >=0.5.20
1 --config
1 --data-parallel-size --dp-size =1
1 --dcp-size --decode-context-parallel-size >=0.5.20 =1
0 --disable-hybrid-swa-memory
1 --disaggregation-mode =null
1 --dllm-algorithm
0 --enable-decoder-swa-bounded-replay >=0.5.21
0 --enable-deterministic-inference
0 --enable-dp-attention
0 --enable-dynamic-chunking
0 --enable-encoder-swa-bounded-replay >=0.5.21
0 --enable-flexkv >=0.5.20
0 --enable-hisparse >=0.5.20
0 --enable-int8-mamba-checkpoint >=0.5.20
0 --enable-kv-cache-sharding >=0.5.22
0 --enable-linear-replayssm >=0.5.20
0 --enable-linear-replayssm-spec >=0.5.20
0 --enable-lmcache
0 --enable-mixed-chunk
0 --enable-multi-layer-eagle
0 --enable-nsa-prefill-context-parallel <=0.5.9
0 --enable-pdmux
0 --enable-prefill-cp >=0.5.20
0 --enable-prefill-delayer
0 --enable-priority-scheduling
0 --enable-session-radix-cache >=0.5.20
0 --enable-streaming-session >=0.5.20
0 --enable-unified-cache-external-linker >=0.5.20
0 --enable-unified-memory >=0.5.20
0 --encoder-only
1 --hicache-host-memory-fraction >=0.5.21
1 --hicache-host-memory-mode >=0.5.20 =cache
1 --hicache-size =0
1 --hicache-storage-backend
1 --int8-mamba-ckpt-size >=0.5.20
0 --is-embedding
1 --min-free-slots-delay >=0.5.20
1 --num-continuous-decode-steps =1
1 --pipeline-parallel-size --pp-size =1
1 --prefill-decode-interval >=0.5.20
1 --prefill-max-requests
0 --prefill-only-disable-kv-cache >=0.5.20
1 --radix-cache-backend >=0.5.20
j --radix-eviction-policy-config >=0.5.20
1 --retraction-policy >=0.5.20 =length
1 --rl-on-policy-target
1 --schedule-conservativeness =1 =1.0
0 --schedule-low-priority-values-first
0 --speculative-adaptive >=0.5.20
1 --speculative-draft-window-size >=0.5.20
1 --speculative-eagle-topk =1
1 --swa-prefix-tails >=0.5.21
"""

WITHOUT_EFFECT = """
0 --abort-on-priority-when-disabled
1 --admin-api-key
+ --allowed-media-domains >=0.5.20
1 --api-key
1 --asr-max-buffer-seconds >=0.5.20
1 --asr-max-concurrent-sessions >=0.5.20
1 --base-gpu-id
1 --batch-notify-size >=0.5.20
1 --bf16-gemm-backend >=0.5.20
1 --boundary-reduction >=0.5.21
+ --bucket-e2e-request-latency
+ --bucket-inter-token-latency
+ --bucket-time-to-first-token
1 --chat-template
0 --checkpoint-engine-wait-weights-before-ready
0 --collect-tokens-histogram <=0.5.9
1 --completion-template
0 --constrained-json-disable-any-whitespace
1 --constrained-json-max-whitespace-cnt >=0.5.21
1 --constrained-json-whitespace-pattern
1 --cp-strategy >=0.5.20
1 --crash-dump-folder
1 --cuda-graph-max-seq-len-prefill >=0.5.21
1 --custom-sigquit-handler <=0.5.9
* --custom-weight-loader
1 --dcp-comm-backend >=0.5.20
0 --dcp-replicate-q-proj --no-dcp-replicate-q-proj >=0.5.20
0 --debug-cuda-graph >=0.5.20
1 --debug-tensor-dump-inject <=0.5.9
1 --debug-tensor-dump-input-file
+ --debug-tensor-dump-layers
1 --debug-tensor-dump-output-folder
1 --decode-log-interval
1 --decoupled-spec-bind-endpoint >=0.5.20
1 --decoupled-spec-connect-endpoints >=0.5.20
1 --decoupled-spec-rank >=0.5.20
1 --decoupled-spec-role >=0.5.20
1 --decrypted-config-file
1 --decrypted-draft-config-file
1 --deepep-config
1 --deepep-dispatcher-output-dtype >=0.5.20
1 --deepep-mode
1 --deepep-v2-mode >=0.5.20
j --default-chat-template-kwargs >=0.5.20
1 --default-priority-value >=0.5.20
0 --delete-ckpt-after-loading
1 --detokenizer-worker-num >=0.5.20
0 --disable-aiter-allreduce-fusion-in-decode >=0.5.21
0 --disable-aiter-allreduce-fusion-in-prefill >=0.5.21
0 --disable-attn-tp-gather >=0.5.20
0 --disable-chunked-prefix-cache
0 --disable-custom-all-reduce
0 --disable-fast-image-processor
0 --disable-flashinfer-autotune
0 --disable-flashinfer-cutlass-moe-fp4-allgather
0 --disable-hicache-numa-detect <=0.5.9
0 --disable-outlines-disk-cache
0 --disable-priority-preemption >=0.5.20
0 --disable-shared-experts-fusion
0 --disable-tokenizer-batch-decode
1 --disaggregation-bootstrap-port
1 --disaggregation-decode-allocation-policy >=0.5.22
1 --disaggregation-decode-dp <=0.5.9
0 --disaggregation-decode-enable-offload-kvcache
0 --disaggregation-decode-enable-radix-cache >=0.5.20
1 --disaggregation-decode-extra-slots >=0.5.20
1 --disaggregation-decode-host-receive-threshold >=0.5.21
1 --disaggregation-decode-polling-interval
1 --disaggregation-decode-retraction-backup >=0.5.20
1 --disaggregation-decode-tp <=0.5.9
0 --disaggregation-enable-kv-checksum >=0.5.21
1 --disaggregation-ib-device
1 --disaggregation-prefill-pp <=0.5.9
1 --disaggregation-transfer-backend
1 --dist-init-addr --nccl-init-addr
1 --dist-timeout
1 --dllm-algorithm-config
0 --dllm-fdfo --no-dllm-fdfo >=0.5.20
1 --download-dir
1 --ds-channel-config-path <=0.5.9
1 --ds-heavy-channel-num <=0.5.9
1 --ds-heavy-channel-type <=0.5.9
1 --ds-heavy-token-num <=0.5.9
1 --ds-sparse-decode-threshold <=0.5.9
1 --dsa-paged-mqa-logits-backend >=0.5.20
1 --dsa-topk-backend >=0.5.20
1 --dsa-triton-union >=0.5.22
1 --dsv4-prefill-backend >=0.5.20
1 --dynamic-batch-tokenizer-batch-size
1 --dynamic-batch-tokenizer-batch-timeout
1 --elastic-ep-backend
1 --elastic-ep-initial-size >=0.5.20
1 --elastic-ep-join-mode >=0.5.20
1 --elastic-ep-join-rank-offset >=0.5.20
0 --elastic-ep-rejoin >=0.5.20 <=0.5.20
1 --elastic-ep-scale-timeout >=0.5.20
0 --enable-adaptive-dispatch-to-encoder >=0.5.20
0 --enable-aiter-allreduce-fusion >=0.5.20
0 --enable-amd-monokernel >=0.5.23
0 --enable-attn-tp-input-scattered
0 --enable-broadcast-mm-inputs-process
0 --enable-cache-report
0 --enable-cp-decode-attn-tp >=0.5.20
0 --enable-cudagraph-gc
0 --enable-custom-logit-processor
0 --enable-dense-mlp-attn-tp >=0.5.20
0 --enable-dp-attention-local-control-broadcast >=0.5.20
0 --enable-dp-lm-head
0 --enable-draft-weights-cpu-backup
0 --enable-dsa-cache-layer-split >=0.5.20
0 --enable-dsa-fused-indexer --no-enable-dsa-fused-indexer >=0.5.22
0 --enable-dynamic-batch-tokenizer
0 --enable-elastic-expert-backup >=0.5.20
0 --enable-eplb
0 --enable-expert-distribution-metrics <=0.5.9
0 --enable-flashinfer-allreduce-fusion
0 --enable-forward-pass-metrics >=0.5.20
0 --enable-fp32-lm-head
0 --enable-fused-moe-sum-all-reduce >=0.5.20
0 --enable-fused-qk-norm-rope
0 --enable-http-worker-reuseport >=0.5.23
0 --enable-http2 >=0.5.20
0 --enable-layernorm-sp >=0.5.20
0 --enable-layerwise-nvtx-marker
0 --enable-lean-attention >=0.5.20
0 --enable-linker-mla-dedup >=0.5.21
0 --enable-lora-overlap-loading
0 --enable-mamba-cache-stochastic-rounding >=0.5.20
0 --enable-megamoe-for-layernorm-sp >=0.5.23
0 --enable-memory-saver
0 --enable-metrics
0 --enable-metrics-for-all-schedulers
0 --enable-mfu-metrics >=0.5.20
0 --enable-mis >=0.5.20
0 --enable-mm-global-cache >=0.5.20
0 --enable-mscclpp
0 --enable-multimodal
0 --enable-nan-detection <=0.5.9
0 --enable-nccl-nvls
0 --enable-nvidia-megakernel >=0.5.23
0 --enable-p2p-check
0 --enable-page-major-kv-layout >=0.5.20
0 --enable-paged-experts >=0.5.23
0 --enable-pd-role-switch >=0.5.21
0 --enable-precise-embedding-interpolation
0 --enable-prefix-mm-cache
0 --enable-profile-cuda-graph
0 --enable-quant-communications >=0.5.20
0 --enable-request-time-stats-logging
0 --enable-response-store >=0.5.20
0 --enable-return-aux-hidden-states >=0.5.23
0 --enable-return-hidden-states
0 --enable-return-indexer-topk >=0.5.20
0 --enable-return-routed-experts
0 --enable-scattered-sconv >=0.5.20
0 --enable-shared-experts-attn-tp >=0.5.20
0 --enable-single-batch-overlap
0 --enable-ssl-refresh >=0.5.20
0 --enable-strict-thinking >=0.5.20
0 --enable-symm-mem
0 --enable-tf32-matmul >=0.5.20
0 --enable-tokenizer-batch-encode
0 --enable-torch-compile-debug-mode
0 --enable-torch-symm-mem
0 --enable-tp-lm-head-all-to-all --no-enable-tp-lm-head-all-to-all >=0.5.20
0 --enable-trace
0 --enable-two-batch-overlap
0 --enable-w4a4-mxfp4-megamoe >=0.5.20
0 --enable-waterfill >=0.5.20
0 --enable-watermark >=0.5.22
0 --enable-weights-cpu-backup
1 --encoder-bootstrap-port >=0.5.20
+ --encoder-register-urls >=0.5.20
1 --encoder-transfer-backend
+ --encoder-urls
0 --enforce-disable-flashinfer-allreduce-fusion >=0.5.20
0 --enforce-shared-experts-fusion >=0.5.20
1 --engine-info-bootstrap-port >=0.5.20
1 --ep-dispatch-algorithm
1 --ep-num-redundant-experts
1 --eplb-algorithm
1 --eplb-min-rebalancing-utilization-threshold
1 --eplb-rebalance-layers-per-chunk
1 --eplb-rebalance-num-iterations
1 --expert-balancedness-report-mode >=0.5.20
1 --expert-distribution-recorder-buffer-size
1 --expert-distribution-recorder-mode
1 --expert-parallel-size --ep-size --ep
0 --experts-shared-outer-loras --no-experts-shared-outer-loras >=0.5.20
0 --export-metrics-to-file
1 --export-metrics-to-file-dir
j --extra-metric-labels
1 --fastapi-root-path
1 --file-storage-path
1 --flashinfer-a2a-dispatch-type >=0.5.20
1 --flashinfer-allreduce-fusion-backend >=0.5.20
+ --flashinfer-autotune-skip-ops >=0.5.20
0 --flashinfer-mla-disable-ragged
1 --flashinfer-mxfp4-moe-precision
1 --flexkv-config-file >=0.5.20
1 --forward-hooks
1 --forward-pass-metrics-ipc-name >=0.5.20
1 --forward-pass-metrics-worker-id >=0.5.20
1 --fp4-gemm-backend
1 --fp8-gemm-backend
1 --fuseep-mode >=0.5.20
1 --gated-launch-port >=0.5.20
+ --gc-threshold >=0.5.20
1 --gc-warning-threshold-secs
+ --generation-tokens-buckets
1 --gpu-id-step
1 --grammar-backend
0 --grpc-mode
1 --grpc-port >=0.5.20
1 --grpc-response-timeout-secs >=0.5.21
1 --hf-chat-template-name
1 --hicache-io-backend
1 --hicache-mem-layout
1 --hicache-storage-backend-extra-config
1 --hicache-storage-prefetch-policy
1 --hicache-storage-prefetch-retry-max-attempts >=0.5.20
1 --hicache-storage-prefetch-retry-poll-interval >=0.5.20
1 --hierarchical-sparse-attention-extra-config
1 --hisparse-config >=0.5.20
1 --host
1 --http2-initial-connection-window-size >=0.5.20
1 --http2-max-concurrent-streams >=0.5.20
1 --image-processor-backend >=0.5.20
0 --incremental-streaming-output >=0.5.20
1 --init-expert-location
0 --keep-mm-feature-on-device <=0.5.20
1 --kt-cpuinfer
1 --kt-max-deferred-experts-per-token
1 --kt-method
1 --kt-num-gpu-experts
1 --kt-threadpool-count
1 --kt-weight-path
1 --kv-canary >=0.5.20
1 --kv-canary-real-data >=0.5.20
1 --kv-canary-sweep-interval >=0.5.20
j --kv-events-config
0 --language-model-only >=0.5.20
0 --language-only
j --limit-mm-data-per-request
1 --linear-attn-backend >=0.5.20
1 --linear-attn-decode-backend >=0.5.20
1 --linear-attn-prefill-backend >=0.5.20
1 --linear-attn-verify-backend >=0.5.20
1 --linear-replayssm-cache-len >=0.5.20
1 --lmcache-config-file >=0.5.20
1 --load-balance-method
1 --load-format
1 --load-publish-endpoint >=0.5.20
1 --load-snapshot-publish-interval >=0.5.20
1 --log-level
1 --log-level-http
0 --log-requests
1 --log-requests-format
1 --log-requests-level
+ --log-requests-target
1 --lora-backend
1 --lora-drain-wait-threshold >=0.5.20
1 --lora-eviction-policy
* --lora-paths
0 --lora-strict-loading --no-lora-strict-loading >=0.5.20
* --lora-target-modules
0 --lora-use-virtual-experts >=0.5.20
1 --mamba-backend
1 --mamba-cache-philox-rounds >=0.5.20
1 --max-ep-size >=0.5.20
1 --max-lora-chunk-size
1 --media-url-max-file-size-mb >=0.5.20
0 --mlx-enable-sampling >=0.5.20
1 --mm-attention-backend
0 --mm-enable-dp-encoder
1 --mm-feature-transport >=0.5.20
1 --mm-global-cache-backend >=0.5.20
1 --mm-io-worker-num >=0.5.20
1 --mm-max-concurrent-calls <=0.5.9
1 --mm-per-request-timeout <=0.5.9
1 --mm-preprocess-cache-size-mb >=0.5.20
j --mm-process-config
1 --mm-processor-worker-num >=0.5.20
? --model-checksum
1 --model-config-parser >=0.5.20
1 --model-impl
j --model-loader-extra-config
1 --modelexpress-config >=0.5.20
1 --modelopt-checkpoint-restore-path
1 --modelopt-checkpoint-save-path
1 --modelopt-export-path
1 --modelopt-quant
1 --moe-a2a-backend
1 --moe-data-parallel-size --moe-dp-size
1 --moe-dense-tp-size
1 --moe-runner-backend
0 --monokernel-backend >=0.5.23
1 --mooncake-ib-device
j --msprobe-dump-config >=0.5.20
1 --multi-item-scoring-delimiter <=0.5.9
1 --nccl-port
1 --nnodes
0 --no-enable-decoder-swa-bounded-replay >=0.5.23
0 --no-enable-fused-qk-norm-rope >=0.5.23
0 --no-enable-tf32-matmul >=0.5.23
0 --no-mm-enable-dp-encoder >=0.5.23
1 --node-rank
1 --nsa-prefill-cp-mode <=0.5.9
1 --num-reserved-decode-tokens
+ --numa-node
1 --offload-group-size
1 --offload-mode
1 --offload-num-in-group
1 --offload-prefetch-step
1 --optimistic-prefill-attempts >=0.5.20
1 --otlp-service-name >=0.5.21
1 --otlp-traces-endpoint
1 --paged-experts-num-resident >=0.5.23
1 --pdmux-config-path
1 --ple-offload-backend >=0.5.20
1 --ple-offload-dir >=0.5.20
0 --ple-offload-embedding --no-ple-offload-embedding >=0.5.20
1 --port
1 --pp-async-batch-depth
1 --pp-max-micro-batch-size
0 --pre-warm-nccl >=0.5.20
j --preferred-sampling-params
1 --prefill-decode-interval-min-bs >=0.5.23
+ --prefill-delayer-forward-passes-buckets
1 --prefill-delayer-max-delay-ms >=0.5.20
1 --prefill-delayer-max-delay-passes
1 --prefill-delayer-queue-min-ratio >=0.5.20
1 --prefill-delayer-token-usage-low-watermark
+ --prefill-delayer-wait-seconds-buckets
1 --prefill-kv-cache-dequant-dtype >=0.5.21
1 --prefill-round-robin-balance <=0.5.9
1 --priority-scheduling-preemption-threshold
+ --prompt-tokens-buckets
1 --qsa-indexer-dtype >=0.5.22
1 --quantization-param-path
0 --quantize-and-serve
1 --random-seed
1 --reasoning-parser
1 --remote-instance-weight-loader-backend
1 --remote-instance-weight-loader-seed-instance-ip
1 --remote-instance-weight-loader-seed-instance-service-port
1 --remote-instance-weight-loader-send-weights-group-ports
0 --remote-instance-weight-loader-start-seed-via-transfer-engine
+ --return-aux-hidden-state-layer-ids >=0.5.23
1 --return-hidden-states-mode >=0.5.20
0 --return-input-ids >=0.5.20
0 --return-output-ids >=0.5.20
1 --revision
1 --rl-quant-profile
1 --sampling-backend
1 --sampling-defaults
1 --sampling-mask-max-tokens >=0.5.20
1 --scheduler-recv-interval
1 --served-model-name
1 --shared-experts-tp-size >=0.5.21
0 --show-time-cost
1 --sidecar >=0.5.20
1 --sidecar-args >=0.5.20
0 --skip-server-warmup
0 --skip-tokenizer-init
0 --sleep-on-idle
1 --sm-group-num
0 --smg-grpc-mode >=0.5.20
1 --smg-http-sidecar-port --grpc-http-sidecar-port >=0.5.20
1 --soft-watchdog-timeout
1 --spec-trace-dir >=0.5.20
1 --speculative-accept-threshold-acc
1 --speculative-accept-threshold-single
1 --speculative-adaptive-config >=0.5.20
1 --speculative-attention-mode
1 --speculative-dflash-block-size >=0.5.20
1 --speculative-domino-candidate-pool-size >=0.5.20
1 --speculative-draft-load-format
1 --speculative-draft-model-path --speculative-draft-model
1 --speculative-draft-model-revision
1 --speculative-dsa-topk-backend >=0.5.20
0 --speculative-dspark-align-verify-tokens-to-graph-tier >=0.5.20
1 --speculative-dspark-block-size >=0.5.20
1 --speculative-dspark-confidence-sts-path >=0.5.20
1 --speculative-dspark-sps-table-path >=0.5.20
0 --speculative-enable-w4a4-mxfp4-megamoe --no-speculative-enable-w4a4-mxfp4-megamoe >=0.5.22
1 --speculative-moe-a2a-backend
1 --speculative-moe-runner-backend
1 --speculative-ngram-branch-length <=0.5.9
1 --speculative-ngram-capacity
1 --speculative-ngram-external-corpus-max-tokens >=0.5.20
1 --speculative-ngram-external-corpus-path >=0.5.20
1 --speculative-ngram-external-sam-budget >=0.5.20
1 --speculative-ngram-match-type
1 --speculative-ngram-max-bfs-breadth
1 --speculative-ngram-max-match-window-size <=0.5.9
1 --speculative-ngram-max-trie-depth >=0.5.20
1 --speculative-ngram-min-bfs-breadth
1 --speculative-ngram-min-match-window-size <=0.5.9
0 --speculative-skip-dp-mlp-sync >=0.5.20 <=0.5.22
1 --speculative-token-map
0 --speculative-use-block-verification >=0.5.22
0 --speculative-use-rejection-sampling >=0.5.20
1 --ssl-ca-certs >=0.5.20
1 --ssl-certfile >=0.5.20
1 --ssl-keyfile >=0.5.20
1 --ssl-keyfile-password >=0.5.20
1 --startup-weight-load-mode >=0.5.20
1 --stream-interval
0 --stream-output <=0.5.9
0 --stream-response-default-include-usage >=0.5.20
1 --tbo-token-distribution-threshold
1 --tokenizer-backend >=0.5.20
+ --tokenizer-metrics-allowed-custom-labels
1 --tokenizer-metrics-custom-labels-header
1 --tokenizer-mode
1 --tokenizer-path
1 --tokenizer-worker-num
1 --tool-call-parser
1 --tool-server
j --torchao-config <=0.5.9
1 --trace-modules >=0.5.20
1 --triton-attention-num-kv-splits
0 --triton-attention-reduce-in-fp32
1 --triton-attention-split-tile-size
0 --trust-mm-content-hashes >=0.5.20
0 --trust-remote-code
0 --trust-request-chat-template >=0.5.21
1 --unified-cache-external-linker-backend >=0.5.20
j --unified-cache-external-linker-config >=0.5.23
1 --uno-lora-path >=0.5.20
0 --use-ray >=0.5.20
* --uvicorn-access-log-exclude-prefixes
1 --warmups
1 --watchdog-timeout
j --watermark-config >=0.5.22
1 --weight-cache-mode >=0.5.20
1 --weight-cache-socket >=0.5.20
1 --weight-cache-timeout >=0.5.20
0 --weight-loader-disable-mmap
0 --weight-loader-drop-cache-after-load >=0.5.20
0 --weight-loader-prefetch-checkpoints >=0.5.20
1 --weight-loader-prefetch-num-threads >=0.5.20
1 --weight-version
"""

DRAFTERS = {"EAGLE": "EAGLE", "EAGLE3": "EAGLE", "NEXTN": "EAGLE", "NGRAM": "NGRAM"}
"""Algorithm of drafts -> the option here: those of the EAGLE family compare prefixes as pairs of tokens."""


def read_overrides(value: Any) -> ParsedArgument:
    """Read changes of the model's configuration: other positions change its context. Raise BadInput."""
    found = read_model_overrides(value)
    return found._replace(options={"allow_longer_context": True}) if found.ignored else found


def read_row_type(text: str) -> ParsedArgument:
    """Read the type of the rows: an unknown one changes the size of the pool alone."""
    return ParsedArgument({"kv_cache_dtype": text}) if text in BYTES else ParsedArgument(limits=(text,))


def read_algorithm(text: str) -> ParsedArgument:
    """Read the algorithm of drafts."""
    if text not in DRAFTERS:
        return ParsedArgument(refused=(quoted(text),))
    return ParsedArgument({"speculative_algorithm": DRAFTERS[text]})


def pages(otherwise: int, *sizes: int, since: str = "", until: str = "") -> AllowedSizes:
    """Return the pages that an attention backend takes, and the one that the server makes of others."""
    return AllowedSizes("page_size", sizes, otherwise, since=since, until=until)


LATENT = {
    "flashmla": (pages(64, 64),),
    "cutlass_mla": (pages(128, 128),),
    "trtllm_mla": (pages(64, 32, 64),),
}
ANY_USE = {
    "cutedsl_mla": (pages(64, 32, 64),),
    "tokenspeed_mla": (pages(64, 32, 64),),
    "hpc_ops": (pages(64, 64),),
    "trtllm_mha": (pages(64, 16, 32, 64, until="sglang@0.5.9"), pages(64, 16, 32, 64, 128, since="sglang@0.5.20")),
    "intel_xpu": (pages(128, 32, 64, 128, until="sglang@0.5.9"), pages(128, 64, 128, since="sglang@0.5.20")),
    "ascend": (pages(128),),
}
DEVICES = {"npu": (pages(128),), "musa": (pages(64, since="sglang@0.5.20"),), "xpu": ANY_USE["intel_xpu"]}
"""Attention backend -> its pages: those that count unless they evaluate prompts alone, and those that always count;
device -> those of its own backend. Source: SGLang server_args.py _handle_attention_backend_compatibility (0.5.9),
arg_groups/overrides.py _mla_backend_page_constraints, _intel_xpu_page_constraint, _page_size_default,
hardware_backend/npu/utils.py set_default_server_args (0.5.20, 0.5.23)."""
BY_DEVICE = {"fa4": "fa4 has pages of 128 tokens on Blackwell GPUs, unless the model has latent rows; elsewhere they "
                    "are as stated"}  # fmt: skip
"""Attention backend -> its pages, which depend on more than the command line states."""


def backend_reader(known: Mapping[str, Sequence[AllowedSizes]]) -> Reader:
    """Return a reader of the name of an attention backend, with these pages."""
    def read_backend(text: str) -> ParsedArgument:
        """Read the name of an attention backend."""
        if text in known:
            return ParsedArgument(allowed=known[text])
        if text in BY_DEVICE:
            return ParsedArgument(ignored=(text,), needs={"page_size": BY_DEVICE[text]})
        return ParsedArgument(limits=(text,))

    return read_backend


def read_device(text: str) -> ParsedArgument:
    """Read the kind of device, which can have pages of its own."""
    allowed = DEVICES.get(text.split(":")[0], ())
    return ParsedArgument(allowed=allowed) if allowed else ParsedArgument(limits=(text,))


COMMAND_TABLE = CommandTable(
    starts=(("-m", "sglang.launch_server"), ("sglang", "serve")),
    arguments=table_rows(
        "sglang",
        options=OPTIONS,
        models=MODELS,
        sizes=SIZES,
        limits=LIMITS,
        not_simulated=NOT_SIMULATED,
        no_effect=WITHOUT_EFFECT,
    ),
    releases=release_names("sglang", "0.5.9 0.5.20 0.5.21 0.5.22 0.5.23"),
    positional=True,
    images=("sglang",),
    readers={
        "--device": read_device,
        "--json-model-override-args": read_overrides,
        "--kv-cache-dtype": read_row_type,
        "--speculative-algorithm": read_algorithm,
        "--attention-backend": backend_reader({**LATENT, **ANY_USE}),
        "--decode-attention-backend": backend_reader({**LATENT, **ANY_USE}),
        "--prefill-attention-backend": backend_reader(ANY_USE),
        "--speculative-draft-attention-backend": backend_reader({"trtllm_mha": ANY_USE["trtllm_mha"]}),
        "--max-total-tokens": lambda text: ParsedArgument({"max_total_tokens": read_human_integer(text)}),
        "--max-prefill-tokens": lambda text: ParsedArgument({"max_prefill_tokens": read_human_integer(text)}),
    },
    renamed={
        "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
        "--mamba-radix-cache-strategy": "--mamba-scheduler-strategy", "--enable-hicache": "--enable-hierarchical-cache",
        "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode", "--cuda-graph-bs": "--cuda-graph-bs-decode",
        "--nsa-prefill-backend": "--dsa-prefill-backend", "--nsa-decode-backend": "--dsa-decode-backend",
        "--enable-ep-moe": "--ep-size", "--enable-deepep-moe": "--moe-a2a-backend", "--enable-flashinfer-mla": "",
        "--disable-mla": "", "--enable-hip-attention": "",
    },
    options_file="--config",
    sized="max_total_tokens",
    variables=("SGLANG_", "SGL_"),
    logged=(
        LoggedSize(r"\bKV Cache is allocated\.[^\n]*? #tokens: (\d+)\b", "max_total_tokens"),
        LoggedSize(r"\bmax_total_num_tokens=(\d+)\b", "max_total_tokens"),
        LoggedSize(r"\bmax_total_num_tokens=\d+, chunked_prefill_size=(\d+)\b", "chunked_prefill_size"),
        LoggedSize(r"\bmax_total_num_tokens=\d+[^\n]*?, max_running_requests=(\d+)\b", "max_running_requests"),
        LoggedSize(r"\bmax_total_num_tokens=\d+[^\n]*?, context_len=(\d+)\b", "context_len"),
        LoggedSize(r"\bMamba Cache is allocated\. max_mamba_cache_size: (\d+)\b", "max_mamba_cache_size"),
    ),
    replicas=frozenset({"--data-parallel-size", "--dp-size", "--dp", "--enable-dp-attention"}),
    switches={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "allow_longer_context"},
)  # fmt: skip
