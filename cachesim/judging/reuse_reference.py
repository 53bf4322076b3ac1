"""Reference for lost reuse: a rule set of the engine under which the lost tokens are reused.

A request loses tokens if its answer is correct and the recompute ledger charges tokens of its prompt to a decision
(``failure_of``). How many tokens a server should reuse is measured by another rule set of the same engine: it reuses
more of them, no answer is wrong under it, and no answer that was correct ceases to be.

The rule sets that a scenario file names are tried first. If none of them regains half of the lost tokens, all rule sets
of the engine are: those that regain half come first, of them those that are not older than the run's, then those that
regain most, then those with the fewest changes. If no rule set regains a token, a single rule may (``deciding_rule``).
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.engines.registry import engine_of, rules_of
from cachesim.judging.deciding_rule import FailureKind, deciding_rule, failure_of, regains_much
from cachesim.judging.judged_run import Run
from cachesim.judging.request_cost import ObservedRequest, ObservedRuns
from cachesim.judging.rule_set_order import newer_rule_sets, search_order


class LostReuse(NamedTuple):
    """Reuse of a request that loses tokens [tokens]. ``reusable``: longest prefix of its prompt that was evaluated
    before; ``regained``: tokens that it reuses under the reference, more than ``reused``."""

    request: int
    reused: int
    reusable: int
    regained: int

    @property
    def lost(self) -> int:
        """Number of tokens that are evaluated again, and not under the reference."""
        return self.regained - self.reused


class ReuseReference(NamedTuple):
    """A rule set without the loss, and the requests that reuse more under it. ``rule``: the only rule of that rule set
    that was exchanged, "" = it runs as a whole. ``source``: the pull request that a proposal consists of, "" = none, or
    several."""

    profile: str
    rule: str
    source: str
    lost: tuple[LostReuse, ...]

    @property
    def total(self) -> int:
        """Number of tokens that all requests reuse more."""
        return sum(one.lost for one in self.lost)

    @property
    def label(self) -> str:
        """Short name: the pull request, or the name of the rule set without its engine; a rule with that of its rule
        set."""
        name = self.source or self.profile.partition("@")[2]
        return f"{self.rule} of {name}" if self.rule else name


class ReferenceSearch:
    """Search for the reference of a run with a ledger."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rules = rules_of(run.profile)
        numbers = range(len(run.requests))
        self.losing = [number for number in numbers if self._loses(number)]

    def _loses(self, number: int) -> bool:
        """True if a request loses tokens, and its client reads how many it reused."""
        is_read = self.run.requests[number].request.cancel_at is None
        return is_read and failure_of(self.run, number) is FailureKind.LOSS

    @cached_property
    def runs(self) -> ObservedRuns:
        """Runs of the scenario under other rule sets."""
        return ObservedRuns(self.run.scenario, self.run.profile)

    def result(self) -> ReuseReference | None:
        """Return the reference, None for a run without a loss, or if no rule set reuses more."""
        if not self.losing:
            return None
        every = search_order(self.run.profile, self.rules)
        of_file = self.best([name for name in every if name in self.run.scenario.profiles])
        if of_file is not None and self._regains_much(of_file):
            return of_file
        return self.best(every) or self._single_rule()

    def best(self, names: Sequence[str]) -> ReuseReference | None:
        """Return the best reference of these rule sets, None if none of them reuses more. The search ends at the first
        rule set that is not older and regains all lost tokens: those with the fewest changes are tried first."""
        newer = set(newer_rule_sets(self.run.profile, self.rules))
        changes = {name: len(self.rules.changes(rules_of(name))) for name in names}
        found: list[ReuseReference] = []
        for name in sorted(names, key=lambda name: (name not in newer, changes[name])):
            reference = self._reference(name)
            if reference is None:
                continue
            found.append(reference)
            if name in newer and reference.total >= self._lost_tokens:
                break

        def rank(reference: ReuseReference) -> tuple[bool, bool, int, int]:
            is_older = reference.profile not in newer
            return not self._regains_much(reference), is_older, -reference.total, changes[reference.profile]

        return min(found, key=rank, default=None)

    @property
    def _lost_tokens(self) -> int:
        """Number of tokens that the run evaluates again."""
        return sum(self.run.requests[number].re_evaluated for number in self.losing)

    def _regains_much(self, reference: ReuseReference) -> bool:
        return regains_much(FailureKind.LOSS, reference.total, 0, self._lost_tokens)

    def _reference(self, name: str) -> ReuseReference | None:
        """Return a rule set as the reference, None if nothing more is reused under it, or an answer is not correct."""
        found: Sequence[ObservedRequest] = ()
        with suppress(NotInBuild):
            found = self.runs.result(rules_of(name))
        if not found or self._is_spoilt(found):
            return None
        lost = [self._lost(number, found[number].outcome.cache_n) for number in self.losing]
        more = tuple(one for one in lost if one.lost > 0)
        return ReuseReference(name, "", proposal_source(name), more) if more else None

    def _is_spoilt(self, found: Sequence[ObservedRequest]) -> bool:
        """True if an answer is wrong, or is not correct although it was."""
        for was, now in zip(self.run.requests, found, strict=True):
            equal = now.outcome.equal_cold
            if equal is False or (was.judged.equal_cold is True and equal is not True):
                return True
        return False

    def _lost(self, number: int, regained: int) -> LostReuse:
        ledger = self.run.requests[number].ledger
        return LostReuse(number, self.run.requests[number].answer.cache_n, max(ledger.best, regained), regained)

    def _single_rule(self) -> ReuseReference | None:
        """Return the rule whose exchange regains tokens of the request that loses most."""
        for number in sorted(self.losing, key=lambda one: -self.run.requests[one].re_evaluated):
            decided = deciding_rule(self.run, number)
            if decided is None or decided.what is not FailureKind.LOSS or not decided.cures:
                continue
            cure = decided.cures[0]
            lost = self._lost(number, cure.cache_n)
            if lost.lost > 0:
                return ReuseReference(cure.variant_of, cure.variant, proposal_source(cure.variant_of), (lost,))
        return None


def proposal_source(profile: str) -> str:
    """Return the pull request behind all changes of a proposed rule set, "" for a released one, or for several."""
    base = engine_of(profile).beside.get(profile)
    if base is None:
        return ""
    sources = {change.source for change in rules_of(base).changes(rules_of(profile))}
    return sources.pop() if len(sources) == 1 else ""
