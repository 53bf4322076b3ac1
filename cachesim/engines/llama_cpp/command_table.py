"""Arguments of llama-server by build, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and their conditions: >= and <= name a
release, = a value without effect, $ an environment variable. A row is one line, which makes this module long.
Source: llama.cpp common/arg.cpp of 23 builds from b5833 to b11549, in PyPI's llama-cpp-python 0.3.12, 0.3.16 and
0.3.36 and in its xllamacpp.
"""

from __future__ import annotations

from functools import partial

from cachesim.engines.llama_cpp.flags import period_of
from cachesim.engines.shared.command_line import parse_integer
from cachesim.engines.shared.command_table import (
    ArgumentStyle,
    CommandTable,
    ParsedArgument,
    read_metadata,
    release_names,
    table_rows,
)
from cachesim.engines.shared.images import read_projector

OPTIONS = """
1 -b --batch-size $LLAMA_ARG_BATCH
1 -c --ctx-size $LLAMA_ARG_CTX_SIZE
0 --cache-idle-slots --no-cache-idle-slots >=b8929 $LLAMA_ARG_CACHE_IDLE_SLOTS
0 --cache-prompt --no-cache-prompt >=b7827 $LLAMA_ARG_CACHE_PROMPT
1 --cache-reuse $LLAMA_ARG_CACHE_REUSE
1 -cms --checkpoint-min-step >=b9538 $LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT
1 -cpent --checkpoint-every-n-tokens >=b8352 <=b9294 $LLAMA_ARG_CHECKPOINT_EVERY_NT
0 --clear-idle >=b8672 <=b8672
0 --context-shift >=b7376 $LLAMA_ARG_CONTEXT_SHIFT
1 -cram --cache-ram >=b7376 $LLAMA_ARG_CACHE_RAM
1 -ctk --cache-type-k $LLAMA_ARG_CACHE_TYPE_K
1 -ctv --cache-type-v $LLAMA_ARG_CACHE_TYPE_V
1 -ctxcp >=b8352 $LLAMA_ARG_CTX_CHECKPOINTS
1 --ctx-checkpoints >=b7376 $LLAMA_ARG_CTX_CHECKPOINTS
1 --draft-max --draft --draft-n <=b8929 $LLAMA_ARG_DRAFT_MAX
1 -hfd -hfrd --hf-repo-draft $LLAMA_ARG_SPEC_DRAFT_HF_REPO
0 --kv-unified -kvu >=b6170 $LLAMA_ARG_KV_UNIFIED
1 --kv-unified-per-slot >=b10809 $LLAMA_ARG_KV_UNIFIED_PER_SLOT
1 --lora
0 --lora-init-without-apply
1 --lora-scaled
1 -md --model-draft $LLAMA_ARG_SPEC_DRAFT_MODEL
1 --override-kv
1 --rope-freq-scale >=b10809 $LLAMA_ARG_ROPE_FREQ_SCALE
1 --rope-scale >=b10809 $LLAMA_ARG_ROPE_SCALE
1 --rope-scaling >=b10809 =none =linear $LLAMA_ARG_ROPE_SCALING_TYPE
1 -mm >=b7376 $LLAMA_ARG_MMPROJ
1 --mmproj $LLAMA_ARG_MMPROJ
1 --mmproj-url $LLAMA_ARG_MMPROJ_URL
1 -mmu >=b7376 $LLAMA_ARG_MMPROJ_URL
0 --no-clear-idle >=b8672 <=b8672
0 --no-context-shift
0 -no-kvu --no-kv-unified >=b7964
1 -np --parallel $LLAMA_ARG_N_PARALLEL
1 --pooling $LLAMA_ARG_POOLING
1 --spec-draft-hf >=b9093 $LLAMA_ARG_SPEC_DRAFT_HF_REPO
1 --spec-draft-model >=b9093 $LLAMA_ARG_SPEC_DRAFT_MODEL
1 --spec-draft-n-max >=b9093 $LLAMA_ARG_SPEC_DRAFT_N_MAX
1 --spec-type >=b7964 $LLAMA_ARG_SPEC_TYPE
1 -sps --slot-prompt-similarity
1 --swa-checkpoints >=b6170 $LLAMA_ARG_CTX_CHECKPOINTS
0 --swa-full $LLAMA_ARG_SWA_FULL
1 -ub --ubatch-size $LLAMA_ARG_UBATCH
"""

