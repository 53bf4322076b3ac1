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
from cachesim.engines.vllm.rules.sizes import EAGLE

METHODS = ("", "ngram", "draft_model", *EAGLE)


@dataclass(frozen=True, slots=True)
class Options:
    """Options by their names. Some are not flags of the server: ``num_gpu_blocks`` includes the null block;
    ``kv_groups`` states the groups of layers with their block sizes, as in ``A/16 W8/16 S/64e`` (``e``: the drafter's
    layers are in it), "" = made from the model."""

    block_size: int = flag(16, "--block-size", least=1, tokens=True)
    num_gpu_blocks: int = flag(512, "--num-gpu-blocks-override", least=2)
    max_model_len: int = flag(0, "--max-model-len", open=0, tokens=True)
    max_num_batched_tokens: int = flag(2048, "--max-num-batched-tokens", least=1, tokens=True)
    max_num_seqs: int = flag(128, "--max-num-seqs", least=1)
    long_prefill_token_threshold: int = flag(0, "--long-prefill-token-threshold", least=0, tokens=True)
    enable_prefix_caching: bool = flag(True, "--enable-prefix-caching", off=("--no-enable-prefix-caching",))
    prefix_cache_retention_interval: int = flag(0, "--prefix-cache-retention-interval", least=DENSE, tokens=True)
    prefix_match_unit: int = flag(0, "--prefix-match-unit", open=0, tokens=True)
    mamba_block_size: int = flag(0, "--mamba-block-size", open=0, tokens=True)
    scheduling_policy: str = flag(FCFS, "--scheduling-policy", choices=(FCFS, PRIORITY))
    watermark: float = flag(0.0, "--watermark")
    scheduler_reserve_full_isl: bool = flag(True, "--scheduler-reserve-full-isl",
                                            off=("--no-scheduler-reserve-full-isl",))
    async_scheduling: bool = flag(False, "--async-scheduling", off=("--no-async-scheduling",))
    speculative_method: str = flag("", choices=METHODS)
    num_speculative_tokens: int = flag(0, least=0)
    multi_module_mtp: bool = False
    disable_lookahead_block_hashes: bool = False
    enable_mamba_shared_prefix_checkpoint: bool = False
    mamba_prefill_checkpoint_alignment: int = flag(0, open=0, tokens=True)
    decode_context_parallel_size: int = flag(1, "--decode-context-parallel-size", least=1)
    kv_groups: str = ""


FLAGS = flags_of(Options)


def options(flags: Mapping[str, Any]) -> Options:
    """Return the options with these values. Raises BadInput for an unknown name or an invalid value."""
    made = options_of(Options, flags)
    if bool(made.speculative_method) != bool(made.num_speculative_tokens):
        raise BadInput("speculative_method and num_speculative_tokens are given together")
    if made.async_scheduling and made.speculative_method:
        raise BadInput("async_scheduling with drafts is not modelled", hint="no_async_scheduling")
    return made
