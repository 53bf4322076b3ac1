"""Running a history against an implementation: every request cold, then all of them in order on a single instance.

Cold replies come first: the client sends back the cold answers, whatever the warm instance answered. Nothing is judged
here.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.scenarios.schema import at_once
from cachesim.tools.conformance.client_history import History, TokenDictionary
from cachesim.tools.conformance.compare_replies import Same, equal
from cachesim.tools.conformance.protocol import (
    ABILITIES,
    NO_KEY,
    CacheRequest,
    Failed,
    Reply,
    RequestKey,
    Subject,
    TimedOut,
    Unsupported,
)
from cachesim.tools.conformance.timeouts import TimeoutsExhausted

Outcome = Reply | Failed
SubjectFactory = Callable[[], Subject]
STEADY = 8                   # different requests whose cold run is repeated


@dataclass(slots=True)
class HistoryRun:
    """The requests and replies of a history."""

    history: History
    asks: list[CacheRequest] = field(default_factory=list)
    cold: list[Outcome] = field(default_factory=list)                # per request
    again: list[Outcome | None] = field(default_factory=list)        # second cold replies, None = not repeated
    warm: list[Outcome] = field(default_factory=list)                # ends after the first request that failed
    groups: list[range] = field(default_factory=list)                # request numbers sent together
    limits: Mapping[str, int] = field(default_factory=dict)
    gap: str = ""                                                    # why the run stopped, such as a missing ability
    has_drafts: bool = False                                            # the server drafts tokens; cold runs do not


class SubjectPool:
    """Supplier of instances. ``reuse``: "" = new for every use; "reset" = reset it; "keep" = use it as it is."""

    def __init__(self, make: SubjectFactory, reuse: str = "") -> None:
        self.make, self.reuse = make, reuse
        self.kept: Subject | None = None

    @contextmanager
    def empty(self) -> Iterator[Subject]:
        """Yield an empty instance ("keep": the kept instance). After an exception it is not reused. Raise Failed."""
        subject, self.kept = self.kept or self.make(), None
        try:
            if self.reuse == "reset":
                subject.reset()
            yield subject
        except BaseException:
            subject.close()
            raise
        if self.reuse:
            self.kept = subject
        else:
            subject.close()

    def close(self) -> None:
        """Close the kept instance."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None


class ColdRuns:
    """Cold replies, cached per request. ``uncached``: all requests go to an instance with its cache switched off."""

    def __init__(self, bench: SubjectPool, uncached: bool, same: Same) -> None:
        self.bench = bench
        self.uncached = uncached
        self.same = same
        self.known: dict[CacheRequest, Outcome] = {}
        self.twice: dict[CacheRequest, Outcome] = {}

    def answer(self, ask: CacheRequest) -> Outcome:
        """Return the cold reply. The first few requests are sent twice. After two replies of one request differed,
        every request is sent twice."""
        ask = self._without_cache(ask)
        if ask not in self.known:
            self.known[ask] = self._ask(ask)
            if isinstance(self.known[ask], TimedOut):
                return self.known[ask]                # a second attempt would only time out again
            steady = all(_equal(self.known[one], two, self.same) for one, two in self.twice.items())
            if len(self.twice) < STEADY or not steady:
                self.twice[ask] = self._ask(ask)
        return self.known[ask]

    def again(self, ask: CacheRequest) -> Outcome | None:
        """Return the second cold reply to a request, None if it was sent once."""
        return self.twice.get(self._without_cache(ask))

    def _without_cache(self, ask: CacheRequest) -> CacheRequest:
        return CacheRequest(ask.prompt, ask.n_predict, cache=not self.uncached, sampling=ask.sampling,
                            key=ask.key)  # fmt: skip

    def _ask(self, ask: CacheRequest) -> Outcome:
        try:
            with self.bench.empty() as subject:
                return subject.complete(ask)
        except Failed as failed:
            return failed.without_frames()
        except Unsupported as gap:
            return Failed(f"the implementation cannot complete a prompt: {gap}")


class SendingOptions(NamedTuple):
    """What is sent for a history: token ids from ``vocabulary``; request i gets the parameters ``sampling[i]`` and the
    key ``keys[i]``, modulo their number."""

    vocabulary: Sequence[int]
    sampling: Sequence[Mapping[str, Any]] = ()
    keys: Sequence[RequestKey] = ()

    def parameters(self, number: int) -> Mapping[str, Any]:
        """Return the sampling parameters of a request."""
        return self.sampling[number % len(self.sampling)] if self.sampling else {}

    def key(self, number: int) -> RequestKey:
        """Return the key of a request."""
        return self.keys[number % len(self.keys)] if self.keys else NO_KEY


