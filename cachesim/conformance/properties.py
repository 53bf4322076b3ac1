"""What does a cache owe? Pure functions from a played history to checks; each check belongs to one property.

A request is compared with its cold run under the property that names what it was to the cache: ``repeat`` of an earlier
prompt, ``prefix`` of something held, ``append`` behind all of it, ``branch`` off a part, or ``new``.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple, Sequence

from cachesim.conformance.history_player import Outcome, Played
from cachesim.conformance.protocol import Failed, Reply
from cachesim.tokens import Tokens, common_prefix

PROPERTIES = {
    "answers": "every request is answered",
    "steady": "two cold runs of a request agree",
    "new": "a prompt that nothing is shared with equals cold",
    "append": "a prompt that goes on from all that was held equals cold",
    "branch": "a prompt that leaves an earlier one on the way equals cold",
    "prefix": "a prompt that is the beginning of an earlier one equals cold",
    "repeat": "the same prompt again equals cold",
    "uncached": "a request that asks for no cache reuses nothing and equals cold",
    "cancel": "what comes after a client hung up equals cold",
    "burst": "requests that arrive together equal cold",
    "accounting": "cached + computed = prompt",
    "known": "nothing is reused that was never asked or answered before",
    "work": "never more is computed than cold",
    "stored": "a stored state is as long as what it is filed under",
    "limits": "stated limits are respected",
}
"""Every property with the sentence that it stands for, in the order of the report."""

RELATIONS = ("new", "append", "branch", "prefix", "repeat")
EQUAL = (*RELATIONS, "uncached", "cancel", "burst")
"""Properties that compare with a cold run."""

Same = Callable[[Any, Any], bool]


class Check(NamedTuple):
    """One look at one request. ``reused``: the reply says that tokens came from the cache."""

    name: str
    holds: bool
    request: int
    expected: str = ""
    came: str = ""
    reused: bool = False


class Seen(NamedTuple):
    """What had been said when a request came: ``whole`` True if the answer's tokens are known too."""

    tokens: Tokens
    prompt: int
    whole: bool


def equal(warm: Reply, cold: Reply, same: Same, cancelled: bool = False) -> bool:
    """Did warm say what cold said? Of a request that was cancelled only the tokens so far count."""
    if bool(warm.refused) != bool(cold.refused):
        return False
    if cancelled:
        return warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens[: len(warm.tokens)]
    if warm.tokens is not None and cold.tokens is not None and warm.tokens != cold.tokens:
        return False
    if warm.fingerprint is None or cold.fingerprint is None:
        return (warm.fingerprint is None) == (cold.fingerprint is None)
    return same(warm.fingerprint, cold.fingerprint)


def checks(played: Played, same: Same) -> Iterator[Check]:
    """Every check that a played history allows."""
    yield from _answers(played)
    yield from _steady(played, same)
    seen: list[Seen] = []
    for group in played.groups:
        replies = [(i, _reply(played.warm, i), _reply(played.cold, i)) for i in group]
        pairs = [(i, warm, cold) for i, warm, cold in replies if warm and cold]
        here = [_sequence(played, i, warm) for i, warm, _ in pairs]
        for i, warm, cold in pairs:
            yield from _equal(played, i, warm, cold, seen, same)
            yield from _counted(played, i, warm, cold, [*seen, *(one for one in here if len(group) > 1)])
        seen += here
        for i, warm, _ in pairs:
            yield from _kept(i, warm, seen)
            yield from _limited(played, i, warm)


def _reply(outcomes: Sequence[Outcome], number: int) -> Reply | None:
    said = outcomes[number] if number < len(outcomes) else None
    return said if isinstance(said, Reply) else None


def _answers(played: Played) -> Iterator[Check]:
    for where, outcomes in (("cold: ", played.cold), ("", played.warm)):
        for number, said in enumerate(outcomes):
            failed = isinstance(said, Failed)
            yield Check("answers", not failed, number, "a reply", f"{where}{said}" if failed else "")


def _steady(played: Played, same: Same) -> Iterator[Check]:
    for number, (one, two) in enumerate(zip(played.cold, played.again, strict=True)):
        if isinstance(one, Reply) and isinstance(two, Reply):
            yield Check("steady", equal(two, one, same), number, f"{shown(one)} (cold)", f"{shown(two)} (cold again)")


