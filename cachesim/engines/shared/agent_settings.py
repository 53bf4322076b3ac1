"""Settings of servers with slots for agents that send requests at the same time: how to divide a memory among slots,
checkpoints and the prompt cache."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Iterator, Mapping

from cachesim.engines.capabilities import Option
from cachesim.engines.shared.memory_use import MIB, MemoryQuestion, MemoryUse

Setting = dict[str, Option]
Use = Callable[[MemoryQuestion], MemoryUse]

LEAST_CONTEXT = 4096            # smallest context of a slot [tokens]
PAGE = 256                      # contexts [tokens] and prompt caches [MiB] are multiples of this
SPARE = 1024                    # context beyond the longest request [tokens]
DEFAULT_CACHE = 8192            # [MiB]
ENTRIES = 2                     # conversations of a client that the largest prompt cache holds


def context_needed(ask: MemoryQuestion) -> int:
    """Return the context for the longest request, at most that of the model [tokens]."""
    pages = -(-(ask.tokens + SPARE) // PAGE) * PAGE
    return min(pages, ask.model.context or pages)


def slot_settings(
    use: Use, ask: MemoryQuestion, clients: int, unified: bool, checkpoints: tuple[int, ...]
) -> Iterator[Setting]:
    """Yield settings of a server: a slot, a slot for each client, or two slots; their ``checkpoints``; and divisions of
    ``ask.room`` between context and prompt cache. ``unified``: the slots can share a cache."""
    for slots in dict.fromkeys((1, clients, min(2, clients))):
        for shared in (False, True) if unified and slots == clients > 1 else (False,):
            base: Setting = {"parallel": slots, **({"kv_unified": shared} if unified and slots > 1 else {})}
            small = _with(ask, {**base, "ctx_size": LEAST_CONTEXT * slots, "cache_ram": 0})
            makes = use(_with(small, {"ctx_checkpoints": 1})).total > use(_with(small, {"ctx_checkpoints": 0})).total
            for more in _variants(ask, checkpoints if makes else ()):
                yield from divided(use, ask, options={**base, **more}, slots=slots, clients=clients)


def _variants(ask: MemoryQuestion, checkpoints: tuple[int, ...]) -> Iterator[Setting]:
    """Yield what the layers of a model allow: numbers of checkpoints, () = it has none, and full rows of windows."""
    if not checkpoints:
        yield {}
    for n in checkpoints:
        yield {"ctx_checkpoints": n}
    if checkpoints and ask.model.windows and "swa_full" in ask.options:
        yield {"swa_full": True}


def divided(use: Use, ask: MemoryQuestion, options: Setting, slots: int, clients: int) -> Iterator[Setting]:
    """Yield divisions of the memory: the context that all slots need and what is left as prompt cache, or larger prompt
    caches and the context that is left. A division that does not fit has the smallest context and no prompt cache."""
    def total(context: int, cache: int) -> int:
        return use(_with(ask, {**options, "ctx_size": context, "cache_ram": cache})).total

    needed, least = context_needed(ask) * slots, LEAST_CONTEXT * slots
    plenty = (total(needed, -1) - total(needed, 0)) // MIB * ENTRIES * clients + PAGE
    free, rest = (min(plenty, max(0, (ask.room - total(context, 0)) // MIB)) for context in (least, needed))
    larger = [cache for cache in (free // 4, free // 2) if cache > rest]
    for cache in dict.fromkeys(size - size % PAGE for size in (0, min(DEFAULT_CACHE, rest), rest, *larger)):
        steps = range((needed - least) // PAGE + 1)
        n = bisect_right(steps, False, key=lambda n: total(least + PAGE * n, cache) > ask.room)
        yield {**options, "ctx_size": least + PAGE * max(0, n - 1), "cache_ram": cache}


def _with(ask: MemoryQuestion, options: Mapping[str, Any]) -> MemoryQuestion:
    return ask._replace(options={**ask.options, **options})
