"""Log lines about caches, of mlx_lm.server and of servers that wrap mlx-lm, with their meanings.

Source: mlx_lm/server.py (0.22 to 0.32.2); mlx-engine's cache_wrapper as LM Studio logs it.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.mlx_lm.log_others import MEANINGS as OTHER_MEANINGS
from cachesim.engines.mlx_lm.log_others import OTHERS, WARNINGS
from cachesim.engines.mlx_lm.log_signatures import SIGNATURES, UNLOGGED
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning, PrintedNumber
from cachesim.engines.shared.log_verdicts import VERDICTS

_ONE_PROMPT = "mlx_lm.server of 2025 with one kept prompt"
LINES = (
    Line("fetch", "Prompt Cache: {prompts} sequences, {gb} GB"),
    Line("fetch", "KV Caches: {prompts} seq, {gb} GB, latest user cache {latest} tokens"),
    Line("fetch_kind", "{kind}: {prompts} sequences, {gb} GB"),
    Line("kept_prefix", "*** Cache is prefix of prompt (cache_len: {held}, prompt_len: {n_tokens}). Processing "
         "suffix. ***", by=_ONE_PROMPT),
    Line("kept_part", "*** Common prefix ({lcp}) shorter than cache ({held}). Attempting trim. ***", by=_ONE_PROMPT),
    Line("kept_trim", "Trimming {trimmed} tokens from cache.", by=_ONE_PROMPT),
    Line("kept_untrimmed", "Cache cannot be trimmed. Resetting cache.", by=_ONE_PROMPT),
    Line("kept_reset", "*** Resetting cache. ***", by=_ONE_PROMPT),
    Line("kept_evaluated", "Returning {prompt_n} tokens for processing.", by=_ONE_PROMPT),
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
    "kept_prefix": Meaning("the server of 2025 keeps one prompt: all its held tokens are the beginning of the prompt "
                           "of n_tokens tokens, and are reused"),
    "kept_part": Meaning("the server of 2025 keeps one prompt: the first lcp of its held tokens are those of the "
                         "prompt; the others must be trimmed", causes=(CLIENT,)),
    "kept_trim": Meaning("the tokens after the common prefix were removed from the kept prompt"),
    "kept_untrimmed": Meaning("the kept prompt cannot be cut: everything is evaluated again",
                              causes=("a recurrent state or a rotating window",)),
    "kept_reset": Meaning("the kept prompt is dropped: another model, no token in common, or a cache that cannot be "
                          "trimmed"),
    "kept_evaluated": Meaning("prompt_n tokens of the prompt are evaluated; the others were in the kept prompt"),
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
    PrintedNumber("kept_prefix", "n_tokens", ("n_tokens",)),
    PrintedNumber("kept_prefix", "held", ("held",)),
    PrintedNumber("kept_prefix", "lcp", ("held",)),
    PrintedNumber("kept_part", "held", ("held",)),
    PrintedNumber("kept_part", "lcp", ("lcp",)),
    PrintedNumber("kept_part", "cache_n", ("lcp",), absent=("kept_untrimmed", "kept_reset")),
    PrintedNumber("kept_untrimmed", "cache_n"),
    PrintedNumber("kept_reset", "cache_n"),
    PrintedNumber("kept_evaluated", "prompt_n", ("prompt_n",)),
    PrintedNumber("omlx_restored", "cache_n", ("cache_n",)),
    PrintedNumber("omlx_restored", "prompt_n", ("prompt_n",)),
    PrintedNumber("omlx_added", "n_tokens", ("n_tokens",)),
    PrintedNumber("omlx_differs", "cache_n", ("cache_n",)),
    PrintedNumber("omlx_differs", "prompt_n", ("prompt_n",)),
    PrintedNumber("omlx_differs", "n_tokens", ("n_tokens",)),
    PrintedNumber("omlx_differs", "lcp", ("lcp",)),
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
    "Prompt Cache: ", "Prompt processing progress: ", "KV Caches: ", "mlx_lm", "omlx.", "cache_wrapper",
    "[coordinator][INFO]",
), starts=("starting httpd at",), common=frozenset({"usage"}), verdicts=VERDICTS,
    warnings=frozenset({"thread_ended", *WARNINGS}), fatal=frozenset({"thread_ended"}))  # fmt: skip
