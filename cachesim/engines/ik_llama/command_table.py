"""Arguments of ik_llama.cpp's server, with their effect on the cache.

A row is the number of values (as argparse writes it, j = JSON), the spellings, and their conditions: >= and <= name a
release, = a value without effect. A row is one line, which makes this module long.
Source: ik_llama.cpp common/common.cpp gpt_params_find_arg (8337e4cd3).
"""

from __future__ import annotations

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.command_table import (
    ArgumentStyle,
    CommandTable,
    ParsedArgument,
    Reader,
    read_metadata,
    release_names,
    table_rows,
)

OPTIONS = """
1 -okv --override-kv
1 -b --batch-size
1 -c --ctx-size
1 --context-shift
1 -cram --cache-ram
1 -cram-n-min --cache-ram-n-min
1 -crs --cache-ram-similarity
1 -ctx-ckpt --ctx-checkpoints
1 -ctx-ckpt-e --ctx-checkpoints-eviction
1 -ctx-ckpt-i --ctx-checkpoints-interval
1 -ctx-ckpt-t --ctx-checkpoints-tolerance
1 -fa --flash-attn
0 -no-fa --no-flash-attn
1 --mmproj
0 --no-context-shift
1 -np --parallel
1 --reasoning-tokens
1 --spec-ckpt-mode --recurrent-ckpt-mode
1 --spec-type
1 -sps --slot-prompt-similarity
0 --swa-compress
1 -ub --ubatch-size
"""

MODELS = """
1 -hfr --hf-repo
1 -m --model
1 -mu --model-url
"""

LIMITS = """
1 --keep =0
1 --pooling
"""

NOT_SIMULATED = """
1 -cd
1 --draft --draft-max --draft-n
1 -draft --draft-params
0 -dsa --dsa
1 -gan --grp-attn-n =1
1 -gaw --grp-attn-w =512
1 --lora
2 --lora-scaled
1 -md --model-draft
0 -mtp --multi-token-prediction
0 -nocb --no-cont-batching
0 --spec-autotune
1 --spec-stage
1 -spf --system-prompt-file
"""

