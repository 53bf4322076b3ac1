"""vLLM's log lines and metrics are recognised in every spelling; totals state what the quoted lines print."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal
from cachesim.engines.vllm.log_lines import GRAMMAR
from cachesim.tools.server_logs.lines.logical_lines import logical_lines

LOG = """\
(APIServer pid=7) INFO 04-17 18:06:25 [platforms/interface.py:934] Setting attention block size to 1056 tokens \
to ensure that attention page size is >= mamba page size.
(EngineCore_DP0 pid=9) INFO 04-17 18:06:28 [core.py:140] Initializing a V1 LLM engine (v0.33.0) with config: \
model='m', enable_prefix_caching=True, seed=0
(EngineCore_DP0 pid=9) INFO 04-17 18:06:29 [kv_cache_utils.py:1147] GPU KV cache size: 394,633 tokens, Maximum \
concurrency for 10,240 tokens per request: 38.54x
(APIServer pid=7) INFO:     10.0.0.1:2076 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(APIServer pid=7) INFO 04-17 18:06:42 [loggers.py:336] Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg \
generation throughput: 6.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.5%, Prefix cache \
hit rate: 0.0%
(APIServer pid=7) INFO 04-17 18:06:52 [loggers.py:336] Engine 000: Avg prompt throughput: 9.0 tokens/s, Avg \
generation throughput: 6.1 tokens/s, Running: 3 reqs, Waiting: 5 reqs, Deferred: 1 reqs, Preemptions: 2, GPU KV \
cache usage: 98.5%, Prefix cache hit rate: 12.5%, External prefix cache hit rate: 4.2%, MM cache hit rate: 3.0%
(EngineCore_DP0 pid=9) WARNING 04-17 18:07:00 [block_pool.py:883] Failed to reset prefix cache because some \
blocks (12) are not freed yet
(EngineCore_DP0 pid=9) INFO 04-17 18:07:01 [block_pool.py:905] Successfully reset prefix cache
"""
METRICS = """\
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="a/b c"}} {queries}
vllm:prefix_cache_hits_total{{engine="0",model_name="a/b c"}} {hits}
vllm:kv_cache_usage_perc{{engine="0",model_name="a/b c"}} 0.25
"""


def numbers_of(text: str) -> list[LoggedNumbers]:
    """Return the recognised lines of a log."""
    lines = logical_lines(GRAMMAR, text.splitlines(keepends=True))
    return [LoggedNumbers(line.number, line.read.line.ev, line.read.numbers) for line in lines if line.read]


def totals_of(text: str) -> list[LogTotal]:
    return list(GRAMMAR.totals(numbers_of(text)))


def said(text: str) -> str:
    return "\n".join(total.says for total in totals_of(text))


def test_lines_about_the_cache_are_recognised_and_access_lines_are_not():
    kinds = [line.kind for line in numbers_of(LOG)]
    assert kinds == ["start_block_size", "start_engine", "start_capacity", "status", "status", "reset_failed", "reset"]


def test_separators_of_thousands_belong_to_the_number():
    (capacity,) = (line for line in numbers_of(LOG) if line.kind == "start_capacity")
    assert capacity.numbers == {"tokens": 394_633, "length": 10_240, "concurrency": 38.54}


def test_a_status_line_gives_every_part_that_it_prints():
    first, second = (line.numbers for line in numbers_of(LOG) if line.kind == "status")
    assert first["hit_rate"] == 0.0 and first["usage"] == 0.5 and "preemptions" not in first
    assert {name: second[name] for name in ("waiting", "preemptions", "usage", "hit_rate", "external_rate")} == {
        "waiting": 5, "preemptions": 2, "usage": 98.5, "hit_rate": 12.5, "external_rate": 4.2}  # fmt: skip


@pytest.mark.parametrize(("line", "kind", "numbers"), [
    ("INFO 05-11 12:04:07 [gpu.py:1] GPU KV cache size: 16,384 tokens", "start_capacity", {"tokens": 16384}),
    ("Maximum concurrency for 32,768 tokens per request: 4.57x", "start_capacity",
     {"length": 32768, "concurrency": 4.57}),
    ("Mamba cache mode is set to 'align' for QwenFor by default when prefix caching is enabled", "start_mamba_mode",
     {"mode": "align"}),
    ("2 Engines Aggregated: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 "
     "reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 1.5%", "status",
     {"engines": 2, "prompt_rate": 0.0, "rate": 0.0, "running": 0, "waiting": 0, "usage": 0.0, "hit_rate": 1.5}),
    ("Engine 001: Iteration(268): 2 context requests, 512 context tokens, 50 generation requests, 50 generation "
     "tokens, iteration elapsed time: 10.25 ms, GPU KV cache usage: 5.1%", "iteration",
     {"iteration": 268, "prefills": 2, "prompt_n": 512, "usage": 5.1}),
    ('{"id":"x","usage":{"prompt_tokens":2015,"total_tokens":2031,"prompt_tokens_details":{"cached_tokens":1024}}}',
     "reply_usage", {"n_tokens": 2015, "cache_n": 1024}),
    ("vllm:prefix_cache_queries_total  1131", "prefix_cache_queries", {"prefix_cache_queries": 1131}),
    ("INFO 02-28 21:48:18 metrics.py:161] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 44.9 "
     "tokens/s, Running: 2 reqs, "
     "Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 82.1%, CPU KV cache usage: 0.0%", "status",
     {"prompt_rate": 0.0, "rate": 44.9, "running": 2, "swapped": 0, "waiting": 3, "usage": 82.1, "cpu_usage": 0.0}),
    ("INFO 03-05 23:33:10 loggers.py:69] Avg prompt throughput: 156.5 tokens/s, Avg generation throughput: 1455.8 "
     "tokens/s, Running: 0 reqs, Waiting: 0 reqs GPU KV cache usage: 0.0%.", "status",
     {"prompt_rate": 156.5, "rate": 1455.8, "running": 0, "waiting": 0, "usage": 0.0}),
    ("Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 3, Waiting: "
     "5, GPU KV cache usage: 1.0%, MM cache hit rate: 40.0%", "status",
     {"engine": 0, "prompt_rate": 1.0, "rate": 1.0, "running": 3, "waiting": 5, "usage": 1.0, "image_rate": 40.0}),
    ("INFO 05-25 06:50:29 [metrics.py:502] Prefix cache hit rate: GPU: 0.00%, CPU: 90.00%", "hit_rates",
     {"gpu_rate": 0.0, "cpu_rate": 90.0}),
    ("INFO 12-22 11:00:01 gpu_executor.py:122] # GPU blocks: 9312, # CPU blocks: 2048", "start_blocks",
     {"device": "GPU", "blocks": 9312, "cpu_blocks": 2048}),
    ("Initializing an LLM engine (v0.6.3) with config: model='m', max_seq_len=4096, seed=0, "
     "enable_prefix_caching=False, mm_processor_kwargs=None)", "start_engine",
     {"version": "0.6.3", "max_len": 4096, "caching": False}),
    ('vllm:cache_config_info{block_size="1600",enable_prefix_caching="True",engine="0",mamba_block_size="16",'
     'num_gpu_blocks="412",num_gpu_blocks_override="None"} 1.0', "cache_config",
     {"block_size": 1600, "caching": True, "blocks": 412}),
    ('vllm:num_preemptions_total{engine="0",model_name="a/b c"} 14.0', "num_preemptions",
     {"engine": 0, "num_preemptions": 14.0}),
    ("Disabling fine-grained prefix-cache hits because these KV cache managers require block-aligned lookups: "
     "SlidingWindowManager.", "start_whole_blocks", {}),
    ("vllm:kv_cache_usage_perc 0.25", "kv_cache_usage_perc", {"kv_cache_usage_perc": 0.25}),
])  # fmt: skip
def test_lines_of_other_releases_and_of_replies(line, kind, numbers):
    (found,) = numbers_of(line)
    assert (found.kind, dict(found.numbers)) == (kind, numbers)


def test_the_totals_of_a_log():
    assert said(LOG).splitlines() == [
        "prefix cache hit rate 12.5 % at the end (0.0 to 12.5 %) of the looked-up tokens of the last 1,000 requests",
        "external prefix cache hit rate 4.2 % of the looked-up tokens of the last 1,000 requests",
        "MM cache hit rate 3.0 % of the images and other media of the last 1,000 requests; this cache keeps processed "
        "media, not prompt tokens",
        "a common prefix shorter than 1,056 tokens is not reused (block size, unless --prefix-match-unit is smaller)",
        "2 preemptions: these requests were evaluated again, except blocks that were still cached",
        "KV cache usage 98.5 % at the end (0.5 to 98.5 %); cached blocks of ended requests count as free",
        "the KV cache has 394,633 tokens",
    ]


def test_the_largest_of_several_block_sizes_is_stated():
    lines = [line for line in LOG.splitlines() if "1056 tokens" in line]
    sizes = "\n".join(lines[0].replace("1056", size) for size in ("16", "1056", "544"))
    assert [total.numbers for total in totals_of(sizes)] == [{"block_size": 1056}]


def test_counters_are_compared_between_scrapes():
    one = METRICS.format(queries="8015.0", hits="7168.0")
    assert said(one) == "7,168 of 8,015 looked-up tokens were in the prefix cache, 89.4 % (since the " \
        "start of the server)"
    both = one + METRICS.format(queries="1.2e+04", hits="7668.0")
    assert said(both) == "500 of 3,985 looked-up tokens were in the prefix cache, 12.5 % (between the scrapes)"


def test_a_counter_that_fell_is_not_compared():
    assert not said(METRICS.format(queries="8015.0", hits="7168.0") + METRICS.format(queries="15.0", hits="0.0"))


def test_prefix_caching_that_is_off_is_stated():
    assert said(LOG.replace("caching=True", "caching=False")).count("prefix caching is off") == 1


def test_a_rate_of_a_cache_that_is_off_is_left_out():
    off = said(LOG.replace("caching=True", "caching=False").replace("hit rate: 12.5%", "hit rate: 0.0%")).splitlines()
    assert "prefix caching is off" in off[0] and "shorter" not in "".join(off)
    assert not [line for line in off if line.startswith("prefix cache hit rate")]


@pytest.mark.parametrize(("length", "is_useless"), [(1_056, True), (1_055, True), (1_057, False)])
def test_a_block_as_long_as_the_longest_request_is_never_reused(length, is_useless):
    says = said(LOG.replace("10,240", f"{length:,}"))
    assert ("no request can reuse anything: a block has 1,056 tokens" in says) is is_useless
    assert ("a common prefix shorter than 1,056" in says) is not is_useless


RATE = "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, " \
    "Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: {}%\n"
RESET = "INFO 04-17 18:07:01 [block_pool.py:905] Successfully reset prefix cache\n"
PREEMPTED = "Sequence group 318 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache " \
    "space. total_num_cumulative_preemption=51\n"


@pytest.mark.parametrize(("between", "why"), [
    (RESET, "the cache was reset in between (line 2)"), (PREEMPTED, "while requests were preempted"),
    (PREEMPTED + RESET, "the cache was reset in between (line 3)")])  # fmt: skip
def test_a_fall_of_the_rate_is_explained(between, why):
    log = RATE.format(80.0) + between + RATE.format(10.0)
    [fall] = [total for total in totals_of(log) if " fell " in total.says]
    assert f"fell from 80.0 % to 10.0 %{':' if 'reset' in why else ''} {why}" in fall.says
    assert {1, 2 + between.count("\n")} < {*fall.lines}
    for other in (RATE.format(80.0) + between + RATE.format(90.0), RATE.format(80.0) + RATE.format(10.0) + between):
        assert " fell " not in said(other)


def test_preemptions_are_those_between_two_scrapes():
    counted = 'vllm:num_preemptions_total{{engine="0",model_name="m"}} {}\n'
    assert said(counted.format(2.0)).startswith("2 preemptions since the start of the server")
    assert said(counted.format(2.0) + counted.format(39.0)).startswith("37 preemptions between the scrapes")
    assert said(counted.format(0.0)) == ""


def test_engines_of_a_server_have_separate_rates():
    other = LOG.replace("Engine 000", "Engine 001").replace("12.5%", "99.0%")
    assert "engine 0: prefix cache hit rate 12.5 %" in said(LOG + other)
    assert "engine 1: prefix cache hit rate 99.0 %" in said(LOG + other)


@given(st.lists(st.tuples(*[st.integers(0, 999)] * 3), min_size=1, max_size=8), st.data())
def test_totals_of_an_excerpt_quote_lines_with_their_numbers(rows, data):
    text = [f"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 "
            f"reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage / 10}%, Prefix cache hit rate: {rate / 10}%\n"
            for waiting, usage, rate in rows]  # fmt: skip
    kept = data.draw(st.lists(st.sampled_from(text), min_size=1))
    lines = {line.line: line.numbers for line in numbers_of("".join(kept))}
    for total in totals_of("".join(kept)):
        for name in {*total.numbers} & {"hit_rate", "usage"}:
            assert sorted({lines[line][name] for line in total.lines} & {*total.numbers[name]}) == sorted(
                {*total.numbers[name]})  # fmt: skip
            assert total.numbers[name] == [min(line[name] for line in lines.values()),
                                           max(line[name] for line in lines.values())]  # fmt: skip


def test_every_kind_of_line_has_a_meaning():
    assert {line.ev for line in GRAMMAR.lines} == set(GRAMMAR.meanings)
    assert GRAMMAR.warnings <= set(GRAMMAR.meanings) and set(GRAMMAR.verdicts) <= set(GRAMMAR.meanings)
