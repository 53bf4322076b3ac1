"""The rule that decided the outcome of a request, found by exchange.

A rule decided if the server behaves better with the variant that another rule set of the engine has of it: the fault is
gone, a refused request is answered, more tokens are reused, or the request costs less (``RequestCost``), and no request
before becomes wrong. An error in place of the fault counts only if the other rule set as a whole gives an error, too.
Every statement was checked by a run with this one rule exchanged. Costs are compared only with later, repaired and
proposed rule sets that cost less as a whole.

The rule sets are tried in this order: corrections of the run's own proposal; those after the run's, the nearest first;
repaired ones; proposals; those before it, the nearest first. A rule set that as a whole behaves better comes before one
that does not: the first of them contains the correction that was really made. Before its rules come those that a later
or proposed one has, and that correct the answer without a loss of what was reused or stored: others may only hide the
fault. Among the rules of a rule set, those that it changed itself come first, then the rule whose latest deciding
answer is latest in the run, then the rule whose exchange changes fewest other requests.
"""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from typing import Callable, Hashable, Iterator, NamedTuple, Sequence

from cachesim.base.errors import Terminated
from cachesim.engines.registry import engine_of
from cachesim.engines.rule_outcomes import TooManyDecisions
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run, RunInterrupted
from cachesim.judging.request_cost import ObservedRequest, ObservedRuns, RequestCost, up_to
from cachesim.judging.rule_exchange import AskedRules, RuleVariant, exchanged, variants_in
from cachesim.judging.rule_set_order import changed_here, newer_rule_sets, search_order
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Step

TOKENS = 2_000_000       # prompt tokens of all runs of a search; a search that needs more is incomplete
FEWEST = 24              # runs of a search whatever its size
ENDLESS = 20             # a run that makes this many times the decisions of the first is ended


class FailureKind(StrEnum):
    """What a rule decided about a request."""

    FAULT = "fault"          # the answer, or the state that it left behind, differs from a cold run's
    REFUSED = "refused"      # an error, in a cold run too
    LOSS = "loss"            # tokens were evaluated that had been evaluated before
    COST = "cost"            # more decode calls or memory than under a later rule set, or another count of drafts


class CuringRule(NamedTuple):
    """A rule whose exchange removes a failure. ``variant`` of the rule set ``variant_of`` replaces ``rule``;
    ``request``: request of the rule's first answer that the variant gives otherwise, -1 = at the start of the server;
    ``cache_n``, ``cost`` and ``status``: those of the failing request then; ``changed``: other requests whose outcome
    changes."""

    field: str
    rule: str
    variant: str
    variant_of: str
    request: int
    cache_n: int
    cost: RequestCost
    changed: int
    status: int = 200


class DecidingRule(NamedTuple):
    """Result of a search. ``cures``: rules that suffice alone, the deciding one first. ``together``: rules that suffice
    only together, as the rule set changed them, if none suffices alone; ``source``: the change that contains all of
    them, "" = several. ``tried``: number of variants whose answers differ; ``complete`` False = some were not tried.
    ``cost``: that of the request under its own rules."""

    failing: int
    what: FailureKind
    cures: tuple[CuringRule, ...]
    together: tuple[RuleVariant, ...] = ()
    source: str = ""
    tried: int = 0
    complete: bool = True
    cost: RequestCost = RequestCost()

    @property
    def rule(self) -> str:
        """Id of the rule that decided, "" if none did alone."""
        return self.cures[0].rule if self.cures else ""

    @property
    def variant_of(self) -> str:
        """Name of the rule set whose variant removes the failure, "" if none does alone."""
        return self.cures[0].variant_of if self.cures else ""

    @property
    def others(self) -> tuple[CuringRule, ...]:
        """The other rules whose exchange removes the failure."""
        return self.cures[1:]


ShowProgress = Callable[[str, int, int], None]
"""Shows how much of a search is done: what is done now, tries so far, tries in all."""


def deciding_rule(
    run: Run, number: int, rules: RuleSet | None = None, runs: ObservedRuns | None = None,
    show: ShowProgress = lambda what, done, total: None,
) -> DecidingRule | None:
    """Return the rule that decided the failure of request ``number``, or its cost if none did; None for
    a request that no rule set improves, and for a rule set that the engine does not know. ``rules``: those of the run,
    None = those of its profile. ``runs``: runs in provenance mode of the scenario ``up_to`` this request. ``show``:
    called before each run."""
    profile = run.profile.removesuffix(" (changed)")
    if rules is None and run.profile not in engine_of(profile).profiles:
        return None
    table = rules or engine_of(profile).profiles[profile]
    what = failure_of(run, number)
    first = None
    runs = runs or ObservedRuns(up_to(run.scenario, number), profile)
    for mode in ("provenance", "exact") if run.mode == "exact" and what is FailureKind.FAULT else ("provenance",):
        shared = runs if mode == "provenance" else ObservedRuns(up_to(run.scenario, number), profile, mode)
        search = _Search(run, number, what or FailureKind.COST, table, profile, mode, shared, show)
        if search.shows_failure and what is not None:
            first = search.result()
            break
    if what is FailureKind.FAULT or (first is not None and (first.cures or first.together)):
        return first or DecidingRule(number, FailureKind.FAULT, ())
    search = _Search(run, number, FailureKind.COST, table, profile, "provenance", runs, show, search.left)
    cost = search.result()
    return cost if cost.cures else first


