"""Search for the versions at which the outcome of a request changed, and for the rules that caused it.

The scenario runs under every version in build order. Where two neighbours answer a request differently, the fields in
which they differ are put into the older version: each alone, then all of them, reduced by delta debugging.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import NotInBuild, OverLimit
from cachesim.engines.build_names import builds_in_order, without_place
from cachesim.engines.contract import Engine
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.rule_set import Change, RuleSet
from cachesim.judging.judged_run import JudgedRuns
from cachesim.judging.judgement import Judgement
from cachesim.judging.outcomes import ObservedDifference, StepOutcome, differences, observed
from cachesim.judging.shared_runs import SharedRuns
from cachesim.scenarios.schema import Scenario

NO_ANSWER = -1               # in place of an HTTP status


def status_of(judgement: Judgement) -> int:
    """Return the HTTP status of a judged request, 0 if the server process ended, ``NO_ANSWER`` if it never answers."""
    if judgement.answer.died:
        return 0
    return NO_ANSWER if judgement.judged.answer.rung == "unanswered" else judgement.answer.status


class RequestOutcome(NamedTuple):
    """Outcome of a request: the numbers that reports show, ``status`` 0 = the server process ended, ``NO_ANSWER`` = it
    goes on and never answers, and all observables that are compared."""

    cache_n: int
    equal_cold: bool | None
    status: int
    seen: StepOutcome = StepOutcome({})


class ChangedFields(NamedTuple):
    """Fields that were exchanged together; ``is_alone``: a single field that is sufficient by itself."""

    changes: tuple[Change, ...]
    is_alone: bool


@dataclass(slots=True)
class OutcomeChange:
    """A change of the outcome between two neighbouring versions. Each of several causes is sufficient by itself. The
    outcome is None if the version does not have an option of the scenario."""

    old: str
    new: str
    was: RequestOutcome | None
    now: RequestOutcome | None
    causes: list[ChangedFields] = field(default_factory=list)

    def matches(self, found: RequestOutcome | None) -> bool:
        """True if an outcome under a mixture is the new one: in the numbers that reports show if the two
        versions differ in them, else in everything that was compared."""
        shown = slice(0, 3) if self.was is None or self.now is None or self.was[:3] != self.now[:3] else slice(None)
        return (found or ())[shown] == (self.now or ())[shown]

    @property
    def differs(self) -> list[ObservedDifference]:
        """The observables that differ, the most important first; [] if a version does not have an option."""
        return [] if self.was is None or self.now is None else differences(self.was.seen, self.now.seen)


@dataclass(slots=True)
class RequestHistory:
    """Outcomes of a request under every version in order, the changes between them (``turns``), and those of the
    proposals (``beside``)."""

    outcomes: dict[str, RequestOutcome | None]
    turns: list[OutcomeChange] = field(default_factory=list)
    beside: list[OutcomeChange] = field(default_factory=list)


def neighbours(engine: Engine, log: bool = False) -> list[tuple[str, str]]:
    """Return pairs (older, newer): every version with its predecessor, then every proposal with its base. The versions
    are the recorded rule sets and, between them, every build at which a decision (with ``log``, or the log) changed."""
    return _neighbours(builds_in_order(engine, log), engine)


def _neighbours(builds: Sequence[str], engine: Engine) -> list[tuple[str, str]]:
    return [*pairwise(builds), *((base, name) for name, base in engine.beside.items())]


class ComparedNeighbours(NamedTuple):
    """Outcomes of all requests under two neighbouring rule sets, and the changes between them by number of the
    request."""

    old: str
    new: str
    before: Sequence[RequestOutcome | None]
    after: Sequence[RequestOutcome | None]
    changes: Mapping[int, OutcomeChange]


def bisect(
    scenario: Scenario, engine: Engine, pairs: Iterable[tuple[str, str]] | None = None, mode: str = "provenance",
    log: bool = False, requests: Collection[int] | None = None,
) -> list[RequestHistory]:
    """Return the history of every request. Rule sets without a neighbour run, too, but are not compared. ``pairs``:
    neighbours, as an iterable that may show progress, None = all. ``mode``: comparison with cold runs, "provenance" or
    "exact". ``log``: compare the lines of the log, too. ``requests``: numbers of the requests whose changes are found,
    None = all."""
    bisection = Bisection(scenario, engine, mode, log)
    return bisection.histories(bisection.compared(bisection.neighbours() if pairs is None else pairs, requests))


class Bisection:
    """Runs of a scenario under versions and mixtures of them, each made once. ``mode``: comparison with cold runs,
    "provenance" or "exact". ``log``: compare the lines of the log, too."""

    def __init__(self, scenario: Scenario, engine: Engine, mode: str, log: bool) -> None:
        self.scenario = scenario
        self.engine = engine
        self.mode = mode
        self.judged = JudgedRuns(mode)
        self.log = log
        self.known: dict[tuple[str, str, frozenset[str]], Sequence[RequestOutcome | None]] = {}
        self.builds = builds_in_order(engine, log)
        self.newer = dict(pairwise(self.builds))
        self.runs = SharedRuns(self._outcomes_under, self._tables(), log)

    def neighbours(self) -> list[tuple[str, str]]:
        """Return the pairs (older, newer) of the engine, as the function ``neighbours`` does."""
        return _neighbours(self.builds, self.engine)

    def compared(
        self, pairs: Iterable[tuple[str, str]], requests: Collection[int] | None = None
    ) -> Iterator[ComparedNeighbours]:
        """Compare neighbours, and yield each comparison. ``requests``: numbers of the requests whose changes are found,
        None = all. Raise OverLimit."""
        for old, new in pairs:
            before, after = self.outcomes(old), self.outcomes(new)
            changes = {}
            for number, (was, now) in enumerate(zip(before, after, strict=True)):
                if was != now and (requests is None or number in requests):
                    turn = OutcomeChange(old, new, was, now)
                    turn.causes += self.causes(turn, number)
                    changes[number] = turn
            yield ComparedNeighbours(old, new, before, after, changes)

    def histories(self, compared: Iterable[ComparedNeighbours]) -> list[RequestHistory]:
        """Return the history of every request. Rule sets that were not compared run, too."""
        found = [RequestHistory({}) for _ in self.scenario.steps]
        seen = set[str]()
        for pair in compared:
            seen |= {pair.old, pair.new}
            for number, course in enumerate(found):
                course.outcomes |= {pair.old: pair.before[number], pair.new: pair.after[number]}
                if number in pair.changes:
                    (course.beside if pair.new in self.engine.beside else course.turns).append(pair.changes[number])
        for name in (name for name in (*self.builds, *without_place(self.engine)) if name not in seen):
            for number, outcome in enumerate(self.outcomes(name)):
                found[number].outcomes[name] = outcome
        return found

    def _tables(self) -> list[RuleSet]:
        """Return the rule sets of the engine, and those that were composed for its builds."""
        return [self.rules(name) for name in dict.fromkeys([*self.engine.profiles, *self.builds])]

    def rules(self, name: str) -> RuleSet:
        """Return the engine's rule set of this name, or the registered one that was composed for a build."""
        return self.engine.rules(name) if name in self.engine.profiles else rules_of(name)

    def outcomes(self, old: str, new: str = "", names: frozenset[str] = frozenset()) -> Sequence[RequestOutcome | None]:
        """Return the outcomes of all requests under the older version with these fields of the newer version."""
        key = (old, new if names else "", names)
        if key not in self.known:
            older = self.rules(old)
            table = older.mixed(self.rules(new), names) if names else older
            self.known[key] = self._mixed(table) if names else self._shared(old, table)
        return self.known[key]

    def _mixed(self, table: RuleSet) -> Sequence[RequestOutcome | None]:
        """Return the outcomes under a mixture of two versions. Its rules may not fit together, because no server has
        it: all outcomes are None then. Raise OverLimit."""
        try:
            return self.runs.unshared(table)
        except OverLimit:
            raise
        except Exception:
            return [None] * len(self.scenario.steps)

    def _shared(self, name: str, table: RuleSet) -> Sequence[RequestOutcome | None]:
        """Return the outcomes under a version, whose fields may be exchanged for those of the next one."""
        newer = self.newer.get(name)
        return self.runs.result(table, near=self.rules(newer) if newer else None)

    def _outcomes_under(self, table: RuleSet) -> Sequence[RequestOutcome | None]:
        """Return the outcomes of all requests under a rule set, None if it does not have an option of the scenario."""
        try:
            run = self.judged.run(self.scenario, table.name, table)
        except NotInBuild:
            return [None] * len(self.scenario.steps)
        return [
            RequestOutcome(one.answer.cache_n, one.judged.equal_cold, status_of(one),
                           observed(run, number, self.log))
            for number, one in enumerate(run.requests)
        ]  # fmt: skip

    def causes(self, turn: OutcomeChange, number: int) -> Iterator[ChangedFields]:
        """Yield the fields that turn the older version's outcome of a request into the newer version's. If one of the
        versions was not run, yield only fields that suffice alone."""
        old, new = turn.old, turn.new
        changes = self.rules(old).changes(self.rules(new), self.log)

        def suffices(*fields: Change) -> bool:
            names = frozenset(one.field for one in fields)
            return bool(names) and turn.matches(self.outcomes(old, new, names)[number])

        alone = [one for one in changes if suffices(one)]
        if alone:
            yield from (ChangedFields((one,), True) for one in alone)
            return
        if None in (turn.was, turn.now):           # versions that were not run show no joint effect of fields
            return
        left: list[Change] = []
        further = list(changes)
        while left != further:              # a field may be needed only beside one that is removed after it
            left = list(further)
            for one in left:
                if suffices(*(other for other in further if other is not one)):
                    further.remove(one)
        yield ChangedFields(tuple(left), False)
