"""A history on a running server: all of it warm, then every prompt cold. Nothing is judged here.

A cold request empties a slot, so none may stand between warm ones; and every play renames all tokens, or what an
earlier one left in the prompt cache would answer. A play begins with a short prompt of its own, after which a slot is
in a known state whatever was there before. Cold is the same request with the cache switched off.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Callable, NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.schema import at_once
from cachesim.tools.conformance.client_history import SLOTS, Dictionary, History
from cachesim.tools.conformance.fingerprint import Same
from cachesim.tools.conformance.history_player import Outcome, PlayedHistory, SentHistory
from cachesim.tools.conformance.http_check.dialect import ServerFacts, cold, complete
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.openai_client import NoCold
from cachesim.tools.conformance.protocol import Ask, Failed, Reply, TimedOut

WASH = 5                     # tokens of a prompt before each play; it is part of a finding: `Wash5/...`
TWICE = 4                    # plays whose cold runs are made twice, and requests of each
WORDS = 4                    # words of most histories
REMEMBERED = 4_000           # prompts of earlier plays
PLAYS = 3                    # plays with other tokens where something of an earlier play was reused


class Death(NamedTuple):
    """The history in which a server stopped to answer, with the request that had no answer first."""

    played: PlayedHistory
    request: int


class ServerStage:
    """Plays histories on one server. ``death``: how it ended."""

    death: Death | None = None

    def __init__(self, http: Http, server: ServerFacts, same: Same, seed: int = 0) -> None:
        self.http, self.server, self.same, self.seed, self.plays = http, server, same, seed, 0
        self.before: list[Tokens] = []               # what earlier plays sent
        self.twice = TWICE                           # plays yet whose cold runs are made twice
        self.foreign = False                         # something of an earlier play was reused in the last one

    def play(self, history: History, spare: bool = False) -> PlayedHistory:
        """Play a history with tokens of its own; with others where something of an earlier play was reused. Ends early
        where no more requests are allowed. ``spare``: what reused nothing is its own cold run."""
        for _ in range(PLAYS):
            played = self._play(history, spare)
            if played.gap or not self.foreign:
                break
        return played

    def _play(self, history: History, spare: bool) -> PlayedHistory:
        self.plays += 1
        self.foreign = False
        played, sent = PlayedHistory(history), SentHistory(self._vocabulary())
        if not all(step.request.cache_prompt for step in history.scenario.steps) and "cache" in self.server.missing:
            played.gap = self.server.missing["cache"]
            return played
        dictionary = Dictionary(sent.vocabulary)
        played.groups = at_once(step.together for step in history.scenario.steps)
        try:
            self._wash(sent.vocabulary, self._slot(played.groups))
            self._warm(played, dictionary)
            self._look_alive(played)
            self._cold(played, spare)
        except (Exhausted, NoCold) as end:
            played.gap = str(end)
        played.warm = [self._counted(played, number, one) for number, one in enumerate(played.warm)]
        self.before = [*self.before, *(ask.prompt for ask in played.asks)][-REMEMBERED:]
        return played

    def _warm(self, played: PlayedHistory, dictionary: Dictionary) -> None:
        hang_ups = played.history.hang_ups
        for group in played.groups:
            requests = [played.history.scenario.steps[number].request for number in group]
            asks = [Ask(dictionary.real(one.prompt), one.n_predict, one.cache_prompt, hang_ups[number])
                    for number, one in zip(group, requests, strict=True)]  # fmt: skip
            said = self._send(asks, self._slot(played.groups))
            played.asks += asks
            played.warm += said
            for request, one in zip(requests, said, strict=True):
                if isinstance(one, Reply):
                    dictionary.bind(request.forced, one.tokens)
            if any(isinstance(one, Failed) for one in said):
                break

    def _look_alive(self, played: PlayedHistory) -> None:
        """Where a request got no answer, does another one? Raises Exhausted where none does any more."""
        bad = [number for number, one in enumerate(played.warm) if isinstance(one, Failed) or one.refused]
        if bad and not isinstance(played.warm[bad[0]], TimedOut):
            tokens = self.server.tokens
            said = self._one(Ask(tuple(tokens[(self.plays * step) % len(tokens)] for step in (3, 7, 11))), -1)
            if isinstance(said, Failed) or said.refused:
                self.death = Death(played, bad[0])
                self.http.dead = f"the server died: {said.refused if isinstance(said, Reply) else said}"
                raise Exhausted(self.http.dead)

    def _counted(self, played: PlayedHistory, number: int, said: Outcome) -> Outcome:
        """A reply without its counts where a prompt of an earlier play may have been reused: of a small vocabulary the
        first tokens come again."""
        if not isinstance(said, Reply) or not said.cached:
            return said
        prompt = played.asks[number].prompt
        here = max((common_prefix(prompt, ask.prompt) for ask in played.asks[:number]), default=0)
        there = max((common_prefix(prompt, one) for one in self.before), default=0)
        if not here < said.cached <= there:
            return said
        self.foreign = True
        return replace(said, cached=None, evaluated=None)

    def _wash(self, vocabulary: Sequence[int], slot: int) -> None:
        """A short prompt of other tokens: what the slot held goes, and what is left is the same for every play."""
        prompt = tuple(vocabulary[(number * SLOTS + SLOTS - 1) % len(vocabulary)] for number in range(WASH))
        self.before.append(prompt)
        self._one(Ask(prompt), slot)

    def answer(self, ask: Ask) -> Outcome:
        """The cold reply to a request."""
        return self._one(ask, self._slot([]), cold)

    def _cold(self, played: PlayedHistory, spare: bool) -> None:
        for number, ask in enumerate(played.asks):
            warm = played.warm[number] if number < len(played.warm) else None
            alone = not self.server.dear or not any(number in group for group in played.groups if len(group) > 1)
            own = (spare or self.server.dear) and alone and isinstance(warm, Reply) and warm.cached == 0
            twice = not spare and self.twice > 0 and number < TWICE
            said = warm if own and warm is not None else self.answer(ask)
            again = self.answer(ask) if twice else None
            played.cold.append(said)
            played.again.append(again)
        self.twice -= not spare

    def _send(self, asks: Sequence[Ask], slot: int) -> list[Outcome]:
        if len(asks) == 1:
            return [self._one(asks[0], slot)]
        with ThreadPoolExecutor(len(asks)) as pool:
            return list(pool.map(lambda ask: self._one(ask, -1), asks))

    def _one(self, ask: Ask, slot: int, serve: Callable[[Http, ServerFacts, Ask, int], Reply] = complete) -> Outcome:
        try:
            return serve(self.http, self.server, ask, slot)
        except Failed as failed:
            return failed

    def _slot(self, groups: Sequence[Sequence[int]]) -> int:
        """Several slots hide what one keeps: histories without concurrent requests stay in one."""
        several = any(len(group) > 1 for group in groups)
        return 0 if self.server.dialect == "native" and self.server.slots > 1 and not several else -1

    def _vocabulary(self) -> list[int]:
        """The server's tokens in an order that no other play has; words begin with tokens that the last plays did not
        begin with, as long as there are any."""
        rng, tokens = Rng((self.seed + self.server.used) * 1_000_003 + self.plays, "check"), list(self.server.tokens)
        begin = self.plays * WORDS % len(tokens)
        first, rest = tokens[begin : begin + WORDS], tokens[:begin] + tokens[begin + WORDS :]
        for last in range(len(rest) - 1, 0, -1):
            other = rng.below(last + 1)
            rest[last], rest[other] = rest[other], rest[last]
        return [*first, *rest]
