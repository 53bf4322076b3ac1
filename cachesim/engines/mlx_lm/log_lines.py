"""Lines about caches that mlx_lm.server prints, and servers that wrap mlx-lm; and what they say.

Source: mlx_lm/server.py (0.31 to 0.32.2); mlx-engine's cache_wrapper as LM Studio logs it.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning

LINES = (
    Line("pc_state", "Prompt Cache: {prompts} sequences, {gb} GB"),
    Line("pc_kind", "- {kind}: {prompts} sequences, {gb} GB"),
    Line("progress", "Prompt processing progress: {n_tokens}/{total}"),
    Line("reused", "Prompt cache: using {cache_n}/{n_tokens} tokens from cache"),
    Line("reused", "[cache_wrapper][INFO]: Prompt cache: using {cache_n}/{n_tokens} tokens from cache"),
    Line("thread_ended", "mlx_lm.server generation thread died: {}"),
    Line("start", "Starting httpd at {} on port {port}..."),
)

CLIENT = "the client sent another prompt than before: reasoning removed, a date or an id in it, tools in another order"
MEANINGS: Mapping[str, Meaning] = {
    "pc_state": Meaning(
        "what LRUPromptCache holds after the request",
        flags=("--prompt-cache-size", "--prompt-cache-bytes"), rules=("ML-LRU",),
    ),
    "pc_kind": Meaning(
        "entries by type: a user's turn, an assistant's, a system prompt; the last are evicted last",
        flags=("--prompt-cache-size",), rules=("ML-LRU",),
    ),
    "progress": Meaning(
        "n_tokens of the tokens that are not in the cache are evaluated; the first total says how many there are",
    ),
    "reused": Meaning(
        "cache_n of the prompt's n_tokens tokens were found in the cache, the rest is evaluated",
        causes=(
            CLIENT,
            "a cache that cannot be trimmed (recurrent state, rotating window): only an entry that is a prefix "
            "of the prompt serves",
        ),
        flags=("--prompt-cache-size",), rules=("ML-LRU",),
    ),
    "thread_ended": Meaning("an exception ended the generation thread; requests that follow get no answer"),
    "start": Meaning("the server listens"),
}

GRAMMAR = LogGrammar(LINES, MEANINGS, signs=(
    "Prompt Cache: ", "Prompt processing progress: ", "mlx_lm", "cache_wrapper",
))  # fmt: skip
