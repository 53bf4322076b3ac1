"""Lines of LMCache, a KV connector of vLLM that is not simulated, and what follows from them.

Source: LMCache (2025 to 2026) lmcache/integration/vllm/vllm_v1_adapter.py, lmcache/v1/cache_engine.py.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.engines.shared.log_grammar import Line, Meaning
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, of_kind, share

_LMCACHE = "LMCache"
_ASKED = "{}Reqid: {}, Total tokens {n_tokens}, "
_COMPUTED = "Inference Engine computed tokens: {computed}, "
OTHERS = (
    *(Line("lmcache_lookup", f"{_ASKED}{computed}LMCache hit tokens: {{hit}}, {load}", by=_LMCACHE)
      for computed in (_COMPUTED, "")
      for load in ("but need to load: {too_few} < min_retrieve {least}, {}", "need to load: {load} {}",
                   "need to load: {load}")),
    Line("lmcache_stored", "{}Stored {stored} out of total {n_tokens} tokens{}", by=_LMCACHE),
    Line("lmcache_loaded", "{}Retrieved {loaded} out of {required} required tokens{}", by=_LMCACHE),
)  # fmt: skip
MEANINGS: Mapping[str, Meaning] = {
    "lmcache_lookup": Meaning(
        "LMCache (not simulated) looked up a prompt of n_tokens tokens, and has the first hit of them. computed: "
        "tokens that vLLM has itself. load: tokens that are loaded, below 0 if vLLM has more. too_few: tokens that "
        "are evaluated instead, because they are fewer than least",
        causes=("prompts that differ before the end of LMCache's first chunk", "stored chunks were evicted"),
        flags=("--kv-transfer-config",)),
    "lmcache_stored": Meaning("LMCache (not simulated) stored tokens of a prompt"),
    "lmcache_loaded": Meaning("LMCache (not simulated) loaded tokens of a prompt for vLLM; fewer than required means "
                              "that chunks were lost meanwhile"),
}  # fmt: skip


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the share of hits in the lookups. A preempted request is looked up again and counts again."""
    asked = [line for line in of_kind(lines, "lmcache_lookup")
             if type(line.numbers["n_tokens"]) is type(line.numbers["hit"]) is int]  # fmt: skip
    tokens = sum(line.numbers["n_tokens"] for line in asked)
    hit = sum(line.numbers["hit"] for line in asked)
    loads = [line.numbers.get("load", 0) for line in asked]
    loaded = sum(load for load in loads if type(load) is int and load > 0)
    if tokens > 0:
        yield LogTotal(tuple(line.line for line in asked), {"n_tokens": tokens, "hit": hit, "load": loaded},
                       f"LMCache had {hit:,} of {tokens:,} looked-up tokens, {share(hit, tokens)}; "
                       f"{loaded:,} were to be loaded")  # fmt: skip
