"""Complete check of a server over HTTP: known faults, noise, the suite of ``conform``.

Known faults come first because each needs few requests. Then the noise is measured and the suite is run. A finding
lists the rule sets whose simulation has the same fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import AbstractSet, Iterator, Sequence

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.fingerprint import near
from cachesim.tools.conformance.history_player import Abilities, ColdRuns, Outcome, SubjectPool
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.confirming_search import ConfirmingSearch, ServerBudget
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.drafts import detect_drafts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.keyed_histories import ServerStages, keyed_histories
from cachesim.tools.conformance.http_check.known_faults import EarlyFinding
from cachesim.tools.conformance.http_check.parallel_histories import (
    ParallelBounds,
    bounds_of,
    burst_lines,
    parallel_lines,
)
from cachesim.tools.conformance.http_check.replies import NearAnswers
from cachesim.tools.conformance.http_check.warm_run import TWICE, WASH, ServerRunner
from cachesim.tools.conformance.properties import PROPERTIES, Check, reply_text
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, Subject
from cachesim.tools.conformance.report import SHORT, Finding, Report, Result, chosen, make_finding
from cachesim.tools.conformance.report_builder import HistoryPlan, make_report

NOT_HERE = {"limits": "a server states no comparable limits", "reset": "prompts get new tokens instead",
            "sampling": "all requests are greedy"}  # fmt: skip
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
    early: list[tuple[str, int]] = field(default_factory=list)       # known faults found first: line, requests so far
    rules: dict[str, list[str]] = field(default_factory=dict)        # failed property -> rule sets that match
    died: bool = False                   # the server died during the check
    image_tokens: int = 0                # tokens of an image, 0 = none was sent


def check(http: Http, server: ServerFacts, wanted: CheckOptions) -> ServerReport:
    """Check a server. Raises BadInput if it cannot be checked."""
    server = replace(server, drafts=detect_drafts(http, server))
    stage = ServerRunner(http, server, near(0.0), wanted.seed)
    budget = ServerBudget(http, wanted.timeout, wanted.seconds)
    most, sections = longest(server), chosen(wanted.only, True)
    known = "known" in sections and not wanted.histories
    early = list(faults.look(stage, most)) if faults.repeats(stage) and known else []
    stages = ServerStages(stage)
    plan = HistoryPlan("any", wanted.histories, wanted.examples, 6, most, (*wanted.near, *server.sizes), server.tokens,
                       wanted.only, keyed={}, drafts=server.drafts)  # fmt: skip
    bounds = bounds_of(server, wanted.at_once, plan.near)
    measured = _noise(stages, wanted, sections, bounds)
    tolerance = faults.tolerance_of(measured) if wanted.tolerance is None else wanted.tolerance
    if sections & KEYED:
        n = max(8, min(max(SHORT, 2 * max(plan.near) + 2), most - ROOM))
        plan = replace(plan, keyed=dict(keyed_histories(stages, tolerance, n, server.n_ctx - ROOM, bounds.at_once)))
    if known:
        plan = replace(plan, histories=tuple(faults.known_lines(most, server.sizes)), last=faults.LAST)
    if "parallel" in sections:
        plan = replace(plan, parallel=tuple(parallel_lines(server, bounds, wanted.rounds, wanted.seed)))
    search = ConfirmingSearch(stages.play, NearAnswers(max(tolerance, 1e-9)), budget,
                              stages.play_undrafted if server.drafts else None)  # fmt: skip
    report = _played(plan, stages, search, bounds.at_once)
    results = [_with_wash(_with_death(_with_early(result, early), stage)) for result in report.results]
    report = replace(report, results=tuple(results))
    found = ServerReport(server, report, measured, tolerance, http.sent, [(one.line, one.sent) for one in early])
    found.died, found.image_tokens = stage.death is not None, stages.image_tokens
    found.rules = dict(_matching(found, search, early, stage))
    return found


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


def _matching(found: ServerReport, search: ConfirmingSearch, early: Sequence[EarlyFinding],
              stage: ServerRunner) -> Iterator[tuple[str, list[str]]]:  # fmt: skip
    """Yield each failed property with the rule sets that have the same fault."""
    scales = ",".join(f"{adapter.scale:g}" for adapter in found.server.adapters)
    for one in found.report.results:
        if one.finding is not None and one.state == "failed" and one.name in PROPERTIES:
            line, request, cached = one.finding.line, one.finding.request, _cached(one.finding, search, early, stage)
            slots = found.server.client is None
            yield one.name, faults.matching_rule_sets(line, request, cached, slots, scales)[:4]


def _cached(finding: Finding, search: ConfirmingSearch, early: Sequence[EarlyFinding],
            stage: ServerRunner) -> list[int | None]:  # fmt: skip
    """Return the reported reuse per request in a run of the finding, including its first prompt ("wash")."""
    plays = {**{one.line: one.played for one in early}, **search.proved}
    if stage.death is not None:
        plays[stage.death.played.history.line] = stage.death.played
    played = plays.get(finding.line.partition("/")[2])
    warm = played.warm if played is not None else ()
    return [None, *(one.cached if isinstance(one, Reply) and not one.refused else None for one in warm)]


def _played(plan: HistoryPlan, stages: ServerStages, search: ConfirmingSearch, at_once: int) -> Report:
    """Run the suite; return its report with the result on repeatability."""
    only = set(plan.only)
    shared = ["same"] if {"known", "drawn", "parallel"} & only else []           # properties of their histories
    shared += ["isolation", "faults"] if "parallel" in only else []
    plan = replace(plan, only=(*plan.only, *shared))
    report = make_report(plan, Abilities({**NOT_HERE, **stages.text.server.missing}), search, _ServerCold(stages))
    results = [_with_number(search.with_errors(search.controlled(one)), at_once) for one in report.results]
    return replace(report, results=(search.repeatable(), *results))


def _with_number(result: Result, at_once: int) -> Result:
    """Return the result; with the number of distinct answers if identical prompts got a single one."""
    if result.name != "identical" or result.state != "ok":
        return result
    return replace(result, why=f"1 distinct answer to {at_once} identical prompts at once")


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
