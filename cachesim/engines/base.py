"""What every engine shares: a request and its answer. An engine is driven with ``Request`` objects and answers each
with an ``Answer``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Self

import numpy as np

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import Tokens
from cachesim.engines.chat_template import ChatMessage


class Immutable:
    """What is saved once and never changed again: nobody writes into it or into what it holds, so that its deep copy is
    itself, and a copy of a server shares it, however much has been saved."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


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
    """One request, as a client sends it."""

    prompt: Tokens                                       # in tokens
    n_predict: int = 1  # tokens to generate at most; the last one is never evaluated; -1 = until something ends it
    kind: str = "completion"  # "completion", "infill", "decision", or "embedding", which generates nothing
    forced: Tokens | None = None                         # the generated tokens, None = the engine's sampler chooses
    cache_prompt: bool = True                            # may it reuse anything?
    id_slot: int = -1                                    # the slot that it asks for, -1 = any
    user_starts: tuple[int, ...] = ()                    # indices in the prompt at which user messages begin
    chat: bool = True  # the server's chat template marks them, not `message_delimiters` of a plain completion
    byte_pos: int | None = None  # byte offset of the last user message, as clients of old servers sent it
    n_keep: int | None = None  # tokens that a context shift keeps, None = the engine's default
    n_discard: int = 0                                   # tokens that a context shift drops, 0 = half of the rest
    n_cache_reuse: int | None = None  # fewest tokens of a block that is reused by moving it, None = the server's option
    n_cmpl: int = 1                                      # completions of the prompt
    children_forced: tuple[Tokens, ...] = ()             # `forced` of the further completions
    cancel_at: int | None = None  # the client disconnects once the slot holds so many tokens, or `BEFORE_A_SLOT`
    drafts: tuple[Draft, ...] = ()                       # forces the drafter
    draft_else: int = 0                                  # tokens drafted where `drafts` says nothing; all are right
    messages: tuple[ChatMessage, ...] = ()               # of a chat, from which the server's template made the prompt
    seed: bool = False  # the client asks for a seed of its own, so that it is served alone
    stop: tuple[str, ...] = ()  # texts that end the generation where the recorded vocabulary spells one of them
    eog: tuple[int, ...] = ()                            # tokens that end the generation
    others: tuple[Tokens, ...] = ()                      # further prompts of a "decision"
    shared: int = 0  # first tokens that all prompts of a decision share; the server sets it
    cancel_order: tuple[int, ...] = ()  # the order in which the slots of several completions end after a disconnect
    cancel_place: int = 0                                # of requests that end in one iteration, the lowest ends first
    children_drafts: tuple[tuple[Draft, ...], ...] = ()  # `drafts` of the further completions
    # fields that only some engines have, each declared in their `Manual.fields`
    extra: Mapping[str, int | float | bool | str] = field(default_factory=dict, hash=False)


class Output(NamedTuple):
    """What the model said after one token: its position, its provenance, its logits (exact mode only)."""

    pos: int
    digest: int
    logits: np.ndarray | None


@dataclass(slots=True)
class Answer:
    """The reply to one request. Counts are tokens."""

    request: int                                          # number of the request
    status: int = 200                                     # HTTP status
    error: str = ""                                       # what the real server says
    error_kind: str = ""  # identifies the error, or the end of the process, whatever its numbers
    error_numbers: Mapping[str, int] = field(default_factory=dict)  # numbers of the error, by name
    id_slot: int = -1                                     # the slot that it was worked on in, -1 = none
    # reused prompt tokens by source: "slot", "checkpoint", or the engine's noun for what it keeps ("entry", "block")
    reused: Mapping[str, int] = field(default_factory=dict)
    prompt_n: int = 0                                     # prompt tokens that were evaluated
    predicted_n: int = 0                                  # tokens that were generated
    tokens_cached: int = 0                                # tokens that the server says the slot holds
    truncated: bool = False  # the server shortened the prompt, or a context shift dropped tokens
    stop_type: str = "none"                               # what ended the generation
    tokens: list[int] = field(default_factory=list)       # the generated tokens
    slot_tokens: Tokens = ()                              # tokens in the slot at the end
    outputs: list[Output] = field(default_factory=list)   # one for each token after which the model was asked to speak
    deciding: str = ""                                    # id of the rule that settled cache_n
    died: bool = False                                    # the simulated process ended while this request was in work
    cancelled: bool = False                               # the client disconnected
    draft_n: int = 0                                      # tokens that were drafted
    draft_n_accepted: int = 0                             # drafted tokens that were accepted
    done: bool = False                                    # answered, or failed
    prompt: Tokens | None = None                          # the prompt as the server shortened it, None = as it was sent
    shifts: list[tuple[int, int, int]] = field(default_factory=list)  # context shifts: tokens held, n_keep, n_discard
    children: list[Answer] = field(default_factory=list)  # answers of the further completions

    @property
    def cache_n(self) -> int:
        """Prompt tokens that were reused."""
        return sum(self.reused.values())

    def fails(self, status: int, text: str, kind: str, **numbers: int) -> None:
        """The client gets an error."""
        self.status, self.error, self.error_kind, self.error_numbers = status, text, kind, numbers

    def dies(self, end: ProcessAborted) -> None:
        """The process has ended, and nobody is answered any more."""
        self.died, self.error, self.error_kind, self.error_numbers = True, str(end), end.kind, end.numbers


def prompt_of(request: Request, answer: Answer) -> Tokens:
    """The prompt that the answer is an answer to."""
    return request.prompt if answer.prompt is None else answer.prompt
