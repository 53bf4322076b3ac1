"""Lines about what is not simulated: classes of memory (llama.cpp b11549), and the caches of other software on
llama.cpp: Ollama's runners, LM Studio's engine and KoboldCpp.

Source: Ollama runner/llamarunner/cache.go, runner/ollamarunner/cache.go (2024 to 2026), whose lines are
``msg="loading cache slot" id=0 cache=53 prompt=62 used=0 remaining=62``; lmstudio-bug-tracker#778;
koboldcpp#972 and #2313.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Line, Meaning, PrintedNumber

NEWEST_SINCE = 10809        # oldest build whose memories with index rows and compressed rows are known
_OLLAMA = "Ollama's runner"
_STUDIO = "LM Studio's llama.cpp engine"
_KOBOLD = "KoboldCpp"
OTHERS = (
    Line("server", "print_info: arch {}= {arch}"),
    Line("server", "llama_kv_cache_dsv4: creating {dsv4} {}"),
    Line("server", "llama_kv_cache_dsa: creating {dsa} KV cache{}"),
    Line("server", "llama_kv_cache_dsa_iswa: creating {dsa_iswa} KV cache{}"),
    Line("server", "llama_kv_cache_msa: creating {msa} KV cache{}"),
    Line("server", "llama_memory_hybrid_idx: creating {hybrid_idx} KV cache{}"),
    Line("dsv4_rings", "{} DSV4 {part} state buffer size = {mib} MiB", since=NEWEST_SINCE),
    Line("dsv4_rings", "{} ratio = {ratio}, state = {places} x {width}, streams = {streams}, rs_seq = {planes}, "
         "layers = {layers}, size = {mib} MiB", since=NEWEST_SINCE),
    Line("msa_dense", "flash attention disabled; MSA requires it -> running DENSE attention {}", since=NEWEST_SINCE),
    Line("msa_dense", "unified KV cache with n_seq_max > 1; MSA needs per-sequence streams -> running DENSE "
         "attention. {}", since=NEWEST_SINCE),
    Line("start_shift", "KV cache shifting is not supported for this context, disabling KV cache shifting"),
    Line("start_swa_full", "swa_full is not supported by this model, it will be disabled"),
    Line("one_type", "model does not support different K ({k}) and V ({v}) cache types"),
    Line("other_streams", "{}n_stream mismatch{}"),
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
    "dsv4_rings": Meaning("buffers of DeepSeek V4's compressors for all slots: the last inputs of each (csa and lid: "
                          "8, hca: 128), which a checkpoint contains, and which no removal can take back",
                          flags=("-np", "-ctxcp"), rules=("LC-KV-STREAMS", "LC-RS-PLANES")),
    "msa_dense": Meaning("MiniMax M3 reads all rows instead of the chosen blocks: several slots share the cells, or "
                         "flash attention is off. Its answers differ from those of -np 1, cached or not",
                         causes=("the default: four slots with a unified cache",), flags=("-np", "-kvu", "-fa"),
                         rules=("LC-MSA-READ",)),
    "start_shift": Meaning("this model's memory cannot shift positions: --context-shift has no effect (compressed "
                           "rows, windows beside index rows, 2-D positions)", flags=("--context-shift",)),
    "start_swa_full": Meaning("--swa-full has no effect on checkpoints; with DeepSeek V4 the window rows were already "
                              "allocated for the whole context", flags=("--swa-full",), rules=("LC-N-SWA-TOLD",)),
    "one_type": Meaning("the server does not start: V rows of this model are part of its K rows, so that both need "
                        "one type", flags=("-ctk", "-ctv")),
    "other_streams": Meaning("a saved state is refused: it comes from a server with another number of cell tables. "
                             "With DeepSeek V4 that is the number of slots, even with --kv-unified",
                             flags=("-np", "-kvu"), rules=("LC-KV-STREAMS",)),
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
