"""Log lines of the server about its cache, with their meanings.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py, scheduler_components/metrics_reporter.py (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning

LINES = (
    Line("prefill_batch", "Prefill batch{}, #new-seq: {seqs}, #new-token: {new}, #cached-token: {cached}, {}"),
    Line("decode_batch", "Decode batch{}, #running-req: {running}, #token: {held}, token usage: {share}, {}"),
    Line("retracted", "KV cache pool is full. Retract requests. #retracted_reqs: {retracted}, {}"),
    Line("flushed", "Cache flushed successfully!"),
)

MEANINGS = {
    "prefill_batch": Meaning(
        "a step evaluates `new` tokens of `seqs` prompts; `cached` tokens of them were in the tree",
        causes=("another prompt", "an eviction", "no window or state where the tokens ended"),
        flags=("--page-size", "--chunked-prefill-size", "--schedule-policy"), rules=("S-HIT", "S-ADMIT"),
    ),
    "decode_batch": Meaning(
        "`running` requests generate; `held` slots are in use, without those that can be evicted",
        flags=("--max-running-requests",),
    ),
    "retracted": Meaning(
        "the pool has no slots for the next tokens: requests are put back and evaluated again later",
        causes=("answers were longer than admission reserved for them",),
        flags=("--max-total-tokens", "--schedule-conservativeness"), rules=("S-RETRACT",),
    ),
    "flushed": Meaning("the tree was emptied"),
}

GRAMMAR = LogGrammar(
    LINES, MEANINGS, signs=("Prefill batch", "#cached-token"), warnings=frozenset({"retracted"}),
    unlogged={"S-": "not logged: in the number of cached tokens of a batch"},
)  # fmt: skip
