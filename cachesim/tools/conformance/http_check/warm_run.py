"""Running a history on a server: all of it warm, then every prompt cold. Nothing is judged here.

A cold request empties a slot, so all warm requests come first. Every run renames all tokens, because the prompt cache
may still hold those of an earlier run. A run begins with a short prompt of its own ("wash"), which brings the slot into
a known state. Cold means that the request switches the cache off.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Callable, Iterator, NamedTuple, Sequence

from cachesim.base.media_items import is_item
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import LineRequest
from cachesim.scenarios.schema import at_once
from cachesim.tools.conformance.client_history import SLOTS, History, TokenDictionary
from cachesim.tools.conformance.compare_replies import Same
from cachesim.tools.conformance.history_player import HistoryRun, Outcome, SendingOptions
from cachesim.tools.conformance.http_check.adapters import adapter_fields, adapter_key, default_fields
from cachesim.tools.conformance.http_check.dialect import ServerFacts, cold, complete, listed
from cachesim.tools.conformance.http_check.drafts import Serve, one_by_one
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http, NoConnection
from cachesim.tools.conformance.http_check.openai_client import CacheNotEmptied
from cachesim.tools.conformance.http_check.replies import count, first, mapping
from cachesim.tools.conformance.properties import reply_text
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply

WASH = 5                     # length of the prompt [tokens] before each run; part of a finding: `Wash5/...`
TWICE = 4                    # runs whose cold requests are repeated, and repeated requests of each
BEFORE = 3                   # least number of tokens before an image, which tell its run from others
BARE = f"not sent: an image without {BEFORE} tokens before it, or at the end of a prompt, where it ends some servers"
WORDS = 4                    # number of words of most histories
REMEMBERED = 4_000           # prompts of earlier runs that are kept for comparison
PLAYS = 3                    # attempts with other tokens if tokens of an earlier run were reused
POLLS = 1_000                # times that a slot is asked for, at most
INTERRUPTED = "interrupted"
FOREIGN = "tokens of an earlier run were reused, perhaps under another adapter"


def _is_bare(prompt: Tokens) -> bool:
    """True if an image is not between texts of the prompt."""
    return any(map(is_item, (*prompt[:BEFORE], *prompt[-1:])))


def _burst_sizes(history: History) -> Iterator[int]:
    """Yield the tokens of all requests that arrive together: slots may share a context, so that more are refused."""
    steps, asked = history.scenario.steps, history.asked
    for group in at_once(step.together for step in steps):
        if len(group) > 1 or asked[group[0]].n_cmpl > 1:
            requests = [(steps[number].request, asked[number].n_cmpl) for number in group]
            yield sum(len(one.prompt) + one.n_predict * times for one, times in requests)


def await_answer(http: Http, slot: int, is_over: Callable[[], bool]) -> None:
    """Wait until a slot generates an answer, or its request is over. Gives up early if the server lists no slots.
    Raise Exhausted."""
    for _ in range(POLLS):
        found = listed(http, "/slots")
        said = next((one.get("next_token") for one in found if one.get("id") == slot), None)
        if not found or count((first(said) or mapping(said)).get("n_decoded")) or is_over():
            return


class ServerEnd(NamedTuple):
    """The run after which a server answered no further request."""

    played: HistoryRun
    request: int                         # the first that got no answer
    what: str                            # "died" if the connection failed, else "stopped answering"


class ServerRunner:
    """Runs histories on a server. ``end``: the run after which it answered no further request."""

    end: ServerEnd | None = None

    def __init__(self, http: Http, server: ServerFacts, same: Same, seed: int = 0) -> None:
        self.http = http
        self.server = server
        self.same = same
        self.seed = seed
        self.plays = 0
        self.before: list[Tokens] = []               # prompts of earlier runs
        self.twice = TWICE                           # remaining runs whose cold requests are repeated
        self.foreign = False                         # the last run reused tokens of an earlier run

    def play(self, history: History, spare: bool = False, serve: Serve = complete) -> HistoryRun:
        """Run a history with new tokens, again with others if tokens of an earlier run were reused. Ends early at the
        request limit. ``spare``: a warm reply that reused nothing also counts as the cold reply; ``serve``: sends the
        warm requests."""
        for _ in range(PLAYS):
            played = self._play(history, spare, serve)
            if played.gap or not self.foreign:
                return played
        return HistoryRun(history, gap=FOREIGN) if self.server.adapters else played

    def play_undrafted(self, history: History) -> HistoryRun:
        """Run a history without drafts."""
        return self.play(history, serve=partial(one_by_one, complete))

    def _play(self, history: History, spare: bool, serve: Serve = complete) -> HistoryRun:
        self.plays += 1
        self.foreign = False
        drafted = self.server.drafts and serve is complete
        played, sent = HistoryRun(history, has_drafts=drafted), SendingOptions(self._vocabulary())
        if not all(step.request.cache_prompt for step in history.scenario.steps) and "cache" in self.server.missing:
            played.gap = self.server.missing["cache"]
            return played
        if any(_is_bare(step.request.prompt) for step in history.scenario.steps):
            played.gap = BARE
            return played
        if any(size > self.server.n_ctx - WASH for size in _burst_sizes(history)):
            played.gap = f"not sent: requests at once that exceed a context of {self.server.n_ctx} tokens"
            return played
        dictionary = TokenDictionary(sent.vocabulary, f"{self.seed + self.server.used}/{self.plays}")
        played.groups = at_once(step.together for step in history.scenario.steps)
        try:
            self._wash(sent.vocabulary, self._slot(history))
            self._warm(played, dictionary, serve)
            self._look_alive(played)
            self._cold(played, spare)
        except (Exhausted, CacheNotEmptied) as end:
            played.gap = str(end)
        played.warm = [self._counted(played, number, one) for number, one in enumerate(played.warm)]
        self.before = [*self.before, *(ask.prompt for ask in played.asks)][-REMEMBERED:]
        return played

    def _warm(self, played: HistoryRun, dictionary: TokenDictionary, serve: Serve) -> None:
        hang_ups, asked = played.history.hang_ups, played.history.asked
        for group in played.groups:
            requests = [played.history.scenario.steps[number].request for number in group]
            lists = [str(one.extra.get("lora", "")) for one in requests]
            asks = [CacheRequest(dictionary.real(one.prompt), one.n_predict, one.cache_prompt, hang_ups[number],
                                 key=adapter_key(self.server.adapters, text),
                                 fields={**adapter_fields(self.server.adapters, text), **self._placed(asked[number])})
                    for number, one, text in zip(group, requests, lists, strict=True)]  # fmt: skip
            said = self._send(asks, self._slot(played.history), serve)
            played.asks += asks
            played.warm += said
            for request, one in zip(requests, said, strict=True):
                if isinstance(one, Reply):
                    dictionary.bind(request.forced, one.tokens)
            if any(isinstance(one, Failed) for one in said):
                break

    def _placed(self, asked: LineRequest) -> dict[str, int]:
        """Return the fields for the slot and the number of completions that a request names."""
        native = self.server.dialect == "native"
        slot = {"id_slot": asked.id_slot} if native and 0 <= asked.id_slot < self.server.slots else {}
        return {**slot, **({"n_cmpl": asked.n_cmpl} if native and asked.n_cmpl > 1 else {})}

    def _look_alive(self, played: HistoryRun) -> None:
        """After a request without an answer, send another. Raise Exhausted if that gets no answer either."""
        bad = [number for number, one in enumerate(played.warm) if isinstance(one, Failed) or one.refused]
        if bad:
            tokens = self.server.tokens
            said = self._one(CacheRequest(tuple(tokens[(self.plays * step) % len(tokens)] for step in (3, 7, 11))), -1)
            if isinstance(said, Failed) or said.refused:
                what = "died" if isinstance(said, NoConnection) else "stopped answering"
                self.end = ServerEnd(played, bad[0], what)
                self.http.dead = f"the server {what}: {reply_text(said) if isinstance(said, Reply) else said}"
                raise Exhausted(self.http.dead)

    def _counted(self, played: HistoryRun, number: int, said: Outcome) -> Outcome:
        """Return the reply, without its counts if it may have reused a prompt of an earlier run: in a small vocabulary
        the first tokens repeat."""
        if not isinstance(said, Reply) or not said.cached:
            return said
        prompt = played.asks[number].prompt
        here = max((common_prefix(prompt, ask.prompt) for ask in played.asks[:number]), default=0)
        there = max(common_prefix(prompt, one) for one in self.before)        # one of them is the wash
        if not here < said.cached <= there:
            return said
        self.foreign = True
        return replace(said, cached=None, evaluated=None)

    def _wash(self, vocabulary: Sequence[int], slot: int) -> None:
        """Send a short prompt of other tokens, which leaves a slot in a state that does not depend on earlier runs."""
        prompt = tuple(vocabulary[(number * SLOTS + SLOTS - 1) % len(vocabulary)] for number in range(WASH))
        self.before.append(prompt)
        self._one(CacheRequest(prompt, fields=default_fields(self.server.adapters)), slot)

    def answer(self, ask: CacheRequest, slot: int | None = None) -> Outcome:
        """Return the cold reply to a request. ``slot``: its slot, None = that of all cold requests."""
        serve = partial(one_by_one, cold) if self.server.drafts else cold
        return self._one(ask, self._slot(None) if slot is None else slot, serve)

    def _cold(self, played: HistoryRun, spare: bool) -> None:
        for number, (ask, warm) in enumerate(zip(played.asks, played.warm, strict=True)):
            together = any(number in group for group in played.groups if len(group) > 1)
            alone = not self.server.cold_is_costly or not together
            own = (spare or self.server.cold_is_costly) and alone and isinstance(warm, Reply) and warm.cached == 0
            twice = not spare and self.twice > 0 and number < TWICE
            said = warm if own else self.answer(ask)
            again = self.answer(ask) if twice else None
            played.cold.append(said)
            played.again.append(again)
        self.twice -= not spare

    def _send(self, asks: Sequence[CacheRequest], slot: int, serve: Serve) -> list[Outcome]:
        if len(asks) == 1:
            return [self._one(asks[0], slot, serve)]
        slots = [int(ask.fields.get("id_slot", -1)) for ask in asks]
        sent: list[Future[Outcome]] = []
        with ThreadPoolExecutor(len(asks)) as pool:
            for ask, slot in zip(asks, slots, strict=True):
                busy = slots[: len(sent)].index(slot) if slot >= 0 and slot in slots[: len(sent)] else None
                sent.append(pool.submit(self._late, ask, slot, None if busy is None else sent[busy], serve))
            try:
                return [one.result() for one in sent]
            except KeyboardInterrupt:
                self.http.halt(INTERRUPTED)
                raise

    def _late(self, ask: CacheRequest, slot: int, busy: Future[Outcome] | None, serve: Serve) -> Outcome:
        """Serve a request. ``busy``: the request for which its slot must generate before."""
        if busy is not None:
            await_answer(self.http, slot, busy.done)
        return self._one(ask, -1, serve)

    def _one(self, ask: CacheRequest, slot: int, serve: Serve = complete) -> Outcome:
        try:
            return serve(self.http, self.server, ask, slot)
        except Failed as failed:
            return failed.without_frames()

    def _slot(self, history: History | None) -> int:
        """Return the slot of a history, or of cold requests: slot 0, since several slots would hide reuse. The server
        chooses if requests arrive together or name slots."""
        several = history is not None and history.is_spread
        return 0 if self.server.dialect == "native" and self.server.slots > 1 and not several else -1

    def _vocabulary(self) -> list[int]:
        """Return the server's tokens in an order that differs for every run. Words begin with tokens other than those
        of the latest runs, as long as there are any."""
        rng, tokens = Rng((self.seed + self.server.used) * 1_000_003 + self.plays, "check"), list(self.server.tokens)
        begin = (self.seed + self.server.used + self.plays) * WORDS % len(tokens)
        first, rest = tokens[begin : begin + WORDS], tokens[:begin] + tokens[begin + WORDS :]
        rng.shuffle(rest)
        return [*first, *rest]
