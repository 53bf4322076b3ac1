"""Which flags of ik_llama.cpp's server are worth trying where too much of a prompt is evaluated?

One at a time, with what has to change with them, from what costs nothing to what costs memory.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.manual import Load, Option
from cachesim.engines.shared.advice import apart, larger_cache, more, numbers_of_slots, others, room, smaller_batches

UNLIKE = 0.9                 # a slot is taken for what goes on, and not for what only begins alike
Try = dict[str, Option]


def tries(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """Options to try; ``now`` are all options of the server."""
    yield from others("slot_prompt_similarity", now, 0.0, 0.1, 0.5)
    yield from others("reasoning_tokens", now, "none")
    yield from others("cache_ram_similarity", now, 1.0, 0.5, 0.25, 0.0)
    yield from others("cache_ram_n_min", now, 0)
    yield from _checkpoints(now, load)
    yield from _slots(now, load)
    yield from larger_cache(now)
    yield from others("swa_compress", now, False)
    if wider := room(now, load.total):
        yield wider
    yield from others("context_shift", now, not now["context_shift"])
    if now["spec_type"] != "none":
        yield {"spec_type": "none"}
        yield from others("spec_draft_n_max", now, 1)


def _checkpoints(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """How many, how far apart, which are given up; and batches, between which they are made."""
    yield from others("ctx_checkpoints_interval", now, 512, 256, 64, 16)
    yield from others("ctx_checkpoints_tolerance", now, 5, 0)
    yield from others("ctx_checkpoints_eviction", now, "variance", "fifo")
    yield from more("ctx_checkpoints", now, 32, 64, 128, 256)
    yield from smaller_batches(now, load)


def _slots(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A slot for each conversation, or one for all."""
    for n in numbers_of_slots(now, load):
        yield apart(now, load, n)
        yield {**apart(now, load, n), "slot_prompt_similarity": UNLIKE}
    if now["parallel"] != 1:
        yield {"parallel": 1}
