"""What happens when a history is played? Every request cold, then all of them in order against one instance.

The cold replies come first: what the implementation says cold is what a client sends back as its answer, whatever the
warm instance said. Nothing is judged here.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.scenarios.schema import at_once
from cachesim.tools.conformance.client_history import Dictionary, History
from cachesim.tools.conformance.fingerprint import Same, equal
from cachesim.tools.conformance.protocol import ABILITIES, Ask, Failed, Reply, Subject, TimedOut, Unsupported
from cachesim.tools.conformance.timeouts import GaveUp

Outcome = Reply | Failed
Make = Callable[[], Subject]
STEADY = 8                   # different requests whose cold run is made twice


@dataclass(slots=True)
class PlayedHistory:
    """A history with what came of it. ``warm`` ends behind the first request that failed; ``groups`` are the numbers of
    requests sent together. ``gap``: why nothing was played further, such as an ability that was missing."""

    history: History
    asks: list[Ask] = field(default_factory=list)
    cold: list[Outcome] = field(default_factory=list)
    again: list[Outcome | None] = field(default_factory=list)
    warm: list[Outcome] = field(default_factory=list)
    groups: list[range] = field(default_factory=list)
    limits: Mapping[str, int] = field(default_factory=dict)
    gap: str = ""


class Bench:
    """Makes instances. ``reuse``: "" = a new one for every use; "reset" = one that is reset; "keep" = one as it is."""

    def __init__(self, make: Make, reuse: str = "") -> None:
        self.make, self.reuse = make, reuse
        self.kept: Subject | None = None

    @contextmanager
    def empty(self) -> Iterator[Subject]:
        """An instance that holds nothing (or the one that is kept). One that fails is not used again. Raises Failed."""
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
        """Give back the instance that was kept."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None


class Cold:
    """What an empty cache answers, remembered per request. ``uncached``: one instance is asked without its cache."""

    def __init__(self, bench: Bench, uncached: bool, same: Same) -> None:
        self.bench, self.uncached, self.same = bench, uncached, same
        self.known: dict[Ask, Outcome] = {}
        self.twice: dict[Ask, Outcome] = {}

    def answer(self, ask: Ask) -> Outcome:
        """The cold reply; the first few are asked for twice, and all of them once two have differed."""
        ask = self._alone(ask)
        if ask not in self.known:
            self.known[ask] = self._ask(ask)
            if isinstance(self.known[ask], TimedOut):
                return self.known[ask]                # it would only be waited for once more
            steady = all(_equal(self.known[one], two, self.same) for one, two in self.twice.items())
            if len(self.twice) < STEADY or not steady:
                self.twice[ask] = self._ask(ask)
        return self.known[ask]

    def again(self, ask: Ask) -> Outcome | None:
        """The second cold reply to the same request, if there was one."""
        return self.twice.get(self._alone(ask))

    def _alone(self, ask: Ask) -> Ask:
        return Ask(ask.prompt, ask.n_predict, cache=not self.uncached, sampling=ask.sampling)

    def _ask(self, ask: Ask) -> Outcome:
        try:
            with self.bench.empty() as subject:
                return subject.complete(ask)
        except Failed as failed:
            return failed
        except Unsupported as gap:
            return Failed(f"it does not complete a prompt: {gap}")


class SentHistory(NamedTuple):
    """What is sent for a history: tokens of ``vocabulary``, and to request i the parameters ``sampling[i]``, modulo
    those that there are."""

    vocabulary: Sequence[int]
    sampling: Sequence[Mapping[str, Any]] = ()

    def parameters(self, number: int) -> Mapping[str, Any]:
        """The sampling parameters of a request."""
        return self.sampling[number % len(self.sampling)] if self.sampling else {}


def play(history: History, bench: Bench, cold: Cold, sent: SentHistory) -> PlayedHistory:
    """Play a history cold and warm."""
    played = PlayedHistory(history)
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
        played.warm.append(failed)
    except (Unsupported, GaveUp) as gap:
        played.gap = str(gap)
    return played


def limits_of(subject: Subject) -> Mapping[str, int]:
    """The limits that an instance states, none where it states none."""
    try:
        return subject.limits()
    except Unsupported:
        return {}


def _equal(one: Outcome, two: Outcome, same: Same) -> bool:
    if isinstance(one, Reply) and isinstance(two, Reply):
        return equal(one, two, same)
    return str(one) == str(two)


def _play_cold(played: PlayedHistory, cold: Cold, sent: SentHistory) -> None:
    dictionary = Dictionary(sent.vocabulary)
    for number, (step, hang_up) in enumerate(zip(played.history.scenario.steps, played.history.hang_ups, strict=True)):
        request, sampling = step.request, sent.parameters(number)
        ask = Ask(dictionary.real(request.prompt), request.n_predict, request.cache_prompt, hang_up, sampling)
        said = cold.answer(ask)
        played.asks.append(ask)
        played.cold.append(said)
        played.again.append(cold.again(ask))
        if isinstance(said, Failed):
            return
        dictionary.bind(request.forced, said.tokens)


# What can an implementation do beside completing a prompt? Every ability is tried once, on an instance of its own.
#
# Only a clear "unsupported" counts as lacking: what fails in another way is played, so that it is found and shrunk.
# After a reply that did not come in time nothing more is tried.

CANCEL = ("cancel_prompt", "cancel_answer")


@dataclass(frozen=True, slots=True)
class Abilities:
    """``missing``: the reason for each ability that is not there."""

    missing: Mapping[str, str]

    @property
    def present(self) -> frozenset[str]:
        """The abilities that are there, or that fail."""
        return frozenset(ABILITIES) - self.missing.keys()

    def lack(self, name: str) -> str:
        """Why nothing of this kind can be played, "" if something can. "cancel" is both kinds of disconnecting."""
        if name != "cancel":
            return self.missing.get(name, "")
        return self.missing["cancel_answer"] if all(one in self.missing for one in CANCEL) else ""

    def partly(self, name: str) -> str:
        """What of "cancel" is missing where the other half is there."""
        gone = [one for one in CANCEL if one in self.missing]
        if name != "cancel" or len(gone) != 1:
            return ""
        phase = "the prompt is evaluated" if gone[0] == "cancel_prompt" else "the answer is generated"
        return f"not while {phase}: {self.missing[gone[0]]}"


def probe(make: Make, tokens: Sequence[int], sampling: Mapping[str, Any]) -> Abilities:
    """Try every ability; ``sampling`` only where parameters are given."""
    missing = {}
    for name in ABILITIES:
        if name == "sampling" and not sampling:
            continue
        try:
            reason = _reason(make, name, Ask(tuple(tokens[:2]), 2), sampling)
        except TimedOut:
            break
        if reason:
            missing[name] = reason
    return Abilities(missing)


def _reason(make: Make, name: str, ask: Ask, sampling: Mapping[str, Any]) -> str:
    """Why the ability is missing, "" if it is not. Raises TimedOut."""
    special = {"cache": replace(ask, cache=False), "cancel_prompt": replace(ask, cancel_after=0),
               "cancel_answer": replace(ask, cancel_after=1), "sampling": replace(ask, sampling=sampling)}  # fmt: skip
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
