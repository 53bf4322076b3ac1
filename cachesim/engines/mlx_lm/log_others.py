"""Cache lines of other software on MLX, which is not simulated: LM Studio's mlx-engine, Ollama's MLX runner and oMLX.

Source: mlx-engine (2026-08) cache_wrapper.py, model_kit/batched_vision/prompt_cache; Ollama (2026-08)
x/mlxrunner/prefix_cache.go and pipeline.go. Ollama prints ``msg="cache hit" total=.. matched=.. cached=.. left=..``.
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Line, Meaning

_STUDIO = "LM Studio's mlx-engine"
_OLLAMA = "Ollama's MLX runner"
_OMLX = "oMLX"
OTHERS = (
    Line("reused", "Prompt cache: using {cache_n}/{n_tokens} tokens from cache", by=_STUDIO),
    Line("reused", "Prompt cache restore: cached_tokens={cache_n} uncached_tokens={prompt_n}{}", by=_STUDIO),
    Line("progress_share", "{}Prompt processing progress: {share}%", by=_STUDIO),
    Line("disk", "VLM prompt cache disk usage: used_mib={mib} cap_mib={limit_mib}{}", by=_STUDIO),
    Line("disk", "cache_store: VLM prompt cache disk usage: used_mib={mib} cap_mib={limit_mib}{}", by=_STUDIO),
    Line("disk_start", "VLM prompt cache disk store{}", by=_STUDIO),
    Line("disk_start", "VLM prompt cache disk budget: {}", by=_STUDIO),
    Line("disk_start", "VLM prompt cache context target: configured={} fitted={} effective={}", by=_STUDIO),
    Line("studio_trim", "Trimmed {n_tokens} tokens from the prompt cache", by=_STUDIO),
    Line("studio_clear", "Tried to trim '{n_tokens}' tokens from the prompt cache, but could not: {}", by=_STUDIO),
    Line("studio_clear", "Tokens trimmed from cache ({n_tokens}) is less than expected ({expected}). Clearing the "
         "cache.", by=_STUDIO),
    Line("studio_clear", "The number of tokens in the cache is greater than the number of prompt tokens. {}",
         by=_STUDIO),
    Line("studio_clear", "Clearing current prompt cache and adding draft model to the cache", by=_STUDIO),
    Line("studio_clear", "Could not determine the number of tokens in the live cache. Resetting it.", by=_STUDIO),
    Line("studio_clear", "The live cache is longer than the tracked token history. Resetting it.", by=_STUDIO),
    Line("studio_miss", "Hot prompt cache restore failed; treating it as a cache miss.", by=_STUDIO),
    Line("studio_miss", "Prompt cache store planning failed; treating it as a cache miss.", by=_STUDIO),
    Line("studio_miss", "Prompt cache store restore failed; treating it as a cache miss.", by=_STUDIO),
    Line("studio_unsaved", "Skipping prompt cache save for chunk [{c0}, {c1}) at snapshot {n_tokens}: {}", by=_STUDIO),
    Line("studio_unsaved", "Skipping prompt cache save for chunk [{c0}, {c1}) at snapshot {n_tokens}.", by=_STUDIO),
    Line("ollama_prefix", "cache hit", by=_OLLAMA, needs="matched"),
    Line("ollama_prefix", "cache miss", by=_OLLAMA, needs="matched"),
    Line("ollama_progress", "Prompt processing progress", by=_OLLAMA, needs="processed"),
    Line("omlx_added", "Added request {request} with {n_tokens} prompt tokens", by=_OMLX),
    Line("omlx_matched", "Cache hit for {request}: {blocks} blocks, {matched} tokens", by=_OMLX),
    Line("omlx_matched", "Request {request}: partial cache hit, {kept} tokens in {blocks} blocks (originally {matched} "
         "tokens), {rest} tokens remaining", by=_OMLX),
    Line("omlx_restored", "Prefix cache restore for {request}: source={} cached={cache_n} suffix={prompt_n} {}",
         by=_OMLX),
    Line("omlx_differs", "prefix cache: request {request} re-prefills {prompt_n} of {n_tokens} tokens (reused "
         "{cache_n}); closest stored sequence {} shares the first {lcp} of {comparable} comparable tokens before "
         "diverging", by=_OMLX),
    Line("omlx_differs", "prefix cache: request {request} re-prefills {prompt_n} of {n_tokens} tokens (reused "
         "{cache_n}){}", by=_OMLX),
    Line("omlx_cut", "Walk-back truncation: dropped {dropped} trailing block(s) with placeholder non-sliceable state, "
         "keeping {blocks} block(s) ({kept} tokens)", by=_OMLX),
    *(Line("omlx_rejected", f"{cache} layer {{layer}}: partial prefix match detected {{}}", by=_OMLX)
      for cache in ("ArraysCache", "RotatingKVCache", "CacheList", "PoolingCache")),
    Line("omlx_rejected", "CacheList layer {layer}{}. Rejecting cache.", by=_OMLX),
    Line("omlx_no_state", "Split GDN restore found no compatible recurrent checkpoint", by=_OMLX),
    Line("omlx_bad_state", "Ignoring structurally invalid recurrent checkpoint for block {block}", by=_OMLX),
    Line("omlx_stored", "Using boundary cache snapshot for {request}: storing {n_tokens}/{of} tokens {}", by=_OMLX),
    Line("omlx_unstored", "Skipping cache store for {request}: reason={reason} tokens={n_tokens} "
         "block_size={block_size} {}", by=_OMLX),
    Line("ollama_restore_failed", "failed to restore cache, freeing all caches", by=_OLLAMA, needs="offset"),
    Line("ollama_switch", "switching cache path", by=_OLLAMA, needs="page_in"),
    Line("ollama_snapshot", "created snapshot", by=_OLLAMA, needs="offset"),
    Line("ollama_evict", "evicting leaf", by=_OLLAMA, needs="freed"),
    Line("ollama_evict", "evicting interior node", by=_OLLAMA, needs="freed"),
)

WARNINGS = frozenset({"studio_clear", "studio_miss", "studio_unsaved", "ollama_restore_failed", "omlx_bad_state",
                      "omlx_unstored"})  # fmt: skip
"""Kinds of line that report a lost or unused cache."""

MEANINGS: Mapping[str, Meaning] = {
    "progress_share": Meaning("share of the tokens to evaluate that LM Studio's mlx-engine (not simulated) has done"),
    "disk": Meaning("LM Studio's prompt cache on disk (not simulated) and its limit"),
    "disk_start": Meaning("settings of LM Studio's prompt cache on disk (not simulated)"),
    "studio_trim": Meaning("LM Studio's mlx-engine (not simulated) removed the tokens after the common prefix"),
    "studio_clear": Meaning("LM Studio's mlx-engine (not simulated) cleared its prompt cache: the whole prompt "
                            "is evaluated", causes=("a cache that cannot be trimmed (recurrent state, window)",)),
    "studio_miss": Meaning("LM Studio's mlx-engine (not simulated) could not use a stored cache: a miss"),
    "studio_unsaved": Meaning("LM Studio's mlx-engine (not simulated) did not store this part of the prompt"),
    "omlx_added": Meaning("oMLX (not simulated) has a new request with a prompt of n_tokens tokens"),
    "omlx_matched": Meaning("oMLX (not simulated) found matched tokens of the prompt in stored blocks; kept: those "
                            "that it could restore"),
    "omlx_restored": Meaning("oMLX (not simulated) restored cache_n tokens of the prompt and evaluates prompt_n"),
    "omlx_differs": Meaning("oMLX (not simulated) evaluates prompt_n of n_tokens tokens; the first lcp tokens are "
                            "those of the closest stored sequence; comparable: the length of the shorter one",
                            causes=("a prompt that differs from the stored sequence after lcp tokens",
                                    "stored blocks without a state that can be restored")),
    "omlx_cut": Meaning("oMLX (not simulated) drops matched blocks at the end of the match that hold no state of the "
                        "recurrent or window layers; kept tokens are restored"),
    "omlx_rejected": Meaning("oMLX (not simulated) rejects a whole match, as its last block holds no usable state: "
                             "the whole prompt is evaluated", causes=("no state was stored at this boundary",)),
    "omlx_no_state": Meaning("oMLX (not simulated) found no stored state of the recurrent layers for a matched block: "
                             "the whole prompt is evaluated"),
    "omlx_bad_state": Meaning("oMLX (not simulated) ignores a stored state whose form it does not accept"),
    "omlx_unstored": Meaning("oMLX (not simulated) stores nothing of this request: later prompts do not find it",
                             causes=("no block boundary at which a state was captured",)),
    "omlx_stored": Meaning("oMLX (not simulated) stores the whole blocks of a prompt and its answer, n_tokens tokens"),
    "ollama_prefix": Meaning("Ollama's MLX runner (not simulated): total tokens of the prompt; matched tokens agree "
                             "with stored ones; cached tokens are reused and left tokens evaluated"),
    "ollama_progress": Meaning("Ollama's MLX runner (not simulated) has evaluated processed of the total tokens that "
                               "it cannot reuse; the last one is evaluated with the answer"),
    "ollama_restore_failed": Meaning("Ollama's MLX runner (not simulated) failed to restore a state and clears all"),
    "ollama_switch": Meaning("Ollama's MLX runner (not simulated) loads stored parts of another conversation"),
    "ollama_snapshot": Meaning("Ollama's MLX runner (not simulated) stored the state at this offset"),
    "ollama_evict": Meaning("Ollama's MLX runner (not simulated) removed stored tokens to free memory"),
}
