"""The whole of it: what server is it, how large is its noise, which sections hold, and which rule would do that?

Known faults first, each with few requests; then the noise is measured, and the suite of ``conform`` is played.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Sequence

from cachesim.tools.conformance.abilities import Abilities
from cachesim.tools.conformance.fingerprint import near
from cachesim.tools.conformance.history_player import Bench, Cold, Outcome
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.known import (
    LAST,
    Early,
    known_lines,
    look,
    measure,
    repeats,
    tolerance_of,
    who_does_that,
)
from cachesim.tools.conformance.http_check.replies import Alike
from cachesim.tools.conformance.http_check.search import Budget, Confirming
from cachesim.tools.conformance.http_check.warm_first import TWICE, WASH, ServerStage
from cachesim.tools.conformance.properties import PROPERTIES, Check, told
from cachesim.tools.conformance.protocol import Ask, Failed, Reply, Subject
from cachesim.tools.conformance.report import Finding, Report, Result, chosen
from cachesim.tools.conformance.report_builder import HistoryPlan, finding_of, make_report

NOT_HERE = {"limits": "a server states no limits that can be compared", "reset": "prompts get new tokens instead",
            "sampling": "all requests are greedy"}  # fmt: skip
LONGEST = 1_100              # tokens of a prompt: a window of 1024, and some behind it


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be checked. ``near``: sizes around which lengths crowd; ``tolerance`` None = measured."""

    only: Sequence[str] = ()
    histories: Sequence[str] = ()
    examples: int = 100
    seconds: float | None = None
    timeout: float = 60.0
    tolerance: float | None = None
    near: Sequence[int] = (16, 64)
    seed: int = 0


@dataclass(slots=True)
class ServerReport:
    """What came of it. ``measured``: the noise; ``tolerance``: what was allowed; ``early``: known faults that were
    found before anything else, each history with the number of requests up to then; ``rules``: for a property that
    failed, rule sets that do the same, with the rule behind it; ``died``: the server ended meanwhile."""

    server: ServerFacts
    report: Report
    measured: float
    tolerance: float
    requests: int
    early: list[tuple[str, int]] = field(default_factory=list)
    rules: dict[str, list[str]] = field(default_factory=dict)
    died: bool = False


def check(http: Http, server: ServerFacts, wanted: Wanted) -> ServerReport:
    """Check a server. Raises BadInput for one that cannot be checked."""
    stage = ServerStage(http, server, near(0.0), wanted.seed)
    patience = Budget(http, wanted.timeout, wanted.seconds)
    most = longest(server)
    known = "known" in chosen(wanted.only, True) and not wanted.histories
    early = list(look(stage, most)) if repeats(stage) and known else []
    measured = measure(stage, most) if wanted.tolerance is None else 0.0
    tolerance = tolerance_of(measured) if wanted.tolerance is None else wanted.tolerance
    stage.twice = TWICE
    search = Confirming(stage.play, Alike(max(tolerance, 1e-9)), patience)
    report = _played(wanted, stage, search, tuple(known_lines(most, server.sizes)) if known else ())
    report = replace(report, results=tuple(_washed(_dead(_with(one, early), stage)) for one in report.results))
    found = ServerReport(server, report, measured, tolerance, http.sent, [(one.line, one.sent) for one in early])
    found.died = stage.death is not None
    for one in report.results:
        if one.finding is not None and one.state == "failed" and one.name in PROPERTIES:
            cached = _cached(one.finding, search, early, stage)
            slots = server.speaker is None
            found.rules[one.name] = who_does_that(one.finding.line, one.finding.request, cached, slots)[:4]
    return found


def _cached(finding: Finding, search: Confirming, early: Sequence[Early], stage: ServerStage) -> list[int | None]:
    """What the server reported as reused in a play of a finding, the prompt included that every play begins with."""
    plays = {**{one.line: one.played for one in early}, **search.proved}
    if stage.death is not None:
        plays[stage.death.played.history.line] = stage.death.played
    played = plays.get(finding.line.partition("/")[2])
    warm = played.warm if played is not None else ()
    return [None, *(one.cached if isinstance(one, Reply) and not one.refused else None for one in warm)]


def _played(wanted: Wanted, stage: ServerStage, search: Confirming, known: Sequence[str]) -> Report:
    """The report of the suite, and what was not repeatable."""
    only = tuple(wanted.only) + (("same",) if {"known", "drawn"} & set(wanted.only) else ())    # what fails in them
    plan = HistoryPlan("any", (*wanted.histories, *known), wanted.examples, 6, longest(stage.server),
                (*wanted.near, *stage.server.sizes), stage.server.tokens, only, last=LAST if known else ())  # fmt: skip
    report = make_report(plan, Abilities({**NOT_HERE, **stage.server.missing}), search, _ServerCold(stage))
    return replace(report, results=(search.repeatable(), *report.results))


def _with(result: Result, early: Sequence[Early]) -> Result:
    """The result, or a known fault that was found early where the search came to no other one."""
    mine = [one for one in early if one.check.name == result.name and result.state == "undecided"]
    if not mine:
        return result
    return replace(result, state="failed", why="", finding=finding_of(mine[0].line, mine[0].check, mine[0].played))


def _dead(result: Result, stage: ServerStage) -> Result:
    """The result of "answers" where the server died, which ends the check."""
    if stage.death is None or result.name != "answers":
        return result
    played, request = stage.death
    said = played.warm[request]
    check = Check("answers", False, request, "a reply", told(said) if isinstance(said, Reply) else str(said))
    finding = finding_of(played.history.line, check, played, [stage.http.dead])
    return replace(result, state="failed", why="not shrunk: the server died", finding=finding)


class _ServerCold(Cold):
    """Cold replies of a server, for the diagnosis of a finding."""

    def __init__(self, stage: ServerStage) -> None:
        super().__init__(Bench(_never), True, stage.same)
        self.stage = stage

    def answer(self, ask: Ask) -> Outcome:
        try:
            return self.stage.answer(ask)
        except Exhausted as end:
            return Failed(str(end))


def _never() -> Subject:
    raise Failed("a server is not made anew")


def _washed(result: Result) -> Result:
    """The result, its finding with the prompt that every play begins with."""
    found = result.finding
    if found is None:
        return result
    return replace(result, finding=replace(found, line=f"Wash{WASH}/{found.line}", request=found.request + 1))


def longest(server: ServerFacts) -> int:
    """Tokens of a prompt at most."""
    return max(64, min(LONGEST, server.n_ctx - 64))
