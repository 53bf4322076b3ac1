"""What follows from all that was played? One result per property: holds, broken, undecided, unsupported.

Nothing is green that was not looked at: a cache that never reused a token, or whose cold runs differ among themselves,
has shown nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Mapping, Sequence

from cachesim.conformance.abilities import Abilities
from cachesim.conformance.corpus import corpus_histories, line_history
from cachesim.conformance.history_draw import Space, histories
from cachesim.conformance.history_player import Played
from cachesim.conformance.properties import EQUAL, PROPERTIES
from cachesim.conformance.report import Finding, Report, Result
from cachesim.conformance.search import Search, Tally

ABILITY = {"uncached": "cache", "cancel": "cancel", "burst": "burst", "limits": "limits"}
"""Property -> the ability that it needs."""

NOT_REPORTED = {
    "accounting": "cached and computed are not both reported",
    "known": "cached is not reported",
    "work": "computed is not reported",
    "stored": "stored is not reported, or is always empty",
    "limits": "used is not reported under the name of a limit",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played: the arguments of ``conform`` that say so."""

    corpus: str
    histories: Sequence[str]
    max_examples: int
    max_requests: int
    max_prompt: int
    near: Sequence[int]
    tokens: Sequence[int]


def make_report(plan: Plan, abilities: Abilities, search: Search) -> Report:
    """Play everything, then shrink what is broken. Less is played of what does not reply in time."""
    given = [line_history(line) for line in plan.histories]
    corpus = corpus_histories(plan.max_prompt) if plan.corpus else ()
    space = Space(plan.max_requests, plan.max_prompt, plan.near, abilities.present)
    for history in chain(given, corpus, histories(space, plan.max_examples)):
        if search.patience.low:
            search.gap = search.gap or search.patience.why
            break
        search.look(history)
    drawn = {name: one.copy() for name, one in search.tallies.items()}
    played, found = len(search.known), _shrunk(search)
    results = [found.get(name) or _unbroken(name, abilities, drawn, search.gap) for name in PROPERTIES]
    if "steady" in found:
        results = [_unsteady(one) for one in results]
    return Report(tuple(results), played)


def _shrunk(search: Search) -> dict[str, Result]:
    """A result for every broken property, those included that only broke on the way to something smaller."""
    found: dict[str, Result] = {}
    while left := [name for name, one in search.tallies.items() if one.broken and name not in found]:
        found[left[0]] = _broken(left[0], search)
    return found


def _broken(name: str, search: Search) -> Result:
    history, check = search.smallest(name)
    played = search.play(history)
    finding = Finding(history.line, check.request, check.expected, check.came, _prompts(played))
    if not search.again(history, check):
        return Result(name, PROPERTIES[name], "undecided", why="seen, but not when played again", finding=finding)
    return Result(name, PROPERTIES[name], "broken", finding=finding)


def _prompts(played: Played) -> tuple[tuple[int, ...], ...]:
    return tuple(ask.prompt for ask in played.asks)


def _unbroken(name: str, abilities: Abilities, tallies: Mapping[str, Tally], gap: str) -> Result:
    tally = tallies.get(name, Tally())
    result = Result(name, PROPERTIES[name], "holds", tally.seen, tally.reused)
    missing = abilities.missing.get(ABILITY.get(name, ""), "")
    if not result.seen and (missing or name in NOT_REPORTED):
        return replace(result, state="unsupported", why=missing or NOT_REPORTED[name])
    if not result.seen:
        return replace(result, state="undecided", why=gap or "no such request was played to its end")
    nothing = "known" in tallies and not any(one.reused for one in tallies.values())
    if name in EQUAL and nothing:
        return replace(result, state="undecided", why="nothing was ever reused")
    return result


def _unsteady(result: Result) -> Result:
    """Where cold runs differ among themselves, nothing can be compared with them."""
    if result.name not in EQUAL or result.state == "unsupported":
        return result
    return replace(result, state="undecided", why="two cold runs of a request differ", finding=None)


def accept(result: Result, reasons: Mapping[str, str]) -> Result:
    """A broken property that is accepted; one that is accepted and holds is broken, until the list is corrected."""
    reason = reasons.get(result.name)
    if reason is None or result.state in ("undecided", "unsupported"):
        return result
    if result.state == "broken":
        return replace(result, state="accepted", why=reason)
    return replace(result, state="broken", why=f"accepted as broken ({reason}), but it holds")
