"""Option values that ``advise`` tries, common to the engines' lists."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.engines.capabilities import Capacity, Flag, Option, ServerLoad

Try = dict[str, Option]
Tries = Callable[[Mapping[str, Any], ServerLoad], Iterator[Try]]

SLOTS = 8                    # most slots advised
LEAST_BATCH = 16             # smallest micro-batch advised [tokens]: smaller batches cost more than they save
PAD = 256                    # context sizes are multiples of this [tokens]
ROOMY = 8192                 # a large prompt cache [MiB]
CHECKPOINTS = 256            # most checkpoints per slot that are tried
UNLIKE = 0.9                 # similarity that selects a slot only for the continuation of its conversation


def tries_of(flags: Sequence[Flag], *steps: str | Tries) -> Tries:
    """Return the ``tries`` of a manual in the order of ``steps``: functions, or names of flags whose ``tries`` are
    tried separately. Flags with ``tries`` that are not in ``steps`` come last."""
    values = {flag.name: flag.tries for flag in flags if flag.tries}
    order = dict.fromkeys((*steps, *values))

    def tries(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
        for step in order:
            yield from other_values(step, now, *values[step]) if isinstance(step, str) else step(now, load)

    return tries


def other_values(name: str, now: Mapping[str, Any], *values: Option) -> Iterator[Try]:
    """Return the option changes to those of these values that differ from the current value."""
    return ({name: value} for value in values if now[name] != value)


def halved_values(name: str, now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield the option halved up to three times, as long as the longest request exceeds a batch."""
    value = now[name]
    for _ in range(3):
        value //= 2
        if LEAST_BATCH <= value < load.longest:
            yield {name: value}


def shorter_chunks(name: str, now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield chunks of a half, a quarter and an eighth of the longest request, as powers of two that are shorter than
    the current ones: a prompt leaves a state at the end of each."""
    size = 1 << max(0, load.longest - 1).bit_length()
    for _ in range(3):
        size //= 2
        if size >= LEAST_BATCH and not 0 < now[name] <= size:
            yield {name: size}


def widen_context(now: Mapping[str, Any], tokens: int) -> Try:
    """Return the option change to a context of at least ``tokens``, {} if it is large enough. A context of 0 is as
    large as the model's."""
    return {} if not now["ctx_size"] or now["ctx_size"] >= tokens else {"ctx_size": (tokens // PAD + 1) * PAD}


def separate_contexts(now: Mapping[str, Any], load: ServerLoad, n: int) -> Try:
    """Return the option changes to ``n`` slots, each with its own context that holds the longest request."""
    each = widen_context({"ctx_size": now["ctx_size"] // n}, load.longest)
    return {"parallel": n, **{name: n * int(value) for name, value in each.items()}}


def slot_counts(now: Mapping[str, Any], load: ServerLoad) -> list[int]:
    """Return the slot counts to try: two, and a slot for each conversation (at most SLOTS)."""
    wanted = min(load.conversations, SLOTS)
    return [n for n in dict.fromkeys((2, wanted)) if 1 < n <= wanted and n != now["parallel"]]


def smaller_batches(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield smaller micro-batches, then smaller batches; a micro-batch never exceeds its batch."""
    yield from halved_values("ubatch_size", now, load)
    for change in halved_values("batch_size", now, load):
        size = change["batch_size"]
        yield change if int(size) >= now["ubatch_size"] else {**change, "ubatch_size": size}


def larger_cache(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return the size of a large prompt cache, or of an unlimited one [MiB]."""
    if now["cache_ram"] < 0:
        return int(now["cache_ram"])
    return ROOMY if now["cache_ram"] < ROOMY else -1


def more_checkpoints(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return a number of checkpoints per slot that is ample for every conversation."""
    return max(int(now["ctx_checkpoints"]), CHECKPOINTS)


def context_for_all(now: Mapping[str, Any], load: ServerLoad) -> int:
    """Return the size of a context that holds all conversations [tokens]; the prompt cache of llama.cpp holds as many
    tokens as the context."""
    return int(widen_context(now, load.total).get("ctx_size", now["ctx_size"]))


CONTEXT = Capacity("ctx_size", context_for_all, step=PAD)
PROMPT_CACHE = Capacity("cache_ram", larger_cache, counts_bytes=True)
CHECKPOINTS_OF_SLOT = Capacity("ctx_checkpoints", more_checkpoints)
"""Sizes of llama-server and its relatives."""


def ample(capacity: Capacity) -> Tries:
    """Return the step of ``tries_of`` that tries the ample value of a size."""

    def tries(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
        yield from other_values(capacity.name, now, capacity.ample(now, load))

    return tries


def fewer_drafts(now: Mapping[str, Any], load: ServerLoad) -> Iterator[Try]:
    """Yield no drafts, then drafts of a single token."""
    if now["spec_type"] != "none":
        yield {"spec_type": "none"}
        yield from other_values("spec_draft_n_max", now, 1)
