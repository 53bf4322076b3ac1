"""Options of the server.

Source: vLLM 0.33.0 vllm/config/cache.py, scheduler.py, speculative.py, parallel.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.engines.shared.flags import flag, flags_of, options_of
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.rules.schedule import FCFS, PRIORITY
from cachesim.engines.vllm.rules.sizes import ALIGN, EAGLE, EVERY

METHODS = ("", "ngram", "draft_model", *EAGLE)


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names. Some are not flags of the server: ``num_gpu_blocks`` includes the null block;
    ``kv_groups`` states the groups of layers with their block sizes, as in ``A/16 W8/16 S/64e`` (``e``: the drafter's
    layers are in it), "" = made from the model."""

    block_size: int = flag(16, "--block-size", least=1, tokens=True,
                           help="Tokens of a block of rows. Only complete blocks are found again.")
    num_gpu_blocks: int = flag(
        512, "--num-gpu-blocks-override", least=2,
        help="Blocks of the pool, the null block included; keys of unused blocks are evicted when it is full.")
    max_model_len: int = flag(0, "--max-model-len", open=0, tokens=True,
                              help="Longest request; 0 = as long as the pool allows.")
    max_num_batched_tokens: int = flag(2048, "--max-num-batched-tokens", least=1, tokens=True,
                                       help="Most tokens of a step; longer prompts are evaluated in chunks.")
    max_num_seqs: int = flag(128, "--max-num-seqs", least=1, help="Most requests that run at a time.")
    long_prefill_token_threshold: int = flag(0, "--long-prefill-token-threshold", least=0, tokens=True,
                                             help="Most tokens of one request in a step beside others; 0 = no limit.")
    enable_prefix_caching: bool = flag(True, "--enable-prefix-caching", off=("--no-enable-prefix-caching",),
                                       help="Whether blocks can be found by later requests.")
    prefix_cache_retention_interval: int = flag(
        0, "--prefix-cache-retention-interval", least=DENSE, tokens=True,
        help="Tokens from one kept window or state to the next; 0 = only at the ends of prompts and at "
             "junctions, -1 = all are kept.")
    prefix_match_unit: int = flag(0, "--prefix-match-unit", open=0, tokens=True,
                                  help="Tokens of a hash; 0 = common divisor of the groups' blocks.")
    mamba_cache_mode: str = flag(
        ALIGN, "--mamba-cache-mode", choices=(ALIGN, EVERY),
        help="Where states are kept: at the ends of chunks, or (until 0.31.0) at the end of every block.")
    mamba_block_size: int = flag(0, "--mamba-block-size", open=0, tokens=True,
                                 help="Tokens from one state that can be found to the next; 0 = block_size.")
    scheduling_policy: str = flag(FCFS, "--scheduling-policy", choices=(FCFS, PRIORITY),
                                  help="Order of waiting requests, and which running request is preempted.")
    watermark: float = flag(0.0, "--watermark",
                            help="Share of the blocks that stays free when a waiting request starts beside others.")
    scheduler_reserve_full_isl: bool = flag(
        True, "--scheduler-reserve-full-isl", off=("--no-scheduler-reserve-full-isl",),
        help="Whether a request starts only if the pool has blocks for its whole prompt.")
    async_scheduling: bool = flag(
        False, "--async-scheduling", off=("--no-async-scheduling",),
        help="Whether a step is scheduled before the output of the last one is known. The server chooses if "
             "it is not given.")
    speculative_method: str = flag(
        "", choices=METHODS,
        help="Kind of drafter; \"\" = none. The EAGLE family keeps rows of its own in the blocks.")
    num_speculative_tokens: int = flag(0, least=0, help="Tokens that a drafter proposes for each step.")
    multi_module_mtp: bool = flag(False, help="Whether each draft token of an MTP drafter has a module of its own.")
    disable_lookahead_block_hashes: bool = flag(
        False, help="Whether lookups drop the last block found, in place of hashes that cover the next token.")
    enable_mamba_shared_prefix_checkpoint: bool = flag(
        False, help="Whether a chunk ends exactly where another prompt left a cached one.")
    mamba_prefill_checkpoint_alignment: int = flag(
        0, open=0, tokens=True,
        help="Multiple of tokens at which the kernels export a state inside a chunk; 0 = they cannot.")
    decode_context_parallel_size: int = flag(
        1, "--decode-context-parallel-size", least=1,
        help="Ranks that share the rows of full attention; a block holds so many times its tokens.")
    kv_groups: str = flag(
        "", help="Groups of layers with their block sizes, such as A/16 W8/16 S/64e; \"\" = made from the model.")


FLAGS = flags_of(Options)


def options(flags: Mapping[str, Any]) -> Options:
    """Return the options with these values. Raises BadInput for an unknown name or an invalid value."""
    made = options_of(Options, flags)
    if bool(made.speculative_method) != bool(made.num_speculative_tokens):
        raise BadInput("speculative_method and num_speculative_tokens are given together")
    if made.async_scheduling and made.speculative_method:
        raise BadInput("async_scheduling with drafts is not modelled", hint="no_async_scheduling")
    return made
