"""Options of the server.

Source: SGLang 0.5.23 python/sglang/srt/server_args.py, environ.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.engines.sglang.rules.host import POLICIES
from cachesim.engines.sglang.rules.schedule import ORDERS
from cachesim.engines.sglang.rules.tree import PRIORITIES
from cachesim.engines.shared.flags import flag, flags_of, options_of
from cachesim.engines.shared.size_formulas import F16

EAGLE = "EAGLE"        # drafts by a model whose tokens lie in the slots of the answer
AUTO = "auto"
UNBUFFERED = "no_buffer"
BUFFERED = "extra_buffer"
LAZY = "extra_buffer_lazy"
BYTES: Mapping[str, int] = {"auto": F16, "bfloat16": F16, "bf16": F16, "fp8_e5m2": 1, "fp8_e4m3": 1}
"""Type of the rows -> bytes of a number."""
UNSET_TOKENS = 4096
UNSET_STATES = 64
UNSET_REQUESTS = 0
"""Sizes that are not given: with ``pool_gib`` as many as fit; 0 requests = as many as the release derives."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options by the long names of their flags. Sizes of pools are derived from free memory in the real server, here
    from ``pool_gib``."""

    page_size: int = flag(1, "--page-size", least=1, tokens=True, governs="SG-INSERT-PAGES",
        help="Tokens of a page: prefixes end at its multiples.")
    max_total_tokens: int = flag(
        UNSET_TOKENS, "--max-total-tokens", least=4, tokens=True, resolved=True,
        affects="SG-EVICT-LEAF SG-SCHED-ADMIT",
        help="Slots of full attention. Without it, a pool that holds all requests is assumed: the real server derives "
             "it from the memory of the device.")
    swa_tokens: int = flag(0, least=0, open=0, tokens=True, affects="SG-EVICT-INSIDE SG-SCHED-ADMIT",
        help="Simulator setting: slots of the window pool; 0 = --swa-full-tokens-ratio times --max-total-tokens.")
    swa_full_tokens_ratio: float = flag(0.8, "--swa-full-tokens-ratio", tries=(1.0,),
        help="Slots of the window pool per slot of full attention.")
    max_mamba_cache_size: int = flag(
        UNSET_STATES, "--max-mamba-cache-size", least=4, resolved=True, affects="SG-EVICT-INSIDE SG-STATE-PATH",
        help="Slots of recurrent states. Without it, as many as all requests need are assumed.")
    max_running_requests: int = flag(
        UNSET_REQUESTS, "--max-running-requests", least=0, open=0,
        help="Requests that run at a time, as far as tokens and states of the pools allow; 0 = the server derives it: "
             "2048 to 4096, with drafts 48.")
    context_len: int = flag(
        0, "--context-length", open=0, tokens=True, resolved=True,
        help="Most tokens of a request; 0 = as many as the pool has room for. By default the length of the real model, "
             "if it is known.")
    allow_longer_context: bool = flag(
        False, fact=True,
        help="The server starts with a context above the model's own (SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN), or "
             "other flags change that.")
    device_memory: int = flag(
        0, fact=True, least=0, affects="SG-SCHED-CHUNK",
        help="Memory of the device [GiB], from which the server chooses the size of a chunk; 0 = less than 20. An "
             "assumed pool is not larger.")
    mem_fraction_static: float = flag(
        1.0, "--mem-fraction-static", fact=True,
        help="Share of device_memory for weights and pools. Without it, the share is not computed, and the assumed "
             "pool is at most the whole device.")
    tensor_parallel_size: int = flag(
        1, "--tensor-parallel-size", "--tp-size", "--tp", fact=True, least=1,
        help="Devices that share the heads and states of a layer.")
    kv_cache_dtype: str = flag(AUTO, "--kv-cache-dtype", fact=True, choices=(*BYTES,),
        help="Type of the rows: of smaller rows the pool has more.")
    chunked_prefill_size: int = flag(
        2048, "--chunked-prefill-size", least=-1, tokens=True, resolved=True, governs="SG-SCHED-CHUNK",
        tries=(512, 2048, 8192),
        help="Most tokens of a prompt that one step evaluates; below 1 = whole prompts. By default by device_memory.")
    max_prefill_tokens: int = flag(16384, "--max-prefill-tokens", least=1, tokens=True,
        help="Most tokens of prompts that one step evaluates.")
    schedule_policy: str = flag("fcfs", "--schedule-policy", choices=tuple(ORDERS), governs="SG-QUEUE-ORDER",
        help="Order of the waiting requests.")
    radix_eviction_policy: str = flag("lru", "--radix-eviction-policy", choices=tuple(PRIORITIES),
        governs="SG-EVICT-ORDER", tries=("lru", "slru"), help="Order in which leaves are evicted.")
    new_token_ratio: float = flag(0.7, fact=True,
        help="Simulator setting: share of the remaining answers that admission reserves "
        "for running requests (the server lowers it as it runs).")
    mamba_radix_cache_strategy: str = flag(
        AUTO, "--mamba-radix-cache-strategy", "--mamba-scheduler-strategy",
        choices=(AUTO, UNBUFFERED, BUFFERED, LAZY), governs="SG-STATE-GIVE SG-STATE-TRACK SG-STATE-SOURCE",
        affects="SG-STATE-SLOTS", tries=(BUFFERED,),
        help="no_buffer gives the tree the running state, extra_buffer a tracked one, extra_buffer_lazy too, "
             "but with a second slot only where it is needed; auto = as the release chooses for the model.")
    disable_overlap_schedule: bool = flag(False, "--disable-overlap-schedule", governs="SG-SCHED-OVERLAP",
        affects="SG-STATE-SOURCE SG-STATE-SLOTS SG-SCHED-FINISHING",
        help="Process the results of a step before the next one is launched; otherwise steps overlap.")
    mamba_track_interval: int = flag(256, "--mamba-track-interval", least=1, tokens=True, governs="SG-STATE-TRACK",
        tries=(64, 256), help="Distance of the states that a generating request tracks, with extra_buffer.")
    mamba_max_states_per_path: int = flag(-1, "--mamba-max-states-per-path", least=-1, governs="SG-STATE-PATH",
        help="Most states on a path of the tree; -1 = any number.")
    state_grid: int = flag(0, fact=True, open=0, tokens=True, affects="SG-MATCH-BRANCH",
        help="Simulator setting: grid of tracked states; 0 = chunk of the model's recurrent kernel, or the page.")
    swa_eviction_interval: int = flag(128, least=1, tokens=True, governs="SG-WINDOW-FRONTIER",
        help="Tokens that leave the window before a generating request gives their slots back "
             "(SGLANG_SWA_EVICTION_INTERVAL).")
    in_batch_threshold: int = flag(32, least=0, tokens=True, governs="SG-QUEUE-LATE",
        help="Tokens in common with a waiting request for which a later one waits "
             "(IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD and _DEPRIORITIZE_THRESHOLD).")
    speculative_algorithm: str = flag("", "--speculative-algorithm", choices=("", EAGLE, "NGRAM"),
        governs="SG-KEY-PAIRS",
        help="Source of drafts, none by default. With EAGLE, prefixes are compared as pairs of tokens.")
    speculative_num_steps: int = flag(3, "--speculative-num-steps", least=1, affects="SG-KEY-PAIRS",
        help="Number of tokens of a draft.")
    draft_window: int = flag(0, fact=True, least=0, tokens=True, governs="SG-WINDOW-RETAIN",
        help="Simulator setting: tokens back that the drafter reads in the window pool.")
    strip_thinking_cache: bool = flag(False, "--strip-thinking-cache", governs="SG-FINISH-OWN",
        help="Answers contain reasoning: requests leave only their prompts in the tree.")
    enable_hierarchical_cache: bool = flag(False, "--enable-hierarchical-cache", "--enable-hicache",
        governs="SG-HOST-DEMOTE SG-HOST-LOAD-BACK SG-MATCH-ACCEPT-COPY",
        tries=(True,), help="Copies of nodes in host memory (HiCache): rows, windows and states.")
    hicache_ratio: float = flag(2.0, "--hicache-ratio", most=100, governs="SG-HOST-SIZE",
        affects="SG-HOST-EVICT SG-HOST-EVICT-INSIDE",
        tries=(2.0, 4.0), help="Slots of host memory per slot of the device, for rows, windows and states.")
    hicache_size: int = flag(0, "--hicache-size", fact=True, least=0,
        help="Host memory [GB], which takes the place of the ratio; only 0 is modelled.")
    hicache_storage_backend: str = flag("", "--hicache-storage-backend",
        fact=True, help="Storage behind host memory; not modelled.")
    hicache_write_policy: str = flag("write_through", "--hicache-write-policy", choices=POLICIES,
        governs="SG-HOST-BACK-UP SG-HOST-BACK-UP-PARTS SG-HOST-COPY-INSIDE SG-HOST-COUNT-USE SG-HOST-DROP-DUPLICATES",
        affects="SG-HOST-DEMOTE", tries=POLICIES,
        help="When nodes are copied to host memory: at their first use, at their second, or when they are evicted.")
    pool_gib: float = flag(0.0, fact=True, most=1 << 20,
        help="Simulator setting: memory for all pools [GiB], from which their sizes follow; 0 = as the options state.")
    mamba_full_memory_ratio: float = flag(0.9, "--mamba-full-memory-ratio", most=1000,
        tries=(0.9,), help="Memory of states per memory of rows, with pool_gib.")
    real_model: str = flag("", fact=True, affects="SG-STATE-SOURCE",
        help="Real model whose sizes determine the pools; none = as the other options say.")
    disable_radix_cache: bool = flag(
        False, "--disable-radix-cache", governs="SG-MATCH-HIT", tries=(False,),
        help="Nothing is reused, and nothing kept; without it prompts reuse nodes of the tree.")


FLAGS = flags_of(Options)

IGNORED: Mapping[str, int] = {
    "--model-path": 1, "--host": 1, "--port": 1, "--attention-backend": 1, "--log-level": 1, "--trust-remote-code": 0,
}  # fmt: skip
"""Flags without influence on the modelled decisions, and the number of values that follow each."""


def options(flags: Mapping[str, Any]) -> Options:
    """Return the options with these values. Raise BadInput for an unknown name or an invalid value."""
    made = options_of(Options, flags)
    if made.enable_hierarchical_cache and made.disable_radix_cache:
        raise BadInput("enable_hierarchical_cache and disable_radix_cache exclude each other")
    if made.enable_hierarchical_cache and (made.hicache_size or made.hicache_storage_backend):
        raise BadInput("HiCache is not modelled with a size in GB or a storage", hint="hicache_ratio, host memory only")
    return made


def window_slots(opts: Options) -> int:
    """Return the size of the window pool, in whole pages."""
    size = opts.swa_tokens or int(opts.max_total_tokens * opts.swa_full_tokens_ratio)
    return size // opts.page_size * opts.page_size
