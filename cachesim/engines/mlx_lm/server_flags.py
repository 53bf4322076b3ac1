"""Server start-up: from command-line flags to constants.

Source: mlx-lm mlx_lm/server.py main (d78bf58e).
"""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm.flags import Options
from cachesim.model.spec import Spec, parse


@dataclass(frozen=True, slots=True)
class Settings:
    """Constants derived from the options: counts in requests and tokens, ``limit`` in bytes."""

    flags: Options
    max_size: int
    limit: int | None               # None = not set
    completion_batch_size: int
    prefill_batch_size: int
    prefill_step_size: int
    draft: Spec | None
    template: ChatTemplate


def settings(opts: Options) -> Settings:
    """Derive the constants that hold while the server runs. Raise BadInput."""
    return Settings(
        flags=opts, max_size=opts.prompt_cache_size, limit=opts.prompt_cache_bytes or None,
        completion_batch_size=max(opts.decode_concurrency, opts.prompt_concurrency),
        prefill_batch_size=opts.prompt_concurrency, prefill_step_size=opts.prefill_step_size,
        draft=parse(opts.draft_model) if opts.draft_model else None,
        template=ChatTemplate(opts.template, opts.thinking),
    )
