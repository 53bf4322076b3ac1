"""What limits the tokens of a request in a step, as the scheduler decided it."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.flags import Options, window_slots
from cachesim.engines.sglang.rules.schedule import AdmissionCandidate
from cachesim.events.scheduling import LimitKind, StepLimit


class PrefillBudget(NamedTuple):
    """What a prefill step can still take. ``rem_chunk_tokens``: None = unlimited; ``rem_swa_tokens``: None = no
    windows."""

    rem_input_tokens: int
    rem_chunk_tokens: int | None
    rem_total_tokens: float
    rem_swa_tokens: int | None


class NextChunk(NamedTuple):
    """Tokens of the next chunk of a prompt: those that it has left, those that fit, and those that the policy leaves it
    (``share``, None = all)."""

    wanted: int
    fits: int
    share: int | None


def token_limit(options: Options, budget: PrefillBudget) -> StepLimit:
    """Return the limit of a prefill step without room for further tokens."""
    if budget.rem_input_tokens <= 0:
        most = options.max_prefill_tokens
        return StepLimit(LimitKind.TOKENS, option="max_prefill_tokens", value=most, unit="tokens")
    most = options.chunked_prefill_size
    return StepLimit(LimitKind.TOKENS, option="chunked_prefill_size", value=most, unit="tokens")


def request_limit(options: Options, running: tuple[int, ...]) -> StepLimit:
    """Return the limit of a step in which as many requests run as may."""
    most = options.max_running_requests
    return StepLimit(LimitKind.REQUESTS, option="max_running_requests", value=most, unit="requests", behind=running)


def order_limit(options: Options, first: int) -> StepLimit:
    """Return the limit of requests that come after one that waits."""
    return StepLimit(LimitKind.ORDER, option="schedule_policy", value=options.schedule_policy, behind=(first,))


def slot_limit(options: Options, free: float, needed: int | None, holders: tuple[int, ...]) -> StepLimit:
    """Return the limit of a request that lacks slots of full attention. ``holders``: requests that hold slots."""
    return StepLimit(LimitKind.MEMORY, option="max_total_tokens", value=options.max_total_tokens, unit="slots",
                     needed=needed, free=max(int(free), 0), behind=holders)


def window_limit(options: Options, free: float, needed: int | None, holders: tuple[int, ...]) -> StepLimit:
    """Return the limit of a request that lacks slots of windows."""
    return StepLimit(LimitKind.MEMORY, option="swa_tokens", value=window_slots(options), unit="window slots",
                     needed=needed, free=max(int(free), 0), behind=holders)


def room_limit(options: Options, budget: PrefillBudget, holders: tuple[int, ...]) -> StepLimit:
    """Return the limit of requests behind the one that took the last free slots, or the last tokens of the step."""
    if budget.rem_swa_tokens is not None and budget.rem_swa_tokens <= 0:
        return window_limit(options, budget.rem_swa_tokens, None, holders)
    if budget.rem_total_tokens <= 0:
        return slot_limit(options, budget.rem_total_tokens, None, holders)
    return token_limit(options, budget)


def refusal_limit(options: Options, ask: AdmissionCandidate, admitted: Decision, holders: tuple[int, ...],
                  chunked: tuple[int, ...]) -> StepLimit:
    """Return the limit of a request that was not admitted. ``chunked``: the request whose prompt was cut before."""
    because = admitted.because
    if admitted.value is None and "window" in because:
        return window_limit(options, because["free"], because["window"], holders)
    if admitted.value is None:
        return slot_limit(options, because["free"], because["needed"], holders)
    if ask.waits_for_chunked_req and chunked:
        return order_limit(options, chunked[0])
    if ask.rem_chunk_tokens is None:
        return StepLimit(LimitKind.TOKENS, option="max_prefill_tokens", value=options.max_prefill_tokens,
                         unit="tokens", needed=ask.extend_len, free=max(ask.rem_input_tokens, 0))
    return StepLimit(LimitKind.TOKENS, option="chunked_prefill_size", value=options.chunked_prefill_size,
                     unit="tokens", needed=min(ask.extend_len, ask.page_size), free=max(ask.rem_chunk_tokens, 0))


def first_chunk_limits(options: Options, ask: AdmissionCandidate, extend_len: int) -> Iterator[StepLimit]:
    """Yield what cut the first chunk of a prompt to ``extend_len`` tokens: the rest of the step in whole pages, or the
    free window slots, which allow fewer."""
    if ask.rem_chunk_tokens is None:
        return
    page = ask.page_size
    in_pages = (ask.prefix_len + ask.rem_chunk_tokens // page * page) // page * page - ask.prefix_len
    if extend_len < in_pages and ask.rem_swa_tokens is not None:
        yield window_limit(options, ask.rem_swa_tokens, None, ())
    else:
        yield StepLimit(LimitKind.TOKENS, option="chunked_prefill_size", value=options.chunked_prefill_size,
                        unit="tokens")


def next_chunk_limits(options: Options, chunk: NextChunk, budget: PrefillBudget,
                      holders: tuple[int, ...]) -> Iterator[StepLimit]:
    """Yield what limits the next chunk of a prompt, or lets it wait."""
    if chunk.share is not None and chunk.share < min(chunk.fits, chunk.wanted):
        yield StepLimit(LimitKind.SHARE, option="schedule_policy", value=options.schedule_policy)
    elif chunk.fits == budget.rem_chunk_tokens:
        yield StepLimit(LimitKind.TOKENS, option="chunked_prefill_size", value=options.chunked_prefill_size,
                        unit="tokens")
    elif budget.rem_swa_tokens is not None and budget.rem_swa_tokens - options.page_size <= chunk.fits:
        yield window_limit(options, budget.rem_swa_tokens, None, holders)
    else:
        yield slot_limit(options, budget.rem_total_tokens, None, holders)
