"""Which values of a number are worth trying? What the engines' lists of options to try have in common."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.manual import Load, Option

SLOTS = 8                    # a larger number of slots is not advised
LEAST_BATCH = 16             # a smaller micro-batch costs more than what it could save
PAD = 256                    # tokens in whose multiples a context is asked for
ROOMY = 8192                 # MiB of a prompt cache


def others(name: str, now: Mapping[str, Any], *values: Option) -> Iterator[dict[str, Option]]:
    """The option at each of these values that it has not."""
    return ({name: value} for value in values if now[name] != value)


def more(name: str, now: Mapping[str, Any], *values: int) -> Iterator[dict[str, Option]]:
    """The option at the next two of these values that are larger."""
    return ({name: value} for value in [value for value in values if value > now[name]][:2])


def halves(name: str, now: Mapping[str, Any], load: Load) -> Iterator[dict[str, Option]]:
    """The number halved three times, as far as the longest request fills more than one batch of it."""
    value = now[name]
    for _ in range(3):
        value //= 2
        if LEAST_BATCH <= value < load.longest:
            yield {name: value}


def room(now: Mapping[str, Any], tokens: int) -> dict[str, Option]:
    """The context with room for so many tokens, nothing where it has it. A context of 0 is as large as the model's."""
    return {} if not now["ctx_size"] or now["ctx_size"] >= tokens else {"ctx_size": (tokens // PAD + 1) * PAD}


def apart(now: Mapping[str, Any], load: Load, n: int) -> dict[str, Option]:
    """So many slots, each with a context of its own in which the longest request has room."""
    each = room({"ctx_size": now["ctx_size"] // n}, load.longest)
    return {"parallel": n, **{name: n * int(value) for name, value in each.items()}}


def numbers_of_slots(now: Mapping[str, Any], load: Load) -> list[int]:
    """Two, and one for each conversation."""
    wanted = min(load.conversations, SLOTS)
    return [n for n in dict.fromkeys((2, wanted)) if 1 < n <= wanted and n != now["parallel"]]


def smaller_batches(now: Mapping[str, Any], load: Load) -> Iterator[dict[str, Option]]:
    """Smaller micro-batches, and smaller batches, which no micro-batch exceeds."""
    yield from halves("ubatch_size", now, load)
    for one in halves("batch_size", now, load):
        yield one if int(one["batch_size"]) >= now["ubatch_size"] else {**one, "ubatch_size": one["batch_size"]}


def larger_cache(now: Mapping[str, Any]) -> Iterator[dict[str, Option]]:
    """A prompt cache, or one without a limit."""
    if now["cache_ram"] >= 0:
        yield {"cache_ram": ROOMY} if now["cache_ram"] < ROOMY else {"cache_ram": -1}
