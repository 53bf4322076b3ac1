"""Log lines about caches, of mlx_lm.server and of servers that wrap mlx-lm, with their meanings.

Source: mlx_lm/server.py (0.31 to 0.32.2); mlx-engine's cache_wrapper as LM Studio logs it.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.mlx_lm.log_others import MEANINGS as OTHER_MEANINGS
from cachesim.engines.mlx_lm.log_others import OTHERS, WARNINGS
from cachesim.engines.mlx_lm.log_signatures import SIGNATURES, UNLOGGED
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning, PrintedNumber
from cachesim.engines.shared.log_verdicts import VERDICTS

LINES = (
    Line("fetch", "Prompt Cache: {prompts} sequences, {gb} GB"),
    Line("fetch_kind", "{kind}: {prompts} sequences, {gb} GB"),
    Line("progress_of", "Prompt processing progress: {n_tokens}/{total}"),
    Line("reply", "Outgoing Response: {}"),
    Line("usage", '"prompt_tokens": {n_tokens},'),
    Line("usage", '"completion_tokens": {predicted_n},'),
    Line("usage", '"cached_tokens": {cache_n}'),
    *OTHERS,
    Line("thread_ended", "mlx_lm.server generation thread died: {}"),
    Line("start", "Starting httpd at {} on port {port}..."),
)

CLIENT = "the client changed the prompt: it removed reasoning, inserted a date or an id, or reordered the tools"
MEANINGS: Mapping[str, Meaning] = {
    "fetch": Meaning(
        "a request looks up its prompt in LRUPromptCache; the line shows the number of entries at this moment, without "
        "the entry that this request will store",
        flags=("--prompt-cache-size", "--prompt-cache-bytes"), rules=("ML-LRU",),
    ),
    "fetch_kind": Meaning(
        "entries by type: user turn, assistant turn, system prompt; system entries are evicted last",
        flags=("--prompt-cache-size",), rules=("ML-LRU",),
    ),
    "progress_of": Meaning(
        "n_tokens of total are evaluated; total is the part of the prompt that was not in the cache",
        flags=("--prefill-step-size",),
    ),
    "reply": Meaning("an answer, line by line as JSON; its `usage` contains the number of reused tokens"),
    "usage": Meaning(
        "cached_tokens of prompt_tokens were found in the cache; completion_tokens were generated",
        rules=("ML-LRU",),
    ),
    "reused": Meaning(
        "cache_n of the prompt's n_tokens tokens were found in the cache; the rest is evaluated",
        causes=(
            CLIENT,
            "a cache that cannot be trimmed (recurrent state, rotating window): only an entry that is a prefix of the "
            "prompt can be reused",
        ),
        flags=("--prompt-cache-size",), rules=("ML-LRU",),
    ),
    "thread_ended": Meaning("an exception ended the generation thread; later requests get no answer"),
    "start": Meaning("the server is listening"),
    **OTHER_MEANINGS,
}

GIVES = (
    PrintedNumber("reused", "cache_n", ("cache_n",)),
    PrintedNumber("reused", "n_tokens", ("n_tokens",)),
    PrintedNumber("reused", "prompt_n", ("prompt_n",)),
    PrintedNumber("usage", "cache_n", ("cache_n",)),
    PrintedNumber("usage", "n_tokens", ("n_tokens",)),
    PrintedNumber("usage", "predicted_n", ("predicted_n",)),
    PrintedNumber("ollama_prefix", "n_tokens", ("total",)),
    PrintedNumber("ollama_prefix", "cache_n", ("cached",)),
    PrintedNumber("ollama_prefix", "prompt_n", ("left",)),
    PrintedNumber("progress_of", "prompt_n", ("total",), unless=("usage",)),
)
"""Numbers of a request that lines print."""

GRAMMAR = LogGrammar(LINES, MEANINGS, gives=GIVES, signatures=SIGNATURES, unlogged=UNLOGGED, signs=(
    "Prompt Cache: ", "Prompt processing progress: ", "mlx_lm", "cache_wrapper", "[coordinator][INFO]",
), starts=("starting httpd at",), common=frozenset({"usage"}), verdicts=VERDICTS,
    warnings=frozenset({"thread_ended", *WARNINGS}), fatal=frozenset({"thread_ended"}))  # fmt: skip
