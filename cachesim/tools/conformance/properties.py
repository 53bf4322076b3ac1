"""Properties that a cache must have: pure functions from the run of a history to checks of single properties.

A request is compared with its cold run under the property that names the relation of its prompt to earlier prompts: a
``repeat``, a ``prefix``, an ``append`` to all of a conversation, a ``branch`` off a part of it, or ``new``.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import cut
from cachesim.base.media_items import count_images
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.tools.conformance.compare_replies import Difference, Same, agree, apart, equal, shown
from cachesim.tools.conformance.history_player import HistoryRun, Outcome
from cachesim.tools.conformance.protocol import NO_KEY, CacheRequest, Failed, Reply, RequestKey

PROPERTIES = {
    "steady": "two cold runs of a request agree",
    "append": "a prompt that continues all that is stored is answered as on a cold run",
    "branch": "a prompt that shares only the beginning of an earlier one is answered as on a cold run",
    "prefix": "a prompt that is a prefix of an earlier one is answered as on a cold run",
    "repeat": "the same prompt again is answered as on a cold run",
    "uncached": "a request without the cache reuses nothing and is answered as on a cold run",
    "extension": "an answered prompt with an addition is not evaluated from the start",
    "return": "a conversation continued after another one is not evaluated from the start",
    "regenerate": "an answered prompt sent again is not evaluated from the start",
    "new": "a prompt without a common prefix with earlier ones is answered as on a cold run",
    "key": "a prompt that was seen under another key is answered as on a cold run",
    "adapter": "a prompt under an adapter that was seen under another is answered as on a cold run",
    "base": "a prompt that selects no adapter and was seen under one is answered as on a cold run",
    "image": "a prompt with an image is answered as on a cold run",
    "accounting": "cached + evaluated tokens are the tokens of the prompt",
    "unseen": "no token is reused that was neither sent nor generated before",
    "work": "no more tokens are evaluated than on a cold run",
    "stored": "the state of a stored entry has seen the tokens of its key, no more and no fewer",
    "limits": "stated limits are kept",
    "answers": "every request gets a usable reply",
    "cancel": "requests after a client disconnected are answered as on a cold run",
    "burst": "requests that arrive together are answered as on a cold run",
    "identical": "identical prompts that arrive together get one answer",
    "drafts": "an answer with drafts is that without drafts",
}
"""Sentence of every property, in the order of the report."""

RELATIONS = ("new", "append", "branch", "prefix", "repeat")
SERVED = ("adapter", "base", "image")
"""Properties that are judged only where a server has adapters or takes images."""
VERSUS_COLD = (*RELATIONS, "key", *SERVED, "uncached", "cancel", "burst", "drafts")
"""Properties that compare with a cold run."""
COMPARING = (*VERSUS_COLD, "steady", "identical")
"""Properties that compare answers: they show nothing if all answers are equal."""
CHOICES = {"lora", "model"}
"""Fields of a request that select adapters."""
DIFFERS = "the answer differs from a cold run's"
"""Fault of a property that compares with a cold run; ``uncached`` may also fail by a reuse."""


class PropertyCheck(NamedTuple):
    """Result of a property for a request."""

    name: str
    ok: bool
    request: int
    expected: str = ""
    got: str = ""
    reused: bool = False                 # the reply reports tokens from the cache
    apart: Difference | None = None      # distance from the cold fingerprint, None if identical
    split: tuple[int, int] | None = None  # reported cached tokens, and the other tokens of the prompt
    is_decisive: bool = True                # it could have failed: the answer to another prompt differs


class CompletedSequence(NamedTuple):
    """A sequence that was complete when a request arrived: ``is_whole`` True if the answer's tokens are known too."""

    tokens: Tokens
    prompt: int
    is_whole: bool
    key: RequestKey = NO_KEY


class ColdAnswer(NamedTuple):
    """A request with its cold answer."""

    ask: CacheRequest
    reply: Reply


def checks(played: HistoryRun, same: Same, known: Sequence[ColdAnswer] = ()) -> Iterator[PropertyCheck]:
    """Yield every check that the run of a history allows. ``known``: answers of other runs."""
    answers = ColdAnswers(played, same, known)
    yield from _answers(played)
    yield from _steady(played, same, answers)
    seen: list[CompletedSequence] = []
    for group in played.groups:
        replies = [(i, reply_to(played.warm, i), reply_to(played.cold, i)) for i in group]
        pairs = [(i, warm, cold) for i, warm, cold in replies if warm and cold]
        here = [_sequence(played, i, warm) for i, warm, _ in pairs]
        for i, warm, cold in pairs:
            others = [one for one in here if one.key != played.asks[i].key]      # they may arrive first
            yield from _equal(played, i, warm, cold, [*seen, *others], same, answers)
            yield from _counted(played.asks[i], i, warm, cold, [*seen, *(here if len(group) > 1 else ())])
        yield from _identical(played, pairs, same, answers)
        seen += here
        for i, warm, _ in pairs:
            yield from _kept(i, warm, seen)
            yield from _limited(played, i, warm)


