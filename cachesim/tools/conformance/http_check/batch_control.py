"""Cold answers in other micro-batches, which tell a matter of numbers from a fault.

Models that choose the rows to read (DeepSeek V3.2 and V4, MiniMax M3, ...) give other answers if a prompt is cut into
other micro-batches: another kernel rounds otherwise, and near a tie another row is chosen. A warm request is cut where
its reused tokens end. Its answer is a matter of numbers if a cold server gives it, too.

A client cannot cut a cold prompt, since ``-ub`` is a flag of the server's start. Three sources of cold answers remain:

    SharedBatch      the same server, while another cold prompt shares the batch, which moves the cuts
    SecondServer     a server that the user started with another ``-ub``
    StartedServers   servers that are started for the check, with a ``-ub`` that cuts where the warm request was cut
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from typing import Callable, Iterable, Iterator, NamedTuple, Protocol

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import History
from cachesim.tools.conformance.compare_replies import Same, equal
from cachesim.tools.conformance.history_player import HistoryRun, Outcome
from cachesim.tools.conformance.http_check.http_client import Exhausted
from cachesim.tools.conformance.http_check.warm_run import ServerRunner
from cachesim.tools.conformance.properties import COMPARING, PropertyCheck, checks, reply_to
from cachesim.tools.conformance.protocol import CacheRequest, Reply

PLAYS = 3                    # most runs with small micro-batches: with some tokens a fault changes an answer little


class Cause(Enum):
    """Cause of an answer that differs from a cold run's."""

    FAULT = "fault"                      # micro-batches do not explain it
    NUMBERS = "numbers"                  # a cold run in other micro-batches gives the answer
    OPEN = "numbers or fault"            # neither is shown


def cause_of(warm: Reply, cold: Reply, others: Iterable[Outcome], same: Same) -> Cause:
    """Return the cause of a difference. ``others``: cold answers in other micro-batches. If all of them equal ``cold``,
    or if there are none, it is a fault."""
    is_steady = True
    for other in others:
        if not isinstance(other, Reply) or other.refused:
            continue
        if equal(warm, other, same):
            return Cause.NUMBERS
        is_steady = is_steady and equal(cold, other, same)
    return Cause.FAULT if is_steady else Cause.OPEN


class ColdSource(Protocol):
    """A source of cold answers in other micro-batches."""

    def answers(self, ask: CacheRequest, cached: int) -> Iterator[Outcome]:
        """Yield cold answers. ``cached``: tokens that the warm request reused, 0 if unknown."""

    def replay(self, history: History) -> HistoryRun | None:
        """Run a whole history where all micro-batches are small; None without such a server."""


class ExplainedAnswer(NamedTuple):
    """An answer that differs from a cold run's, and is not shown to be a fault."""

    line: str
    played: HistoryRun
    check: PropertyCheck
    cause: Cause


@dataclass(frozen=True, slots=True)
class BatchControl:
    """Judges differences. ``chooses``: the model is known to choose rows, so that micro-batches change its answers.

    Rows of a warm request may come from large and from small micro-batches, a mixture that no cold request repeats. Of
    such a model, a difference is a fault only if it shows where all micro-batches are small, warm and cold."""

    source: ColdSource | None = None
    chooses: bool = False

    def cause(self, played: HistoryRun, check: PropertyCheck, same: Same) -> Cause:
        """Return the cause of a failed check. What is not a difference of two whole answers is a fault."""
        warm, cold = reply_to(played.warm, check.request), reply_to(played.cold, check.request)
        if warm is None or cold is None or warm.refused or cold.refused or equal(warm, cold, same):
            return Cause.FAULT
        ask = played.asks[check.request]
        if ask.cancel_after is not None or not (self.source or self.chooses):
            return Cause.FAULT
        others = self.source.answers(ask, warm.cached or 0) if self.source else ()
        cause = cause_of(warm, cold, others, same)
        if cause is Cause.NUMBERS or (cause is Cause.FAULT and not self.chooses):
            return cause
        return Cause.FAULT if self._shows_again(played.history, check, same) else Cause.OPEN

    def _shows_again(self, history: History, check: PropertyCheck, same: Same) -> bool:
        """True if the request differs in one of a few runs in which all micro-batches are small."""
        for _ in range(PLAYS):
            played = self.source.replay(history) if self.source else None
            if played is None or played.gap:
                return False
            wrong = {one.request for one in checks(played, same) if one.name in COMPARING and not one.ok}
            if check.request in wrong:
                return True
        return False


