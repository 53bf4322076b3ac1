"""SGLang's log lines and metrics are recognised in every spelling; totals sum what prefill batches print."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.log_lines import GRAMMAR
from cachesim.engines.shared.log_totals import LoggedNumbers
from cachesim.tools.server_logs.lines.logical_lines import logical_lines

LOG = """\
[2025-09-03 18:30:18] server_args=ServerArgs(model_path='x', page_size=1, disable_radix_cache=False, log_level='info')
[2025-09-03 18:33:10 TP0] max_total_num_tokens=100000, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4096, context_len=32768, available_gpu_mem=10.22 GB
[2025-09-03 18:33:10 TP0] Mamba Cache is allocated. max_mamba_cache_size: 512, conv_state size: 0.10GB, \
ssm_state size: 2.00GB
[2025-09-03 18:33:18 TP0] Prefill batch. #new-seq: 1, #new-token: 103, #cached-token: 1, token usage: 0.00, \
#running-req: 0, #queue-req: 0,
[2025-09-03 18:33:19 TP0] Decode batch. #running-req: 1, #token: 137, token usage: 0.07, cuda graph: True, \
gen throughput (token/s): 1.06, #queue-req: 0,
[2026-07-04 04:31:24 DP0 TP0] Prefill batch, #new-seq: 12, #new-token: 43008, #cached-token: 64, full token usage: \
0.14, mamba usage: 0.20, #running-req: 1, #queue-req: 97, #pending-token: 109585, input throughput (token/s): 15734.14
[2026-07-04 04:31:25 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 4, #new_tokens_gained: 21, \
#new_token_ratio: 0.9998 -> 1.0000
"""


def numbers_of(text: str) -> list[LoggedNumbers]:
    """Return the recognised lines of a log."""
    lines = logical_lines(GRAMMAR, text.splitlines(keepends=True))
    return [LoggedNumbers(line.number, line.read.line.ev, line.read.numbers) for line in lines if line.read]


def test_lines_of_old_and_new_releases_are_recognised():
    kinds = [line.kind for line in numbers_of(LOG)]
    batches = ["prefill_batch", "decode_batch", "prefill_batch"]
    assert kinds == ["start_engine", "start_limits", "start_states", *batches, "retracted"]


@pytest.mark.parametrize(("line", "kind", "numbers"), [
    ("Prefill batch [17], #new-seq: 2, #new-token: 5, #cached-token: 9, full token usage: 0.10, swa token usage: 0.20, "
     "#running-req: 1, #queue-req: 3, #pending-token: 0, cuda graph: False", "prefill_batch",
     {"new_seq": 2, "prompt_n": 5, "cache_n": 9, "usage": 0.1, "swa_usage": 0.2, "running": 1, "queued": 3,
      "pending": 0}),
    ("new fill batch. #seq: 1. #cached_token: 478. #new_token: 254. #remaining_req: 0. #running_req: 4. "
     "tree_cache_hit_rate: 80.81%.", "prefill_batch",
     {"new_seq": 1, "prompt_n": 254, "cache_n": 478, "running": 4, "queued": 0}),
    ("#running-req: 3, #token: 1442, token usage: 0.18, #queue-req: 0", "decode_batch",
     {"running": 3, "tokens": 1442, "usage": 0.18}),
    ("Decode batch, #running-req: 3, #full token: 40011, full token usage: 0.10, #swa token: 9001, swa token usage: "
     "0.97, cuda graph: True, gen throughput (token/s): 30.1, #queue-req: 1", "decode_batch",
     {"running": 3, "usage": 0.1, "swa_usage": 0.97}),
    ("max_running_requests is capped to 9 by the mamba state cache (max_mamba_cache_size=47, 5 state slots per "
     "request). To raise it: increase --mamba-full-memory-ratio", "start_capped",
     {"max_running": 9, "states": 47, "per_request": 5}),
    ("Decode batch, #running-req: 3, #full token: 40, full token usage: 0.40, mamba num: 7, mamba usage: 0.50, cuda "
     "graph: True, gen throughput (token/s): 3.1, #queue-req: 0", "decode_batch",
     {"running": 3, "usage": 0.4, "states": 7, "mamba_usage": 0.5}),
    ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 512, KV size: 1.00 GB", "start_pool", {"tokens": 512}),
    ('sglang:cache_hit_rate{engine_type="unified",model_name="a b"} 0.25', "cache_hit_rate", {"cache_hit_rate": 0.25}),
    ("sglang:token_usage  0.5", "token_usage", {"token_usage": 0.5}),
    ("[16:43:29 TP0] Prefill batch. #new-seq: 4, #new-token: 8192, #cached-token: 291, cache hit rate: 2.76%, token "
     "usage: 0.04, #running-req: 1, #queue-req: 38", "prefill_batch",
     {"new_seq": 4, "prompt_n": 8192, "cache_n": 291, "usage": 0.04, "running": 1, "queued": 38}),
    ('{"usage":{"prompt_tokens":20,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":16}}}', "reply_usage",
     {"n_tokens": 20, "cache_n": 16}),
])  # fmt: skip
def test_numbers_of_a_line(line, kind, numbers):
    (found,) = numbers_of(line)
    assert (found.kind, dict(found.numbers)) == (kind, numbers)


def test_the_totals_of_a_log():
    assert [total.says for total in GRAMMAR.totals(numbers_of(LOG))] == [
        "prefill batches: 65 of 43,176 prompt tokens were cached, 0.2 %; 43,111 were evaluated",
        "4 retractions: these requests were admitted again",
        "token usage at most 14 %; the tree's share for ended requests is left out",
        "usage of recurrent states at most 20 %; the tree's share for ended requests is left out",
        "the pool has 100,000 tokens",
    ]


def test_a_cache_that_is_off_is_stated():
    says = [total.says for total in GRAMMAR.totals(numbers_of(LOG.replace("cache=False", "cache=True")))]
    assert says[0] == "the radix cache is off: every prompt is evaluated completely"


def test_every_kind_of_line_has_a_meaning():
    assert {line.ev for line in GRAMMAR.lines} == set(GRAMMAR.meanings)
    assert GRAMMAR.warnings <= set(GRAMMAR.meanings) and set(GRAMMAR.verdicts) <= set(GRAMMAR.meanings)


@pytest.mark.parametrize(("line", "kind"), [
    ("ValueError: pool memory leak detected! [full] total=9, available=1, evictable=7, protected=0, uncached=0",
     "pool_leak"),
    ("ValueError: token_to_kv_pool_allocator memory leak detected! full_available_size=6016", "pool_leak"),
    ("KV cache pool leak detected!", "pool_leak"),
    ("[2026-05-01 00:00:00 TP0] Prefill out of memory. Try to lower your batch size.", "prefill_out_of_memory"),
    ("AssertionError: Not enough space for mamba ping pong idx, try to increase --mamba-full-memory-ratio.",
     "states_full"),
    ("AssertionError: Committed KV cache already freed (self.kv_committed_len=1)", "freed_twice"),
    ("[2026-06-15 14:10:59 TP7] Scheduler hit an exception: Traceback (most recent call last):", "scheduler_died"),
])  # fmt: skip
def test_errors_are_recognised(line, kind):
    assert [found.kind for found in numbers_of(line)] == [kind]
    assert kind in GRAMMAR.warnings | GRAMMAR.fatal


def test_batches_whose_numbers_are_no_counts_are_left_out_of_the_total():
    lines = [LoggedNumbers(number, "prefill_batch", {"prompt_n": evaluated, "cache_n": cached})
             for number, (evaluated, cached) in enumerate([(5, 3), (7, 1.5), (0.5, 2), (2, 0)], 1)]  # fmt: skip
    [total] = GRAMMAR.totals(lines)
    assert (total.lines, total.numbers) == ((1, 4), {"cache_n": 3, "prompt_n": 7})
    assert total.says == "prefill batches: 3 of 10 prompt tokens were cached, 30.0 %; 7 were evaluated"
    empty = lines[0]._replace(numbers={"prompt_n": 0, "cache_n": 0})
    assert [*GRAMMAR.totals(lines[1:3])] == [*GRAMMAR.totals([empty])] == []