class ColdAnswers:
    """The cold answers of a run, which show whether a wrong answer would differ. ``known``: answers of other runs, used
    if the run has a single prompt."""

    def __init__(self, played: HistoryRun, same: Same, known: Sequence[ColdAnswer] = ()) -> None:
        pairs = zip(played.asks, played.cold, strict=False)
        self.here = [ColdAnswer(ask, said) for ask, said in pairs if isinstance(said, Reply) and not said.refused]
        self.same, self.known = same, known

    def tell(self, ask: CacheRequest, cold: Reply) -> bool:
        """True if the cold answer to a request differs from that to another prompt."""
        others = [one for one in self.here if _differ(one.ask, ask)]
        others = others or [one for one in self.known if _differ(one.ask, ask)]
        return any(cold.refused or distinct(cold, one.reply, self.same) for one in others)


def _differ(left: CacheRequest, right: CacheRequest) -> bool:
    return (left.prompt, left.key) != (right.prompt, right.key)


def distinct(left: Reply, right: Reply, same: Same) -> bool:
    """True if two answers differ in what both of them have: a longer answer may begin like a shorter one."""
    first, second = left.fingerprint, right.fingerprint
    if hasattr(first, "beginning") and type(first) is type(second):
        return not agree(same, first.beginning(second), second.beginning(first))
    if any(token != other for token, other in zip(left.tokens or (), right.tokens or (), strict=False)):
        return True
    return first is not None and second is not None and not agree(same, first, second)


def reply_to(outcomes: Sequence[Outcome], number: int) -> Reply | None:
    """Return the reply to a request, None if it failed or was never sent."""
    said = outcomes[number] if 0 <= number < len(outcomes) else None
    return said if isinstance(said, Reply) else None


def _answers(played: HistoryRun) -> Iterator[PropertyCheck]:
    for where, outcomes in (("cold: ", played.cold), ("", played.warm)):
        for number, said in enumerate(outcomes):
            failed = isinstance(said, Failed)
            yield PropertyCheck("answers", not failed, number, "a reply", f"{where}{said}" if failed else "")


def _steady(played: HistoryRun, same: Same, answers: ColdAnswers) -> Iterator[PropertyCheck]:
    for number, (one, two) in enumerate(zip(played.cold, played.again, strict=True)):
        if isinstance(one, Reply) and isinstance(two, Reply):
            yield PropertyCheck("steady", equal(two, one, same), number, f"{reply_text(one)} (cold)",
                                f"{reply_text(two)} (cold again)", apart=apart(two, one),
                                is_decisive=answers.tell(played.asks[number], one))  # fmt: skip


def _sequence(played: HistoryRun, number: int, warm: Reply) -> CompletedSequence:
    ask = played.asks[number]
    return CompletedSequence((*ask.prompt, *(warm.tokens or ())), len(ask.prompt), warm.tokens is not None, ask.key)


def relation(prompt: Tokens, seen: Sequence[CompletedSequence]) -> str:
    """Return the relation of a prompt to all tokens sent and generated before, a name of ``RELATIONS``."""
    if any(prompt == one.tokens[: one.prompt] for one in seen):
        return "repeat"
    best = max(seen, key=lambda one: common_prefix(prompt, one.tokens), default=None)
    shared = common_prefix(prompt, best.tokens) if best else 0
    if best is None or not shared:
        return "new"
    if shared == len(prompt):
        return "prefix"
    return "append" if any(one.tokens == prompt[: len(one.tokens)] for one in seen) else "branch"


def _equal(played: HistoryRun, number: int, warm: Reply, cold: Reply, seen: Sequence[CompletedSequence],
           same: Same, answers: ColdAnswers) -> Iterator[PropertyCheck]:  # fmt: skip
    ask = played.asks[number]
    if ask.cancel_after is not None and None in (warm.tokens, cold.tokens) and not warm.refused:
        return                                       # the client saw no token, so there is nothing to compare
    ok = equal(warm, cold, same, ask.cancel_after is not None)
    reused, decisive = bool(warm.cached), answers.tell(ask, cold)
    distance = None if ask.cancel_after is not None else apart(warm, cold)
    for name in _named(played, number, seen, ok):
        fine = ok and not (name == "uncached" and reused)
        nothing = ", nothing reused" if name == "uncached" else ""
        cached = f", {warm.cached} cached" if warm.cached is not None else ""
        expected, got = f"{reply_text(cold)}{nothing} (cold)", f"{reply_text(warm)}{cached}"
        split = None if warm.cached is None else (warm.cached, len(ask.prompt) - warm.cached)
        yield PropertyCheck(name, fine, number, expected, got, reused, distance, split, decisive)