def failure_of(run: Run, number: int) -> FailureKind | None:
    """Return what is wrong with a request; None for a correct answer that lost nothing."""
    one = run.requests[number]
    if one.judged.equal_cold is False:
        return FailureKind.FAULT
    if one.judged.is_refused:
        return FailureKind.REFUSED
    return FailureKind.LOSS if one.judged.equal_cold and any(charge.tokens for charge in one.ledger.charges) else None


class _Clock(SilentObserver):
    """Tells the recorder which request begins."""

    def __init__(self, asked: AskedRules) -> None:
        self.asked = asked

    def begins(self, number: int, step: Step) -> None:
        self.asked.request = number


def regains_much(what: FailureKind, now: int, before: int, lost: int) -> bool:
    """True if at least half of the lost tokens are reused, ``now`` instead of ``before``; a failure without a loss
    counts as much."""
    return what is not FailureKind.LOSS or 2 * (now - before) >= lost


class _Search:
    """Runs of the requests up to a failure with exchanged rules. ``runs``: those of this mode; ``left``: number of
    tries, None = as many as the size of the prompts allows."""

    def __init__(self, run: Run, number: int, what: FailureKind, rules: RuleSet, profile: str, mode: str,
                 runs: ObservedRuns, show: ShowProgress, left: int | None = None) -> None:  # fmt: skip
        self.number = number
        self.what = what
        self.rules = rules
        self.profile = profile
        self.mode = mode
        self.scenario = up_to(run.scenario, number)
        self.engine = engine_of(profile)
        size = sum(len(step.request.prompt) for step in self.scenario.steps)
        self.left = max(FEWEST, TOKENS // max(1, size)) if left is None else left
        self.decisions, self.complete = 0, True
        ledger = run.requests[number].ledger
        self.lost = max(0, ledger.best - ledger.n_past)
        self.runs = runs
        self.show = show
        self.done: dict[Hashable, Sequence[ObservedRequest] | None] = {}
        self.was: Sequence[ObservedRequest] = ()
        self.was = self._once(rules, "") or ()
        self.errors: set[str] = set()         # rule sets that as a whole give an error in place of the fault

    @property
    def shows_failure(self) -> bool:
        """True if the run fails in this mode, too."""
        fault = bool(self.was) and self.was[self.number].outcome.equal_cold is False
        return bool(self.was) and (fault or self.what is not FailureKind.FAULT)

    def _outcomes(self, table: RuleSet) -> Sequence[ObservedRequest] | None:
        """Return the outcomes of all requests under a rule set; None if it cannot run them, or if the request does not
        reuse more of its lost tokens."""
        most = ENDLESS * self.decisions
        try:
            if self.what is FailureKind.LOSS and self.was:
                return self.runs.reusing(table, self.number, self.was[self.number].outcome.cache_n, most)
            return self.runs.unshared(table, most) if most else self.runs.result(table)
        except RunInterrupted as stopped:
            raise KeyboardInterrupt if stopped.number is None else Terminated(stopped.number) from None
        except (Exception, TooManyDecisions):         # the server cannot continue with this rule
            return None

    def _once(self, table: RuleSet, key: Hashable) -> Sequence[ObservedRequest] | None:
        if key not in self.done:
            self.done[key] = self._outcomes(table)
        return self.done[key]

    def _try(self, table: RuleSet, key: Hashable, errors: bool = False) -> Sequence[ObservedRequest] | None:
        """Return the outcomes under a rule set if they are better; None if not, or if too much was tried already. With
        ``errors`` an error in place of the fault is better, too."""
        if self.left <= 0:
            self.complete = False
            return None
        self.left -= 1
        found = self._once(table, key)
        return found if found is not None and self._better(found, errors) else None

    def _better(self, found: Sequence[ObservedRequest], errors: bool) -> bool:
        """True if the failure is gone and no request is wrong or undecided that was correct before."""
        new, old = found[self.number], self.was[self.number]
        spoilt = any(was.outcome.equal_cold and not now.outcome.equal_cold
                     for was, now in zip(self.was, found, strict=True))  # fmt: skip
        if spoilt or not (new.outcome.equal_cold or (errors and self._refused(found))):
            return False
        if self.what is FailureKind.COST:
            return new.cost.is_better(old.cost, new.outcome.cache_n - old.outcome.cache_n)
        return self.what is not FailureKind.LOSS or new.outcome.cache_n > old.outcome.cache_n

    def _refused(self, found: Sequence[ObservedRequest]) -> bool:
        """True if an error takes the place of the fault. A rule that does this comes after all that do not."""
        new = found[self.number].outcome
        return self.what is FailureKind.FAULT and new.equal_cold is None and new.status not in (0, 200)

    def _keeps_all(self, found: Sequence[ObservedRequest]) -> bool:
        """True if a wrong answer became correct without a loss: a rule without which a stored object disappears removes
        the fault, too, but not its cause."""
        return self.what is FailureKind.FAULT and all(map(ObservedRequest.keeps, found, self.was))

    def _much(self, cache_n: int) -> bool:
        """True if much is reused with so many reused tokens."""
        return regains_much(self.what, cache_n, self.was[self.number].outcome.cache_n, self.lost)

    @cached_property
    def order(self) -> list[tuple[str, bool, bool]]:
        """Names of the other rule sets in the order of the search; whether each behaves better as a whole, and by much
        for a loss."""
        found, costs = [], self.what is FailureKind.COST
        names = (newer_rule_sets if costs else search_order)(self.profile, self.rules)
        for tried, name in enumerate(names):
            self.show("comparing versions", tried, len(names))
            whole = self._try(self.engine.profiles[name], name, errors=True)
            good = whole is not None and not self._refused(whole)
            self.errors |= {name} if whole is not None and not good else set()
            much = good and whole is not None and self._much(whole[self.number].outcome.cache_n)
            if whole is not None or not costs:
                found.append((name, good, much))
        return sorted(found, key=lambda one: (not one[2], not one[1]))

    @cached_property
    def better(self) -> list[str]:
        """Names of the rule sets that behave better as a whole, in the order of the search."""
        return [name for name, good, _ in self.order if good]

    @cached_property
    def corrections(self) -> set[str]:
        """Names of those of them that are not older than the run's."""
        return set(self.better) & set(newer_rule_sets(self.profile, self.rules))

    def result(self) -> DecidingRule:
        """Return the rules that suffice alone, else those that suffice together."""
        names = [name for name, _, _ in self.order]
        known = variants_in(self.rules, [self.engine.profiles[name] for name in names], numbers=True)
        asked = AskedRules(self.rules, known)
        with suppress(Exception):     # a failure of the simulator: all that was asked before it counts
            play(self.scenario, self.profile, self.mode, _Clock(asked), asked.rules)
        self.decisions = asked.count
        cures = sorted(self._cures(known, asked, names), key=lambda one: one[0])
        best: dict[str, CuringRule] = {}
        for _, cure in cures:
            best.setdefault(cure.field, cure)
        together, source = ((), "") if best else self._together()
        return DecidingRule(self.number, self.what, tuple(best.values()), together, source, len(asked.matter),
                            self.complete, self.was[self.number].cost)  # fmt: skip

    def _cures(
        self, known: Sequence[RuleVariant], asked: AskedRules, names: Sequence[str]
    ) -> Iterator[tuple[tuple[int, ...], CuringRule]]:
        for i, one in enumerate(known):
            self.show("exchanging rules", i, len(known))
            errors = one.profile in self.errors
            found = self._try(exchanged(self.rules, [one]), (one,), errors) if i in asked.matter else None
            if found is None:
                continue
            new = found[self.number]
            changed = sum(was.outcome != now.outcome and k != self.number
                          for k, (was, now) in enumerate(zip(self.was, found, strict=True)))  # fmt: skip
            inherited = not changed_here(self.profile, self.rules, one.profile, one.field)
            much, corrects = self._much(new.outcome.cache_n), one.profile in self.corrections
            order = not much, not (corrects and self._keeps_all(found)), names.index(one.profile)
            rank = (self._refused(found), *order, inherited, -asked.matter[i][0], changed)
            yield rank, CuringRule(one.field, one.old, one.new, one.profile, asked.first[i], new.outcome.cache_n,
                                   new.cost, changed, new.outcome.status)  # fmt: skip

    def _together(self) -> tuple[tuple[RuleVariant, ...], str]:
        """Return a smallest set of rules that a rule set changed and that suffices, and the one change behind them."""
        for name in self.better[:3]:
            table = self.engine.profiles[name]
            source = {change.field: change.source for change in self.rules.changes(table)}
            every = variants_in(self.rules, [table], numbers=True)
            at_once = [[one for one in every if source.get(one.field) == pull]
                       for pull in dict.fromkeys(source.values()) if pull]  # fmt: skip
            for group in (*at_once, every):
                if len(group) > 1 and self._try(exchanged(self.rules, group), tuple(group)) is not None:
                    left = self._reduced(group)
                    pulls = {source.get(one.field, "") for one in left}
                    return tuple(left), pulls.pop() if len(pulls) == 1 else ""
        return (), ""

    def _reduced(self, group: Sequence[RuleVariant]) -> list[RuleVariant]:
        left = list(group)
        for one in group:
            fewer = [other for other in left if other is not one]
            if fewer and self._try(exchanged(self.rules, fewer), tuple(fewer)) is not None:
                left = fewer
        return left
