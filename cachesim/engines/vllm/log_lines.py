"""vLLM's log lines about its KV cache, and its metrics, with their meanings.

Source: vLLM 0.4.2 to 0.33.0 vllm/engine/metrics.py, vllm/engine/llm_engine.py, vllm/core/scheduler.py,
vllm/v1/metrics/loggers.py, vllm/v1/core/kv_cache_utils.py, vllm/v1/core/block_pool.py, vllm/v1/engine/core.py,
vllm/platforms/interface.py, vllm/model_executor/models/config.py, vllm/engine/arg_utils.py. No line of the scheduler
names a request.
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
_ENGINES = ("Engine {engine}: ", "{engines} Engines Aggregated: ", "")
_LOADS = ("Running: {running} reqs, Waiting: {waiting} reqs, {}", "Running: {running}, Waiting: {waiting}, {}")
_USAGE = "KV cache usage: {usage}%"
_STATUS = tuple(
    Line("status", f"{engine}{_RATES}{load}{preempted}{_USAGE}{hits}{external}{images}")
    for engine in _ENGINES
    for load in _LOADS
    for preempted in ("Preemptions: {preemptions}, {}", "")
    for hits in (", Prefix cache hit rate: {hit_rate}%{}", "")
    for external in (", External prefix cache hit rate: {external_rate}%{}", "")
    for images in (", MM cache hit rate: {image_rate}%{}", "")
) + tuple(Line("status", f"{engine}{_RATES}{load}{_USAGE}{{}}") for engine in _ENGINES for load in _LOADS)
"""Status lines. Parts without a number are left out by the server; the longest template that fits is first."""
_OLD_STATUS = (
    Line("status", f"{_RATES}Running: {{running}} reqs, Swapped: {{swapped}} reqs, Pending: {{waiting}} reqs, "
         f"GPU {_USAGE}, CPU KV cache usage: {{cpu_usage}}%{{}}"),
    Line("status", f"{_RATES}Running: {{running}} reqs, Waiting: {{waiting}} reqs GPU {_USAGE}{{}}"),
    Line("hit_rates", "Prefix cache hit rate: GPU: {gpu_rate}%, CPU: {cpu_rate}%"),
    Line("start_blocks", "# {device} blocks: {blocks,}, # CPU blocks: {cpu_blocks,}"),
)  # fmt: skip
"""Lines of the engine V0, 0.4 to 0.11 (the second: V1 of 0.7)."""

METRICS: Mapping[str, str] = {
    "prefix_cache_queries_total": "tokens of admitted requests that were looked up in the prefix cache",
    "prefix_cache_hits_total": "tokens of admitted requests that were found in the prefix cache",
    "external_prefix_cache_queries_total": "tokens that were looked up at a KV connector",
    "external_prefix_cache_hits_total": "tokens that a KV connector supplied",
    "num_preemptions_total": "preemptions; a preempted request is evaluated again, except blocks that are still cached",
    "prompt_tokens_total": "prompt tokens of requests whose prefill is complete, cached or not",
    "prompt_tokens_cached_total": "prompt tokens that were not evaluated (local and external cache)",
    "kv_cache_usage_perc": "share of the blocks that requests use now, 0 to 1",
    "gpu_cache_usage_perc": "share of the blocks that requests use now, 0 to 1 (0.4 to 0.11)",
    "gpu_prefix_cache_queries_total": "blocks (0.8) or tokens (0.9 to 0.11) that were looked up in the prefix cache",
    "gpu_prefix_cache_hits_total": "blocks (0.8) or tokens (0.9 to 0.11) that were found in the prefix cache",
    "gpu_prefix_cache_hit_rate": "share of the looked-up blocks that were in the prefix cache, 0 to 1, -1 = it is off "
                                 "(engine V0)",
    "mm_cache_queries_total": "images and other media that were looked up in the cache of the processor, not in the "
                              "prefix cache",
    "mm_cache_hits_total": "images and other media that were found in the cache of the processor",
    "num_requests_running": "requests in the running batch",
    "num_requests_waiting": "requests that wait for admission",
}
"""Metrics by name. A counter since the start of the server ends in ``_total``, the kind of its lines does not."""
LINES = (
    *_STATUS,
    Line("iteration", "{}Iteration({iteration}): {prefills} context requests, {prompt_n} context tokens, {} KV cache "
         "usage: {usage}%{}"),
    *_OLD_STATUS,
    # Facts logged at startup.
    *(Line("start_engine", f"Initializing {engine} LLM engine (v{{version}}) with config: {{}}{length}{caching}")
      for engine in ("a V1", "a V0", "an") for length in ("max_seq_len={max_len}, {}", "")
      for caching in ("enable_prefix_caching={caching}, {}", "")),
    Line("cache_config", 'vllm:cache_config_info{}block_size="{block_size}"{}enable_prefix_caching="{caching}"{}'
         'num_gpu_blocks="{blocks}"{}'),
    Line("cache_config", "vllm:cache_config_info{}"),
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
    *(Line("start_caching_off", text) for text in (
        "Prefix caching is not supported for {}", "Prefix caching is not supported on CPU, disable it.",
        "(Disabling) prefix caching by default", "Disabling prefix caching by default")),
    *(Line("start_caching_on", text) for text in (
        "Automatic prefix caching is enabled.", "(Enabling) prefix caching by default",
        "Enabling prefix caching by default")),
    Line("start_whole_blocks", "Disabling fine-grained prefix-cache hits because these KV cache managers require "
         "block-aligned lookups: {}"),
    *(Line("start_other", text + "{}") for text in (
        "kv cache group sizes ", "Padding mamba page size by ", "Overriding num_gpu_blocks=",
        "Hybrid KV cache manager is disabled for this hybrid ",
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
        "free. preemptions: since the last status line (0.15 to 0.33 do not print them: see vllm:num_preemptions). "
        "external_rate: share of the tokens asked of a KV connector that it had [%]. image_rate: share of the images "
        "that the processor had in its cache [%]: it saves no prompt tokens. prompt_rate: prompt tokens a second, "
        "cached ones included in 0.15 and left out in 0.30 to 0.33",
        causes=("prompts that share no complete block with an earlier prompt",
                "cached blocks were evicted: other requests needed them",
                "a model with recurrent layers or windows: states are kept at few positions, see the block size"),
        flags=(_ON, "--block-size", *_MEMORY), rules=("VL-LOOKUP", "VL-POOL")),
    "iteration": Meaning("a step of the engine: prompt_n prompt tokens of prefills requests were evaluated"),
    "start_engine": Meaning("the engine starts; version and configuration", flags=(_ON,)),
    "hit_rates": Meaning("engine V0: share of the looked-up blocks that were in the prefix cache [%], since the start "
                         "of the server", causes=("prompts that share no complete block with an earlier prompt",
                                               "cached blocks were evicted: other requests needed them"),
                         flags=(_ON, "--block-size", *_MEMORY)),
    "start_blocks": Meaning("size of the KV cache [blocks], on the device and of the swap space in CPU memory",
                            flags=_MEMORY),
    "cache_config": Meaning("metric: settings of the KV cache. block_size: tokens of a block; blocks: number of blocks "
                            "of the pool; caching: prefix caching is on", flags=(_ON, "--block-size", *_MEMORY)),
    "start_caching_on": Meaning("prefix caching is on", flags=(_ON,)),
    "start_whole_blocks": Meaning(
        "a hit ends at the end of a block: the groups of layers named in the line cannot end one inside, so that a "
        "smaller --prefix-match-unit gains nothing", flags=("--prefix-match-unit", "--block-size"), rules=("VL-SIZE",)),
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


_RECENT = " of the looked-up tokens of the last 1,000 requests"
_PREEMPTED = "preemptions{}: these requests were evaluated again, except blocks that were still cached"


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield what follows from lines that name no request, the most important first."""
    off = [line for line in lines if line.kind == "start_caching_off" or line.numbers.get("caching") is False]
    yield from made.caching_off(off, "prefix caching")
    useless = [] if off else list(_useless_blocks(lines))
    yield from useless
    yield from _hit_rates(lines, off)
    yield from made.replies(of_kind(lines, "reply_usage"))
    yield from log_others.totals(lines)
    for kind, name in (("status", "hit_rate"), ("hit_rates", "gpu_rate")):
        yield from made.explained_falls(
            of_kind(lines, kind), name=name, what="prefix cache hit rate",
            resets=[line.line for line in of_kind(lines, "reset")], preempted=_preempted_at(lines),
        )
    if not off and not useless:
        yield from _block_size(lines)
    yield from made.sums(of_kind(lines, "status"), "preemptions", _PREEMPTED.format(""))
    yield from made.counter(lines, "num_preemptions", _PREEMPTED)
    yield from made.rates(of_kind(lines, "status"), "usage", "KV cache usage", "; cached blocks of ended requests "
                          "count as free")  # fmt: skip
    yield from made.last(of_kind(lines, "start_capacity"), "tokens", "the KV cache has {} tokens")
    yield from made.last(of_kind(lines, "start_blocks", "cache_config"), "blocks", "the KV cache has {} blocks")


