"""Complete check of a server over HTTP: known faults, noise, the suite of ``conform``.

Known faults come first because each needs few requests. Then the noise is measured and the suite is run. A finding
lists the rule sets whose simulation has the same fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Mapping, NamedTuple, Sequence

from cachesim.tools.conformance.client_history import History, parse_history
from cachesim.tools.conformance.fingerprint import Same, near
from cachesim.tools.conformance.history_player import Abilities, ColdRuns, HistoryRun, Outcome, SubjectPool
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.keyed_histories import ServerStages, keyed_histories
from cachesim.tools.conformance.http_check.known_faults import EarlyFinding
from cachesim.tools.conformance.http_check.replies import NearAnswers
from cachesim.tools.conformance.http_check.warm_run import TWICE, WASH, ServerRunner
from cachesim.tools.conformance.properties import PROPERTIES, VERSUS_COLD, Check, checks, reply_text
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, Subject
from cachesim.tools.conformance.report import SHORT, Finding, Report, Result, chosen, make_finding
from cachesim.tools.conformance.report_builder import HistoryPlan, KeyedHistories, make_report
from cachesim.tools.conformance.search import HistorySearch, Player
from cachesim.tools.conformance.timeouts import TimeBudget

# A wrong answer counts as a finding of its history only if the history fails again with other tokens.
#
# A difference that does not recur is reported under another property: the server is not repeatable.

SENTENCE = "repeated requests get equal answers"
NO_FAULT = "not shown to be a fault of the cache: run again, the history was answered as on a cold run"
MOMENT = "requests arrive together: the result may depend on timing"
RACY = 8, 2                  # runs of such a history, and how many of them must fail
COMPARED = (*VERSUS_COLD, "steady")


class ServerBudget(TimeBudget):
    """Remaining time and requests."""

    def __init__(self, http: Http, timeout: float, seconds: float | None) -> None:
        super().__init__(timeout, seconds)
        self.http = http

    @property
    def spent(self) -> bool:
        """True if the time for the whole run is over or no more requests may be sent."""
        return self.http.spent or super().spent

    @property
    def stopped(self) -> str:
        """Message about the end of the run."""
        return self.http.stopped or super().stopped


class UnrepeatedAnswer(NamedTuple):
    """An answer that differed in a single run of a history and in none of the later runs."""

    history: History
    played: HistoryRun
    check: Check


class ConfirmingSearch(HistorySearch):
    """A search that confirms every failing history by another run. ``once``: answers that did not fail again."""

    def __init__(self, play: Player, same: Same, budget: TimeBudget) -> None:
        super().__init__(play, same, budget)
        self.once: list[UnrepeatedAnswer] = []
        self.proved: dict[str, HistoryRun] = {}          # histories that failed twice
        self.send, self.play = play, self._replayed

    def again(self, history: History, check: Check) -> bool:
        """True if the request fails again; after the request limit, if it failed twice before. Runs it up to three
        times: with some tokens a fault changes the answer little."""
        spent = self.budget.spent and history.line in self.proved
        return spent or any(super(ConfirmingSearch, self).again(history, check) for _ in range(faults.PLAYS))

    def _replayed(self, history: History) -> HistoryRun:
        """Run a history; after the request limit return its recorded failing run."""
        if self.budget.spent and history.line in self.proved:
            return self.proved[history.line]
        return self.send(history)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        if self.budget.spent and played.gap:
            return []                                # checks of an interrupted history are incomplete
        found = list(checks(played, self.same))
        wrong = [check for check in found if not check.ok and check.name in COMPARED]
        if not wrong:
            return found
        again = self._again(history)
        if again:
            self.proved[history.line] = played
            return found
        if again is False and history.line not in self.proved:
            self.once.append(UnrepeatedAnswer(history, played, wrong[0]))
        return [check for check in found if check not in wrong]

    def _again(self, history: History) -> bool | None:
        """True if the history fails again, None if it could not be run. Concurrent histories depend on timing and may
        give a spoilt answer, so they get 8 runs and must fail twice."""
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
        """Return the result for answers that differed only once; undecided if rare noise may explain them."""
        number = sum(tally.checked for name, tally in self.tallies.items() if name in COMPARED)
        result = Result("repeatable", "noise", SENTENCE, "ok" if number else "undecided", number)
        if not self.once:
            return result
        history, played, check = max(self.once, key=lambda one: _size(one.check))
        why = MOMENT if "{together" in history.line else NO_FAULT
        number = len(self.once)
        often = f"{number} answer{'s' * (number > 1)} differed from a cold run once, but not when run again"
        state = "failed" if _size(check) > faults.LEGAL else "undecided"
        return replace(result, state=state, why=often, finding=make_finding(history.line, check, played, [why]))


def _size(check: Check) -> float:
    """Return the size of the difference; infinite for a refusal or a token without log-probabilities."""
    return check.apart.largest if check.apart is not None else float("inf")


NOT_HERE = {"limits": "a server states no comparable limits", "reset": "prompts get new tokens instead",
            "sampling": "all requests are greedy"}  # fmt: skip
ROOM = 64                    # tokens that texts and answers need beside the prompt of a history with adapters
LONGEST = 1_100              # longest prompt [tokens]: a window of 1024, and some tokens after it


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of a check."""

    only: Sequence[str] = ()             # sections, () = all
    histories: Sequence[str] = ()        # lines that are run first
    examples: int = 100                  # drawn histories
    seconds: float | None = None         # time limit of the check
    timeout: float = 60.0                # time limit of a reply [seconds]
    tolerance: float | None = None       # largest difference of log-probabilities, None = measured
    near: Sequence[int] = (16, 64)       # sizes around which lengths cluster
    seed: int = 0
    images: bool = True                  # send images if the server takes them


