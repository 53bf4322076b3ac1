"""What every engine shares: a request and its answer. An engine is driven with ``Request`` objects and answers each
with an ``Answer``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, NamedTuple, Protocol

import numpy as np

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import Tokens
from cachesim.engines.chat import ChatMessage

AS_MANY_AS_ALLOWED = -1      # a draft as long as the server's limits admit


class Draft(NamedTuple):
    """A forced draft: made when the slot holds ``at`` tokens, ``drafted`` tokens long, of which the first ``accepted``
    are right."""

    at: int
    drafted: int
    accepted: int


NO_ROOM = "no-room"          # the kind of every error that says that a context or a memory is too small
BEFORE_A_SLOT = -1          # a client hangs up while its request waits for a slot


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as a client sends it: a "completion", an "infill", or an "embedding", which generates nothing.

    ``forced`` holds the generated tokens (n_predict of them at most are taken, the last is never
    evaluated); None lets the engine's sampler choose. ``user_starts`` are the indices in ``prompt`` at
    which user messages begin; ``chat``: the server's own chat template marks them, not ``message_delimiters`` of a
    plain completion. ``byte_pos`` is the byte offset of the last user message where a client of an old server sent
    one. ``None`` = the engine's default. ``n_cmpl`` > 1 asks for further completions, forced by ``children_forced`` and
    ``children_drafts``. ``stop`` are texts that end the generation where the recorded vocabulary spells one of them,
    ``eog`` tokens that end it. ``others`` are further prompts of a "decision"; the server sets ``shared``, how many
    first tokens all of them share.
    ``cancel_at``: the client hangs up, and the request ends after the iteration in which the slot has come to hold
    that many tokens, or before it gets a slot if it has to wait for one (``BEFORE_A_SLOT``); of several completions
    those in the slots named by ``cancel_order`` end in that order, and of requests that end in the same iteration that
    with the lowest ``cancel_place`` first. ``drafts`` forces the drafter; where it says
    nothing, ``draft_else`` tokens are drafted and all are right. ``messages`` are those of a chat, which the server's
    own template has made the prompt from. ``seed``: the client asks for a seed of its own, so that it is served alone.
    """

    prompt: Tokens
    n_predict: int = 1
    kind: str = "completion"
    forced: Tokens | None = None
    cache_prompt: bool = True
    id_slot: int = -1
    user_starts: tuple[int, ...] = ()
    chat: bool = True
    byte_pos: int | None = None
    n_keep: int | None = None
    n_discard: int = 0
    n_cache_reuse: int | None = None
    n_cmpl: int = 1
    children_forced: tuple[Tokens, ...] = ()
    cancel_at: int | None = None
    drafts: tuple[Draft, ...] = ()
    draft_else: int = 0
    messages: tuple[ChatMessage, ...] = ()
    seed: bool = False
    stop: tuple[str, ...] = ()
    eog: tuple[int, ...] = ()
    others: tuple[Tokens, ...] = ()
    shared: int = 0
    cancel_order: tuple[int, ...] = ()
    cancel_place: int = 0
    children_drafts: tuple[tuple[Draft, ...], ...] = ()


class Output(NamedTuple):
    """What the model said after one token: its position, its provenance, its logits (exact mode only)."""

    pos: int
    digest: int
    logits: np.ndarray | None


@dataclass(slots=True)
class Answer:
    """The reply to one request. Counts are tokens. ``slot_tokens`` is what the slot holds at the end;
    ``outputs`` has one entry for each token after which the model was asked to speak. ``error`` is what the real server
    says, ``error_kind`` an identifier of it (or of the end of the process), the same whatever its ``error_numbers``."""

    request: int
    status: int = 200
    error: str = ""
    error_kind: str = ""
    error_numbers: Mapping[str, int] = field(default_factory=dict)
    id_slot: int = -1
    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0
    tokens_cached: int = 0
    truncated: bool = False
    stop_type: str = "none"
    tokens: list[int] = field(default_factory=list)
    slot_tokens: Tokens = ()
    outputs: list[Output] = field(default_factory=list)
    restored: bool = False          # some of cache_n came back from a checkpoint or a stored conversation
    deciding: str = ""              # id of the rule that settled cache_n
    died: bool = False              # the simulated process ended while this request was worked on
    cancelled: bool = False
    draft_n: int = 0
    draft_n_accepted: int = 0
    done: bool = False
    prompt: Tokens | None = None    # the prompt as the server shortened it, None = as it was sent
    shifts: list[tuple[int, int, int]] = field(default_factory=list)   # context shifts: tokens held, n_keep, n_discard
    children: list[Answer] = field(default_factory=list)

    def fails(self, status: int, text: str, kind: str, **numbers: int) -> None:
        """The client gets an error."""
        self.status, self.error, self.error_kind, self.error_numbers = status, text, kind, numbers

    def dies(self, end: ProcessAborted) -> None:
        """The process has ended, and nobody is answered any more."""
        self.died, self.error, self.error_kind, self.error_numbers = True, str(end), end.kind, end.numbers


def prompt_of(request: Request, answer: Answer) -> Tokens:
    """The prompt that the answer is an answer to."""
    return request.prompt if answer.prompt is None else answer.prompt


class SimulatedServer(Protocol):
    """What a runner may ask of a simulated server."""

    def complete(self, request: Request) -> Answer:
        """Work on one request until it is answered."""
        ...
