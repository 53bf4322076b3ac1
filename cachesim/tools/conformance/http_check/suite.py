"""The whole of it: what server is it, how large is its noise, which sections hold, and which rule would do that?

Known faults first, each with few requests; then the noise is measured, and the suite of ``conform`` is played.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Sequence

from cachesim.tools.conformance.client_history import History
from cachesim.tools.conformance.fingerprint import Same, near
from cachesim.tools.conformance.history_player import Abilities, Bench, Cold, Outcome, PlayedHistory
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.known_faults import Early
from cachesim.tools.conformance.http_check.replies import Alike
from cachesim.tools.conformance.http_check.warm_run import TWICE, WASH, ServerStage
from cachesim.tools.conformance.properties import EQUAL, PROPERTIES, Check, checks, told
from cachesim.tools.conformance.protocol import Ask, Failed, Reply, Subject
from cachesim.tools.conformance.report import Finding, Report, Result, chosen, finding_of
from cachesim.tools.conformance.report_builder import HistoryPlan, make_report
from cachesim.tools.conformance.search import HistorySearch, Player
from cachesim.tools.conformance.timeouts import Patience

# A wrong answer is a finding of its history only if the history shows it again, with other tokens.
#
# What differs once and not again is a finding of another kind: the server is not repeatable.

SENTENCE = "the same requests get the same answers each time"
NO_FAULT = "not shown to be a fault of the cache: played again, the history was answered as on a cold run"
MOMENT = "requests arrive together: it may depend on the moment"
RACY = 8, 2                  # plays of such a history, and how many of them have to fail
COMPARED = (*EQUAL, "steady")


class Budget(Patience):
    """Time and requests that are left."""

    def __init__(self, http: Http, timeout: float, seconds: float | None) -> None:
        super().__init__(timeout, seconds)
        self.http = http

    @property
    def spent(self) -> bool:
        """Returns True if the time for the whole run is over, or no more requests may be sent."""
        return self.http.spent or super().spent

    @property
    def stopped(self) -> str:
        """When the run was ended."""
        return self.http.stopped or super().stopped


class Once(NamedTuple):
    """An answer that differed in one play of a history and in no other one."""

    history: History
    played: PlayedHistory
    check: Check


class Confirming(HistorySearch):
    """A search that plays every history that fails a second time, before it believes it. ``once``: what did not fail
    again."""

    def __init__(self, play: Player, same: Same, patience: Patience) -> None:
        super().__init__(play, same, patience)
        self.once: list[Once] = []
        self.proved: dict[str, PlayedHistory] = {}          # histories that failed twice
        self.send, self.play = play, self._replayed

    def again(self, history: History, check: Check) -> bool:
        """Returns True if the same request fails once more; where nothing may be sent any more, if it did so before."""
        return (self.patience.spent and history.line in self.proved) or super().again(history, check)

    def _replayed(self, history: History) -> PlayedHistory:
        """A play of it; where nothing may be sent any more, the one in which it failed."""
        if self.patience.spent and history.line in self.proved:
            return self.proved[history.line]
        return self.send(history)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        if self.patience.spent and played.gap:
            return []                                # what a history that was cut short shows is not complete
        found = list(checks(played, self.same))
        wrong = [check for check in found if not check.ok and check.name in COMPARED]
        if not wrong:
            return found
        again = self._again(history)
        if again:
            self.proved[history.line] = played
            return found
        if again is False:
            self.once.append(Once(history, played, wrong[0]))
        return [check for check in found if check not in wrong]

    def _again(self, history: History) -> bool | None:
        """Does it fail again? None where it could not be played. What requests that arrive together do depends on the
        moment, so that such a history is given more plays; and because answers may be spoilt, it has to fail twice."""
        plays, wanted = RACY if "{together" in history.line else (1, 1)
        for _ in range(plays):
            played = self.play(history)
            if played.gap:
                return None
            wanted -= any(not check.ok and check.name in COMPARED for check in checks(played, self.same))
            if not wanted:
                return True
        return False

    def repeatable(self) -> Result:
        """What is to be said of answers that differed once. Those that a rare kind of noise may explain decide
        nothing."""
        number = sum(tally.checked for name, tally in self.tallies.items() if name in COMPARED)
        result = Result("repeatable", "noise", SENTENCE, "ok" if number else "undecided", number)
        if not self.once:
            return result
        history, played, check = max(self.once, key=lambda one: _size(one.check))
        why = MOMENT if "{together" in history.line else NO_FAULT
        number = len(self.once)
        often = f"{number} answer{'s' * (number > 1)} differed from a cold run once, not when played again"
        state = "failed" if _size(check) > faults.LEGAL else "undecided"
        return replace(result, state=state, why=often, finding=finding_of(history.line, check, played, [why]))


def _size(check: Check) -> float:
    """By how much the answer differs; a refusal or a token of which nothing is known counts for all."""
    return check.apart.largest if check.apart is not None else float("inf")


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
    early = list(faults.look(stage, most)) if faults.repeats(stage) and known else []
    measured = faults.measure(stage, most) if wanted.tolerance is None else 0.0
    tolerance = faults.tolerance_of(measured) if wanted.tolerance is None else wanted.tolerance
    stage.twice = TWICE
    search = Confirming(stage.play, Alike(max(tolerance, 1e-9)), patience)
    report = _played(wanted, stage, search, tuple(faults.known_lines(most, server.sizes)) if known else ())
    report = replace(report, results=tuple(_washed(_dead(_with(one, early), stage)) for one in report.results))
    found = ServerReport(server, report, measured, tolerance, http.sent, [(one.line, one.sent) for one in early])
    found.died = stage.death is not None
    for one in report.results:
        if one.finding is not None and one.state == "failed" and one.name in PROPERTIES:
            line, request, cached = one.finding.line, one.finding.request, _cached(one.finding, search, early, stage)
            found.rules[one.name] = faults.who_does_that(line, request, cached, server.speaker is None)[:4]
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
    last, near_to = faults.LAST if known else (), (*wanted.near, *stage.server.sizes)
    plan = HistoryPlan("any", (*wanted.histories, *known), wanted.examples, 6, longest(stage.server), near_to,
                       stage.server.tokens, only, last=last)  # fmt: skip
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
        super().__init__(Bench(self._never), True, stage.same)
        self.stage = stage

    def answer(self, ask: Ask) -> Outcome:
        try:
            return self.stage.answer(ask)
        except Exhausted as end:
            return Failed(str(end))

    def _never(self) -> Subject:
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
