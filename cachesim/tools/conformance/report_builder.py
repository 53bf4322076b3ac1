"""What follows from all that was played? One result per property: ok, failed, undecided, unsupported, and so on.

Nothing is ok that was not looked at: a cache that never reused a token, or whose cold runs differ among themselves, has
shown nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.tools.conformance import report
from cachesim.tools.conformance.client_history import History, of_line
from cachesim.tools.conformance.corpus import Space, corpus_histories, histories, line_history
from cachesim.tools.conformance.fingerprint import Same, equal
from cachesim.tools.conformance.history_player import Abilities, Cold, Outcome, PlayedHistory
from cachesim.tools.conformance.properties import EQUAL, FORMER, PROPERTIES, Check, reply_to
from cachesim.tools.conformance.protocol import Ask, Reply
from cachesim.tools.conformance.report import MEMBERS, SECTIONS, Report, Result, finding_of
from cachesim.tools.conformance.search import HistorySearch, Tally
from cachesim.tools.conformance.timeouts import GaveUp

# What is a wrong answer the right answer to? Where that can be found out, it names the adapter's mistake.

def diagnosis(played: PlayedHistory, request: int, cold: Callable[[Ask], Outcome], same: Same) -> str:
    """A sentence on the answer to this request, "" if nothing is known. Asks for cold runs of other prompts."""
    warm = reply_to(played.warm, request)
    if warm is None or not warm.cached:
        return ""
    ask = played.asks[request]
    for prompt, sentence in _others(ask, warm.cached):
        try:
            other = cold(Ask(prompt, ask.n_predict, sampling=ask.sampling)) if prompt else None
        except GaveUp:
            return ""
        if isinstance(other, Reply) and not other.refused and equal(warm, other, same):
            return sentence
    return ""


def _others(ask: Ask, cached: int) -> list[tuple[tuple[int, ...], str]]:
    prompt = ask.prompt
    last = len(prompt) - cached
    return [
        (prompt[cached:], f"this is a cold run's answer to the last {last} token{'s' * (last > 1)} alone: "
                          "the model read nothing of the cache (does the adapter pass it?)"),
        (prompt[:-1], "this is a cold run's answer to the prompt without its last token"),
        ((*prompt, prompt[-1]), "this is a cold run's answer to the prompt with its last token twice"),
        ((*prompt[:cached], prompt[cached - 1], *prompt[cached:]),
         f"this is a cold run's answer to the prompt with token {cached - 1}, the last cached one, twice"),
    ]  # fmt: skip


# Is anything reused where a client expects it? One history for each floor; its last request has to reuse something.
#
# A missed floor is no wrong answer: a cache may be small, or only able to append. So it fails only if ``strict``.

def look_at_floors(search: HistorySearch, space: Space) -> dict[str, Result]:
    """Property -> its result, where its history could be played and the reply says what was reused."""
    found = {}
    for name, line in report.floor_lines(space).items():
        if search.patience.low or search.patience.spent:
            break
        played = search.play(of_line(line))
        cached = _cached(played)
        if cached is not None and cached > 0:
            found[name] = Result(name, "reuse", PROPERTIES[name], "ok", 1, 1)
        elif cached is not None:
            got = f"0 of {len(played.asks[-1].prompt)} tokens cached"
            missed = Check(name, False, len(played.asks) - 1, "at least 1 token cached", got)
            found[name] = Result(name, "reuse", PROPERTIES[name], "missed", 1, finding=finding_of(line, missed, played))
    return found


def _cached(played: PlayedHistory) -> int | None:
    """Tokens that the last request reused, None if that is not known."""
    warm = reply_to(played.warm, len(played.asks) - 1)
    if warm is None or warm.refused:
        return None
    if warm.cached is not None:
        return warm.cached
    return None if warm.evaluated is None else len(played.asks[-1].prompt) - warm.evaluated


ABILITY = {"uncached": "cache", "cancel": "cancel", "burst": "burst", "limits": "limits"}
"""Property -> the ability that it needs."""

NOT_REPORTED = {
    "accounting": "cached and evaluated are not both reported",
    "unseen": "cached is not reported",
    "work": "evaluated is not reported",
    "stored": "stored is not reported, or is always empty",
    "limits": "used is not reported under the name of a limit",
    **dict.fromkeys(MEMBERS["reuse"], "neither cached nor evaluated is reported, or there is no room for its history"),
}
NEVER = "nothing was ever reused: does the adapter pass its cache to the model?"
UNKNOWN = "note: neither cached nor evaluated is reported: nothing shows that the adapter passes its cache to the model"
SECTION = {name: section for section, names in MEMBERS.items() for name in names}


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What is played: the arguments of ``conform`` that say so. ``last``: histories that may end the implementation."""

    corpus: str
    histories: Sequence[str]
    max_examples: int
    max_requests: int
    max_prompt: int
    near: Sequence[int]
    tokens: Sequence[int]
    only: Sequence[str] = ()
    strict: bool = False
    sampling: Sequence[Mapping[str, Any]] = field(default=())
    last: Sequence[str] = ()

    @property
    def sections(self) -> frozenset[str]:
        """The sections that are played. Raises BadInput."""
        return report.chosen(self.only, bool(self.corpus))


