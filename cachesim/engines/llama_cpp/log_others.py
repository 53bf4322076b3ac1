"""Lines about what is not simulated: classes of memory (llama.cpp b11549), and the caches of other software on
llama.cpp: Ollama's runners, LM Studio's engine and KoboldCpp.

Source: Ollama runner/llamarunner/cache.go, runner/ollamarunner/cache.go (2024 to 2026), whose lines are
``msg="loading cache slot" id=0 cache=53 prompt=62 used=0 remaining=62``; lmstudio-bug-tracker#778;
koboldcpp#972 and #2313.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Line, Meaning, PrintedNumber

_OLLAMA, _STUDIO, _KOBOLD = "Ollama's runner", "LM Studio's llama.cpp engine", "KoboldCpp"
OTHERS = (
    Line("server", "print_info: arch {}= {arch}"),
    Line("server", "llama_kv_cache_dsv4: creating {dsv4} {}"),
    Line("server", "llama_kv_cache_dsa: creating {dsa} KV cache{}"),
    Line("server", "llama_kv_cache_dsa_iswa: creating {dsa_iswa} KV cache{}"),
    Line("server", "llama_kv_cache_msa: creating {msa} KV cache{}"),
    Line("server", "llama_memory_hybrid_idx: creating {hybrid_idx} KV cache{}"),
    Line("no_cache", "--cache-idle-slots requires --cache-ram, disabling"),
    Line("ollama_slot", "loading cache slot", by=_OLLAMA, needs="remaining"),
    Line("ollama_evict", "evicting cache slot", by=_OLLAMA, needs="inputs"),
    Line("ollama_fork", "forking cache slot", by=_OLLAMA, needs="inputs"),
    Line("ollama_shift", "context limit hit - shifting", by=_OLLAMA, needs="discard"),
    Line("ollama_cleared", "kv cache removal unsupported, clearing cache and returning inputs for reprocessing",
         by=_OLLAMA, needs="id"),
    Line("studio_reused", "Cache reuse summary: {cache_n}/{n_tokens} of prompt ({share}%), {prefix} prefix, "
         "{moved} non-prefix", by=_STUDIO),
    Line("studio_search", "Looking for non-prefix contiguous prompt sequences of size >= {n} to reuse from cache",
         by=_STUDIO),
    Line("studio_prompt", "Total prompt tokens: {n_tokens}", by=_STUDIO),
    Line("studio_prompt", "Prompt tokens to decode: {prompt_n}", by=_STUDIO),
    Line("kobold_done", "CtxLimit:{in_context}/{context}, Init:{}s, Processed:{prompt_n} in {}s ({}), "
         "Generated:{predicted_n}/{most} in {}", by=_KOBOLD),
    Line("kobold_done", "CtxLimit:{in_context}/{context}, Init:{}s, Processed:{prompt_n} in {}", by=_KOBOLD),
    Line("kobold_end", "CtxLimit:{in_context}/{context}, Amt:{predicted_n}/{most}, {}", by=_KOBOLD),
    Line("kobold_end", "CtxLimit:{in_context}/{context}, {}", by=_KOBOLD),
    Line("kobold_progress", "Processing Prompt [BATCH] ({done} / {prompt_n} tokens){}", by=_KOBOLD),
    Line("kobold_progress", "Processing Prompt [BLAS] ({done} / {prompt_n} tokens){}", by=_KOBOLD),
    Line("kobold_progress", "Processing Prompt ({done} / {prompt_n} tokens){}", by=_KOBOLD),
)

GIVES = (
    PrintedNumber("ollama_slot", "n_tokens", ("prompt",)),
    PrintedNumber("ollama_slot", "cache_n", ("used",)),
    PrintedNumber("ollama_slot", "prompt_n", ("remaining",)),
    PrintedNumber("ollama_slot", "held", ("cache",)),
    PrintedNumber("kobold_done", "prompt_n", ("prompt_n",)),
    PrintedNumber("kobold_done", "predicted_n", ("predicted_n",)),
)
"""Numbers of a request that lines of other software print."""
WARNINGS = frozenset({"ollama_cleared"})
"""Kinds of line that report a lost cache."""

MEANINGS: Mapping[str, Meaning] = {
    "ollama_slot": Meaning("Ollama's runner (not simulated) assigns a slot: cache tokens were in it, used tokens of "
                           "the prompt are reused, remaining tokens are evaluated"),
    "ollama_evict": Meaning("Ollama's runner (not simulated) overwrites the slot that was used least recently"),
    "ollama_fork": Meaning("Ollama's runner (not simulated) copies the common prefix of another slot"),
    "ollama_shift": Meaning("Ollama's runner (not simulated): the context is full, tokens after the first keep tokens "
                            "are discarded"),
    "ollama_cleared": Meaning("Ollama's runner (not simulated): the memory cannot be shifted; all is evaluated"),
    "studio_reused": Meaning("LM Studio (not simulated) reuses cache_n of n_tokens prompt tokens: prefix tokens of the "
                             "common prefix and moved tokens after it"),
    "studio_search": Meaning("LM Studio (not simulated) searches for blocks of at least n tokens to move"),
    "kobold_done": Meaning("KoboldCpp (not simulated) has answered: it evaluated prompt_n prompt tokens and generated "
                           "predicted_n; in_context of context tokens are in use"),
    "kobold_end": Meaning("KoboldCpp (not simulated) has answered; in_context of context tokens are in use"),
    "kobold_progress": Meaning("KoboldCpp (not simulated) has evaluated done of the prompt_n tokens that it cannot "
                               "reuse"),
    "studio_prompt": Meaning("LM Studio (not simulated): tokens of the prompt, or those that are evaluated"),
}
