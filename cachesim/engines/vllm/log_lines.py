"""Log lines about the prefix cache, with their meanings.

Source: vLLM vllm/v1/metrics/loggers.py, vllm/v1/core/kv_cache_utils.py, block_pool.py (0.33.0).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning
from cachesim.engines.shared.log_signatures import Signature
from cachesim.engines.shared.log_verdicts import VERDICTS

LINES = (
    Line("kv_usage", "GPU KV cache usage: {usage}%, Prefix cache hit rate: {rate}%"),
    Line("pool_size", "GPU KV cache size: {n_tokens} tokens"),
    Line("reset_done", "Successfully reset prefix cache"),
    Line("reset_failed", "Failed to reset prefix cache because some blocks ({blocks}) are not freed yet"),
    Line("engine_died", "EngineCore encountered a fatal error."),
)
MEANINGS: Mapping[str, Meaning] = {
    "kv_usage": Meaning("share of the blocks in use, and share of the latest requests' tokens that were found"),
    "pool_size": Meaning("tokens that the pool holds", flags=("--num-gpu-blocks-override",)),
    "reset_done": Meaning("all keys of blocks are removed; the free list keeps its order", rules=("V-SCHED-RESET",)),
    "reset_failed": Meaning("the prefix cache is not reset: requests run", rules=("V-SCHED-RESET",)),
    "engine_died": Meaning("an exception ended the engine's core; later requests get no answer"),
}
SIGNATURES = (Signature("server-warning", ("reset_failed", "engine_died"), (), (), quoted=True),)
UNLOGGED: Mapping[str, str] = {"V-": "not logged: in the number of cached tokens, and in the hit rate"}
GRAMMAR = LogGrammar(LINES, MEANINGS, signatures=SIGNATURES, unlogged=UNLOGGED, verdicts=VERDICTS,
                     signs=("Prefix cache hit rate", "GPU KV cache", "EngineCore"),
                     warnings=frozenset({"reset_failed", "engine_died"}))  # fmt: skip
