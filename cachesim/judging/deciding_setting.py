"""The setting of the server that decided the reuse of a request, found by trials.

A setting decided if the request reuses more tokens with another value of it, or is answered instead of refused, and no
request before it becomes wrong. Every statement was checked by a run with this one value exchanged: a complete run of
the requests up to this one, by provenance, under the same rules. The values are those of ``engines/setting_trials``.

A size that is too small gets the smallest sufficient value. If no single value brings back all tokens, the
settings that bring back some are tried in pairs, and so is the best one with the rule that decided: causes that only
act together are named together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import Terminated
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import engine_of
from cachesim.engines.setting_trials import (
    ServerSettings,
    SettingRole,
    SettingTrial,
    SufficientSize,
    is_larger,
    setting_trials,
    sufficient_size,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.events import Decided
from cachesim.judging.deciding_rule import DecidingRule, FailureKind, failure_of, regains_much
from cachesim.judging.judged_run import JudgedRuns, Run, RunInterrupted
from cachesim.judging.request_cost import ObservedRequest, observed_requests, reused_by_positions, up_to
from cachesim.judging.rule_exchange import RuleVariant, exchanged
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.server_load import load_of_steps
from cachesim.scenarios.server_settings import assumed_options, server_options

TOKENS = 400_000         # prompt tokens of all trials of a search; a search that needs more is incomplete
MOST = 64                # trials of a search
PAIRED = 3               # best settings that are tried in pairs


class SettingCure(NamedTuple):
    """Values with which a request reuses more. ``trial``: its settings, of a pair both; ``cache_n``, ``status``: those
    of the request then; ``size``: the searched size of the main option, None = it was not searched; ``below``: tokens
    that the request reuses with the next smaller size; ``with_rule``: the rule that was exchanged, too."""

    trial: SettingTrial
    cache_n: int
    status: int = 200
    size: SufficientSize | None = None
    below: int = 0
    with_rule: RuleVariant | None = None

    @property
    def options(self) -> Mapping[str, Option]:
        """Return the values, the main option first."""
        return self.trial.options


class DecidingSetting(NamedTuple):
    """Result of a search. ``cures``: settings that suffice alone, the deciding one first; those that bring back less
    follow. ``together``: settings that bring back more than each of them alone, or None. ``reusable``: tokens of the
    prompt that were evaluated before; ``reused``: tokens that the request reuses; ``tried``: number of runs;
    ``complete`` False = some values were not tried."""

    what: FailureKind
    reused: int
    reusable: int
    cures: tuple[SettingCure, ...] = ()
    together: SettingCure | None = None
    tried: int = 0
    complete: bool = True

    @property
    def best(self) -> SettingCure | None:
        """Return the settings that bring back most tokens: together, if that is more than alone."""
        return self.together or next(iter(self.cures), None)


def deciding_setting(run: Run, number: int, rule: DecidingRule | None = None) -> DecidingSetting | None:
    """Return the settings that decided a loss of request ``number``, or that it has no answer; None for other requests,
    for a rule set that the engine does not know, and if no other value helps. ``rule``: the rule that decided. Raise
    KeyboardInterrupt."""
    answer = run.requests[number].answer
    what = FailureKind.REFUSED if not answer.done and not answer.died else failure_of(run, number)
    if what not in (FailureKind.LOSS, FailureKind.REFUSED) or run.profile not in engine_of(run.profile).profiles:
        return None
    found = _SettingSearch(run, number, what).result(rule)
    return found if found.best is not None else None


class _SettingSearch:
    """Runs of the requests up to a failure with other settings."""

    def __init__(self, run: Run, number: int, what: FailureKind) -> None:
        self.run = run
        self.number = number
        self.what = what
        self.profile = run.profile
        self.engine = engine_of(run.profile)
        self.rules = self.engine.profiles[run.profile]
        self.scenario = up_to(run.scenario, number)
        one = run.requests[number]
        self.reused = one.answer.cache_n
        self.reusable = one.ledger.best
        self.was = [each.judged.equal_cold for each in run.requests[: len(self.scenario.steps)]]
        size = sum(len(step.request.prompt) for step in self.scenario.steps)
        self.left = min(MOST, TOKENS // max(1, size))
        self.tried = 0
        self.complete = True
        self.runs = JudgedRuns("provenance")

    @cached_property
    def settings(self) -> ServerSettings:
        """Settings of the server."""
        now = in_force(server_options(self.scenario), self.profile)
        return ServerSettings(now, in_force({}, self.profile), assumed_options(self.scenario).keys())

    @cached_property
    def asked(self) -> frozenset[str]:
        """Families of the rules that decided something in the run."""
        decided = (event.rule for event in self.run.log.events if isinstance(event, Decided))
        return frozenset(rule.partition(".")[0] for rule in decided)

    @cached_property
    def has_sizes(self) -> bool:
        """True if the model states the bytes of its rows and states."""
        return bool(split_sizes(self.scenario.model)[1])

    def result(self, rule: DecidingRule | None) -> DecidingSetting:
        """Return the settings that suffice, alone or together."""
        found: list[SettingCure] = []
        for trial in setting_trials(self.engine.manual, self.settings, load_of_steps(self.scenario.steps)):
            if not trial.is_reset and any(self._is_all(one) or self._is_cause(one) for one in found):
                break
            if not trial.is_reset and not self._can_matter(trial):
                continue
            cure = self._cure(trial, self.rules)
            if cure is not None:
                found.append(cure)
        best = self._best_of_each(found)
        cures = [self._with_size(one) for one in best[:1]] + best[1:]
        together = self._together(cures, rule) if not any(map(self._is_all, cures)) else None
        return DecidingSetting(self.what, self.reused, self.reusable, tuple(cures), together, self.tried, self.complete)

    def _can_matter(self, trial: SettingTrial) -> bool:
        """False for another number or word if none of the rules that it governs was asked. A switch, a size or a group
        may let rules be asked that were not, and so may a number or word in place of none."""
        is_asked = not trial.rules or not self.asked.isdisjoint(trial.rules)
        is_off = not self.settings.now[trial.name]
        return is_asked or is_off or trial.role not in (SettingRole.NUMBER, SettingRole.WORD)

    def _best_of_each(self, found: Sequence[SettingCure]) -> list[SettingCure]:
        """Return the best cure of each main option, the best of all first: a value that was given if its default brings
        back much, then the most reused tokens, fewer options, the order of the trials."""

        def rank(cure: SettingCure) -> tuple[bool, int, bool, int]:
            return not self._is_cause(cure), -cure.cache_n, not cure.trial.is_reset, len(cure.options)

        best: dict[str, SettingCure] = {}
        for one in sorted(found, key=rank):
            best.setdefault(one.trial.name, one)
        return list(best.values())

    def _is_cause(self, cure: SettingCure) -> bool:
        """True for a value that was given if its default brings back much: no value that was not given is tried."""
        lost = self.reusable - self.reused
        return cure.trial.is_reset and regains_much(self.what, cure.cache_n, self.reused, lost)

    def _is_all(self, cure: SettingCure) -> bool:
        """True if nothing is lost any more."""
        return self.what is FailureKind.REFUSED or cure.cache_n >= self.reusable

    def _cure(self, trial: SettingTrial, rules: RuleSet) -> SettingCure | None:
        """Return the outcome with other values, None if they do not help."""
        found = self._outcome(trial.options, rules)
        if found is None:
            return None
        return SettingCure(trial, found.outcome.cache_n, found.outcome.status)

    def _outcome(self, options: Mapping[str, Option], rules: RuleSet) -> ObservedRequest | None:
        """Return the request with other values of options; None if it is not better, if the server does not start
        with them, or if too much was tried already."""
        if self.left <= 0:
            self.complete = False
            return None
        self.left -= 1
        self.tried += 1
        scenario = replace(self.scenario, server={**self.scenario.server, **options})
        try:
            if self.what is FailureKind.LOSS:
                reused = reused_by_positions(scenario, self.profile, rules)
                if reused[self.number] <= self.reused:
                    return None
            found = observed_requests(self.runs, scenario, self.profile, rules)
        except RunInterrupted as stopped:
            raise KeyboardInterrupt if stopped.number is None else Terminated(stopped.number) from None
        except Exception:                      # the server does not start with these values, or cannot go on
            return None
        return found[self.number] if self._is_better(found) else None

    def _is_better(self, found: Sequence[ObservedRequest]) -> bool:
        """True if the failure is less and no request ceases to be correct."""
        new = found[self.number].outcome
        spoilt = any(was and not now.outcome.equal_cold for was, now in zip(self.was, found, strict=True))
        if spoilt or not new.equal_cold or new.status != 200:
            return False
        return self.what is FailureKind.REFUSED or new.cache_n > self.reused

    def _with_size(self, cure: SettingCure) -> SettingCure:
        """Return a cure with the smallest sufficient size of its main option, if that is a size of which more helps."""
        capacity, value = cure.trial.capacity, cure.trial.options[cure.trial.name]
        now = self.settings.now[cure.trial.name]
        if capacity is None or not is_larger(value, now) or (capacity.counts_bytes and not self.has_sizes):
            return cure
        reused: dict[int, int] = {now: self.reused, int(value): cure.cache_n}
        others = {name: option for name, option in cure.options.items() if name != cure.trial.name}

        def is_enough(size: int) -> bool:
            found = self._outcome({cure.trial.name: size, **others}, self.rules)
            reused[size] = self.reused if found is None else found.outcome.cache_n
            return found is not None and reused[size] >= cure.cache_n

        size = sufficient_size(now, int(value), capacity.step, is_enough)
        if not self.complete:
            return cure
        trial = cure.trial._replace(options={cure.trial.name: size.value, **others})
        return cure._replace(trial=trial, size=size, below=reused[size.below], cache_n=reused[size.value])

    def _together(self, cures: Sequence[SettingCure], rule: DecidingRule | None) -> SettingCure | None:
        """Return the best of the pairs of settings, and of the best setting with the rule that decided, if it brings
        back more than each alone."""
        alone = cures[0].cache_n if cures else self.reused
        pairs = [self._cure(trial, self.rules) for trial in self._pairs(cures)]
        variant, cache_n = _variant_of(rule)
        mixed = [self._with_variant(one, variant) for one in cures[:1]] if variant is not None else []
        found = [one for one in pairs if one is not None and one.cache_n > max(alone, self._best_part(one, cures))]
        found += [one for one in mixed if one is not None and one.cache_n > max(alone, cache_n)]
        best = max(found, key=lambda one: one.cache_n, default=None)
        return best if best is None or best.with_rule is not None else self._with_size(best)

    def _best_part(self, pair: SettingCure, cures: Sequence[SettingCure]) -> int:
        """Return the tokens that a request reuses with one setting of a pair alone, at most."""
        parts = [one.cache_n for one in cures if one.options.keys() <= pair.options.keys()]
        return max(parts, default=self.reused)

    def _with_variant(self, cure: SettingCure, variant: RuleVariant) -> SettingCure | None:
        found = self._cure(cure.trial, exchanged(self.rules, [variant]))
        return None if found is None else found._replace(with_rule=variant)

    def _pairs(self, cures: Sequence[SettingCure]) -> Iterable[SettingTrial]:
        """Yield pairs of the settings that help, else of the values that were given."""
        helping = [one.trial for one in cures[:PAIRED]]
        load = load_of_steps(self.scenario.steps)
        every = list(setting_trials(self.engine.manual, self.settings, load)) if len(helping) < PAIRED else []
        given = [one for one in every if one.is_reset and one.name not in {trial.name for trial in helping}]
        for pair in combinations([*helping, *given][: PAIRED + 1], 2):
            first, second = sorted(pair, key=lambda one: one.capacity is None)      # a size is the main option
            if {*first.options}.isdisjoint(second.options):
                yield first._replace(options={**first.options, **second.options}, rules=(*first.rules, *second.rules))


def _variant_of(rule: DecidingRule | None) -> tuple[RuleVariant | None, int]:
    """Return the variant whose exchange brings back tokens, and the tokens that are reused then."""
    if rule is None or not rule.cures or rule.what is not FailureKind.LOSS:
        return None, 0
    cure = rule.cures[0]
    return RuleVariant(cure.field, cure.rule, cure.variant, cure.variant_of), cure.cache_n