def _hit_rates(lines: Sequence[LoggedNumbers], off: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the shares of hits. ``off``: lines that state that prefix caching is off: then a rate of 0 is left out."""
    status = of_kind(lines, "status")
    pairs = [("prefix_cache", "tokens", "in the prefix cache"),
             ("external_prefix_cache", "tokens", "at the KV connector")]  # fmt: skip
    if not of_kind(lines, "prefix_cache_queries"):
        pairs.insert(1, ("gpu_prefix_cache", "blocks or tokens", "in the prefix cache"))
    for cache, unit, where in pairs:
        yield from made.counters(lines, f"{cache}_queries", f"{cache}_hits", where, unit)
    if not off or any(line.numbers.get("hit_rate") for line in status):
        yield from made.rates(status, "hit_rate", "prefix cache hit rate", _RECENT)
    since_start = " of the looked-up blocks since the start of the server"
    for name, device in (("gpu_rate", ""), ("cpu_rate", " in CPU memory")):
        found = [line for line in of_kind(lines, "hit_rates") if _is_measured(line.numbers.get(name))]
        if device == "" or any(line.numbers[name] for line in found):
            yield from made.rates(found, name, f"prefix cache hit rate{device}", since_start)
    gauge = "gpu_prefix_cache_hit_rate"
    yield from made.rates([line for line in of_kind(lines, gauge) if _is_measured(line.numbers.get(gauge))], gauge,
                          "prefix cache hit rate", since_start, 100.0)  # fmt: skip
    yield from made.rates(status, "external_rate", "external prefix cache hit rate", _RECENT)
    yield from made.rates(status, "image_rate", "MM cache hit rate", " of the images and other media of the last 1,000 "
                          "requests; this cache keeps processed media, not prompt tokens")  # fmt: skip


def _is_measured(rate: object) -> bool:
    """True for a rate. The engine V0 prints a negative one if prefix caching is off."""
    return isinstance(rate, int | float) and rate >= 0


def _sizes(lines: Sequence[LoggedNumbers]) -> Iterator[made.Series]:
    """Yield the sizes of blocks that the log prints."""
    yield from made.series(of_kind(lines, "start_block_size", "cache_config"), "block_size")


def _unless(lines: Sequence[LoggedNumbers]) -> str:
    """Return the condition under which a hit may end inside a block, "" if a line excludes it."""
    return "" if of_kind(lines, "start_whole_blocks") else ", unless --prefix-match-unit is smaller"


def _block_size(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the shortest prefix that is reused."""
    for found in _sizes(lines):
        size = int(max(found.values))
        yield LogTotal(found.ends, {"block_size": size}, f"a common prefix shorter than {size:,} tokens is not reused "
                       f"(block size{_unless(lines)})")  # fmt: skip


def _useless_blocks(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield that no request can reuse anything: a hit has whole blocks and ends before the last token of a prompt, and
    the longest request has no more tokens than a block."""
    lengths = [(line.line, line.numbers[name]) for line in lines for name in ("max_len", "length")
               if type(line.numbers.get(name)) is int]  # fmt: skip
    for found in _sizes(lines):
        size = int(max(found.values))
        if not lengths or size < lengths[-1][1]:
            continue
        at, length = lengths[-1]
        place = found.lines[found.values.index(max(found.values))]
        yield LogTotal(tuple(sorted({place, at})), {"block_size": size, "max_model_len": length}, f"no request can "
                       f"reuse anything: a block has {size:,} tokens, the longest request {length:,} "
                       f"(max_model_len), and only whole blocks are reused{_unless(lines)}")  # fmt: skip


def _preempted_at(lines: Sequence[LoggedNumbers]) -> list[int]:
    """Return the lines that print preemptions, or a counter of them that grew."""
    found = [line.line for line in lines if line.kind == "preempted" or line.numbers.get("preemptions")]
    return sorted({*found, *made.grown_at(lines, "num_preemptions", "num_preemptions")})


GRAMMAR = LogGrammar(
    LINES, MEANINGS, signs=("KV cache usage: ", "vllm:", "[loggers.py:", "[kv_cache_utils.py:", "EngineCore", "V1 LLM"),
    starts=("initializing a v1 llm engine", "initializing a v0 llm engine", "initializing an llm engine"),
    ordinary=ORDINARY, verdicts={"reply_usage": reused}, totals=totals,
    nameless=made.nameless("blocks", "--enable-prompt-tokens-details"), signatures=SIGNATURES,
    unlogged={"VL-": "not logged: in the number of cached tokens, and in the hit rate"},
    fatal=frozenset({"engine_died"}),
    warnings=frozenset({"reset_failed", "engine_died", "preempted", "load_failed", "start_caching_off"}),
)  # fmt: skip