@dataclass(slots=True)
class ServerReport:
    """Result of a check."""

    server: ServerFacts
    report: Report
    measured: float                      # noise
    tolerance: float                     # allowed difference of log-probabilities
    requests: int                        # requests sent
    early: list[tuple[str, int]] = field(default_factory=list)       # known faults found first: line, requests so far
    rules: dict[str, list[str]] = field(default_factory=dict)        # failed property -> rule sets that match
    died: bool = False                   # the server died during the check
    image_tokens: int = 0                # tokens of an image, 0 = none was sent


def check(http: Http, server: ServerFacts, wanted: CheckOptions) -> ServerReport:
    """Check a server. Raises BadInput if it cannot be checked."""
    stage = ServerRunner(http, server, near(0.0), wanted.seed)
    budget = ServerBudget(http, wanted.timeout, wanted.seconds)
    most = longest(server)
    known = "known" in chosen(wanted.only, True) and not wanted.histories
    early = list(faults.look(stage, most)) if faults.repeats(stage) and known else []
    measured = faults.measure(stage, most) if wanted.tolerance is None else 0.0
    tolerance = faults.tolerance_of(measured) if wanted.tolerance is None else wanted.tolerance
    stage.twice = TWICE
    stages = ServerStages(stage)
    isolation, keyed = "isolation" in chosen(wanted.only, True), dict[str, KeyedHistories]()
    if wanted.images and (isolation or any(parse_history(line).has_images for line in wanted.histories)):
        stages.find_images()
        if wanted.tolerance is None:
            measured = max(measured, stages.measure_images(most))
            tolerance = faults.tolerance_of(measured)
    if isolation:
        n = max(8, min(max(SHORT, 2 * max((*wanted.near, *server.sizes)) + 2), most - ROOM))
        keyed = dict(keyed_histories(stages, tolerance, n, server.n_ctx - ROOM))
    search = ConfirmingSearch(stages.play, NearAnswers(max(tolerance, 1e-9)), budget)
    report = _played(wanted, stages, search, tuple(faults.known_lines(most, server.sizes)) if known else (), keyed)
    results = [_with_wash(_with_death(_with_early(result, early), stage)) for result in report.results]
    report = replace(report, results=tuple(results))
    found = ServerReport(server, report, measured, tolerance, http.sent, [(one.line, one.sent) for one in early])
    found.died, found.image_tokens = stage.death is not None, stages.image_tokens
    for one in report.results:
        if one.finding is not None and one.state == "failed" and one.name in PROPERTIES:
            line, request, cached = one.finding.line, one.finding.request, _cached(one.finding, search, early, stage)
            scales = ",".join(f"{adapter.scale:g}" for adapter in server.adapters)
            found.rules[one.name] = faults.matching_rule_sets(line, request, cached, server.client is None, scales)[:4]
    return found


