"""Requests and answers, common to all engines. An engine receives ``Request`` objects and fills an ``Answer`` for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Mapping, NamedTuple, Self, Sequence, TypeVar

import numpy as np

from cachesim.base.brief_repr import brief_repr
from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import Keys, with_keys
from cachesim.base.tokens import Tokens
from cachesim.engines.chat_template import ChatMessage

K = TypeVar("K")
V = TypeVar("V")


class Immutable:
    """Base of objects that are saved once and never modified afterwards, nor anything they hold. Their deep copy is the
    object itself, so a copy of a server shares them, whatever their number."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class ImmutableItems(dict[K, V]):
    """Dictionary of immutable keys and values. A deep copy has the same keys and values: it does not copy the tokens
    of long prompts."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self)


@dataclass(frozen=True, slots=True)
class FixedTokens(Immutable):
    """Tokens that are never changed: a copy of a server does not copy them one by one."""

    tokens: Sequence[int] = ()


AS_MANY_AS_ALLOWED = -1      # draft length: the longest that the server's limits allow


class Draft(NamedTuple):
    """A forced draft: ``drafted`` tokens, made when the slot holds ``at`` tokens. The first ``accepted`` of them are
    correct."""

    at: int
    drafted: int
    accepted: int


NO_TOKEN = -1                # stands for a token that the model does not have
NO_ROOM = "no-room"          # kind of all errors that report a context or a memory as too small
BEFORE_A_SLOT = -1           # the request is cancelled while it waits for a slot
BEFORE_ITS_PROMPT = -2       # the request is cancelled when it has a slot, before its prompt begins


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A request as a client sends it."""

    prompt: Tokens                                       # prompt [tokens]
    n_predict: int = 1  # most tokens to generate; the last is never evaluated; -1 = until generation ends
    kind: str = "completion"  # "completion", "infill", "decision" or "embedding" (generates nothing)
    forced: Tokens | None = None                         # generated tokens, None = the engine's sampler chooses
    cache_prompt: bool = True                            # False = reuse nothing
    id_slot: int = -1                                    # requested slot, -1 = any
    user_starts: tuple[int, ...] = ()                    # indices in the prompt where user messages begin
    chat: bool = True  # user messages are marked by the chat template (else by `message_delimiters` of a completion)
    byte_pos: int | None = None  # byte offset of the last user message, sent by clients of old servers
    n_keep: int | None = None  # tokens that a context shift keeps, None = the engine's default
    n_discard: int = 0                                   # tokens that a context shift drops, 0 = half of the rest
    n_cache_reuse: int | None = None  # shortest block [tokens] reused by moving it, None = server option
    n_cmpl: int = 1                                      # number of completions
    children_forced: tuple[Tokens, ...] = ()             # `forced` of the second and later completions
    cancel_at: int | None = None  # slot length at which the client disconnects, or one of the two above
    drafts: tuple[Draft, ...] = ()                       # forced drafts
    draft_else: int = 0                                  # draft length where `drafts` has none; all correct
    messages: tuple[ChatMessage, ...] = ()               # messages that the chat template rendered as prompt
    seed: bool = False  # the client requests its own seed: the server does not batch the request with others
    stop: tuple[str, ...] = ()  # stop texts, compared in the recorded vocabulary
    eog: tuple[int, ...] = ()                            # tokens that end generation
    others: tuple[Tokens, ...] = ()                      # second and later prompts of a "decision"
    shared: int = 0  # length of the common prefix of a decision's prompts, set by the server
    cancel_order: tuple[int, ...] = ()  # order in which slots of several completions end after a disconnect
    cancel_place: int = 0                                # requests ending in the same iteration: lowest first
    children_drafts: tuple[tuple[Draft, ...], ...] = ()  # `drafts` of the second and later completions
    # fields of single engines, declared in `Manual.fields`
    extra: Mapping[str, int | float | bool | str] = field(default_factory=dict, hash=False)

    def right_drafts(self, at: int) -> int:
        """Return how many tokens of a draft after ``at`` tokens are right."""
        return next((one.accepted for one in self.drafts if one.at == at), self.draft_else)

    def __repr__(self) -> str:
        return brief_repr(self)


class Output(NamedTuple):
    """Model output after a token: position, provenance digest, logits (None except in exact mode)."""

    pos: int
    digest: int
    logits: np.ndarray | None