def make_report(plan: HistoryPlan, abilities: Abilities, search: HistorySearch, cold: Cold) -> Report:
    """Play everything, then shrink what failed. Less is played of what does not reply in time."""
    space = Space(plan.max_requests, plan.max_prompt, plan.near, abilities.present)
    for section, history in _histories(plan, space):
        if search.patience.low or search.patience.spent:
            search.gap = search.gap or search.patience.why
            break
        search.count(section, history)
    floors = look_at_floors(search, space) if "reuse" in plan.sections else {}
    drawn = {name: replace(one, failed=list(one.failed)) for name, one in search.tallies.items()}
    found = {**_shrunk(search, cold), **floors}
    results = [found.get(name) or _passed(name, abilities, drawn, search.gap) for name in PROPERTIES]
    if "steady" in found:
        results = [_unsteady(one, _noise(search.tallies["steady"])) for one in results]
    results = [one if one.section in plan.sections else replace(one, state="skipped", finding=None) for one in results]
    unplayed = "" if plan.only else 'corpus="any" plays them'
    skipped = {name: unplayed for name in SECTIONS if name not in plan.sections}
    return Report(tuple(results), search.counts, skipped, tuple(_notes(drawn, search)), plan.strict)


def _histories(plan: HistoryPlan, space: Space) -> Iterator[tuple[str, History]]:
    """What is played, with the section that it counts for: the caller's own histories first."""
    yield from (("same", line_history(line)) for line in (*plan.histories, *report.basic_lines(plan.sections, space)))
    if "known" in plan.sections:
        yield from (("known", history) for history in corpus_histories(plan.max_prompt, plan.near))
    if "drawn" in plan.sections:
        yield from (("drawn", history) for history in histories(space, plan.max_examples))
    yield from (("known", line_history(line)) for line in plan.last)


def _notes(tallies: Mapping[str, Tally], search: HistorySearch) -> Iterator[str]:
    if "unseen" not in tallies and "work" not in tallies and tallies:
        yield UNKNOWN
    if search.patience.spent:
        yield f"note: {search.patience.stopped}; what had been played by then was judged"


def _shrunk(search: HistorySearch, cold: Cold) -> dict[str, Result]:
    """A result for every property that fails, those included that only failed on the way to something smaller."""
    found: dict[str, Result] = {}
    while left := [name for name, one in search.tallies.items() if one.failed and name not in found]:
        found[left[0]] = _failed(left[0], search, cold)
    return found


def _failed(name: str, search: HistorySearch, cold: Cold) -> Result:
    history, check = search.smallest(name)
    played = search.play(history)
    sampling = played.asks[check.request].sampling if check.request < len(played.asks) else {}
    notes = [f"sampling {dict(sampling)}"] if sampling else []
    if name in EQUAL and not search.patience.low:
        notes += filter(None, [diagnosis(played, check.request, cold.answer, search.same)])
    finding = finding_of(history.line, check, played, notes)
    result = Result(name, SECTION[name], PROPERTIES[name], "failed", finding=finding)
    if not search.again(history, check):
        return replace(result, state="undecided", why="failed, but not when played again")
    return result


def _passed(name: str, abilities: Abilities, tallies: Mapping[str, Tally], gap: str) -> Result:
    """The result of a property that never failed."""
    tally = tallies.get(name, Tally())
    ability = ABILITY.get(name, "")
    missing = abilities.lack(ability)
    notes = filter(None, [abilities.partly(ability), tally.apart.text if tally.apart is not None else ""])
    result = Result(name, SECTION[name], PROPERTIES[name], "ok", tally.checked, tally.reused, "; ".join(notes))
    if not result.checked and (missing or name in NOT_REPORTED):
        return replace(result, state="unsupported", why=missing or NOT_REPORTED[name])
    if not result.checked:
        return replace(result, state="undecided", why=gap or "no such request was played to its end")
    nothing = "unseen" in tallies and not any(one.reused for one in tallies.values())
    if name in EQUAL and nothing:
        return replace(result, state="undecided", why=NEVER)
    return result


def _unsteady(result: Result, noise: str) -> Result:
    """Where cold runs differ among themselves, nothing can be compared with them."""
    if result.name not in EQUAL or result.state == "unsupported":
        return result
    return replace(result, state="undecided", why=f"two cold runs of a request differ{noise}", finding=None)


def _noise(steady: Tally) -> str:
    """The tolerance that would do, ten times what was measured; "" where fingerprints have no numbers to compare."""
    if steady.apart is None or not isfinite(steady.apart.largest):
        return ""
    return f" by up to {steady.apart.largest:.2g}: same=near({10 * steady.apart.largest:.1g}) allows ten times as much"


def accept(result: Result, reasons: Mapping[str, str]) -> Result:
    """A failed property that is accepted; one that is accepted and does not fail is a failure, until the list is
    corrected."""
    reason = {FORMER.get(name, name): why for name, why in reasons.items()}.get(result.name)
    if reason is None or result.state in ("undecided", "unsupported", "skipped"):
        return result
    if result.state in ("failed", "missed"):
        return replace(result, state="accepted", why=reason)
    return replace(result, state="failed", why=f"accepted as failing ({reason}), but it is ok")