MODELS = """
1 -dr --docker-repo >=b7376 $LLAMA_ARG_DOCKER_REPO
1 -hf -hfr --hf-repo $LLAMA_ARG_HF_REPO
1 -m --model $LLAMA_ARG_MODEL
1 -mu --model-url $LLAMA_ARG_MODEL_URL
"""

LIMITS = """
1 --yarn-orig-ctx >=b10809 $LLAMA_ARG_YARN_ORIG_CTX
1 -fit --fit >=b7551 =off $LLAMA_ARG_FIT
1 -fitc --fit-ctx >=b7551 $LLAMA_ARG_FIT_CTX
1 --keep =0
1 --mtmd-batch-max-tokens >=b9713 $LLAMA_ARG_MTMD_BATCH_MAX_TOKENS
1 --sleep-idle-seconds >=b7551 =-1
"""

NOT_SIMULATED = """
0 --embd-gemma-default >=b7376
0 --fim-qwen-1.5b-default
0 --fim-qwen-14b-spec
0 --fim-qwen-30b-default >=b7376
0 --fim-qwen-3b-default
0 --fim-qwen-7b-default
0 --fim-qwen-7b-spec
0 --gpt-oss-120b-default >=b7376
0 --gpt-oss-20b-default >=b7376
1 --models-dir >=b7376 $LLAMA_ARG_MODELS_DIR
1 --models-preset >=b7376 $LLAMA_ARG_MODELS_PRESET
0 -nocb --no-cont-batching
0 --reranking --rerank $LLAMA_ARG_RERANKING
0 --spec-default >=b8929
1 --spec-synth-len >=b10809 $LLAMA_ARG_SPEC_SYNTH_LEN
1 --spec-synth-rates >=b10809 $LLAMA_ARG_SPEC_SYNTH_RATES
0 --vision-gemma-12b-default >=b7376
0 --vision-gemma-4b-default >=b7376
"""

