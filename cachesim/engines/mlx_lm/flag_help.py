"""What do the flags of mlx-lm's server mean for its caches, one sentence each, and how does it spell them?

Source: mlx-lm mlx_lm/server.py main (d78bf58e).
"""

from __future__ import annotations

from typing import Mapping

HELP: Mapping[str, str] = {
    "prompt_cache_size": "Most entries of the prompt cache.",
    "prompt_cache_bytes": "Limit of the prompt cache in bytes, looked at when a request joins a batch; 0 = no limit.",
    "decode_concurrency": "Most requests that generate in one batch.",
    "prompt_concurrency": "Most prompts that are evaluated in one batch.",
    "prefill_step_size": "Most tokens of a prompt that are evaluated at once.",
    "num_draft_tokens": "Tokens of a draft, where there is a draft model.",
    "draft_model": "Model that drafts: layers or a name. Requests are not batched then.",
    "template": "Stands for the model's chat template: plain keeps every message, terse leaves out all but roles, "
                "words and ends, reasoning renders thoughts behind the last user message only.",
    "thinking": "The chat template begins an answer with a thought.",
    "ticks_per_slice": "No flag of the server: generator steps between two looks at new and cancelled requests (half a "
                       "second there).",
    "snapshot_interval": "No flag of the server: tokens between two snapshots of a prompt, a constant of #923.",
}  # fmt: skip
"""Option -> what it changes."""

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    name: (f"--{name.replace('_', '-')}",)
    for name in (
        "prompt_cache_size", "prompt_cache_bytes", "decode_concurrency", "prompt_concurrency", "prefill_step_size",
        "num_draft_tokens", "draft_model",
    )
}

IGNORED: Mapping[str, int] = {
    "--host": 1, "--port": 1, "--log-level": 1, "--temp": 1, "--top-p": 1, "--top-k": 1, "--min-p": 1,
    "--max-tokens": 1, "--chat-template": 1, "--use-default-chat-template": 0, "--trust-remote-code": 0,
    "--adapter-path": 1, "--allowed-origins": 1,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them."""

__all__ = ["HELP", "IGNORED", "SPELLINGS"]
