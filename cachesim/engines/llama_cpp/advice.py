"""Which flags of llama-server are worth trying where too much of a prompt is evaluated?

Those that decide about caches, one at a time, with what has to change with them: more slots want a larger context. From
what costs nothing to what costs memory, and last what is known to give wrong answers with some models.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.manual import Load, Option
from cachesim.engines.shared.advice import apart, larger_cache, more, numbers_of_slots, others, room, smaller_batches

UNLIKE = 0.9                 # a slot is taken for what goes on, and not for what only begins alike
Try = dict[str, Option]


def tries(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """Options to try; ``now`` are all options of the server."""
    yield from others("cache_prompt", now, True)
    yield from others("slot_prompt_similarity", now, 0.0, 0.1, 0.5)
    yield from others("cache_idle_slots", now, True)
    yield from _checkpoints(now, load)
    yield from _slots(now, load)
    yield from larger_cache(now)
    yield from others("swa_full", now, True)
    yield from room_for_all(now, load)
    yield from others("context_shift", now, not now["context_shift"])
    yield from _drafts(now)
    yield from others("cache_reuse", now, 256, 1)


def _checkpoints(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """How many, how far apart; and batches, between which they are made."""
    yield from others("checkpoint_min_step", now, 0, 64, 256, 1024)
    yield from more("ctx_checkpoints", now, 32, 64, 128, 256)
    yield from smaller_batches(now, load)


def _slots(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A slot for each conversation, with a context of its own or a common one; or one slot for all."""
    for n in numbers_of_slots(now, load):
        yield {"parallel": n, "kv_unified": True, **room(now, load.total)}
        yield {**apart(now, load, n), "kv_unified": False}
        yield {**apart(now, load, n), "slot_prompt_similarity": UNLIKE}
    if now["parallel"] != 1:
        yield {"parallel": 1}
        yield from others("kv_unified", now, not now["kv_unified"])


def room_for_all(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A context that is large enough for all conversations: the prompt cache holds as many tokens."""
    if wider := room(now, load.total):
        yield wider


def _drafts(now: Mapping[str, Any]) -> Iterator[Try]:
    if now["spec_type"] != "none":
        yield {"spec_type": "none"}
        yield from others("spec_draft_n_max", now, 1)
