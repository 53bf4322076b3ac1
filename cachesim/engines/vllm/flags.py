"""Options of the server.

Source: vLLM 0.33.0 vllm/config/cache.py, scheduler.py, speculative.py, parallel.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.engines.shared.flags import flag, flags_of, options_of
from cachesim.engines.shared.size_formulas import F16, F32
from cachesim.engines.vllm.kv_offload.cpu_manager import ARC, LRU
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.rules.schedule import EAGLE, FCFS, PRIORITY
from cachesim.engines.vllm.rules.start import ALIGN, EVERY, NGRAM, NONE

METHODS = ("", NGRAM, "draft_model", *EAGLE)
AUTO = "auto"
FITTING = -1               # max_model_len: the most tokens of a request that the pool holds
FLOAT32 = "float32"
BYTES = {AUTO: F16, "bfloat16": F16, "float16": F16, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Type of the rows -> bytes of a number."""


def _bytes(text: str) -> int:
    """Parse a number of bytes such as 20G. Raise BadInput."""
    from cachesim.engines.shared.command_table import read_human_integer

    return read_human_integer(text)


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names. Some are not flags of the server: ``num_gpu_blocks`` includes the null block;
    ``kv_groups`` states the groups of layers with their block sizes, as in ``A/16 W8/16 S/64e`` (``e``: the drafter's
    layers are in it), "" = made from the model. ``num_cpu_chunks`` stands for ``kv_offloading_size``; the options after
    it are those in kv_connector_extra_config."""

    block_size: int = flag(16, "--block-size", least=1, tokens=True, governs="VL-SIZE-SCHEDULER-BLOCK",
                           tries=(8, 16, 32, 64),
                           help="Tokens of a block; only complete blocks are published and found.")
    num_gpu_blocks: int = flag(
        512, "--num-gpu-blocks-override", least=2, resolved=True, governs="VL-POOL-EVICT VL-SCHED-ADMIT",
        help="Number of blocks of the pool, with the null block. Without it and the two options below, a pool that "
             "holds all requests is assumed: the real server derives it from the memory of the device.")
    kv_cache_memory_bytes: int = flag(
        0, "--kv-cache-memory-bytes", fact=True, least=0, most=1 << 50, read=_bytes,
        affects="VL-POOL-EVICT VL-SCHED-ADMIT",
        help="Memory of the pool [bytes], from which the blocks of a real model follow; 0 = not given.")
    kv_cache_size_tokens: int = flag(
        0, fact=True, least=0, tokens=True, affects="VL-POOL-EVICT VL-SCHED-ADMIT",
        help="Size of the pool as the server's log states it (GPU KV cache size), from which its blocks follow; 0 = "
             "not given.")
    max_model_len: int = flag(
        0, "--max-model-len", open=0, least=FITTING, tokens=True, resolved=True, governs="VL-SIZE-ADMISSION-CAP",
        help="Maximum tokens of a request; -1 = as many as the pool holds (auto), 0 = not known: no request is "
             "refused. By default the length of the real model, if it is known.")
    allow_long_max_model_len: bool = flag(
        False, fact=True,
        help="The server starts with a maximum above the model's own length (VLLM_ALLOW_LONG_MAX_MODEL_LEN), or other "
             "flags change that length.")
    max_num_batched_tokens: int = flag(
        2048, "--max-num-batched-tokens", least=1, tokens=True, resolved=True, affects="VL-SPLIT-CHUNK VL-START-BATCH",
        help="Maximum tokens of a step; a longer prompt is evaluated in chunks. By default 8192 on a device of 70 GiB, "
             "16384 of 160 GiB.")
    max_num_seqs: int = flag(
        256, "--max-num-seqs", least=1, resolved=True, governs="VL-SCHED-NEXT", affects="VL-START-BATCH",
        help="Maximum running requests. By default 1024 on a device of 70 GiB, and at most max_num_batched_tokens.")
    device_memory: int = flag(0, fact=True, least=0, governs="VL-START-BATCH",
                              help="Memory of the device [GiB], from which the server chooses the size of a step; "
                                   "0 = less than 70, and any A100. An assumed pool is not larger.")
    gpu_memory_utilization: float = flag(
        0.92, "--gpu-memory-utilization", "--device-memory-utilization", fact=True,
        affects="VL-POOL-EVICT VL-SCHED-ADMIT", help="Share of device_memory for weights, activations and the pool.")
    long_prefill_token_threshold: int = flag(
        0, "--long-prefill-token-threshold", least=0, tokens=True, governs="VL-SCHED-CAP",
        help="Maximum tokens of a prompt in a step if several requests are known; 0 = no such limit.")
    enable_prefix_caching: bool = flag(
        True, "--enable-prefix-caching", off=("--no-enable-prefix-caching", "--disable-prefix-caching"), resolved=True,
        governs="VL-LOOKUP-MOST VL-PUB-TOKENS VL-START-CACHING", tries=(True,),
        help="Finds blocks of earlier prompts; off: every prompt is evaluated completely. By default off in a model "
             "without attention.")
    prefix_cache_retention_interval: int = flag(
        0, "--prefix-cache-retention-interval", least=DENSE, tokens=True, governs="VL-PUB-BOUNDARIES VL-PUB-MASK",
        tries=(DENSE, 0), help="Tokens between published states or windows; 0 = only where a prompt ended or parted, "
                               "-1 = every block.")
    prefix_match_unit: int = flag(0, "--prefix-match-unit", open=0, tokens=True,
                                  governs="VL-SIZE-HASH-UNIT VL-SIZE-PARTIAL-HITS",
                                  help="Unit in tokens in which prefixes are compared; 0 = greatest common divisor of "
                                       "the blocks.")
    mamba_cache_mode: str = flag(
        NONE, "--mamba-cache-mode", choices=(NONE, ALIGN, EVERY), governs="VL-SIZE-STATES-ALIGN VL-START-STATES",
        help="Where states are kept: at the ends of chunks (align), or (until 0.31.0) at the end of every block (all). "
             "none = align, if prefixes are cached.")
    mamba_block_size: int = flag(0, "--mamba-block-size", open=0, tokens=True, affects="VL-SIZE-SCHEDULER-BLOCK",
                                 help="Tokens of a block of recurrent layers; 0 = as attention has.")
    scheduling_policy: str = flag(
        FCFS, "--scheduling-policy", choices=(FCFS, PRIORITY), affects="VL-SCHED-NEXT", governs="VL-SCHED-PREEMPT",
        help="Order of requests: as they arrive, or by the request field priority.")
    watermark: float = flag(0.0, "--watermark", affects="VL-SCHED-ADMIT",
                            help="Share of the pool that stays free when a waiting request is admitted.")
    scheduler_reserve_full_isl: bool = flag(
        True, "--scheduler-reserve-full-isl", off=("--no-scheduler-reserve-full-isl",), affects="VL-SCHED-ADMIT",
        help="A waiting request is admitted only if its whole prompt has room.")
    async_scheduling: bool = flag(
        True, "--async-scheduling", off=("--no-async-scheduling",), resolved=True,
        governs="VL-SCHED-LAST VL-START-ASYNC",
        help="A step is scheduled before the output of the step before it is known. By default off with drafts of "
             "ngram until 0.32.0.")
    speculative_method: str = flag("", choices=METHODS, governs="VL-SPEC-LOOKAHEAD",
                                   help="Source of drafts in --speculative-config; none = no drafts.")
    num_speculative_tokens: int = flag(0, least=0, affects="VL-SPEC-LOOKAHEAD",
                                       help="Drafted tokens of a step in --speculative-config.")
    multi_module_mtp: bool = flag(False, fact=True, help="The drafter has a module for every drafted token.")
    disable_lookahead_block_hashes: bool = flag(
        False, governs="VL-HASH-UNIT",
        help="Drafters drop the last found block; off: hashes include the tokens after it.")
    disable_eagle_block_drop: bool = flag(
        False, affects="VL-SPEC-LOOKAHEAD VL-HASH-UNIT", tries=(True,),
        help="Drafters of the EAGLE family use the last found block although the next token may differ; their hashes "
             "do not include it.")
    enable_mamba_shared_prefix_checkpoint: bool = flag(
        False, "--enable-mamba-shared-prefix-checkpoint", "--enable-mamba-fine-grained-prefix-cache",
        off=("--no-enable-mamba-shared-prefix-checkpoint", "--disable-mamba-shared-prefix-checkpoint",
             "--no-enable-mamba-fine-grained-prefix-cache"),
        affects="VL-SPLIT-CHUNK", tries=(True,),
        help="Prompts end a chunk exactly where they part from an earlier prompt.")
    mamba_prefill_checkpoint_alignment: int = flag(
        0, open=0, tokens=True, governs="VL-STATE-INSIDE",
        help="Grid in tokens of states that are stored inside a chunk; 0 = only at the end of chunks.")
    decode_context_parallel_size: int = flag(1, "--decode-context-parallel-size", "-dcp", least=1,
                                             affects="VL-SIZE-SCHEDULER-BLOCK",
                                             help="Devices that share the rows of a block of attention.")
    multimodal: bool = flag(False, fact=True, governs="VL-HASH-UNIT",
                            help="The model takes images, which hashes identify.")
    max_tokens_per_mm_item: int = flag(
        0, fact=True, least=0, tokens=True, governs="VL-SCHED-IMAGE",
        help="Tokens of the largest image of the model; the encoder takes as many in a step and for all requests, or "
             "as many as max_num_batched_tokens.")
    kv_transfer_config: str = flag("", "--kv-transfer-config", fact=True, help="KV connector; only none is modelled.")
    kv_offloading_size: float = flag(0.0, "--kv-offloading-size", fact=True, most=1 << 20,
                                     help="CPU memory [GiB]; not modelled.")
    num_cpu_chunks: int = flag(0, least=0, governs="VL-OFF-LOAD VL-OFF-STORE",
                               help="Chunks that CPU memory holds; 0 = no CPU offload.")
    blocks_per_chunk: int = flag(1, least=1, affects="VL-OFF-LOAD VL-OFF-STORE",
        help="Blocks of a chunk. This and the next three options are in kv_connector_extra_config.")
    eviction_policy: str = flag(LRU, choices=(LRU, ARC), affects="VL-OFF-STORE",
                                help="Order in which unused chunks make room in CPU memory.")
    store_threshold: int = flag(0, least=0, affects="VL-OFF-STORE", help="Offer at which a chunk is stored; 0 = first.")
    offload_prompt_only: bool = flag(True, governs="VL-OFF-OFFER", help="Chunks of answers are not stored.")
    real_model: str = flag("", fact=True, affects="VL-SIZE-ATTENTION-BLOCK VL-SIZE-PAGE-BLOCK",
                           help="Real model whose sizes determine the blocks; none = as the other options say.")
    attention_block_size: int = flag(
        0, fact=True, open=0, tokens=True, affects="VL-SIZE-SCHEDULER-BLOCK",
        help="Tokens of a block as the server's log states them; 0 = derived from the real model, or block_size.")
    model_dtype: str = flag(AUTO, "--dtype", fact=True, choices=(AUTO, FLOAT32), affects="VL-SIZE-ATTENTION-BLOCK",
                      help="Type of the model's numbers; auto = of 2 bytes.")
    kv_cache_dtype: str = flag(AUTO, "--kv-cache-dtype", choices=(*BYTES,), affects="VL-SIZE-ATTENTION-BLOCK",
                               help="Type of the rows; smaller rows make longer blocks in models with states.")
    tensor_parallel_size: int = flag(1, "--tensor-parallel-size", "-tp", least=1, affects="VL-SIZE-ATTENTION-BLOCK",
                                     help="Devices that share the heads and states of a layer.")
    mamba_cache_dtype: str = flag(AUTO, "--mamba-cache-dtype", choices=(AUTO, "float16", "bfloat16", "float32"),
                                  affects="VL-SIZE-ATTENTION-BLOCK", help="Type of the states of recurrent layers.")
    mamba_ssm_cache_dtype: str = flag(
        AUTO, "--mamba-ssm-cache-dtype", choices=(AUTO, "float16", "bfloat16", "float32"),
        governs="VL-SIZE-ATTENTION-BLOCK",
        help="Type of recurrent matrices; auto = as the model's configuration states, else as mamba_cache_dtype.")
    kv_groups: str = flag("", help="Groups of layers with their block sizes, such as A/16 W8/16 S/64e; none = made "
                                   "from the model.")

    @property
    def hashing(self) -> bool:
        """True if prompts are hashed."""
        return self.enable_prefix_caching or self.num_cpu_chunks > 0


    @property
    def number_bytes(self) -> int:
        """Bytes of a number of the model."""
        return F32 if self.model_dtype == FLOAT32 else F16


FLAGS = flags_of(Options)


def options(flags: Mapping[str, Any]) -> Options:
    """Return the options with these values. Raise BadInput for an unknown name or an invalid value."""
    made = options_of(Options, flags)
    if bool(made.speculative_method) != bool(made.num_speculative_tokens):
        raise BadInput("speculative_method and num_speculative_tokens are given together")
    if made.kv_transfer_config or made.kv_offloading_size:
        raise BadInput("kv_transfer_config and kv_offloading_size are not modelled",
                       hint="num_cpu_chunks, the chunks of CPU memory")
    return made