def play(history: History, bench: SubjectPool, cold: ColdRuns, sent: SendingOptions) -> HistoryRun:
    """Run a history cold and warm."""
    played = HistoryRun(history)
    try:
        _play_cold(played, cold, sent)
        played.groups = at_once(step.together for step in history.scenario.steps)
        if any(isinstance(one, Failed) for one in played.cold):
            return played
        with bench.empty() as subject:
            played.limits = limits_of(subject)
            for group in played.groups:
                asks = [played.asks[number] for number in group]
                played.warm += [subject.complete(asks[0])] if len(asks) == 1 else subject.burst(asks)
    except Failed as failed:
        played.warm.append(failed.without_frames())
    except (Unsupported, TimeoutsExhausted) as gap:
        played.gap = str(gap)
    return played


def limits_of(subject: Subject) -> Mapping[str, int]:
    """Return the limits that an instance states, an empty mapping if it states none."""
    try:
        return subject.limits()
    except Unsupported:
        return {}


def _equal(first: Outcome, second: Outcome, same: Same) -> bool:
    if isinstance(first, Reply) and isinstance(second, Reply):
        return equal(first, second, same)
    return str(first) == str(second)


def _play_cold(played: HistoryRun, cold: ColdRuns, sent: SendingOptions) -> None:
    dictionary = TokenDictionary(sent.vocabulary)
    for number, (step, hang_up) in enumerate(zip(played.history.scenario.steps, played.history.hang_ups, strict=True)):
        request, sampling = step.request, sent.parameters(number)
        ask = CacheRequest(dictionary.real(request.prompt), request.n_predict, request.cache_prompt, hang_up, sampling,
                           sent.key(number))  # fmt: skip
        said = cold.answer(ask)
        played.asks.append(ask)
        played.cold.append(said)
        played.again.append(cold.again(ask))
        if isinstance(said, Failed):
            return
        dictionary.bind(request.forced, said.tokens)


# Abilities beside completing a prompt. Each is tried once, on a new instance.
#
# Only a clear "unsupported" counts as lacking. An ability that fails in another way is used in the run, so that the
# failure is found and shrunk. After a time-out nothing more is tried.

CANCEL = ("cancel_prompt", "cancel_answer")


@dataclass(frozen=True, slots=True)
class SubjectAbilities:
    """Abilities of an implementation. ``missing``: the reason for each ability that it lacks."""

    missing: Mapping[str, str]

    @property
    def present(self) -> frozenset[str]:
        """The abilities that work or fail."""
        return frozenset(ABILITIES) - self.missing.keys()

    def lack(self, name: str) -> str:
        """Return why an ability is missing, "" if present. "cancel" is missing if both kinds of cancelling are."""
        if name != "cancel":
            return self.missing.get(name, "")
        return self.missing["cancel_answer"] if all(one in self.missing for one in CANCEL) else ""

    def partly(self, name: str) -> str:
        """Return which half of "cancel" is missing if the other half is present, else ""."""
        gone = [one for one in CANCEL if one in self.missing]
        if name != "cancel" or len(gone) != 1:
            return ""
        phase = "the prompt is evaluated" if gone[0] == "cancel_prompt" else "the answer is generated"
        return f"not while {phase}: {self.missing[gone[0]]}"


def probe(make: SubjectFactory, tokens: Sequence[int], sampling: Mapping[str, Any],
          key: RequestKey = NO_KEY) -> SubjectAbilities:  # fmt: skip
    """Try every ability; "sampling" only if parameters are given, "key" only with a key."""
    missing = {}
    for name in ABILITIES:
        if (name == "sampling" and not sampling) or (name == "key" and not key.name):
            continue
        try:
            reason = _reason(make, name, CacheRequest(tuple(tokens[:2]), 2), sampling, key)
        except TimedOut:
            break
        if reason:
            missing[name] = reason
    return SubjectAbilities(missing)


def _reason(make: SubjectFactory, name: str, ask: CacheRequest, sampling: Mapping[str, Any],
            key: RequestKey) -> str:  # fmt: skip
    """Return why the ability is missing, "" if it is present. Raise TimedOut."""
    special = {"cache": replace(ask, cache=False), "cancel_prompt": replace(ask, cancel_after=0),
               "cancel_answer": replace(ask, cancel_after=1), "sampling": replace(ask, sampling=sampling),
               "key": replace(ask, key=key)}  # fmt: skip
    try:
        subject = make()
    except (Failed, Unsupported):
        return ""
    try:
        if name in special:
            subject.complete(special[name])
        elif name == "burst":
            subject.burst([ask, ask])
        elif name == "limits":
            subject.limits()
        else:
            subject.reset()
    except Unsupported as gap:
        return str(gap)
    except TimedOut:
        raise
    except Failed:
        return ""
    finally:
        subject.close()
    return ""