WITHOUT_EFFECT = """
1 -a --alias
1 --adaptive-decay
1 --adaptive-target
0 --adaptive-updt-w-cur
1 --allowlist-keyword
1 --allowlist-keyword-delay
1 --allowlist-pieces
1 --allowlist-unicode-rule
1 -amb --attention-max-batch
1 --api-key
1 --api-key-file
1 --attention
1 --banned-n
1 --banned-string-file
1 -bf --binary-file
0 -cb --cont-batching
1 --cfg-negative-prompt
1 --cfg-negative-prompt-file
1 --cfg-scale
1 --chat-template
1 --chat-template-file
j --chat-template-kwargs
0 --check-tensors
1 --chunk --from-chunk
1 --chunk-separator
1 --chunk-size
1 --chunks
0 -cmoe --cpu-moe
0 -cnv --conversation
0 -co --color
1 --context-file
1 --control-vector
2 --control-vector-layer-range
2 --control-vector-scaled
1 -ctk --cache-type-k
1 -ctk-first --cache-type-k-first
1 -ctk-last --cache-type-k-last
1 -ctkd --cache-type-k-draft
1 -ctv --cache-type-v
1 -ctv-first --cache-type-v-first
1 -ctv-last --cache-type-v-last
1 -ctvd --cache-type-v-draft
1 --ctx-size-draft
1 -cuda --cuda-params
0 --defer-experts
1 -dev --device
1 -devd --device-draft
0 -dkvc --dump-kv-cache
0 -dr --dry-run
1 --draft-min --draft-n-min
1 --draft-p-min
1 --dry-allowed-length
1 --dry-base
1 --dry-multiplier
1 --dry-penalty-last-n
1 --dry-sequence-breaker
1 -dsatk --dsa-top-k
1 -dt --defrag-thold
1 --dynatemp-exp
1 --dynatemp-range
0 -e --escape
1 --embd-normalize
1 --embd-output-format
1 --embd-separator
0 --embedding --embeddings
1 --expiring-logit-bias-file
1 -f --file
1 -fdn --fused-delta-net
0 -fidx --fused-indexer-topk
0 --fit
1 --fit-margin
1 --frequency-penalty
1 -gap --graph-attn-precision
0 -ger --grouped-expert-routing
1 -gfm --gpu-fit-margin
0 -gr --graph-reuse
1 --grammar
1 --grammar-file
1 -grt --graph-reduce-type
0 --hellaswag
1 --hellaswag-tasks
1 -hff --hf-file
1 -hft --hf-token
1 --host
0 -i --interactive
1 -ictk --indexer-cache-type-k
0 -if --interactive-first
0 --ignore-eos
1 --image --audio
1 --image-max-tokens
1 --image-min-tokens
1 --in-file
1 --in-prefix
0 --in-prefix-bos
1 --in-suffix
0 --infill
1 -j --json-schema
0 --jinja
1 --junk
0 -khad --k-cache-hadamard
0 --kl-divergence
1 -l --logit-bias
1 -lcd --lookup-cache-dynamic
1 -lcs --lookup-cache-static
1 -ld --logdir
1 --log-format
0 --lora-init-without-apply
1 -mea --max-extra-alloc
1 --method
0 --metrics
1 -mg --main-gpu
1 --min-p
0 --minilog
1 --mirostat
1 --mirostat-ent
1 --mirostat-lr
1 -mla --mla-use
0 -mli --multiline-input
0 --mlock
1 --mmproj-url
0 -mqkv --merge-qkv
1 --mtmd-kq-type
1 -mtprot --mtp-requantize-output-tensor
0 -muge --merge-up-gate-experts
0 --multiple-choice
1 --multiple-choice-tasks
1 -n --predict --n-predict
1 -ncmoe --n-cpu-moe
1 --negative-file
1 -ngl --gpu-layers --n-gpu-layers
1 -ngld --gpu-layers-draft --n-gpu-layers-draft
0 -nkvo --no-kv-offload
0 --no-display-prompt
0 --no-escape
0 -no-fmoe --no-fused-moe
0 -no-fug --no-fused-up-gate
0 -no-gr --no-graph-reuse
0 -no-mmad --no-fused-mul-multiadd
0 --no-mmap
0 --no-mmproj-offload
0 -no-mtp --no-multi-token-prediction
0 -no-ooae --no-offload-only-active-experts
0 --no-ppl
0 --no-prefill-assistant
0 --no-slots
0 --no-warmup
1 -npl
1 -npp
1 -nrep --n-repetitions
1 -ns --sequences
1 -ntg
1 --numa
1 -o --output --output-file
1 -ofreq --output-frequency
1 -op --offload-policy
1 -ot --override-tensor
1 --output-draft --draft-output --draft-output-file
1 --output-format
1 --output-tensor-name
1 -p --prompt
1 --path
1 --pca-batch
1 --pca-iter
0 --peg
0 --penalize-nl
0 --perplexity --all-logits
1 --port
1 --pos
1 --positive-file
1 --ppl-output-type
1 --ppl-stride
0 -pps
0 --prefetch-experts
1 --prefetch-experts-threads
1 --presence-penalty
0 --process-output
1 --prompt-cache
0 --prompt-cache-all
0 --prompt-cache-ro
1 -ps --p-split
1 -ptc --print-token-count
0 -ptcall --parallel-tool-calls
1 -r --reverse-prompt
0 -rcache --rope-cache
1 -rea --reasoning
1 --reasoning-budget
1 --reasoning-budget-message
1 --reasoning-format
1 --repeat-last-n
1 --repeat-penalty
1 --rope-freq-base
1 --rope-freq-scale
1 --rope-scale
1 --rope-scaling
1 --rpc
0 -rtr --run-time-repack
1 -s --seed
1 --samplers
1 --sampling-seq
0 -sas --scheduler-async
1 --save-all-logits --kl-divergence-base
1 --save-frequency
0 --send-done
1 -ser --smart-expert-reduction
0 --simple-io
0 --skip-chat-parsing
1 --slot-save-path
1 -sm --split-mode
0 -smf16 --split-mode-f16
0 -smf32 --split-mode-f32
0 -smgs --split-mode-graph-scheduling
0 -sp --special
1 --spec-ngram-min-hits
1 --spec-ngram-size-m
1 --spec-ngram-size-n
2 --spec-replace
0 --spm-infill
1 --sql-save-file
1 --sqlite-zstd-ext-file
1 --ssl-cert-file
1 --ssl-key-file
1 --suffix-corpus
1 --suffix-max-depth
1 --suffix-pattern-len
1 -t --threads
1 -tb --threads-batch
1 -tbd --threads-batch-draft
1 -td --threads-draft
1 --temp
1 --tfs
0 -thp --transparent-huge-pages
1 --threads-http
1 -tm --threads-mtmd
1 -to --timeout
1 --top-k
1 --top-n-sigma
1 --top-p
1 -ts --tensor-split
1 --typical
0 -v --verbose
0 --verbose-prompt
1 --verbosity
0 -vhad --v-cache-hadamard
0 -vq --validate-quants
0 -wb --warmup-batch
1 --webui
0 --webui-mcp-proxy --ui-mcp-proxy
1 -wgt --worst-graph-tokens
0 --winogrande
1 --winogrande-tasks
1 --xtc-probability
1 --xtc-threshold
1 --yarn-attn-factor
1 --yarn-beta-fast
1 --yarn-beta-slow
1 --yarn-ext-factor
1 --yarn-orig-ctx
"""

SWITCHES = {"on": True, "auto": True, "1": True, "off": False, "0": False}


def read_switch(option: str) -> Reader:
    """Return a reader of on, off, auto, 1 or 0, as the server reads them."""

    def read(text: str) -> ParsedArgument:
        """Return the option with this value. Raise BadInput."""
        if text.lower() not in SWITCHES:
            raise BadInput(f"expected on or off, found {quoted(text)}")
        return ParsedArgument({option: SWITCHES[text.lower()]})

    return read


COMMAND_TABLE = CommandTable(
    starts=(("llama-server",),),
    arguments=table_rows(
        "ik_llama",
        options=OPTIONS,
        models=MODELS,
        limits=LIMITS,
        not_simulated=NOT_SIMULATED,
        no_effect=WITHOUT_EFFECT,
    ),
    releases=release_names("ik_llama", "main"),
    style=ArgumentStyle(equals=False, beginnings=False, underscores=True),
    images=("ik_llama", "ik-llama"),
    mark="ik_llama",
    readers={
        "-fa": read_switch("flash_attn"),
        "-no-fa": lambda text: ParsedArgument({"flash_attn": False}),
        "--context-shift": read_switch("context_shift"),
        "-okv": read_metadata,
    },
    renamed={"-fmoe": "", "--fused-moe": ""},
    variables=("LLAMA_", "GGML_"),
)  # fmt: skip
