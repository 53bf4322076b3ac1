"""The server's start-up: from command-line flags to the numbers that stay fixed.

Source: mlx-lm mlx_lm/server.py main (d78bf58e).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.chat import TEMPLATES, ChatTemplate
from cachesim.engines.shared.command_line import check_flags
from cachesim.model.spec import Spec, parse


@dataclass(frozen=True, slots=True)
class Options:
    """Flags by their long names. ``prompt_cache_bytes`` 0 = not set. ``template`` and ``thinking`` stand for the
    model's chat template, ``draft_model`` for the model behind --draft-model, "" = none. Two are no flags of a real
    server: ``ticks_per_slice`` generator steps between two looks at cancelled requests (half a second there), and
    ``snapshot_interval``, the constant of #923."""

    prompt_cache_size: int = 10
    prompt_cache_bytes: int = 0
    decode_concurrency: int = 32
    prompt_concurrency: int = 8
    prefill_step_size: int = 2048
    num_draft_tokens: int = 3
    draft_model: str = ""
    template: str = "plain"
    thinking: bool = False
    ticks_per_slice: int = 1
    snapshot_interval: int = 8192


def options(flags: Mapping[str, Any]) -> Options:
    """Options from names and values. Raises BadInput for an unknown name or a value that cannot be used."""
    check_flags(flags, asdict(Options()))
    for name, value in flags.items():
        if type(value) is int and value < (0 if name in ("prompt_cache_bytes", "prompt_cache_size") else 1):
            raise BadInput(f"server flag {quoted(name)} must be larger than {value}")
    if (kind := flags.get("template", "plain")) not in TEMPLATES:
        raise BadInput(f"unknown template {quoted(kind)}", hint=nearest(kind, TEMPLATES) or ", ".join(TEMPLATES))
    return Options(**flags)


@dataclass(frozen=True, slots=True)
class Settings:
    """What start-up makes of the options: counts in requests and tokens, ``limit`` in bytes, None = not set."""

    max_size: int
    limit: int | None
    completion_batch_size: int
    prefill_batch_size: int
    prefill_step_size: int
    num_draft_tokens: int
    draft: Spec | None
    template: ChatTemplate
    ticks: int
    interval: int


def settings(opts: Options) -> Settings:
    """The numbers that hold as long as the server runs. Raises BadInput."""
    return Settings(
        max_size=opts.prompt_cache_size,
        limit=opts.prompt_cache_bytes or None,
        completion_batch_size=max(opts.decode_concurrency, opts.prompt_concurrency),
        prefill_batch_size=opts.prompt_concurrency,
        prefill_step_size=opts.prefill_step_size,
        num_draft_tokens=opts.num_draft_tokens,
        draft=parse(opts.draft_model) if opts.draft_model else None,
        template=ChatTemplate(opts.template, opts.thinking),
        ticks=opts.ticks_per_slice,
        interval=opts.snapshot_interval,
    )
