"""What do the flags of ik_llama.cpp's server mean for its caches, one sentence each, and how does it spell them?

Source: ik_llama.cpp common/common.cpp (8337e4cd3).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.ik_llama.command_line import ALONE, SILENT, SILENT_ONE, SPEC_TYPE, WORDS

HELP: Mapping[str, str] = {
    "ctx_size": "Tokens of the whole context; each slot gets an equal part.",
    "batch_size": "Most tokens of one batch (n_batch). A prompt is evaluated batch by batch.",
    "ubatch_size": "Most tokens that the model evaluates at once (n_ubatch).",
    "parallel": "Number of slots; each keeps one conversation in the context.",
    "ctx_checkpoints": "Most checkpoints of a slot; 0 = none, so that recurrent and hybrid models evaluate a changed "
                       "prompt from its start. (8 before #1398.)",
    "ctx_checkpoints_interval": "Tokens between two checkpoints that are created while tokens are evaluated; 0 = none "
                                "are.",
    "ctx_checkpoints_tolerance": "A checkpoint is created so many tokens before the end of a prompt; 0 = at its end. "
                                 "Since #1346.",
    "ctx_checkpoints_eviction": "Which checkpoint is evicted when the list is full: variance keeps them evenly spread, "
                                "fifo evicts the oldest. Since #2020.",
    "cache_ram": "Limit of the prompt cache in MiB; 0 = no prompt cache, -1 = no limit.",
    "cache_ram_similarity": "A slot is saved to the prompt cache if the next prompt keeps a smaller share of it than "
                            "this; since #2105 an entry is loaded only if it keeps at least this share, too.",
    "cache_ram_n_min": "Fewest tokens of a slot that is saved to the prompt cache.",
    "slot_prompt_similarity": "A slot is selected by similarity if the common prefix is a larger share than this; 0 = "
                              "always by LRU.",
    "reasoning_tokens": "auto leaves out what stands between <think> and </think> when texts are compared, none does "
                        "not.",
    "context_shift": "A full context drops its older half and goes on generating; off = generation ends.",
    "flash_attn": "Flash attention; without it the context is made of blocks of 32 cells instead of 256.",
    "swa_compress": "Sliding-window caches keep the window only, so that not every cut is possible. Since #2253.",
    "spec_type": "How tokens are drafted; a rejected draft is cut off again or restored from a checkpoint.",
    "spec_draft_n_max": "Most tokens of a draft. Spelled as a part of --spec-type: mtp:n_max=4.",
    "spec_ckpt_mode": "How a recurrent state is saved before a draft is checked; auto takes the first mode that works.",
    "companion_recurrent": "No flag of the server: the memory of the MTP companion refuses to be cut, as #1889 "
                           "supposes.",
}  # fmt: skip
"""Option -> what it changes."""

_LONG: Mapping[str, tuple[str, ...]] = {
    "ctx_size": ("--ctx-size",), "batch_size": ("--batch-size",), "ubatch_size": ("--ubatch-size",),
    "parallel": ("--parallel",), "ctx_checkpoints_interval": ("-ctx-ckpt-i",),
    "ctx_checkpoints_tolerance": ("-ctx-ckpt-t",), "ctx_checkpoints_eviction": ("-ctx-ckpt-e",),
}
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    **{
        name: (*(word for word, (known, _) in WORDS.items() if known == name), *_LONG.get(name, ()))
        for name in dict.fromkeys(name for name, _ in WORDS.values())
    },
    **{name: (word,) for word, name in ALONE.items()},
    "spec_type": (SPEC_TYPE,),
}
ALSO: Mapping[str, tuple[str, ...]] = {
    "ctx_size": ("n_ctx",), "batch_size": ("n_batch",), "ubatch_size": ("n_ubatch",), "parallel": ("n_parallel",),
}
OFF: Mapping[str, tuple[str, ...]] = {"context_shift": ("--no-context-shift",)}

IGNORED: Mapping[str, int] = {
    **dict.fromkeys(SILENT_ONE, 1), **dict.fromkeys(SILENT, 0),
    "-m": 1, "--host": 1, "--port": 1, "--jinja": 0, "-ngl": 1, "-fmoe": 0, "-rtr": 0, "-ctk": 1, "-ctv": 1, "-mla": 1,
    "-amb": 1, "-ot": 1, "--alias": 1, "--no-mmap": 0, "-v": 0, "--n-gpu-layers": 1, "--threads": 1, "-ger": 0,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them."""

__all__ = ["ALSO", "HELP", "IGNORED", "OFF", "SPELLINGS"]
