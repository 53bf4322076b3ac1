"""The whole of it: what server is it, how large is its noise, which sections hold, and which rule would do that?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Sequence

from cachesim.check.dialect import Server
from cachesim.check.http import Http
from cachesim.check.warm_first import WASH, Stage
from cachesim.conformance.abilities import Abilities
from cachesim.conformance.fingerprint import difference, near
from cachesim.conformance.history import of_line
from cachesim.conformance.history_player import Bench, Cold, Outcome
from cachesim.conformance.protocol import Ask, Failed, Reply, Subject
from cachesim.conformance.report import Report
from cachesim.conformance.report_builder import Plan, make_report
from cachesim.conformance.search import Search
from cachesim.conformance.sections import chosen
from cachesim.conformance.timeouts import Patience
from cachesim.errors import BadInput

NOISE = ("A40", "A5>a3/A.a.B1", "A30/A.B2", "A64/A.B1", "A69/A[:64]", "A260/A.B1", "A261/A[:256]", "A517/A[:512]")
"""The same cold twice; split differently, in long prompts too: a prompt of 64 tokens has another kernel than one token
behind 63, and under default flags that is a thousand times the difference of short ones."""
ROUNDS = 3                           # with other tokens each time
TIMES = 10                           # what was measured, so often, is allowed
WINDOWS = (32, 64, 128, 256, 512, 1024)
BEHIND = (5, 9)                      # tokens of the first prompt behind the window: one play may differ by little
LEAST, LEGAL, MOST = 0.005, 0.03, 0.1
"""Noise has a long tail: of a server with noise of 5e-6 some legal splits differ by 1e-3, so ``LEAST`` is always
allowed. Larger differences than ``LEGAL`` are no noise; more than ``MOST`` is never allowed."""
NOT_HERE = {"limits": "a server states no limits that can be compared", "reset": "prompts get new tokens instead",
            "sampling": "all requests are greedy"}  # fmt: skip


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
class Checked:
    """What came of it. ``measured``: the noise; ``tolerance``: what was allowed; ``rules``: for a property that failed,
    rule sets that do the same, with the rule behind it."""

    server: Server
    report: Report
    measured: float
    tolerance: float
    requests: int
    rules: dict[str, list[str]] = field(default_factory=dict)


def check(http: Http, server: Server, wanted: Wanted) -> Checked:
    """Check a server. Raises BadInput for one that cannot be checked."""
    stage = Stage(http, server, near(0.0), wanted.seed)
    most = _longest(server)
    measured = _noise(stage, most)
    tolerance = max(LEAST, min(MOST, TIMES * measured)) if wanted.tolerance is None else wanted.tolerance
    same = near(max(tolerance, 1e-9))
    patience = Patience(wanted.timeout, wanted.seconds)
    known = known_lines(most) if "known" in chosen(wanted.only, True) and not wanted.histories else ()
    only = tuple(wanted.only) + (("same",) if {"known", "drawn"} & set(wanted.only) else ())    # what fails in them
    plan = Plan("any", (*wanted.histories, *known), wanted.examples, 6, most, wanted.near, server.tokens, only)
    search = Search(stage.play, same, patience)
    abilities = Abilities(NOT_HERE)
    report = make_report(plan, abilities, search, _ServerCold(stage))
    found = Checked(server, report, measured, tolerance, http.sent)
    for one in report.results:
        if one.finding is not None and one.state == "failed":
            found.rules[one.name] = list(_who_does_that(washed(one.finding.line), one.finding.request + 1))[:4]
    found.requests = http.sent
    return found


class _ServerCold(Cold):
    """Cold replies of a server, for the diagnosis of a finding."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(Bench(_never), True, stage.same)
        self.stage = stage

    def answer(self, ask: Ask) -> Outcome:
        return self.stage.answer(ask)


def _never() -> Subject:
    raise Failed("a server is not made anew")


def _noise(stage: Stage, most: int) -> float:
    """The largest difference between two answers that should be the same. Raises BadInput if nothing answers."""
    largest = 0.0
    lines = [of_line(line) for line in NOISE * ROUNDS]
    for history in (line for line in lines if line.tokens <= 2 * most):
        played = stage.play(history)
        bad = next((one for one in (*played.warm, *played.cold) if isinstance(one, Failed)), None)
        if bad is not None:
            raise BadInput(str(bad), file=stage.http.url)
        for one, two in (*zip(played.warm, played.cold, strict=False), *zip(played.cold, played.again, strict=False)):
            if isinstance(one, Reply) and isinstance(two, Reply):
                found = difference(one.fingerprint, two.fingerprint)
                size = found.largest if found is not None else 0.0
                largest = max(largest, size if size <= LEGAL else 0.0)
    return largest


def washed(line: str) -> str:
    """The history with the prompt that every play begins with."""
    return f"Wash{WASH}/{line}"


def known_lines(most: int) -> Iterator[str]:
    """The shortest histories of faults that llama.cpp has had, with windows of usual sizes: a checkpoint that survives
    another prompt, one token behind a common prefix, a prefix of just the window."""
    yield from ("A5/B10/B[:1].C5", "A5/B10/B[:3].C3")
    if most > 610:
        yield "S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3"
    for behind in BEHIND:
        yield from (f"A{window + behind}/A[:{window}]" for window in WINDOWS if window + behind <= most)


def _longest(server: Server) -> int:
    return max(64, min(1024, server.n_ctx // max(1, server.slots) - 64))


def _in_one_slot(line: str) -> str:
    """The line with every request in slot 0, as it is played."""
    return "/".join(step if "{" in step else f"{step}@0" for step in line.split("/"))


def _who_does_that(line: str, request: int) -> Iterator[str]:
    """Rule sets under which the simulator answers the same request wrong, with the rule behind it."""
    from cachesim.engines.registry import ENGINES
    from cachesim.scenarios.notation import from_line
    from cachesim.verdicts.judged_run import run_judged

    for engine in ENGINES.values():
        profile = engine.newest or (engine.line[-1] if engine.line else "")
        if not profile or not engine.manual.slots:
            continue
        for model in ("GA", "S", "W32 A", "A"):
            try:
                scenario = from_line(_in_one_slot(line), model=model, profiles=(profile,))
                run = run_judged(scenario, profile, "provenance")
            except BadInput:
                continue
            if request in run.broken:
                yield f"{profile} answers it wrong on {model}: {run.requests[request].answer.deciding}"