def _cached(finding: Finding, search: ConfirmingSearch, early: Sequence[EarlyFinding],
            stage: ServerRunner) -> list[int | None]:  # fmt: skip
    """Return the reported reuse per request in a run of the finding, including its first prompt ("wash")."""
    plays = {**{one.line: one.played for one in early}, **search.proved}
    if stage.death is not None:
        plays[stage.death.played.history.line] = stage.death.played
    played = plays.get(finding.line.partition("/")[2])
    warm = played.warm if played is not None else ()
    return [None, *(one.cached if isinstance(one, Reply) and not one.refused else None for one in warm)]


def _played(wanted: CheckOptions, stages: ServerStages, search: ConfirmingSearch, known: Sequence[str],
            keyed: Mapping[str, KeyedHistories]) -> Report:  # fmt: skip
    """Run the suite; return its report with the result on repeatability."""
    stage = stages.text
    only = tuple(wanted.only) + (("same",) if {"known", "drawn"} & set(wanted.only) else ())    # their properties
    last, near_to = faults.LAST if known else (), (*wanted.near, *stage.server.sizes)
    plan = HistoryPlan("any", (*wanted.histories, *known), wanted.examples, 6, longest(stage.server), near_to,
                       stage.server.tokens, only, last=last, keyed=keyed)  # fmt: skip
    report = make_report(plan, Abilities({**NOT_HERE, **stage.server.missing}), search, _ServerCold(stages))
    return replace(report, results=(search.repeatable(), *report.results))


def _with_early(result: Result, early: Sequence[EarlyFinding]) -> Result:
    """Return the result; an undecided result becomes a failure if a known fault was found early."""
    mine = [one for one in early if one.check.name == result.name and result.state == "undecided"]
    if not mine:
        return result
    return replace(result, state="failed", why="", finding=make_finding(mine[0].line, mine[0].check, mine[0].played))


def _with_death(result: Result, stage: ServerRunner) -> Result:
    """Return the result; "answers" becomes a failure if the server died, which ends the check."""
    if stage.death is None or result.name != "answers":
        return result
    played, request = stage.death
    said = played.warm[request]
    check = Check("answers", False, request, "a reply", reply_text(said) if isinstance(said, Reply) else str(said))
    finding = make_finding(played.history.line, check, played, [stage.http.dead])
    return replace(result, state="failed", why="not shrunk: the server died", finding=finding)


class _ServerCold(ColdRuns):
    """Cold replies of a server, for the diagnosis of a finding."""

    def __init__(self, stages: ServerStages) -> None:
        super().__init__(SubjectPool(self._never), True, stages.text.same)
        self.stages = stages

    def answer(self, ask: CacheRequest) -> Outcome:
        try:
            return self.stages.answer(ask)
        except Exhausted as end:
            return Failed(str(end))

    def _never(self) -> Subject:
        raise Failed("a server cannot be started anew")


def _with_wash(result: Result) -> Result:
    """Return the result, with the first prompt of every run ("wash") prepended to its finding."""
    found = result.finding
    if found is None:
        return result
    return replace(result, finding=replace(found, line=f"Wash{WASH}/{found.line}", request=found.request + 1))


def longest(server: ServerFacts) -> int:
    """Return the longest prompt in tokens."""
    return max(64, min(LONGEST, server.n_ctx - 64))
