"""Which values of a number are worth trying? What the engines' lists of options to try have in common."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.engines.capabilities import Flag, Load, Option

Try = dict[str, Option]
Tries = Callable[[Mapping[str, Any], Load], Iterator[Try]]

SLOTS = 8                    # a larger number of slots is not advised
LEAST_BATCH = 16             # a smaller micro-batch costs more than what it could save
PAD = 256                    # tokens in whose multiples a context is asked for
ROOMY = 8192                 # MiB of a prompt cache
UNLIKE = 0.9                 # a slot is taken for what goes on, and not for what only begins alike


def tries_of(flags: Sequence[Flag], *steps: str | Tries) -> Tries:
    """The ``tries`` of a manual, in the order of ``steps``: functions, and names of flags, of which each value in
    ``tries`` is tried alone. Flags with ``tries`` that no step names come last."""
    values = {flag.name: flag.tries for flag in flags if flag.tries}
    order = dict.fromkeys((*steps, *values))

    def tries(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
        for step in order:
            yield from other_values(step, now, *values[step]) if isinstance(step, str) else step(now, load)

    return tries


def other_values(name: str, now: Mapping[str, Any], *values: Option) -> Iterator[Try]:
    """The option at each of these values that it has not."""
    return ({name: value} for value in values if now[name] != value)


def larger_values(name: str, now: Mapping[str, Any], *values: int) -> Iterator[Try]:
    """The option at the next two of these values that are larger."""
    return ({name: value} for value in [value for value in values if value > now[name]][:2])


def halved_values(name: str, now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """The number halved three times, as far as the longest request fills more than one batch of it."""
    value = now[name]
    for _ in range(3):
        value //= 2
        if LEAST_BATCH <= value < load.longest:
            yield {name: value}


def widen_context(now: Mapping[str, Any], tokens: int) -> Try:
    """The context with room for so many tokens, nothing where it has it. A context of 0 is as large as the model's."""
    return {} if not now["ctx_size"] or now["ctx_size"] >= tokens else {"ctx_size": (tokens // PAD + 1) * PAD}


def separate_contexts(now: Mapping[str, Any], load: Load, n: int) -> Try:
    """So many slots, each with a context of its own in which the longest request has room."""
    each = widen_context({"ctx_size": now["ctx_size"] // n}, load.longest)
    return {"parallel": n, **{name: n * int(value) for name, value in each.items()}}


def slot_counts(now: Mapping[str, Any], load: Load) -> list[int]:
    """Two, and one for each conversation."""
    wanted = min(load.conversations, SLOTS)
    return [n for n in dict.fromkeys((2, wanted)) if 1 < n <= wanted and n != now["parallel"]]


def smaller_batches(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """Smaller micro-batches, and smaller batches, which no micro-batch exceeds."""
    yield from halved_values("ubatch_size", now, load)
    for one in halved_values("batch_size", now, load):
        yield one if int(one["batch_size"]) >= now["ubatch_size"] else {**one, "ubatch_size": one["batch_size"]}


def larger_cache(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A prompt cache, or one without a limit."""
    if now["cache_ram"] >= 0:
        yield {"cache_ram": ROOMY} if now["cache_ram"] < ROOMY else {"cache_ram": -1}


def more_checkpoints(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """More checkpoints of a slot."""
    return larger_values("ctx_checkpoints", now, 32, 64, 128, 256)


def context_for_all(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A context that is large enough for all conversations: the prompt cache of llama.cpp holds as many tokens."""
    if wider := widen_context(now, load.total):
        yield wider


def fewer_drafts(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """No drafts, or drafts of one token."""
    if now["spec_type"] != "none":
        yield {"spec_type": "none"}
        yield from other_values("spec_draft_n_max", now, 1)
