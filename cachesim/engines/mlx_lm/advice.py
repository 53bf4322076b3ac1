"""Which flags of mlx-lm's server are worth trying where too much of a prompt is evaluated?"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.manual import Load, Option
from cachesim.engines.shared.advice import halves, more, others


def tries(now: Mapping[str, Any], load: Load) -> Iterator[dict[str, Option]]:
    """Options to try, one at a time; ``now`` are all options of the server."""
    yield from others("draft_model", now, "")
    yield from others("prompt_concurrency", now, 1)
    yield from others("decode_concurrency", now, 1)
    yield from halves("prefill_step_size", now, load)
    yield from more("prompt_cache_size", now, 10, 20, 50, 100)
    yield from others("prompt_cache_bytes", now, 0)