def _named(played: HistoryRun, number: int, seen: Sequence[CompletedSequence], ok: bool) -> Iterator[str]:
    """Yield the names of the properties that require a request's answer to equal the answer of an empty cache. If it
    differs, ``search.attributed`` decides which of them failed. If as many tokens were seen under another key as under
    the request's own, a wrong answer is that of the key."""
    ask = played.asks[number]
    shared = [(_usable(ask, one), _shared(ask.prompt, one), one.key) for one in seen]
    under_key = max((usable for usable, *_ in shared), default=0)
    elsewhere = [max(ask.key, key).kind for usable, tokens, key in shared
                 if usable < tokens and tokens >= under_key + ok]  # fmt: skip
    elsewhere = ["base" if kind == "adapter" and not CHOICES & ask.fields.keys() else kind for kind in elsewhere]
    related = relation(ask.prompt, [one for one in seen if one.key == ask.key])
    related = "image" if count_images(ask.prompt) else related
    yield "uncached" if not ask.cache else elsewhere[0] if elsewhere else related
    if any(one.cancel_after is not None for one in played.asks[: number + 1]):
        yield "cancel"
    if any(len(group) > 1 and group[0] <= number for group in played.groups):
        yield "burst"
    if played.has_drafts:
        yield "drafts"


def _identical(played: HistoryRun, pairs: Sequence[tuple[int, Reply, Reply]], same: Same,
               answers: ColdAnswers) -> Iterator[PropertyCheck]:  # fmt: skip
    """Yield a check for each prompt that a group has several times. An answer that equals the cold run's counts as the
    cold run's, so that two small differences do not add up."""
    alike: dict[CacheRequest, list[tuple[int, Reply, Reply]]] = {}
    for one in pairs:
        if played.asks[one[0]].cancel_after is None:
            alike.setdefault(played.asks[one[0]], []).append(one)
    for group in (one for one in alike.values() if len(one) > 1):
        several: list[Reply] = []
        where = group[0][0]
        for i, warm, cold in group:
            answer = cold if equal(warm, cold, same) else warm
            if not any(equal(answer, one, same) for one in several):
                where = i if len(several) == 1 else where
                several.append(answer)
        got = f"{len(several)} distinct answers to {len(group)} identical prompts"
        decisive = answers.tell(played.asks[where], group[0][2])
        yield PropertyCheck("identical", len(several) == 1, where, "1 distinct answer", got, is_decisive=decisive)


def _counted(ask: CacheRequest, number: int, warm: Reply, cold: Reply,
             seen: Sequence[CompletedSequence]) -> Iterator[PropertyCheck]:  # fmt: skip
    prompt = ask.prompt
    if warm.refused:
        return
    if warm.cached is not None and warm.evaluated is not None and ask.cancel_after is None:
        got = f"{warm.cached} cached + {warm.evaluated} evaluated"
        yield PropertyCheck(
            "accounting", warm.cached + warm.evaluated == len(prompt), number, f"{len(prompt)} in all", got
        )
    if warm.cached is not None:
        most = max((_usable(ask, one) for one in seen), default=0)
        yield PropertyCheck("unseen", warm.cached <= most, number, f"at most {most} cached", f"{warm.cached} cached")
    if cold.cached is not None:
        yield PropertyCheck("unseen", not cold.cached, number, "0 cached by an empty cache", f"{cold.cached} cached")
    if warm.evaluated is not None and cold.evaluated is not None:
        got = f"{warm.evaluated} evaluated"
        yield PropertyCheck(
            "work", warm.evaluated <= cold.evaluated, number, f"at most {cold.evaluated} evaluated", got
        )


def _usable(ask: CacheRequest, sequence: CompletedSequence) -> int:
    """Return how many of a request's tokens the sequence has under the same key."""
    shared, alike = _shared(ask.prompt, sequence), ask.key.alike(sequence.key)
    return shared if alike is None else min(shared, alike)


def _shared(prompt: Tokens, sequence: CompletedSequence) -> int:
    """Return how many prompt tokens may have been stored; all of them after an answer whose tokens are unknown."""
    shared = common_prefix(prompt, sequence.tokens)
    return shared if sequence.is_whole or shared < sequence.prompt else len(prompt)


def _kept(number: int, warm: Reply, seen: Sequence[CompletedSequence]) -> Iterator[PropertyCheck]:
    for kept in warm.stored or ():
        known = any(_shared(kept.tokens, one) == len(kept.tokens) for one in seen)
        want = f"{len(kept.tokens)} tokens" if known else "tokens that were sent or generated"
        got = f"a state of {kept.length} tokens" if known else cut(f"a state with the key {list(kept.tokens)}")
        yield PropertyCheck("stored", known and kept.length == len(kept.tokens), number, f"a state of {want}", got)


def _limited(played: HistoryRun, number: int, warm: Reply) -> Iterator[PropertyCheck]:
    for name, used in (warm.used or {}).items():
        if name in played.limits:
            most = played.limits[name]
            yield PropertyCheck("limits", used <= most, number, f"at most {most} {name}", f"{used} {name}")


def reply_text(reply: Reply) -> str:
    """Describe a reply in a few words."""
    if reply.refused:
        return f"refused ({reply.refused})"
    said = [] if reply.tokens is None else [f"tokens {' '.join(map(str, reply.tokens))}"]
    if reply.fingerprint is not None:
        said.append(f"fingerprint {shown(reply.fingerprint)}")
    return ", ".join(said) or "nothing"
