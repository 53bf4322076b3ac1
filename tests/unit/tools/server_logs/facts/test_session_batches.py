"""Requests of a log of prefill batches, which name no request, and of a log that names them by words."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.recognise import grammars

START = ("[2026-03-02 10:00:00] server_args=ServerArgs(model_path='m', chunked_prefill_size={chunk}, page_size={page}, "
         "disable_radix_cache=False, host='h')")  # fmt: skip
DECODE = "[2026-03-02 10:00:09{rank}] Decode batch, #running-req: 1, #token: 137, token usage: 0.00, #queue-req: 0,"
FLUSHED = "[2026-03-02 10:00:09] Cache flushed successfully!"
RETRACTED = "[2026-03-02 10:00:09] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 1"


def start(chunk: int = 8192, page: int = 1) -> str:
    return START.format(chunk=chunk, page=page)


def batch(new: int, cached: int, due: int | None = None, rank: str = " TP0", sequences: int = 1, running: int = 0,
          waiting: int = 0) -> str:  # fmt: skip
    """Return a line about a prefill batch; ``due``: prompt tokens that are due after it, None = not printed."""
    rest = "" if due is None else f"#pending-token: {due}, "
    return (f"[2026-03-02 10:01:00{rank}] Prefill batch, #new-seq: {sequences}, #new-token: {new}, #cached-token: "
            f"{cached}, token usage: 0.02, #running-req: {running}, #queue-req: {waiting}, {rest}cuda graph: False")


def session(*lines: str, engine: str = "sglang") -> LogSession:
    return read_session(engine, grammars()[engine], lines)


def rows(*lines: str) -> list[tuple[str | None, str | None]]:
    """Return the reused and the evaluated tokens of the requests, as text; None = unknown."""
    found = [one.numbers for one in session(*lines).requests]
    return [tuple(str(one[name]) if name in one else None for name in ("cache_n", "prompt_n")) for one in found]


def test_a_batch_of_one_sequence_is_a_request_if_nothing_runs_or_waits():
    lines = [batch(103, 1), DECODE.format(rank=" TP0"), batch(18, 184), batch(15, 275)]
    assert rows(*lines) == [("1", "103"), ("184", "18"), ("275", "15")]
    for other in (batch(18, 184, running=1), batch(18, 184, waiting=1), batch(18, 184, sequences=2)):
        assert rows(batch(103, 1), other) == [("1", "103")]


def test_the_chunks_of_a_prompt_are_one_request():
    chunks = [batch(8192, 0, due=12008), batch(8192, 0, due=3815), batch(3815, 0, due=0)]
    lines = [start(), *chunks, batch(7, 20000, due=0)]
    assert rows(*lines) == [("0", "20,199"), ("20,000", "7")]
    assert rows(*lines[:3]) == [("0", "at least 16,384")]


def test_a_prompt_that_may_go_on_has_at_least_its_tokens():
    assert rows(start(), batch(8192, 64)) == [("64", "at least 8,192")]
    assert rows(start(), batch(8192, 64), batch(300, 0)) == [("64", "at least 8,192")]
    assert rows(start(), batch(8192, 64), DECODE.format(rank=" TP0"), batch(301, 0)) == [("64", "8,192"), ("0", "301")]
    assert rows(start(), batch(8192, 64), batch(301, 70)) == [("64", "8,192"), ("70", "301")]
    assert rows(start(chunk=-1), batch(8192, 64), batch(301, 0)) == [("64", "8,192"), ("0", "301")]


def test_the_first_line_of_an_excerpt_may_be_the_rest_of_a_prompt():
    assert rows(batch(35, 0), DECODE.format(rank=" TP0"), batch(36, 0)) == [(None, "at least 35"), ("0", "36")]
    assert rows(batch(35, 0), FLUSHED, batch(36, 0))[1] == ("0", "36")
    assert rows(start(), batch(35, 0)) == [("0", "35")]
    assert rows(start(), batch(8192, 0, waiting=1), batch(35, 0)) == [(None, "at least 35")]


def test_schedulers_of_a_server_have_their_own_prompts():
    lines = [start(), batch(8192, 0, due=8, rank=" DP0 TP0"), batch(703, 0, due=0, rank=" DP1 TP1"),
             batch(9, 0, due=0, rank=" DP0 TP0"), batch(9, 0, due=0, rank=" PP1 TP0")]  # fmt: skip
    assert rows(*lines) == [("0", "8,201"), ("0", "703")]


def test_a_retracted_request_is_not_a_new_one():
    assert rows(start(), RETRACTED, batch(35, 8), batch(36, 9)) == [("9", "36")]


@pytest.mark.parametrize(("page", "counts", "evaluated"), [
    (64, (640, 128), "65 to 128"), (64, (640, 129), "129"), (1, (640, 128), "128"), (None, (640, 128), "1 to 128"),
    (None, (640, 200), "200"), (None, (640, 144), "129 to 144")])  # fmt: skip
def test_evaluated_tokens_may_be_printed_in_pages(page, counts, evaluated):
    head = [] if page is None else [start(page=page)]
    assert rows(*head, batch(counts[0], 64), batch(counts[1], 640))[-1] == ("640", evaluated)


OMLX = "2026-08-31 10:00:00,100 - omlx.{} - INFO - [-] - {}"
DIFFERS = OMLX.format("scheduler", "prefix cache: request {} re-prefills {} of {} tokens (reused {}); closest stored "
                      "sequence 11aa shares the first {} of {} comparable tokens before diverging")  # fmt: skip
CUT = OMLX.format("cache.prefix_cache", "Walk-back truncation: dropped 1 trailing block(s) with placeholder "
                  "non-sliceable state, keeping 3 block(s) (6144 tokens)")  # fmt: skip
REJECTED = OMLX.format("cache.prefix_cache", "ArraysCache layer 0: partial prefix match detected (placeholder in last "
                       "matched block). Rejecting cache to prevent stale GDN state.")  # fmt: skip
RESTORED = OMLX.format("scheduler", "Prefix cache restore for {}: source=paged cached={} suffix={} blocks=3 lookup=1ms")


def test_a_request_named_by_a_word_is_one_row_with_its_reason():
    lines = [CUT, RESTORED.format("6bf5", 6144, 2524), DIFFERS.format("6bf5", 2524, 8668, 6144, 8192, 8192),
             REJECTED, DIFFERS.format("77aa", 9880, 9880, 0, 9879, 9880)]  # fmt: skip
    found = session(*lines, engine="mlx_lm")
    numbers = [(one.n_tokens, one.cache_n, one.prompt_n, one.lcp) for one in found.requests]
    assert numbers == [(8668, 6144, 2524, 8192), (9880, 0, 9880, 9879)]
    held = [one.numbers["held"] for one in found.requests]
    assert [(one.low, one.high) for one in held] == [(8192, 8192), (9880, None)]
    causes = [said.numbers for said in conclude(found).statements if said.what == "cause"]
    assert causes == [{"cause": "cut-match", "lost": 2048}, {"cause": "rejected-match", "lost": 9879}]
