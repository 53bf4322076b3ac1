"""SGLang's log lines about its radix cache, and its metrics, with their meanings and what follows from them.

Source: SGLang 0.1 to 0.5.23 srt/managers/scheduler.py, srt/managers/scheduler_components/metrics_reporter.py,
srt/mem_cache/memory_pool.py, srt/observability/metrics_collector.py. No line of the scheduler names a request.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.engines.shared import log_totals as made
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, last, of_kind, replies, series, share, sums
from cachesim.engines.shared.log_verdicts import admitted, reused

_NEW = "Prefill batch{}#new-seq: {new_seq}, #new-token: {prompt_n}, #cached-token: {cache_n}, "
_QUEUES = "#running-req: {running}, #queue-req: {queued}"
_DUE = (", #pending-token: {pending}, {}", "{}")
_WINDOWS = ("token usage: {usage}, swa token usage: {swa_usage}, ", "token usage: {usage}, ")
_STATES = ("mamba usage: {mamba_usage}, ", "")
_DECODE = "Decode batch{}#running-req: {running}, {}"
_GAUGES: Mapping[str, str] = {
    "cache_hit_rate": "share of the cached tokens in the prompts of the last prefill batch, 0 to 1",
    "token_usage": "share of the tokens of the pool that requests use now, 0 to 1",
    "mamba_usage": "share of the recurrent states that requests use now, 0 to 1",
    "num_running_reqs": "requests in the running batch", "num_queue_reqs": "requests that wait for admission",
    "num_retracted_requests_total": "requests that were retracted since the start of the server",
    "evicted_tokens_total": "tokens that were evicted from the device since the start of the server",
}
"""Metrics by name. Token counters carry more labels (streaming, source of the hit) and are not read."""
LINES = (
    *(Line("prefill_batch", f"{_NEW}{{}}{windows}{states}{_QUEUES}{due}")
      for windows in _WINDOWS for states in _STATES for due in _DUE),
    Line("prefill_batch", f"{_NEW}{{}}token usage: {{usage}}, {{}}{_QUEUES}{{}}"),
    Line("prefill_batch", f"{_NEW}{{}}"),
    Line("prefill_batch", "new fill batch. #seq: {new_seq}. #cached_token: {cache_n}. #new_token: {prompt_n}. "
         "#remaining_req: {queued}. #running_req: {running}. {}"),
    Line("decode_batch", f"{_DECODE}token usage: {{usage}}, #swa token: {{}}, swa token usage: {{swa_usage}}, {{}}"),
    Line("decode_batch", f"{_DECODE}token usage: {{usage}}, mamba num: {{states}}, mamba usage: {{mamba_usage}}, {{}}"),
    Line("decode_batch", f"{_DECODE}token usage: {{usage}}, {{}}"),
    Line("decode_batch", "#running-req: {running}, #token: {tokens}, token usage: {usage}, {}"),
    Line("retracted", "KV cache pool is full. Retract requests. #retracted_reqs: {retracted}, {}"),
    Line("flushed", "Cache flushed successfully!"),
    Line("not_flushed", "Cache not flushed because there are pending requests. #queue-req: {queued}, #running-req: "
         "{running}"),
    *(Line("pool_leak", error + text) for error in ("", "ValueError: ") for text in (
        "pool memory leak detected! [full] total={total}, available={available}, evictable={evictable}, "
        "protected={protected}, {}",
        "pool memory leak detected!{}", "token_to_kv_pool_allocator memory leak detected!{}",
        "KV cache pool leak detected!{}",
    )),
    *(Line("freed_twice", f"{error}Committed KV cache already freed{{}}") for error in ("", "AssertionError: ")),
    Line("scheduler_died", "Scheduler hit an exception: {}"),
    Line("prefill_out_of_memory", "Prefill out of memory. Try to lower your batch size.{}"),
    Line("decode_out_of_memory", "Decode out of memory. Try to lower your batch size.{}"),
    *(Line("states_full", f"{error}Not enough space for mamba {{}}") for error in ("", "AssertionError: ")),
    Line("start_capped", "max_running_requests is capped to {max_running} by the mamba state cache "
         "(max_mamba_cache_size={states}, {per_request} state slots per request). {}"),
    Line("start_engine", "server_args=ServerArgs({}chunked_prefill_size={chunk}, {}page_size={page}, "
         "{}disable_radix_cache={no_cache}, {}"),
    Line("start_engine", "server_args=ServerArgs({}disable_radix_cache={no_cache}, {}"),
    Line("start_limits", "max_total_num_tokens={tokens}, chunked_prefill_size={chunk}, max_prefill_tokens={}, "
         "max_running_requests={max_running}, {}"),
    Line("start_pool", "KV Cache is allocated. {}#tokens: {tokens}, {}"),
    Line("start_states", "Mamba Cache is allocated. max_mamba_cache_size: {states}, {}"),
    Line("reply_usage", '{}"prompt_tokens":{n_tokens},{}"cached_tokens":{cache_n,}{}'),
    *(Line(name, f"sglang:{name}{labels} {{{name}}}") for name in _GAUGES for labels in ("{}}", "")),
)

_MEMORY = ("--mem-fraction-static", "--max-running-requests")
MEANINGS: Mapping[str, Meaning] = {
    "prefill_batch": Meaning(
        "a prefill step admits new_seq requests: cache_n tokens of their prompts were in the radix tree, prompt_n are "
        "evaluated (a chunk of a long prompt has no cached tokens). usage, swa_usage, mamba_usage: shares of the rows, "
        "of the rows of windows and of the states that requests use now. pending: prompt tokens that are due later",
        causes=("prompts that differ near their beginning", "nodes of the tree were evicted",
                "a state or a window is missing at the end of the common prefix"),
        flags=("--page-size", "--chunked-prefill-size", "--schedule-policy"), rules=("SG-MATCH-HIT", "SG-SCHED-ADMIT"),
    ),
    "decode_batch": Meaning("state of the running batch; usage, swa_usage, mamba_usage: shares of the rows, of the "
                            "rows of windows and of the states that requests use now, cached ones left out"),
    "prefill_out_of_memory": Meaning(
        "the pool has no rows for the new tokens of a batch, even if the tree gives all unused ones back: the "
        "scheduler ends", causes=("more tokens were admitted than the pool holds, such as by rounding to pages",),
        flags=("--mem-fraction-static", "--chunked-prefill-size", "--page-size")),
    "decode_out_of_memory": Meaning("the pool has no rows for the next tokens of the running requests; the scheduler "
                                    "ends", flags=("--mem-fraction-static", "--max-running-requests")),
    "states_full": Meaning("no recurrent state is free for a request that was admitted; the scheduler ends",
                           flags=("--max-mamba-cache-size", "--mamba-full-memory-ratio")),
    "start_capped": Meaning(
        "fewer requests run than --max-running-requests allows: each holds per_request of the states, tree nodes get "
        "the others", flags=("--max-mamba-cache-size", "--mamba-full-memory-ratio", "--mamba-ssm-dtype")),
    "retracted": Meaning("the pool is full: requests lost their tokens and wait; their prompts are matched again",
                         flags=("--schedule-conservativeness", *_MEMORY), rules=("SG-RETRACT-ORDER",)),
    "flushed": Meaning("the radix tree was cleared; the next prompts are evaluated completely"),
    "not_flushed": Meaning("the tree was not cleared: requests are in progress"),
    "pool_leak": Meaning("the idle server counted its pool of K/V rows: free + evictable + protected slots are not all "
                         "slots. Newer releases end then; the first ones printed a warning",
                         causes=("slots that were freed twice, or never",)),
    "freed_twice": Meaning("a request that already gave its rows back gave them back again; the scheduler ends"),
    "scheduler_died": Meaning("an exception ended the scheduler; the server ends"),
    "start_engine": Meaning("the server starts; its settings", flags=("--disable-radix-cache",)),
    "start_limits": Meaning("tokens of the pool, of a chunk, and requests of a batch, at most", flags=_MEMORY),
    "start_pool": Meaning("size of the pool of K/V rows [tokens]", flags=_MEMORY),
    "start_states": Meaning("number of recurrent states, of running requests and of tree nodes together",
                          flags=("--max-mamba-cache-size", "--mamba-full-memory-ratio")),
    "reply_usage": Meaning("cache_n of the prompt's n_tokens tokens were in the tree (--enable-cache-report)"),
    **{name: Meaning(f"metric: {says}") for name, says in _GAUGES.items()},
}  # fmt: skip


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the conclusions, the most important first. A retracted request is admitted again and counts again."""
    yield from made.caching_off([line for line in lines if line.numbers.get("no_cache") is True], "the radix cache")
    batches = [line for line in of_kind(lines, "prefill_batch")
               if all(isinstance(line.numbers[name], int) for name in ("prompt_n", "cache_n"))]  # fmt: skip
    cached, rest = (sum(line.numbers[name] for line in batches) for name in ("cache_n", "prompt_n"))
    if cached + rest:
        yield LogTotal(tuple(line.line for line in batches), {"cache_n": cached, "prompt_n": rest},
                       f"prefill batches: {cached:,} of {cached + rest:,} prompt tokens were cached, "
                       f"{share(cached, cached + rest)}; {rest:,} were evaluated")  # fmt: skip
    for line in of_kind(lines, "flushed"):
        yield LogTotal((line.line,), {"flushed": True}, "the radix tree was cleared: later prompts find nothing that "
                       "was stored before")  # fmt: skip
    yield from sums(of_kind(lines, "retracted"), "retracted", "retractions: these requests were admitted again")
    yield from replies(of_kind(lines, "reply_usage"))
    for line in of_kind(lines, "start_capped")[-1:]:
        most, states, each = (line.numbers[name] for name in ("max_running", "states", "per_request"))
        yield LogTotal((line.line,), dict(line.numbers), f"at most {most} requests run: each holds {each} of {states} "
                       "recurrent states, whatever --max-running-requests says")  # fmt: skip
    for name, what in (("usage", "token usage"), ("swa_usage", "usage of the rows of windows"),
                       ("mamba_usage", "usage of recurrent states")):  # fmt: skip
        for found in series(of_kind(lines, "prefill_batch", "decode_batch"), name):
            yield LogTotal(found.ends, {name: found.range}, f"{what} at most {100 * found.range[1]:.0f} %; the tree's "
                           "share for ended requests is left out")  # fmt: skip
    yield from last(of_kind(lines, "start_limits"), "tokens", "the pool has {} tokens")


GRAMMAR = LogGrammar(
    LINES, MEANINGS,
    signs=("#cached-token: ", "sglang:", "server_args=ServerArgs(", "Prefill batch", "Decode batch",
           "new fill batch. #seq"),
    starts=("server_args=serverargs(",), verdicts={"reply_usage": reused, "prefill_batch": admitted}, totals=totals,
    nameless=made.nameless("tokens", "--enable-cache-report"),
    unlogged={"SG-": "not logged: in the number of cached tokens of a batch"},
    warnings=frozenset({"retracted", "not_flushed", "pool_leak", "freed_twice", "prefill_out_of_memory",
                        "decode_out_of_memory", "states_full", "start_capped"}), fatal=frozenset({"scheduler_died"}),
)  # fmt: skip