WITHOUT_EFFECT = """
1 -a --alias $LLAMA_ARG_ALIAS
1 --adaptive-decay >=b7827
1 --adaptive-target >=b7827
0 -ag --agent -no-ag --no-agent >=b9873 $LLAMA_ARG_AGENT
1 --api-key $LLAMA_API_KEY
1 --api-key-file $LLAMA_ARG_API_KEY_FILE
1 --api-prefix >=b6170 $LLAMA_ARG_API_PREFIX
1 -bf --binary-file
0 -bs --backend-sampling >=b7710 $LLAMA_ARG_BACKEND_SAMPLING
1 -C --cpu-mask
1 -Cb --cpu-mask-batch
0 -cb --cont-batching $LLAMA_ARG_CONT_BATCHING
1 -cd --ctx-size-draft <=b9093 $LLAMA_ARG_CTX_SIZE_DRAFT
1 --chat-template $LLAMA_ARG_CHAT_TEMPLATE
1 --chat-template-file $LLAMA_ARG_CHAT_TEMPLATE_FILE
j --chat-template-kwargs $LLAMA_ARG_CHAT_TEMPLATE_KWARGS
0 --check-tensors
0 -cl --cache-list >=b7376
0 --completion-bash
1 --control-vector
2 --control-vector-layer-range
1 --control-vector-scaled
0 --cors-credentials --no-cors-credentials >=b10068 $LLAMA_ARG_CORS_CREDENTIALS
1 --cors-headers >=b10068 $LLAMA_ARG_CORS_HEADERS
1 --cors-methods >=b10068 $LLAMA_ARG_CORS_METHODS
1 --cors-origins >=b10068 $LLAMA_ARG_CORS_ORIGINS
0 --cpu-moe -cmoe >=b6170 $LLAMA_ARG_CPU_MOE
0 --cpu-moe-draft -cmoed >=b6170 $LLAMA_ARG_SPEC_DRAFT_CPU_MOE
1 --cpu-strict
1 --cpu-strict-batch
1 -Cr --cpu-range
1 -Crb --cpu-range-batch
1 -ctkd --cache-type-k-draft $LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K
1 -ctvd --cache-type-v-draft $LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V
1 -dev --device $LLAMA_ARG_DEVICE
1 -devd --device-draft
0 -dio --direct-io -ndio --no-direct-io >=b7710 <=b10809 $LLAMA_ARG_DIO
1 --draft-min --draft-n-min <=b8929 $LLAMA_ARG_DRAFT_MIN
1 --draft-p-min $LLAMA_ARG_SPEC_DRAFT_P_MIN
1 --dry-allowed-length
1 --dry-base
1 --dry-multiplier
1 --dry-penalty-last-n
1 --dry-sequence-breaker
1 -dt --defrag-thold $LLAMA_ARG_DEFRAG_THOLD
1 --dynatemp-exp
1 --dynatemp-range
0 -e --escape --no-escape
0 --embd-bge-small-en-default <=b6170
0 --embd-e5-small-en-default <=b6170
0 --embd-gte-small-default <=b6170
1 --embd-normalize >=b9294
0 --embedding --embeddings $LLAMA_ARG_EMBEDDINGS
1 -f --file
0 -fa --flash-attn <=b6170 $LLAMA_ARG_FLASH_ATTN
1 -fa --flash-attn >=b7376 $LLAMA_ARG_FLASH_ATTN
1 -fitt --fit-target >=b7551 $LLAMA_ARG_FIT_TARGET
1 --frequency-penalty $LLAMA_ARG_FREQUENCY_PENALTY
1 --grammar
1 --grammar-file
1 -hff --hf-file $LLAMA_ARG_HF_FILE
1 -hffv --hf-file-v <=b10229 $LLAMA_ARG_HF_FILE_V
1 -hft --hf-token $HF_TOKEN
1 -hfv -hfrv --hf-repo-v <=b10229 $LLAMA_ARG_HF_REPO_V
1 --host $LLAMA_ARG_HOST
0 --ignore-eos
1 --image-max-tokens >=b7376 $LLAMA_ARG_IMAGE_MAX_TOKENS
1 --image-min-tokens >=b7376 $LLAMA_ARG_IMAGE_MIN_TOKENS
1 -j --json-schema
1 -jf --json-schema-file
0 --jinja $LLAMA_ARG_JINJA
0 -kvo --kv-offload >=b7376 $LLAMA_ARG_KV_OFFLOAD
1 -l --logit-bias
1 -lcd --lookup-cache-dynamic >=b7964
1 -lcs --lookup-cache-static >=b7964
0 --license >=b7710 <=b9294
0 --list-devices
1 -lm --load-mode >=b10229 $LLAMA_ARG_LOAD_MODE
0 --log-colors <=b6170 $LLAMA_ARG_LOG_COLORS
1 --log-colors >=b7376 $LLAMA_ARG_LOG_COLORS
0 --log-disable
1 --log-file $LLAMA_ARG_LOG_FILE
0 --log-jsonl --no-log-jsonl >=b11063 $LLAMA_ARG_LOG_JSONL
0 --log-prefix $LLAMA_ARG_LOG_PREFIX
1 --log-prompts-dir >=b9713
0 --log-timestamps $LLAMA_ARG_LOG_TIMESTAMPS
1 -lv --verbosity --log-verbosity $LLAMA_ARG_LOG_VERBOSITY
1 -lzm --lazy-mode >=b10809 $LLAMA_ARG_LAZY_MODE
1 --mcp-servers-config >=b10229 $LLAMA_ARG_MCP_SERVERS_CONFIG
1 --mcp-servers-json >=b10229 $LLAMA_ARG_MCP_SERVERS_JSON
1 --media-path >=b7376
0 --metrics $LLAMA_ARG_ENDPOINT_METRICS
1 -mg --main-gpu $LLAMA_ARG_MAIN_GPU
1 --min-p $LLAMA_ARG_MIN_P
1 --mirostat
1 --mirostat-ent
1 --mirostat-lr
0 --mlock <=b10809 $LLAMA_ARG_MLOCK
0 --mmap >=b7376 <=b10809 $LLAMA_ARG_MMAP
0 --mmproj-auto --no-mmproj-auto >=b7376 $LLAMA_ARG_MMPROJ_AUTO
0 --mmproj-offload >=b7376 $LLAMA_ARG_MMPROJ_OFFLOAD
0 --models-autoload --no-models-autoload >=b7376 $LLAMA_ARG_MODELS_AUTOLOAD
1 --models-max >=b7376 $LLAMA_ARG_MODELS_MAX
1 --moe-cache-mib >=b11549 $LLAMA_ARG_MOE_CACHE_MIB
1 -mv --model-vocoder <=b10229
1 -n --predict --n-predict $LLAMA_ARG_N_PREDICT
1 --n-cpu-moe -ncmoe >=b6170 $LLAMA_ARG_N_CPU_MOE
1 --n-cpu-moe-draft -ncmoed >=b6170 $LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE
1 -ncffn --n-cpu-ffn >=b10809 $LLAMA_ARG_N_CPU_FFN
1 -ngl --gpu-layers --n-gpu-layers $LLAMA_ARG_N_GPU_LAYERS
1 -ngld --gpu-layers-draft --n-gpu-layers-draft $LLAMA_ARG_N_GPU_LAYERS_DRAFT
0 -nkvo --no-kv-offload $LLAMA_ARG_KV_OFFLOAD
0 --no-host >=b7376
0 --no-jinja >=b7376
0 --no-log-prefix >=b9294
0 --no-log-timestamps >=b9294
0 --no-mmap <=b10809
0 --no-mmproj
0 --no-mmproj-offload
0 --no-op-offload
0 --no-perf
0 --no-prefill-assistant
0 --no-warmup
0 --no-webui
0 -nr --no-repack >=b6170 $LLAMA_ARG_REPACK
1 --numa $LLAMA_ARG_NUMA
0 --offline $LLAMA_ARG_OFFLINE
0 --op-offload >=b7376
1 --override-tensor -ot $LLAMA_ARG_OVERRIDE_TENSOR
1 --override-tensor-draft -otd >=b6170
1 -p --prompt
1 --path $LLAMA_ARG_STATIC_PATH
0 --perf >=b7376 $LLAMA_ARG_PERF
1 --poll
1 --poll-batch
1 --port $LLAMA_ARG_PORT
0 --prefill-assistant >=b7376 $LLAMA_ARG_PREFILL_ASSISTANT
1 --presence-penalty $LLAMA_ARG_PRESENCE_PENALTY
1 --prio
1 --prio-batch
0 --props $LLAMA_ARG_ENDPOINT_PROPS
1 -r --reverse-prompt >=b6170
1 -rea --reasoning >=b8352 $LLAMA_ARG_REASONING
1 --reasoning-budget $LLAMA_ARG_THINK_BUDGET
1 --reasoning-budget-message >=b8352 $LLAMA_ARG_THINK_BUDGET_MESSAGE
1 --reasoning-effort >=b10566 $LLAMA_ARG_REASONING_EFFORT
1 --reasoning-format $LLAMA_ARG_THINK
0 --reasoning-preserve --no-reasoning-preserve >=b9873 $LLAMA_ARG_REASONING_PRESERVE
0 --repack >=b7376 $LLAMA_ARG_REPACK
1 --repeat-last-n
1 --repeat-penalty $LLAMA_ARG_REPEAT_PENALTY
0 --reuse-port >=b8672 $LLAMA_ARG_REUSE_PORT
1 --rope-freq-base $LLAMA_ARG_ROPE_FREQ_BASE
1 --rope-freq-scale <=b10566 $LLAMA_ARG_ROPE_FREQ_SCALE
1 --rope-scale <=b10566 $LLAMA_ARG_ROPE_SCALE
1 --rope-scaling <=b10566 $LLAMA_ARG_ROPE_SCALING_TYPE
1 --rpc $LLAMA_ARG_RPC
1 -s --seed
1 --samplers
1 --sampling-seq --sampler-seq
0 --skip-chat-parsing --no-skip-chat-parsing >=b8672 $LLAMA_ARG_SKIP_CHAT_PARSING
1 --slot-save-path $LLAMA_ARG_SLOT_SAVE_PATH
0 --slots --no-slots $LLAMA_ARG_ENDPOINT_SLOTS
1 -sm --split-mode $LLAMA_ARG_SPLIT_MODE
0 -sp --special
0 --spec-draft-backend-sampling --no-spec-draft-backend-sampling >=b9294 $LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING
1 --spec-draft-cpu-mask -Cd --cpu-mask-draft >=b9093
1 --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft >=b9093
0 --spec-draft-cpu-moe >=b9093 $LLAMA_ARG_SPEC_DRAFT_CPU_MOE
1 --spec-draft-cpu-range -Crd --cpu-range-draft >=b9093
1 --spec-draft-cpu-strict --cpu-strict-draft >=b9093
1 --spec-draft-cpu-strict-batch --cpu-strict-batch-draft >=b9093
1 --spec-draft-ctx-size >=b9093 <=b9093
1 --spec-draft-device >=b9093
1 --spec-draft-n-cpu-moe --spec-draft-ncmoe >=b9093 $LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE
1 --spec-draft-n-min >=b9093 $LLAMA_ARG_SPEC_DRAFT_N_MIN
1 --spec-draft-ngl >=b9093 $LLAMA_ARG_N_GPU_LAYERS_DRAFT
1 --spec-draft-override-tensor >=b9093
1 --spec-draft-p-min >=b9093 $LLAMA_ARG_SPEC_DRAFT_P_MIN
1 --spec-draft-p-split --draft-p-split >=b9093 $LLAMA_ARG_SPEC_DRAFT_P_SPLIT
1 --spec-draft-poll --poll-draft >=b9093
1 --spec-draft-poll-batch --poll-batch-draft >=b9093
1 --spec-draft-prio --prio-draft >=b9093
1 --spec-draft-prio-batch --prio-batch-draft >=b9093
2 --spec-draft-replace >=b9093 <=b9093
1 --spec-draft-sampling >=b11549 $LLAMA_ARG_SPEC_DRAFT_SAMPLING
1 --spec-draft-threads >=b9093
1 --spec-draft-threads-batch >=b9093
1 --spec-draft-type-k >=b9093 $LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K
1 --spec-draft-type-v >=b9093 $LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V
1 --spec-ngram-check-rate >=b7964 <=b7964
1 --spec-ngram-map-k-min-hits >=b9093
1 --spec-ngram-map-k-size-m >=b9093
1 --spec-ngram-map-k-size-n >=b9093
1 --spec-ngram-map-k4v-min-hits >=b9093
1 --spec-ngram-map-k4v-size-m >=b9093
1 --spec-ngram-map-k4v-size-n >=b9093
1 --spec-ngram-min-hits >=b7964 <=b8929
1 --spec-ngram-mod-n-match >=b9093
1 --spec-ngram-mod-n-max >=b9093
1 --spec-ngram-mod-n-min >=b9093
1 --spec-ngram-simple-min-hits >=b9093
1 --spec-ngram-simple-size-m >=b9093
1 --spec-ngram-simple-size-n >=b9093
1 --spec-ngram-size-m >=b7964 <=b8929
1 --spec-ngram-size-n >=b7964 <=b8929
2 --spec-replace >=b6170 <=b9093
0 --spm-infill
1 --sse-ping-interval >=b9538 $LLAMA_ARG_SSE_PING_INTERVAL
1 --ssl-cert-file $LLAMA_ARG_SSL_CERT_FILE
1 --ssl-key-file $LLAMA_ARG_SSL_KEY_FILE
1 -t --threads $LLAMA_ARG_THREADS
1 --tags >=b8352 $LLAMA_ARG_TAGS
1 -tb --threads-batch
1 -tbd --threads-batch-draft >=b6170
1 -td --threads-draft >=b6170
1 --temp $LLAMA_ARG_TEMPERATURE
1 --temperature >=b8156 $LLAMA_ARG_TEMPERATURE
1 --threads-http $LLAMA_ARG_THREADS_HTTP
1 -to --timeout $LLAMA_ARG_TIMEOUT
1 --tools >=b8672 $LLAMA_ARG_TOOLS
1 --tools-runtime >=b10566 $LLAMA_ARG_TOOLS_RUNTIME
1 --top-k $LLAMA_ARG_TOP_K
1 --top-nsigma >=b7376
1 --top-n-sigma >=b8156
1 --top-p $LLAMA_ARG_TOP_P
1 -ts --tensor-split $LLAMA_ARG_TENSOR_SPLIT
0 --tts-use-guide-tokens <=b10229
1 --typical
1 --typical-p >=b8156
0 -v --verbose --log-verbose
0 --verbose-prompt <=b8352
1 --video-ffmpeg-dir >=b10809 $LLAMA_ARG_VIDEO_FFMPEG_DIR
1 --video-fps >=b10809 $LLAMA_ARG_VIDEO_FPS
1 --video-timestamp-interval >=b10809 $LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL
0 --warmup >=b7376
0 --webui >=b7376 $LLAMA_ARG_UI
0 --ui --no-ui >=b9294 $LLAMA_ARG_UI
1 --webui-config >=b7551 $LLAMA_ARG_UI_CONFIG
1 --ui-config >=b9294 $LLAMA_ARG_UI_CONFIG
1 --webui-config-file >=b7551 $LLAMA_ARG_UI_CONFIG_FILE
1 --ui-config-file >=b9294 $LLAMA_ARG_UI_CONFIG_FILE
0 --webui-mcp-proxy --no-webui-mcp-proxy >=b8352 $LLAMA_ARG_UI_MCP_PROXY
0 --ui-mcp-proxy --no-ui-mcp-proxy >=b9294 $LLAMA_ARG_UI_MCP_PROXY
1 --xtc-probability
1 --xtc-threshold
1 --yarn-attn-factor $LLAMA_ARG_YARN_ATTN_FACTOR
1 --yarn-beta-fast $LLAMA_ARG_YARN_BETA_FAST
1 --yarn-beta-slow $LLAMA_ARG_YARN_BETA_SLOW
1 --yarn-ext-factor $LLAMA_ARG_YARN_EXT_FACTOR
1 --yarn-orig-ctx <=b10566 $LLAMA_ARG_YARN_ORIG_CTX
"""

