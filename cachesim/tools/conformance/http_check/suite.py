"""Complete check of a server over HTTP: known faults, noise, the suite of ``conform``.

Known faults come first because each needs few requests. Then the noise is measured and the suite is run. A finding
lists the rule sets whose simulation has the same fault, and the rule behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import AbstractSet, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import near
from cachesim.tools.conformance.history_player import HistoryRun, Outcome, SubjectAbilities
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.batch_control import BatchControl, Cause, ColdSource, SharedBatch
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers
from cachesim.tools.conformance.http_check.confirming_search import ConfirmingSearch, ServerBudget
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.drafts import detect_drafts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.keyed_histories import ServerStages, keyed_histories
from cachesim.tools.conformance.http_check.known_faults import EarlyFinding
from cachesim.tools.conformance.http_check.listener import SILENT, CheckListener, FoundFault
from cachesim.tools.conformance.http_check.parallel_histories import (
    ParallelBounds,
    bounds_of,
    burst_lines,
    parallel_lines,
)
from cachesim.tools.conformance.http_check.rules_with_fault import MatchingRuleSet, RuleMatcher, WrongRequest
from cachesim.tools.conformance.http_check.warm_run import INTERRUPTED, TWICE, WASH, ServerRunner
from cachesim.tools.conformance.properties import COMPARING, PropertyCheck, reply_text
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from cachesim.tools.conformance.report import SHORT, Finding, Report, Result, chosen, make_finding
from cachesim.tools.conformance.report_builder import HistoryPlan, make_report

NOT_HERE = {"stored": "a server reports no stored entries", "limits": "a server states no comparable limits",
            "reset": "prompts get new tokens instead", "sampling": "all requests are greedy"}  # fmt: skip
ROOM = 64                    # tokens that texts and answers need beside the prompt of a history with adapters
KEYED = frozenset({"isolation", "parallel"})
"""Sections with histories of adapters and images."""
BURSTS = 2                   # bursts whose noise is measured
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
    at_once: int = 0                     # requests that arrive together, 0 = as many as the server has slots
    rounds: int = 20                     # drawn rounds of four interleaved conversations


@dataclass(slots=True)
class ServerReport:
    """Result of a check."""

    server: ServerFacts
    report: Report
    measured: float                      # noise
    tolerance: float                     # allowed difference of log-probabilities
    requests: int                        # requests sent
    found: tuple[FoundFault, ...] = ()   # faults in the order in which they were found
    rules: dict[str, list[MatchingRuleSet]] = field(default_factory=dict)    # failed property -> rule sets that match
    server_end: str = ""                 # "died", "stopped answering", "" = the server answered until the end
    image_tokens: int = 0                # tokens of an image, 0 = none was sent
    stopped: str = ""                    # reason why the check ended early, "" = it did not
    interrupt: KeyboardInterrupt | None = None       # signal that ended the check

    @property
    def faults(self) -> int:
        """Number of different faults: failed properties that show the same fault count once."""
        return sum(one.state == "failed" and not one.like for one in self.report.results)


def check(http: Http, server: ServerFacts, wanted: CheckOptions, listener: CheckListener = SILENT,
          control: ColdSource | None = None) -> ServerReport:  # fmt: skip
    """Check a server. ``control``: cold answers of the same model in other micro-batches. After Ctrl-C or a signal,
    return the result so far. Raise BadInput if it cannot be checked."""
    run = _CheckRun(http, server, wanted, listener, control)
    results = None
    try:
        run.prepare()
        results = run.results()
        return run.report(results)
    except KeyboardInterrupt as interrupt:
        http.halt(INTERRUPTED)
        return run.report(results or run.results(), interrupt)


class _CheckRun:
    """A check and its state. Every step may be interrupted; ``results`` then judges what was run."""

    def __init__(self, http: Http, server: ServerFacts, wanted: CheckOptions, listener: CheckListener,
                 control: ColdSource | None) -> None:  # fmt: skip
        self.other = control
        self.http = http
        self.wanted = wanted
        self.listener = listener
        http.when_sent = lambda: listener.request(http.sent)
        self.sections = chosen(wanted.only, True)
        self.is_known = "known" in self.sections and not wanted.histories
        self.measured, self.tolerance = 0.0, faults.LEAST if wanted.tolerance is None else wanted.tolerance
        self.early: list[EarlyFinding] = []
        scales = ",".join(f"{adapter.scale:g}" for adapter in server.adapters)
        self.matcher = RuleMatcher(server.client is None, scales)
        self._serve(server)

    def _serve(self, server: ServerFacts) -> None:
        """Set the facts about the server, and what follows from them."""
        wanted, self.most = self.wanted, longest(server)
        self.server, self.stage = server, ServerRunner(self.http, server, near(0.0), wanted.seed)
        self.stages = ServerStages(self.stage)
        self.plan = HistoryPlan("any", wanted.histories, wanted.examples, 6, self.most, (*wanted.near, *server.sizes),
                                server.tokens, wanted.only, keyed={}, drafts=server.drafts)  # fmt: skip
        self.bounds = bounds_of(server, wanted.at_once, self.plan.near)
        if self.is_known:
            lines = tuple(faults.known_lines(self.most, server.sizes))
            self.plan = replace(self.plan, histories=lines, last=faults.LAST)
        if "parallel" in self.sections:
            lines = tuple(parallel_lines(server, self.bounds, wanted.rounds, wanted.seed))
            self.plan = replace(self.plan, parallel=lines)
        self.search = self._new_search()

    def _new_search(self) -> ConfirmingSearch:
        budget = ServerBudget(self.http, self.wanted.timeout, self.wanted.seconds)
        undrafted = self.stages.play_undrafted if self.server.drafts else None
        return ConfirmingSearch(self.stages.play, NearAnswers(max(self.tolerance, 1e-9)), budget, undrafted,
                                self.listener, self._control())  # fmt: skip

    def _control(self) -> BatchControl:
        """Return what tells numbers from faults: another server, or else the batches of this one."""
        if self.other is None and self.server.chooses_rows:
            return BatchControl(SharedBatch(self.stage), chooses=True)
        return BatchControl(self.other, self.server.chooses_rows)

    def prepare(self) -> None:
        """Look for known faults, measure the noise, and plan the histories. Raise BadInput."""
        self.listener.stage("first requests")
        self._serve(replace(self.server, drafts=detect_drafts(self.http, self.server)))
        repeats = faults.repeats(self.stage)
        if repeats and self.is_known:
            self.listener.stage("known faults")
            for one in faults.look(self.stage, self.most):
                if self.search.control.cause(one.played, one.check, self.search.loosely) is not Cause.FAULT:
                    continue                         # the search runs its history again
                self.early.append(one)
                self.search.report_fault(one.line, one.check)
                self._report_rule(one)
        self.listener.stage("noise")
        self._measure()
        if self.sections & KEYED:
            n = max(8, min(max(SHORT, 2 * max(self.plan.near) + 2), self.most - ROOM))
            keyed = keyed_histories(self.stages, self.tolerance, n, self.server.n_ctx - ROOM, self.bounds.at_once)
            self.plan = replace(self.plan, keyed=dict(keyed))
        found, self.search = self.search.found, self._new_search()
        self.search.found |= found

    def _measure(self) -> None:
        """Measure the noise. If an answer is missing, raise BadInput, unless a fault was already found."""
        try:
            self.measured = _noise(self.stages, self.wanted, self.sections, self.bounds)
        except BadInput:
            if not self.early:
                raise
        if self.wanted.tolerance is None:
            self.tolerance = faults.tolerance_of(self.measured)

    def _report_rule(self, early: EarlyFinding) -> None:
        """Report the rule behind a known fault, whose history needs no shrinking."""
        finding = _washed(make_finding(early.line, early.check, early.played))
        wrong = WrongRequest(finding.line, finding.request, tuple(_reused(early.played)))
        for match in self.matcher.matches(wrong)[:1]:
            self.listener.rule(f"{match.sentence} ({match.command})")

    def results(self) -> Report:
        """Run the histories that are left; return the results of all."""
        report = _played(self.plan, self.stages, self.search, self.bounds.at_once)
        results = [_with_wash(_with_end(self._with_early(one), self.stage)) for one in report.results]
        return replace(report, results=tuple(results))

    def _with_early(self, result: Result) -> Result:
        """Return the result with a known fault that was found first. If the search did not find it again, the property
        is undecided."""
        mine = next((one for one in self.early if one.check.name == result.name), None)
        if mine is None or result.state not in ("undecided", "ok"):
            return result
        if result.state == "undecided":
            return replace(result, state="failed", why="", finding=make_finding(mine.line, mine.check, mine.played))
        legal = mine.check.apart is not None and mine.check.apart.largest <= self.tolerance
        why = "within the tolerance that was measured later" if legal else "not when run again"
        return replace(result, state="undecided", why=f"differed after {mine.sent} requests, but {why}: {mine.line}")

    def report(self, report: Report, interrupt: KeyboardInterrupt | None = None) -> ServerReport:
        """Return the result of the check: the results with the rules behind them, equal faults counted once."""
        self.listener.stage("rules")
        rules: dict[str, list[MatchingRuleSet]] = {}
        for one in report.results:
            if one.finding is not None and one.state == "failed" and one.name in COMPARING:
                wrong = WrongRequest(one.finding.line, one.finding.request, tuple(self._cached(one.finding)))
                known = self.matcher.known.get(wrong, [])
                rules[one.name] = known if interrupt is not None else self.matcher.matches(wrong)
        report = replace(report, results=tuple(_counted_once(report.results, rules)))
        return ServerReport(self.server, report, self.measured, self.tolerance, self.http.sent,
                            tuple(self.search.found.values()), rules, self.stage.end.what if self.stage.end else "",
                            self.stages.image_tokens, self.http.stopped, interrupt)  # fmt: skip

    def _cached(self, finding: Finding) -> list[int | None]:
        """Return the reported reuse per request in a run of the finding, including its first prompt ("wash")."""
        plays = {**self.search.runs, **{one.line: one.played for one in self.early}, **self.search.proved}
        if self.stage.end is not None:
            plays[self.stage.end.played.history.line] = self.stage.end.played
        return _reused(plays.get(finding.line.partition("/")[2]))


def _reused(played: HistoryRun | None) -> list[int | None]:
    """Return the reported reuse per request of a run, None for its first prompt ("wash")."""
    warm = played.warm if played is not None else ()
    return [None, *(one.cached if isinstance(one, Reply) and not one.refused else None for one in warm)]


def _counted_once(results: Sequence[Result], rules: Mapping[str, Sequence[MatchingRuleSet]]) -> Iterator[Result]:
    """Yield the results. A failed property shows the same fault as an earlier one only if the same rule decided both
    and the same change of it removes both."""
    first: dict[tuple[str, str, str], str] = {}
    for one in results:
        match = next(iter(rules.get(one.name, ())), None)
        like = ""
        if match is not None and match.rule:
            like = first.setdefault((match.engine, match.rule, match.cure), one.name)
        yield replace(one, like=like if like != one.name else "")


def _noise(stages: ServerStages, wanted: CheckOptions, sections: AbstractSet[str], bounds: ParallelBounds) -> float:
    """Detect how images are sent. Return the noise of prompts, of prompts with images, and of prompts that arrive
    together without the cache; 0 if the tolerance is given."""
    most, measured = longest(stages.text.server), 0.0
    if wanted.tolerance is None:
        measured = faults.measure(stages.text, most)
        if "parallel" in sections:
            lines = [parse_history(line).uncached.line for line in burst_lines(bounds.most // 2, bounds.at_once)]
            measured = max(measured, faults.measure(stages.text, bounds.at_once * most, lines[:BURSTS]))
    stages.text.twice = TWICE
    if wanted.images and (sections & KEYED or any(parse_history(line).has_images for line in wanted.histories)):
        stages.find_images()
        measured = measured if wanted.tolerance is not None else max(measured, stages.measure_images(most))
    return measured


def _played(plan: HistoryPlan, stages: ServerStages, search: ConfirmingSearch, at_once: int) -> Report:
    """Run the suite; return its report with the result on repeatability."""
    only = set(plan.only)
    shared = ["same"] if {"known", "drawn", "parallel"} & only else []           # properties of their histories
    shared += ["isolation", "faults"] if "parallel" in only else []
    plan = replace(plan, only=(*plan.only, *shared))
    abilities = SubjectAbilities({**NOT_HERE, **stages.text.server.missing})
    report = make_report(plan, abilities, search, partial(_cold_answer, stages))
    results = [_with_number(search.with_errors(search.controlled(one)), at_once) for one in report.results]
    return replace(report, results=(search.repeatable(), *search.numbers(), *results))


def _with_number(result: Result, at_once: int) -> Result:
    """Return the result; with the number of distinct answers if identical prompts got a single one."""
    if result.name != "identical" or result.state != "ok":
        return result
    return replace(result, why=f"1 distinct answer to {at_once} identical prompts at once")


def _with_end(result: Result, stage: ServerRunner) -> Result:
    """Return the result; "answers" becomes a failure if the server answered no further request."""
    if stage.end is None or result.name != "answers":
        return result
    played, request, what = stage.end
    said = played.warm[request]
    check = PropertyCheck(
        "answers", False, request, "a reply", reply_text(said) if isinstance(said, Reply) else str(said)
    )
    finding = make_finding(played.history.line, check, played, [stage.http.dead])
    return replace(result, state="failed", why=f"not shrunk: the server {what}", finding=finding)


def _cold_answer(stages: ServerStages, ask: CacheRequest) -> Outcome:
    """Return the cold reply of a server, for the diagnosis of a finding."""
    try:
        return stages.answer(ask)
    except Exhausted as end:
        return Failed(str(end))


def _with_wash(result: Result) -> Result:
    """Return the result, with the first prompt of every run ("wash") prepended to its finding."""
    return replace(result, finding=_washed(result.finding)) if result.finding is not None else result


def _washed(found: Finding) -> Finding:
    return replace(found, line=f"Wash{WASH}/{found.line}", request=found.request + 1)


def longest(server: ServerFacts) -> int:
    """Return the longest prompt in tokens."""
    return max(64, min(LONGEST, server.n_ctx - 64))
