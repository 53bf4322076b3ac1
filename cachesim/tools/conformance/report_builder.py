"""Running of a whole plan of histories, and the result of each property: ok, failed, undecided, unsupported, ...

A property without evidence is never ok: a cache that never reused a token, or whose cold runs differ among themselves,
has shown nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd, isfinite
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.tools.conformance import report
from cachesim.tools.conformance.client_history import History, parse_history
from cachesim.tools.conformance.corpus import DrawBounds, corpus_histories, histories, line_history
from cachesim.tools.conformance.diagnosis import diagnosis, first_wrong_token
from cachesim.tools.conformance.history_player import HistoryRun, Outcome, SubjectAbilities
from cachesim.tools.conformance.properties import (
    COMPARING,
    DIFFERS,
    PROPERTIES,
    SERVED,
    VERSUS_COLD,
    PropertyCheck,
    reply_to,
)
from cachesim.tools.conformance.protocol import CacheRequest, RequestKey
from cachesim.tools.conformance.report import LEFT, MEMBERS, SECTIONS, Report, Result, make_finding
from cachesim.tools.conformance.search import HistorySearch, Player, PropertyTally
from cachesim.tools.conformance.timeouts import NOT_RUN

ColdReply = Callable[[CacheRequest], Outcome]
"""Returns the cold reply to a request, for the diagnosis of a finding."""

# What all failing cases have in common.


def in_common(failed: Sequence[tuple[int, int]]) -> str:
    """Return what all failing cases have in common, "" if it is nothing. Cases are pairs: cached tokens, other tokens
    of the prompt."""
    cached, rest = {one for one, _ in failed}, {one for _, one in failed}
    factor = gcd(*cached)
    parts = [f"{counted(min(rest), 'token')} not cached"] if len(rest) == 1 else []
    if len(cached) == 1:
        parts += [f"{counted(min(cached), 'token')} cached"]
    elif factor > 1:
        parts += [f"a multiple of {factor} tokens cached"]
    if len(failed) < 2 or not parts:
        return ""
    return f"all {len(failed)} failing cases have {' and '.join(parts)}"


def _with_faults(results: Sequence[Result], tallies: Mapping[str, PropertyTally]) -> Iterator[Result]:
    """Yield the results; wrong answers are one fault if all of them have something in common. Those under another
    adapter or with images are faults of their own."""
    wrong = [one.name for one in results
             if one.state == "failed" and one.name in {*VERSUS_COLD} - {"uncached", *SERVED}]  # fmt: skip
    cases = {name: [check.split for _, check in tallies[name].failed if check.split]
             for name in wrong if name in tallies}  # fmt: skip
    every = in_common([case for each in cases.values() for case in each])
    for one in results:
        if one.name not in wrong:
            yield replace(one, fault=DIFFERS) if one.state == "failed" and one.name in SERVED else one
        elif every and one.name != wrong[0]:
            yield replace(one, fault=DIFFERS, common=every, like=wrong[0])
        else:
            yield replace(one, fault=DIFFERS, common=every or in_common(cases.get(one.name, ())))


# Floors of reuse: a history each, whose last request must reuse something.
#
# A missed floor is not a wrong answer: a cache may be small, or able only to append. It fails only with ``strict``.

def run_floors(search: HistorySearch, space: DrawBounds, play: Player) -> dict[str, Result]:
    """Return the result of each floor."""
    found, lines = search.floors, report.floor_lines(space)
    undecided = {}
    for name in MEMBERS["reuse"]:
        if name in found:
            continue
        result = Result(name, "reuse", PROPERTIES[name], "undecided")
        if name not in lines:
            found[name] = replace(result, state="unsupported", why="its history does not fit")
        elif search.budget.is_low or search.budget.is_spent:
            undecided[name] = replace(result, why=search.budget.why)
        else:
            found[name] = _floor(result, lines[name], play(parse_history(lines[name])))
    return {**found, **undecided}


def _floor(result: Result, line: str, played: HistoryRun) -> Result:
    """Return the result of a floor from the run of its history."""
    last = len(played.asks) - 1
    warm, cached = reply_to(played.warm, last), _cached(played)
    if cached is not None and cached > 0:
        return replace(result, state="ok", checked=1, decisive=1, reused=1)
    if cached is not None:
        got = f"0 of {len(played.asks[-1].prompt)} tokens cached"
        missed = PropertyCheck(result.name, False, last, "at least 1 token cached", got)
        return replace(result, state="missed", checked=1, decisive=1, finding=make_finding(line, missed, played))
    if played.gap or warm is None or warm.refused:
        return replace(result, why=played.gap or "its last request got no answer")
    return replace(result, state="unsupported", why=UNREPORTED)


def _cached(played: HistoryRun) -> int | None:
    """Return the number of tokens that the last request reused, None if unknown."""
    warm = reply_to(played.warm, len(played.asks) - 1)
    if warm is None or warm.refused:
        return None
    if warm.cached is not None:
        return warm.cached
    return None if warm.evaluated is None else len(played.asks[-1].prompt) - warm.evaluated


ABILITY = {"uncached": "cache", "cancel": "cancel", "burst": "burst", "identical": "burst", "limits": "limits",
           "stored": "stored"}  # fmt: skip
"""Ability that a property needs."""

NOT_REPORTED = {
    "accounting": "cached and evaluated are not both reported",
    "unseen": "cached is not reported",
    "work": "evaluated is not reported",
    "stored": "stored is not reported, or is always empty",
    "limits": "used is not reported under the name of a limit",
}
KEYS: Mapping[str, Sequence[str]] = {
    "accounting": ("cached", "evaluated"), "unseen": ("cached",), "work": ("evaluated",), "stored": (), "limits": (),
}  # fmt: skip
"""Keys of a reply without which a property is not checked; () = it is not checked although a reply has its key."""
UNREPORTED = "neither cached nor evaluated is reported"
EQUAL = "all answers that were compared are equal: a wrong one would not show"
UNSTEADY = "two cold runs of a request differ"
NEVER = "no token was ever reused: does the adapter pass its cache to the model?"
UNKNOWN = "note: neither cached nor evaluated is reported: nothing shows that the adapter passes its cache to the model"
SECTION = {name: section for section, names in MEMBERS.items() for name in names}


class KeyedHistories(NamedTuple):
    """Histories of a server with adapters or images, and those of section "parallel" (``together``). ``why``: reason
    why wrong answers would not show, "" = they do."""

    lines: Sequence[str] = ()
    why: str = ""
    together: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """The histories to run, from the arguments of ``conform``."""

    corpus: str                          # "any" = also known faults, "" = without
    histories: Sequence[str]             # the caller's lines, run first
    max_examples: int                    # drawn histories
    max_requests: int                    # most requests of a drawn history
    max_prompt: int                      # longest prompt [tokens]
    near: Sequence[int]                  # sizes around which lengths cluster
    tokens: Sequence[int]                # vocabulary
    only: Sequence[str] = ()             # sections, () = all
    strict: bool = False                 # a missed floor is a failure
    sampling: Sequence[Mapping[str, Any]] = field(default=())
    keys: Sequence[RequestKey] = ()      # what requests are computed under, by number
    last: Sequence[str] = ()             # histories run last because they may crash the implementation
    keyed: Mapping[str, KeyedHistories] | None = None    # of a server, by property; None = prompts of tokens only
    parallel: Sequence[str] = ()         # further histories of section "parallel"
    drafts: bool = False                 # the implementation drafts tokens

    @property
    def judged(self) -> list[str]:
        """The properties to judge: keys, adapters, images and drafts only where requests have them."""
        special = {*(self.keyed or ()), *(["key"] if any(key.name for key in self.keys) else []),
                   *(["drafts"] if self.drafts else [])}  # fmt: skip
        return [name for name in PROPERTIES if name not in ("key", "drafts", *SERVED) or name in special]

    @property
    def sections(self) -> frozenset[str]:
        """The selected sections. Raise BadInput."""
        return report.chosen(self.only, bool(self.corpus))


def make_report(plan: HistoryPlan, abilities: SubjectAbilities, search: HistorySearch, cold: ColdReply,
                play_floor: Player | None = None) -> Report:  # fmt: skip
    """Run all histories, then shrink the failures. Stops early for an implementation that does not reply in time.
    ``play_floor`` runs the floors, in place of ``search.play``."""
    space = DrawBounds(plan.max_requests, plan.max_prompt, plan.near, abilities.present)
    sources = _sources(plan, space)
    first = next((place for place, one in enumerate(sources) if one.section == "drawn"), len(sources))
    _run_sources(sources[:first], search)
    floors = run_floors(search, space, play_floor or search.play) if "reuse" in plan.sections else {}
    _run_sources(sources, search)
    unfinished = _unfinished_sections(sources, search)
    drawn = {name: replace(one, failed=list(one.failed)) for name, one in search.tallies.items()}
    found = {**_shrunk(search, cold), **floors}
    results = [found.get(name) or _passed(name, abilities, drawn, search) for name in plan.judged]
    results = [_unfinished(one, unfinished.get(FED_BY.get(one.section, one.section), "")) for one in results]
    unjudged = {name: one.why for name, one in (plan.keyed or {}).items()}
    results = [_unseen_mistakes(one, unjudged.get(one.name, "")) for one in results]
    if "steady" in found:
        results = [_unsteady(one, _noise(search.tallies["steady"])) for one in results]
    results = [one if one.section in plan.sections else replace(one, state="skipped", finding=None) for one in results]
    unplayed = "" if plan.only else 'run with corpus="any"'
    skipped = {name: unplayed for name in SECTIONS if name not in plan.sections}
    results = list(_with_faults(results, drawn))
    return Report(tuple(results), search.counts, skipped, tuple(_notes(drawn, search)), plan.strict, unfinished)


FED_BY = {"noise": "same", "books": "same"}
"""Sections that are judged from the histories of another section."""


def _run_sources(sources: Sequence[HistorySource], search: HistorySearch) -> None:
    """Run the sources that were not run before, until a limit ends the run."""
    for source in sources[search.done :]:
        if search.budget.is_low or search.budget.is_spent:
            return
        search.begin(source.section, source.number)
        for history in source.histories():
            if search.budget.is_low or search.budget.is_spent:
                return
            search.count(source.section, history)
            if search.is_cut_short:
                return
        search.done += 1


def _unfinished_sections(sources: Sequence[HistorySource], search: HistorySearch) -> dict[str, str]:
    """Return, for each section of which not all histories were run, the reason."""
    left = dict.fromkeys(one.section for one in sources[search.done :])
    if not left:
        return {}
    search.gap = search.gap or search.budget.why
    stopped = search.budget.why.removeprefix(NOT_RUN)
    return {name: f"{stopped}{LEFT}" for name in left}


def _unfinished(result: Result, why: str) -> Result:
    """Return the result; undecided if it is ok but not all histories of its section were run."""
    if not why or result.state != "ok":
        return result
    checked = counted(result.decisive, "check that could fail", "checks that could fail")
    return replace(result, state="undecided", why=f"{why}; {checked} passed")


class HistorySource(NamedTuple):
    """Histories that a section runs. ``number``: how many, 0 = unknown before they are read, -1 = none."""

    section: str
    histories: Callable[[], Iterable[History]]
    number: int = 0


def _lines(section: str, lines: Iterable[str], served: bool = False) -> HistorySource:
    """Return the source of some lines. ``served``: they may name adapters and completions of a server."""
    found = list(lines)
    return HistorySource(section, lambda: (line_history(line, served) for line in found), len(found) or -1)


def _sources(plan: HistoryPlan, space: DrawBounds) -> list[HistorySource]:
    """Return the sources of the histories to run, those of ``plan.histories`` first."""
    keyed = list((plan.keyed or {}).values())
    found = [_lines("same", plan.histories, plan.keyed is not None)]
    found.append(_lines("same", report.basic_lines(plan.sections, space)))
    if "isolation" in plan.sections:
        found.append(_lines("isolation", (line for one in keyed for line in one.lines), True))
    if "parallel" in plan.sections:
        together = (line for one in keyed for line in one.together)
        found.append(_lines("parallel", [*plan.parallel, *together], True))
    if "known" in plan.sections:
        found.append(HistorySource("known", lambda: corpus_histories(plan.max_prompt, plan.near)))
    if "drawn" in plan.sections:
        found.append(HistorySource("drawn", lambda: histories(space, plan.max_examples), plan.max_examples))
    found.append(_lines("known", plan.last))
    return [one for one in found if one.number >= 0]


def _notes(tallies: Mapping[str, PropertyTally], search: HistorySearch) -> Iterator[str]:
    if "unseen" not in tallies and "work" not in tallies and search.reported:
        yield UNKNOWN
    if search.budget.is_spent:
        yield f"note: {search.budget.stopped}; only earlier histories were judged"


def _shrunk(search: HistorySearch, cold: ColdReply) -> dict[str, Result]:
    """Return a result for every property that fails, including those that only failed during shrinking."""
    found: dict[str, Result] = {}
    while left := [name for name, one in search.tallies.items() if one.failed and name not in found]:
        found[left[0]] = _failed(left[0], search, cold)
    return found


def _failed(name: str, search: HistorySearch, cold: ColdReply) -> Result:
    history, check = search.smallest(name)
    played = search.play(history)
    sampling = played.asks[check.request].sampling if check.request < len(played.asks) else {}
    notes = [f"sampling {dict(sampling)}"] if sampling else []
    if any(ask.key.name for ask in played.asks):
        notes.append("keys of the requests: " + ", ".join(str(ask.key) for ask in played.asks))
    if name in VERSUS_COLD and not search.budget.is_low:
        found = first_wrong_token(played, check.request), diagnosis(played, check.request, cold, search.same)
        notes += filter(None, found)
    finding = make_finding(history.line, check, played, notes)
    result = Result(name, SECTION[name], PROPERTIES[name], "failed", finding=finding)
    if not search.again(history, check):
        again = f"{search.budget.stopped} before it was run again" if search.budget.is_spent else "not when run again"
        return replace(result, state="undecided", why=f"failed, but {again}")
    return result


def _passed(
    name: str, abilities: SubjectAbilities, tallies: Mapping[str, PropertyTally], search: HistorySearch
) -> Result:
    """Return the result of a property that never failed."""
    tally = tallies.get(name, PropertyTally())
    ability = ABILITY.get(name, "")
    missing = abilities.lack(ability)
    notes = filter(None, [abilities.partly(ability), tally.apart.text if tally.apart is not None else ""])
    result = Result(name, SECTION[name], PROPERTIES[name], "ok", tally.checked, tally.decisive, tally.reused,
                    "; ".join(notes))  # fmt: skip
    if not result.checked and missing:
        return replace(result, state="unsupported", why=missing)
    if not result.checked and name in NOT_REPORTED and _lacks_keys(name, search.reported):
        return replace(result, state="unsupported", why=NOT_REPORTED[name])
    if not result.checked:
        return replace(result, state="undecided", why=search.gap or "no request of this kind was completed")
    nothing = "unseen" in tallies and not any(one.reused for one in tallies.values())
    if name in VERSUS_COLD and name != "drafts" and nothing:
        return replace(result, state="undecided", why=NEVER)
    if name in COMPARING and not result.decisive:
        return replace(result, state="undecided", why=EQUAL)
    return result


def _lacks_keys(name: str, reported: Collection[str]) -> bool:
    """True if replies arrived, and none had the keys that a property needs."""
    return bool(reported) and (not KEYS[name] or not {*KEYS[name]} <= {*reported})


def _unseen_mistakes(result: Result, why: str) -> Result:
    """Return the result as undecided for this reason, unless it failed."""
    return result if result.state == "failed" or not why else replace(result, state="undecided", why=why)


def _unsteady(result: Result, noise: str) -> Result:
    """Return the result as undecided if it compares with cold runs, which differ among themselves."""
    if result.name not in VERSUS_COLD or result.state == "unsupported":
        return result
    return replace(result, state="undecided", why=f"{UNSTEADY}{noise}", finding=None)


def _noise(steady: PropertyTally) -> str:
    """Return a suggested tolerance, ten times the measured noise; "" if fingerprints have no numbers to compare."""
    if steady.apart is None or not isfinite(steady.apart.largest):
        return ""
    return f" by up to {steady.apart.largest:.2g}: same=near({10 * steady.apart.largest:.1g}) allows ten times as much"


def accept(result: Result, reasons: Mapping[str, str]) -> Result:
    """Mark a failed property as accepted if a reason is given. An accepted property that is ok becomes failed, so that
    the list is corrected."""
    reason = reasons.get(result.name)
    if reason is None or result.state in ("undecided", "unsupported", "skipped"):
        return result
    if result.state in ("failed", "missed"):
        return replace(result, state="accepted", why=reason)
    return replace(result, state="failed", why=f"accepted as failing ({reason}), but it is ok")