def read_adapters(text: str) -> ParsedArgument:
    """Read the files of adapters, each with scale 1."""
    return ParsedArgument({"lora_scaled": ",".join("1" for _ in text.split(","))})


def read_projector_url(text: str) -> ParsedArgument:
    """Read the address of a projector."""
    return ParsedArgument({"mmproj": read_projector(text)})


def read_draft_model(text: str) -> ParsedArgument:
    """Read the repository of a draft model."""
    return ParsedArgument({"model_draft": text})


def read_period(text: str) -> ParsedArgument:
    """Read the step of periodic checkpoints [tokens]; 0 and less = none."""
    return ParsedArgument({"checkpoint_min_step": period_of(text)})


def read_scaling(text: str) -> ParsedArgument:
    """Read a scaling of positions, which is not simulated. From #28030 on, YaRN changes the context that the model
    counts as trained on, so that it is not known. Source: llama.cpp src/llama-context.cpp llama_init_from_model
    (b10809, b11549)."""
    return ParsedArgument({"n_ctx_train": 0}, limits=(text,))


def read_longest_draft(text: str) -> ParsedArgument:
    """Read the maximum length of a draft [tokens]."""
    return ParsedArgument({"spec_draft_n_max": parse_integer(text)})


def read_idle_slots(are_saved: bool, value: str) -> ParsedArgument:
    """Read a switch: idle slots are saved and cleared. ``value``: none, a switch has no value."""
    return ParsedArgument({"cache_idle_slots": are_saved})