CACHE_OFF = "cache off"
"""The server was started without a prefix cache."""
UNREAD = "unread"
"""The request asks not to read stored prefixes."""


HTTP_OK = 200                 # HTTP status of an answer


@dataclass(slots=True, repr=False)
class Answer:
    """The reply to a request. Counts are in tokens."""

    request: int                                          # number of the request
    status: int = HTTP_OK                                 # HTTP status
    error: str = ""                                       # error text of the real server
    error_kind: str = ""  # kind of the error or process end, independent of its numbers
    error_numbers: Mapping[str, int] = field(default_factory=dict)  # numbers of the error, by name
    id_slot: int = -1                                     # slot that processed the request, -1 = none
    # reused prompt tokens by source: "slot", "checkpoint", or the engine's noun for what it keeps ("entry", "block")
    reused: Mapping[str, int] = field(default_factory=dict)
    prompt_n: int = 0                                     # evaluated prompt tokens
    predicted_n: int = 0                                  # generated tokens
    tokens_cached: int = 0                                # slot length that the server reports
    truncated: bool = False  # the server shortened the prompt, or a context shift dropped tokens
    stop_type: str = "none"                               # reason that ended generation
    tokens: list[int] = field(default_factory=list)       # the generated tokens
    slot_tokens: Tokens = ()                              # tokens in the slot at the end
    outputs: list[Output] = field(default_factory=list)   # outputs after the tokens marked for output
    deciding: str = ""                                    # id of the rule that determined cache_n
    unread: str = ""       # why no stored prefix is read, whatever is stored: CACHE_OFF, UNREAD; "" = one may be read
    died: bool = False                                    # the simulated process ended during this request
    cancelled: bool = False                               # the client disconnected
    draft_n: int = 0                                      # drafted tokens
    draft_n_accepted: int = 0                             # accepted drafted tokens
    done: bool = False                                    # answered or failed
    prompt: Tokens | None = None                          # prompt shortened by the server, None = as sent
    shifts: list[tuple[int, int, int]] = field(default_factory=list)  # context shifts: tokens held, n_keep, n_discard
    copied_n: int = 0                   # tokens of ``prompt_n`` that another completion of the request evaluated
    repeated_n: int = 0                 # tokens of ``prompt_n`` that the reply counts as reused, too
    children: list[Answer] = field(default_factory=list)  # answers of the second and later completions
    under: str = ""                                       # what its tokens are computed under, "" = nothing
    keys: Keys = ()                                       # keys that a cold run of the request computes under

    @property
    def reply_status(self) -> int:
        """HTTP status of the reply to the request. The error of one of several answers is the reply to all."""
        return next((one.status for one in (self, *self.children) if one.status != HTTP_OK), HTTP_OK)

    @property
    def cache_n(self) -> int:
        """Number of reused prompt tokens, as the server's reply counts them."""
        return sum(self.reused.values())

    @property
    def first_evaluated(self) -> int:
        """Number of prompt tokens before the first evaluated one."""
        return self.cache_n - self.repeated_n

    def fails(self, status: int, text: str, kind: str, **numbers: int) -> None:
        """Record an error reply."""
        self.status = status
        self.error = text
        self.error_kind = kind
        self.error_numbers = numbers

    def dies(self, end: ProcessAborted) -> None:
        """Record that the process ended; the client gets no reply."""
        self.died = True
        self.error = str(end)
        self.error_kind = end.kind
        self.error_numbers = end.numbers

    def __repr__(self) -> str:
        return brief_repr(self)


def prompt_of(request: Request, answer: Answer) -> Tokens:
    """Return the prompt that was answered: the shortened prompt if the server shortened it, else the sent prompt."""
    return request.prompt if answer.prompt is None else answer.prompt


def with_identities(request: Request, answer: Answer) -> tuple[Request, Answer]:
    """Return a request and its answer with the keys that a cold run would compute their tokens under."""
    keys, prompt = answer.keys, prompt_of(request, answer)
    if not keys:
        return request, answer
    said = replace(answer, tokens=list(with_keys(tuple(answer.tokens), keys, len(prompt))),
                   prompt=answer.prompt and with_keys(answer.prompt, keys),
                   slot_tokens=with_keys(answer.slot_tokens, keys),
                   children=[with_identities(request, child)[1] for child in answer.children])  # fmt: skip
    return replace(request, prompt=with_keys(request.prompt, keys)), said
