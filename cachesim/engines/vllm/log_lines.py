"""vLLM's log lines about its KV cache, and its metrics, with their meanings.

Source: vLLM 0.15 to 0.33.0 vllm/v1/metrics/loggers.py, vllm/v1/core/kv_cache_utils.py, vllm/v1/core/block_pool.py,
vllm/platforms/interface.py, vllm/model_executor/models/config.py. No line of the scheduler names a request.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.engines.shared import log_totals as made
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning
from cachesim.engines.shared.log_signatures import Signature
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, of_kind
from cachesim.engines.shared.log_verdicts import reused
from cachesim.engines.vllm import log_others

_RATES = "Avg prompt throughput: {prompt_rate} tokens/s, Avg generation throughput: {rate} tokens/s, "
_LOAD = "Running: {running} reqs, Waiting: {waiting} reqs, {}"
_USAGE = "KV cache usage: {usage}%"
_STATUS = tuple(
    Line("status", f"{engine}{_RATES}{_LOAD}{preempted}{_USAGE}{hits}{external}")
    for engine in ("Engine {engine}: ", "{engines} Engines Aggregated: ")
    for preempted in ("Preemptions: {preemptions}, {}", "")
    for hits in (", Prefix cache hit rate: {hit_rate}%{}", "")
    for external in (", External prefix cache hit rate: {external_rate}%{}", "")
) + tuple(Line("status", f"{engine}{_RATES}{_LOAD}{_USAGE}{{}}") for engine in ("Engine {engine}: ", ""))
"""Status lines. Parts without a number are left out by the server; the longest template that fits is first."""

METRICS: Mapping[str, str] = {
    "prefix_cache_queries_total": "tokens of admitted requests that were looked up in the prefix cache",
    "prefix_cache_hits_total": "tokens of admitted requests that were found in the prefix cache",
    "external_prefix_cache_queries_total": "tokens that were looked up at a KV connector",
    "external_prefix_cache_hits_total": "tokens that a KV connector supplied",
    "num_preemptions_total": "preemptions; a preempted request is evaluated again, except blocks that are still cached",
    "prompt_tokens_total": "prompt tokens of requests whose prefill is complete, cached or not",
    "prompt_tokens_cached_total": "prompt tokens that were not evaluated (local and external cache)",
    "kv_cache_usage_perc": "share of the blocks that requests use now, 0 to 1",
    "num_requests_running": "requests in the running batch",
    "num_requests_waiting": "requests that wait for admission",
}
"""Metrics by name. A counter since the start of the server ends in ``_total``, the kind of its lines does not."""
LINES = (
    *_STATUS,
    Line("iteration", "{}Iteration({iteration}): {prefills} context requests, {prompt_n} context tokens, {} KV cache "
         "usage: {usage}%{}"),
    # Facts logged at startup.
    Line("start_engine", "Initializing a V1 LLM engine (v{version}) with config: {}enable_prefix_caching={caching},{}"),
    Line("start_engine", "Initializing a V1 LLM engine (v{version}) with config: {}"),
    *(Line("start_capacity", f"{device} KV cache size: {{tokens,}} tokens, Maximum concurrency for {{length,}} tokens "
           "per request: {concurrency}x") for device in ("GPU", "GPU + host", "CPU", "XPU")),
    Line("start_capacity", "GPU KV cache size: {tokens,} tokens"),
    Line("start_capacity", "Maximum concurrency for {length,} tokens per request: {concurrency}x"),
    *(Line("start_block_size", text) for text in (
        "Setting attention block size to {block_size} tokens to ensure that {}", "kv lcm block sizes {block_size}",
        "Setting attention block size to {block_size} tokens so the quantized {}",
        "Setting kv cache block size to {block_size} for {}")),
    Line("start_mamba_mode", "Mamba cache mode is set to '{mode}' for {} by default when prefix caching is enabled"),
    Line("start_mamba_mode", "Mamba cache mode is set to '{mode}' when prefix caching is disabled"),
    Line("start_mamba_mode", "Warning: Prefix caching in Mamba cache '{mode}' mode {}"),
    Line("start_caching_off", "Disabling prefix caching: {}"),
    Line("start_caching_off", "Prefix caching is not supported for {}"),
    *(Line("start_other", text + "{}") for text in (
        "kv cache group sizes ", "Padding mamba page size by ", "Overriding num_gpu_blocks=",
        "Disabling fine-grained prefix-cache hits because ", "Hybrid KV cache manager is disabled for this hybrid ",
        "Turning off hybrid kv cache manager because ", "Using a random per-process NONE_HASH seed because ",
        "EAGLE trailing prefix-cache block dropping is disabled. ",
    )),
    # Events.
    Line("reset", "Successfully reset prefix cache"),
    Line("reset_failed", "Failed to reset prefix cache because some blocks ({blocks}) are not freed yet"),
    Line("preempted", "Sequence group {} is preempted by {}total_num_cumulative_preemption={total}"),
    Line("load_failed", "Recovered from KV load failure: {requests} request(s) rescheduled ({n_tokens} tokens {}"),
    Line("load_failed", "Failing {requests} request(s) due to KV load failure {}"),
    Line("engine_died", "EngineCore encountered a fatal error."),
    # Replies that a client logged, and metrics.
    *log_others.OTHERS,
    Line("reply_usage", '{}"prompt_tokens":{n_tokens},{}"cached_tokens":{cache_n,}{}'),
    *(Line(kind, f"vllm:{name}{labels} {{{kind}}}")
      for name in METRICS for kind in (name.removesuffix("_total"),) for labels in ('{}engine="{engine}"{}}', "")),
)

_ON = "--enable-prefix-caching"
_MEMORY = ("--gpu-memory-utilization", "--max-num-seqs", "--max-model-len")
MEANINGS: Mapping[str, Meaning] = {
    "status": Meaning(
        "state of the engine, every 10 s. hit_rate: share of the looked-up tokens of the last 1,000 requests that were "
        "in the prefix cache [%]. usage: blocks of requests in progress [%]; cached blocks of ended requests count as "
        "free. preemptions: since the last status line. prompt_rate: evaluated prompt tokens, cached ones are left out",
        causes=("prompts that share no complete block with an earlier prompt",
                "cached blocks were evicted: other requests needed them",
                "a model with recurrent layers or windows: states are kept at few positions, see the block size"),
        flags=(_ON, "--block-size", *_MEMORY), rules=("VL-LOOKUP", "VL-POOL")),
    "iteration": Meaning("a step of the engine: prompt_n prompt tokens of prefills requests were evaluated"),
    "start_engine": Meaning("the engine starts; version and configuration", flags=(_ON,)),
    "start_capacity": Meaning("size of the KV cache [tokens], and how many requests of the maximum length fit",
                              flags=_MEMORY),
    "start_block_size": Meaning(
        "tokens of a block, often raised so that the pages of all groups have one size. Only complete blocks are "
        "reused: a common prefix that is shorter than a block is evaluated again", flags=("--block-size",),
        rules=("VL-SIZE",)),
    "start_mamba_mode": Meaning(
        "which recurrent states are cached: align = at block boundaries where a step ends, all = at every block (0.15 "
        "to 0.31), none = none", flags=("--mamba-cache-mode", _ON)),
    "start_caching_off": Meaning("prefix caching is off: every prompt is evaluated completely", flags=(_ON,)),
    "start_other": Meaning("a property of blocks, groups or keys", rules=("VL-SIZE",)),
    "reset": Meaning("all keys of the prefix cache were removed; the next prompts are evaluated completely"),
    "reset_failed": Meaning("the prefix cache was not reset: requests use these blocks", rules=("VL-POOL",)),
    "preempted": Meaning("a request lost its blocks because the KV cache is full; it is evaluated again later",
                         flags=_MEMORY),
    "load_failed": Meaning("blocks of a KV connector could not be loaded; their tokens are evaluated"),
    "engine_died": Meaning("an exception ended the engine's core; later requests get no answer"),
    "reply_usage": Meaning("cache_n of the prompt's n_tokens tokens were in the cache (--enable-prompt-tokens-details)",
                           rules=("VL-LOOKUP",)),
    **{name.removesuffix("_total"): Meaning(f"metric: {says}") for name, says in METRICS.items()},
    **log_others.MEANINGS,
}
ORDINARY: Mapping[str, str] = {
    "HTTP access line": r"\S:\d+ - \S+ \d{3}\b",
    "request added or ended": r"\] (?:Added|Aborted|Received) request ",
    "loading of the model": r"Loading (?:safetensors|weights)|Model loading took|torch\.compile|Graph captur|Compiling",
    "memory of the device": r"Available KV cache memory|CUDA graph (?:pool )?memory|init engine \(profile",
}
SIGNATURES = (Signature("server-warning", ("reset_failed", "preempted", "engine_died"), (), (), is_quoted=True),)


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield what follows from lines that name no request, the most important first."""
    status = of_kind(lines, "status")
    recent = " of the looked-up tokens of the last 1,000 requests"
    for cache, where in (("", "in the prefix cache"), ("external_", "at the KV connector")):
        yield from made.counters(lines, f"{cache}prefix_cache_queries", f"{cache}prefix_cache_hits", where)
    yield from made.replies(of_kind(lines, "reply_usage"))
    yield from log_others.totals(lines)
    yield from made.rates(status, "hit_rate", "prefix cache hit rate", recent)
    yield from made.rates(status, "external_rate", "external prefix cache hit rate", recent)
    yield from made.caching_off([line for line in lines if line.kind == "start_caching_off"
                                 or line.numbers.get("caching") is False], "prefix caching")  # fmt: skip
    for found in made.series(of_kind(lines, "start_block_size"), "block_size"):
        size = int(max(found.values))
        yield LogTotal(found.ends, {"block_size": size}, f"a common prefix shorter than {size:,} tokens is not reused "
                       "(block size, unless --prefix-match-unit is smaller)")  # fmt: skip
    yield from made.sums(status, "preemptions", "preemptions: these requests were evaluated again, except blocks that "
                                                "were still cached")  # fmt: skip
    yield from made.rates(status, "usage", "KV cache usage", "; cached blocks of ended requests count as free")
    yield from made.last(of_kind(lines, "start_capacity"), "tokens", "the KV cache has {} tokens")


GRAMMAR = LogGrammar(
    LINES, MEANINGS, signs=("KV cache usage: ", "vllm:", "[loggers.py:", "[kv_cache_utils.py:", "EngineCore", "V1 LLM"),
    starts=("initializing a v1 llm engine",), ordinary=ORDINARY, verdicts={"reply_usage": reused}, totals=totals,
    nameless=made.nameless("blocks", "--enable-prompt-tokens-details"), signatures=SIGNATURES,
    unlogged={"VL-": "not logged: in the number of cached tokens, and in the hit rate"},
    fatal=frozenset({"engine_died"}),
    warnings=frozenset({"reset_failed", "engine_died", "preempted", "load_failed", "start_caching_off"}),
)  # fmt: skip