COMMAND_TABLE = CommandTable(
    starts=(("llama-server",), ("llama", "serve"), ("llama-server-cuda",)),
    arguments=table_rows(
        "llama_cpp",
        options=OPTIONS,
        models=MODELS,
        limits=LIMITS,
        not_simulated=NOT_SIMULATED,
        no_effect=WITHOUT_EFFECT,
    ),
    releases=release_names(
        "llama_cpp",
        "b5833 b6170 b7376 b7551 b7710 b7827 b7964 b8156 b8352 b8672 b8929 b9093 b9294 b9538 b9713 b9873 b10068 b10229 "
        "b10566 b10809 b11063 b11312 b11549",
    ),
    style=ArgumentStyle(equals=False, beginnings=False, underscores=True),
    images=("llama.cpp",),
    readers={
        "--lora": read_adapters,
        **dict.fromkeys(("-mmu", "--mmproj-url"), read_projector_url),
        **dict.fromkeys(("--spec-draft-hf", "-hfd"), read_draft_model),
        "-cpent": read_period,
        "--override-kv": read_metadata,
        **dict.fromkeys(("--rope-freq-scale", "--rope-scale", "--rope-scaling"), read_scaling),
        "--draft-max": read_longest_draft,
        "--clear-idle": partial(read_idle_slots, True),
        "--no-clear-idle": partial(read_idle_slots, False),
    },
    renamed={
        **dict.fromkeys(("--draft", "--draft-n", "--draft-max"), "--spec-draft-n-max"),
        **dict.fromkeys(("--draft-min", "--draft-n-min"), "--spec-draft-n-min"),
        **dict.fromkeys(("--no-mmap", "--mmap", "--mlock", "-dio", "--direct-io", "-ndio", "--no-direct-io"),
                        "--load-mode"),
        "-ctx-size-draft": "", "-cd": "", "--ctx-size-draft": "", "-cpent": "--checkpoint-min-step",
        "--checkpoint-every-n-tokens": "--checkpoint-min-step", "--grp-attn-n": "", "-gan": "", "-gaw": "",
        "--log-format": "", "--embedding": "--embeddings",
    },
    variables=("LLAMA_", "GGML_"),
)  # fmt: skip