def _sequence(played: Played, number: int, warm: Reply) -> Seen:
    prompt = played.asks[number].prompt
    return Seen((*prompt, *(warm.tokens or ())), len(prompt), warm.tokens is not None)


def relation(prompt: Tokens, seen: Sequence[Seen]) -> str:
    """What a prompt is to all that was said before it."""
    if any(prompt == one.tokens[: one.prompt] for one in seen):
        return "repeat"
    best = max(seen, key=lambda one: common_prefix(prompt, one.tokens), default=None)
    shared = common_prefix(prompt, best.tokens) if best else 0
    if best is None or not shared:
        return "new"
    if shared == len(prompt):
        return "prefix"
    return "append" if any(one.tokens == prompt[: len(one.tokens)] for one in seen) else "branch"


def _equal(played: Played, number: int, warm: Reply, cold: Reply, seen: Sequence[Seen], same: Same) -> Iterator[Check]:
    ask = played.asks[number]
    holds = equal(warm, cold, same, ask.cancel_after is not None)
    reused = bool(warm.cached)
    for name in _named(played, number, seen):
        fine = holds and not (name == "uncached" and reused)
        nothing = ", nothing reused" if name == "uncached" else ""
        yield Check(name, fine, number, f"{shown(cold)}{nothing} (cold)", shown(warm), reused)


def _named(played: Played, number: int, seen: Sequence[Seen]) -> Iterator[str]:
    """The properties under which a request is compared. Which of them is charged, attribution.py says."""
    ask = played.asks[number]
    yield "uncached" if not ask.cache else relation(ask.prompt, seen)
    if any(one.cancel_after is not None for one in played.asks[: number + 1]):
        yield "cancel"
    if any(len(group) > 1 and group[0] <= number for group in played.groups):
        yield "burst"


def _counted(played: Played, number: int, warm: Reply, cold: Reply, seen: Sequence[Seen]) -> Iterator[Check]:
    prompt = played.asks[number].prompt
    cancelled = played.asks[number].cancel_after is not None
    if warm.refused:
        return
    if warm.cached is not None and warm.computed is not None and not cancelled:
        came = f"{warm.cached} cached + {warm.computed} computed"
        yield Check("accounting", warm.cached + warm.computed == len(prompt), number, f"{len(prompt)} in all", came)
    if warm.cached is not None:
        most = max((_shared(prompt, one) for one in seen), default=0)
        yield Check("known", warm.cached <= most, number, f"at most {most} cached", f"{warm.cached} cached")
    if cold.cached is not None:
        yield Check("known", not cold.cached, number, "0 cached by an empty cache", f"{cold.cached} cached")
    if warm.computed is not None and cold.computed is not None:
        came = f"{warm.computed} computed"
        yield Check("work", warm.computed <= cold.computed, number, f"at most {cold.computed} computed", came)


def _shared(prompt: Tokens, one: Seen) -> int:
    """Tokens of the prompt that may have been held; all of them behind an answer that nobody knows."""
    shared = common_prefix(prompt, one.tokens)
    return shared if one.whole or shared < one.prompt else len(prompt)


def _kept(number: int, warm: Reply, seen: Sequence[Seen]) -> Iterator[Check]:
    for kept in warm.stored or ():
        known = any(_shared(kept.tokens, one) == len(kept.tokens) for one in seen)
        want = f"{len(kept.tokens)} tokens" if known else "tokens that were asked or answered"
        came = f"a state of {kept.length} tokens" if known else f"a state filed under {list(kept.tokens)}"
        yield Check("stored", known and kept.length == len(kept.tokens), number, f"a state of {want}", came)


def _limited(played: Played, number: int, warm: Reply) -> Iterator[Check]:
    for name, used in (warm.used or {}).items():
        if name in played.limits:
            most = played.limits[name]
            yield Check("limits", used <= most, number, f"at most {most} {name}", f"{used} {name}")


def shown(reply: Reply) -> str:
    """What was said, short."""
    if reply.refused:
        return f"refused ({reply.refused})"
    said = [] if reply.tokens is None else [f"tokens {' '.join(map(str, reply.tokens))}"]
    if reply.fingerprint is not None:
        said.append(f"fingerprint {reply.fingerprint!s:.40}")
    return ", ".join(said) or "nothing"
