"""Steps of a scheduler: which request evaluates how many tokens, what limits it, and which requests wait for what.

A server emits these events only if ``StepSchedule.record`` of its parts was called. Requests have the numbers of the
log (``Log.mark``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cachesim.events.base import Event, frozen


class LimitKind(StrEnum):
    """Why a step has fewer tokens of a request than it could evaluate, or none."""

    TOKENS = "tokens"                   # the step has no room for further tokens
    PROMPT = "prompt"                   # most tokens of one prompt in a step
    REQUESTS = "requests"               # most running requests
    MEMORY = "memory"                   # too little of the memory is free
    WHOLE_PROMPT = "whole prompt"       # too little is free for the whole prompt
    WATERMARK = "watermark"             # too little would stay free
    STATE_END = "state end"             # the chunk ends where a state is kept
    STATE_IN_STEP = "state in step"     # this step computes the state that the request continues from
    IMAGE = "image"                     # the encoder has no room for an image in this step
    LOOKAHEAD = "lookahead"             # the drafter reads tokens ahead, which stay for the last chunk
    DRAFTS = "drafts"                   # the step has no room for the places of drafts
    LENGTH = "length"                   # the request is as long as the model allows
    LOAD = "load"                       # its tokens are loaded from slower memory
    TRANSFER = "transfer"               # a part of what it could load is being stored or loaded
    IN_FLIGHT = "in flight"             # a step with tokens of it is not processed
    PREEMPTION = "preemption"           # a step that preempts starts no request
    ORDER = "order"                     # another request is before it
    PROMPTS_FIRST = "prompts first"     # the step evaluates prompts only
    NOT_TRIED = "not tried"             # an earlier request found no room, and none has left since
    SHARE = "share"                     # the policy leaves room for other requests


class StepLimit(NamedTuple):
    """A limit of a request in a step. ``option``: the server's option that sets it, "" = none."""

    kind: LimitKind
    option: str = ""
    value: int | float | str | bool | None = None       # the value of the option
    unit: str = ""                                      # what is counted: blocks, slots, tokens
    needed: int | None = None
    free: int | None = None
    behind: tuple[int, ...] = ()                        # requests that it waits for


class StepTokens(NamedTuple):
    """Tokens that a step evaluates of a request, from position ``start`` on: of its prompt, of its answer, and drafted
    tokens behind them. ``limits``: why there are no more, () = they are all that it has."""

    request: int
    start: int
    prompt: int
    answer: int
    drafts: int
    limits: tuple[StepLimit, ...]


class StepWait(NamedTuple):
    """A request that has tokens left, none of them in the step."""

    request: int
    limit: StepLimit


class StepPreemption(NamedTuple):
    """A running request that gives up its memory with ``computed`` tokens, and starts again later."""

    request: int
    computed: int
    limit: StepLimit


@frozen
class StepScheduled(Event, ev="step", logged=False):
    """A step was scheduled. ``kind``: "prefill" or "decode" if the scheduler has steps of both kinds, "" = it has one
    kind."""

    kind: str
    runs: tuple[StepTokens, ...]
    waits: tuple[StepWait, ...]
    preemptions: tuple[StepPreemption, ...]