# Another prompt in the batch.

UBATCH = 512                 # default micro-batch of llama-server [tokens]
LARGE = 70                   # tokens beside a prompt that make its micro-batch a large one
TIMES = 2                    # attempts: two requests may miss the same batch
SMALL = 32                   # micro-batch that llama.cpp evaluates with its kernels for few tokens


def other_lengths(cached: int) -> tuple[int, ...]:
    """Return lengths of prompts that share a batch: the first moves a cut to the end of the reused tokens."""
    return (UBATCH - cached % UBATCH, LARGE)


class SharedBatch:
    """Asks a cold prompt while another cold prompt is evaluated, in two slots."""

    def __init__(self, stage: ServerRunner) -> None:
        self.stage = stage

    def answers(self, ask: CacheRequest, cached: int) -> Iterator[Outcome]:
        """Yield cold answers beside other prompts, none if the server has a single slot or too little context."""
        server = self.stage.server
        if server.client is not None or server.slots < 2:
            return
        for length in other_lengths(cached):
            if length + len(ask.prompt) + ask.n_predict >= server.n_ctx:
                continue
            tokens = tuple(server.tokens[at % len(server.tokens)] for at in range(length))
            for _ in range(TIMES):
                yield self._beside(replace(ask, prompt=tokens, n_predict=1), ask)

    def replay(self, history: History) -> None:
        """Return None: a client cannot make the micro-batches of this server small."""

    def _beside(self, neighbour: CacheRequest, ask: CacheRequest) -> Outcome:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.stage.answer, neighbour, 0)
            second = pool.submit(self.stage.answer, ask, 1)
            first.result()
            return second.result()


# Servers with another micro-batch.

class SecondServer:
    """Asks a server with the same model and another ``-ub``."""

    def __init__(self, stage: ServerRunner) -> None:
        self.stage = stage

    def answers(self, ask: CacheRequest, cached: int) -> Iterator[Outcome]:
        """Yield its cold answer, none after its request limit."""
        try:
            yield self.stage.answer(ask)
        except Exhausted:
            return

    def replay(self, history: History) -> HistoryRun:
        """Run a whole history on it, whose micro-batches are taken to be small."""
        return self.stage.play(history)


class _RunningServer(NamedTuple):
    """A started server; ``stack`` ends it."""

    size: int                            # its micro-batch [tokens]
    server: SecondServer
    stack: ExitStack


MOST_STARTS = 12             # servers that are started at most for one check
Starter = Callable[[int], AbstractContextManager[ServerRunner]]
"""Starts a server with a micro-batch of so many tokens. Raises BadInput."""


def micro_batches(cached: int) -> tuple[int, ...]:
    """Return the micro-batches of control servers: small ones, and those that end where the reused tokens do."""
    return (SMALL, cached) if cached > SMALL else (SMALL,)


class StartedServers(ExitStack):
    """Starts servers with another ``-ub`` when the first answer differs: one with small micro-batches that stays, and
    one for the place where a request was cut, which is replaced. After ``MOST_STARTS`` only these two are asked."""

    def __init__(self, start: Starter) -> None:
        super().__init__()
        self._start, self._starts = start, 0
        self._running: dict[bool, _RunningServer] = {}       # True = the one with small micro-batches

    def answers(self, ask: CacheRequest, cached: int) -> Iterator[Outcome]:
        """Yield a cold answer of each server that can be started."""
        for size in micro_batches(cached):
            server = self._server(size)
            if server is not None:
                yield from server.answers(ask, cached)

    def replay(self, history: History) -> HistoryRun | None:
        """Run a whole history on the server with small micro-batches, None if it cannot be started."""
        server = self._server(SMALL)
        return server.replay(history) if server is not None else None

    def _server(self, size: int) -> SecondServer | None:
        is_small = size == SMALL
        known = self._running.get(is_small)
        if self._starts >= MOST_STARTS or (known is not None and known.size == size):
            return known.server if known is not None else None
        self._starts += 1
        if known is not None:
            known.stack.close()
            del self._running[is_small]
        stack = ExitStack()
        try:
            server = SecondServer(stack.enter_context(self._start(size)))
        except BadInput:
            return None
        self.push(stack)
        self._running[is_small] = _RunningServer(size, server, stack)
        return server
