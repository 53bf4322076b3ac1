"""What do llama-server's flags mean for its caches, one sentence each, and how does the server spell them?

Source: llama.cpp common/arg.cpp (3f545be); the numbers of older builds from the changes that rules name.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.llama_cpp.command_line import (
    CACHE,
    INTEGERS,
    MODEL_DRAFT,
    NO_CACHE,
    SHARES,
    SILENT,
    SILENT_ONE,
)
from cachesim.engines.llama_cpp.command_line import OFF as SWITCHED_OFF
from cachesim.engines.llama_cpp.command_line import ON as SWITCHED_ON

HELP: Mapping[str, str] = {
    "ctx_size": "Tokens of the whole context. Slots share it with a unified cache, otherwise each gets an equal part; "
                "a longer prompt is refused.",
    "batch_size": "Most tokens of one batch (n_batch). A prompt is evaluated batch by batch, and checkpoints are "
                  "created between batches only.",
    "ubatch_size": "Most tokens that the model evaluates at once (n_ubatch). One checkpoint is placed 4 + n_ubatch "
                   "tokens before the end of a prompt.",
    "parallel": "Number of slots; each keeps one conversation in the context. -1 = four with a unified cache (one "
                "before b6925).",
    "kv_unified": "All slots share the cells of one cache, so that one of them may fill the whole context. By default "
                  "on only where the number of slots is left open.",
    "swa_full": "Sliding-window layers keep all positions, not only those in the window, so that a prompt can be cut "
                "anywhere without a checkpoint.",
    "ctx_checkpoints": "Most checkpoints of a slot; 0 = none, so that recurrent, hybrid and sliding-window models "
                       "evaluate a changed prompt from its start. (3 before b6723, 8 before b8218.)",
    "checkpoint_min_step": "Fewest tokens between two checkpoints; 0 = no distance is demanded, -1 = the default of "
                           "the version (8192; 256 from b9310 to b9764). In b8218 to b9309 the step of periodic "
                           "checkpoints.",
    "cache_ram": "Limit of the prompt cache in MiB; 0 = no prompt cache, -1 = no limit in bytes (one in tokens "
                 "remains).",
    "slot_prompt_similarity": "A slot is selected by LCP similarity if the common prefix is a larger share of the "
                              "prompt than this; 0 = always by LRU. (0.5 before b6455.)",
    "cache_idle_slots": "Idle slots are saved to the prompt cache when a request of another conversation starts.",
    "cache_prompt": "Requests reuse what their slot holds, unless they say otherwise; off = every prompt is evaluated "
                    "from its start.",
    "cache_reuse": "Fewest tokens of a block behind the common prefix that is reused by shifting its positions; 0 = "
                   "no block is.",
    "context_shift": "A full context drops its older half and goes on generating; off = generation ends.",
    "spec_type": "How tokens are drafted; a rejected draft is cut off again or, where the memory cannot be cut, "
                 "restored from a checkpoint.",
    "spec_draft_n_max": "Most tokens of a draft. (16 before b9235.)",
    "model_draft": "Model that drafts with spec_type draft-simple: layers or a name.",
    "kv_unified_per_slot": "Most tokens of one slot in a unified cache; 0 = no limit. From b10809 on.",
    "pooling": "How an embedding is made of a prompt; last and rank read its last token only.",
}  # fmt: skip
"""Option -> what it changes."""

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    **INTEGERS, **SHARES, **SWITCHED_ON, "cache_prompt": (CACHE,),
    "spec_type": ("--spec-type",), "model_draft": MODEL_DRAFT, "pooling": ("--pooling",),
}
OFF: Mapping[str, tuple[str, ...]] = {**SWITCHED_OFF, "cache_prompt": (NO_CACHE,)}
ALSO: Mapping[str, tuple[str, ...]] = {
    "ctx_size": ("n_ctx",), "batch_size": ("n_batch",), "ubatch_size": ("n_ubatch",), "parallel": ("n_parallel",),
    "cache_ram": ("cache_ram_mib",), "ctx_checkpoints": ("n_ctx_checkpoints",), "cache_reuse": ("n_cache_reuse",),
    "slot_prompt_similarity": ("similarity",),
}
"""Names of the same numbers inside the server and in its log."""

IGNORED: Mapping[str, int] = {
    **{word: 1 for word in SILENT_ONE if word != "--seed"}, **{word: 0 for word in SILENT if word != CACHE},
    "-m": 1, "-hf": 1, "--host": 1, "--port": 1, "--jinja": 0, "-v": 0, "--verbose": 0, "--metrics": 0, "--slots": 0,
    "--n-gpu-layers": 1, "--threads": 1, "--flash-attn": 1, "--cache-type-k": 1, "--cache-type-v": 1, "--alias": 1,
    "--temp": 1, "--top-k": 1, "--top-p": 1, "--min-p": 1, "--chat-template": 1, "--chat-template-file": 1,
    "--reasoning-format": 1, "--reasoning-budget": 1, "--mmproj": 1, "--no-mmap": 0, "--mlock": 0, "-ngld": 1,
    "--split-mode": 1, "--tensor-split": 1, "-ts": 1, "-sm": 1, "--api-key": 1, "--n-cpu-moe": 1, "-ot": 1,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them: a command line may have them."""

__all__ = ["ALSO", "HELP", "IGNORED", "OFF", "SPELLINGS"]
