"""Search for changes that help a case: every change alone, in order of cost, then the best changes in pairs.

Each trial is a complete run of the simulator from an empty server. The result is plain data for ``--json`` and the
report.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import AbstractSet, Any, Iterator, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.setting_trials import sufficient_size
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.judging.reproduce_command import assumed_flags, assumption
from cachesim.scenarios.known_repairs import repair_by
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.server_settings import server_options
from cachesim.tools.advise.client_changes import ClientChange
from cachesim.tools.advise.memory_meter import Sizes
from cachesim.tools.advise.ranking import Advice, RankedAdvice, bad, best_of_families, helps, key, rank
from cachesim.tools.advise.setup_changes import (
    CaseArguments,
    ChangeKind,
    Setup,
    SetupChange,
    SmallerSize,
    Trial,
    TrialOutcome,
    TrialRuns,
    affect_same_setting,
    command_words,
    single_changes,
)

PAIRED = 4             # best changes that are also tried in pairs


class AdviceSearch:
    """Search for advice on a case. ``base``: the unchanged case, None = run it. ``found``: the trials so far, in order.
    ``excluded``: names of client changes that are not tried; ``more``: further client changes that are tried.
    ``judges_all`` False: where all answers of the unchanged case are correct, a trial that evaluates as many tokens is
    not judged, because it cannot be advice. ``runs``: earlier runs of the case, None = the search makes all."""

    def __init__(
        self, case: Setup, excluded: AbstractSet[str] = frozenset(), base: Trial | None = None,
        more: Sequence[ClientChange] = (), judges_all: bool = True, runs: TrialRuns | None = None,
    ) -> None:
        self.case, self.engine = case, engine_of(case.profile)
        self.runs = runs or TrialRuns()
        self.base = base or self.runs.judged(case)
        self.counts_first = not (judges_all or bad(self.base))
        self.bound = self.base.bound
        self.found: list[Trial] = []
        known = [one for one in single_changes(case, self.engine)
                 if one.client is None or one.client.name not in excluded]  # fmt: skip
        own = [SetupChange(ChangeKind.CLIENT, client=one) for one in more]
        self.singles = sorted([*known, *own], key=lambda one: one.kind)
        self.untried = [*self.singles]

    def __len__(self) -> int:
        """Return the maximum number of trials."""
        return len(self.singles) + PAIRED * (PAIRED - 1) // 2

    def __iter__(self) -> Iterator[Trial | None]:
        """Try the changes in order. Yield each trial, or None if a change is not possible or has no effect. ``found``
        stays valid if the iteration is abandoned."""
        whole = self.base.outcome.evaluated > self.bound.total or self.base.outcome.wrong or self.base.outcome.failed
        for one in self.singles:
            self.untried.remove(one)
            if whole or one.kind is ChangeKind.CLIENT:       # at the bound only other requests can save tokens
                yield self.attempt((one,))
        self._find_sizes()
        for pair in self._pairs():
            yield self.attempt(pair)

    def _find_sizes(self) -> None:
        """Put the smallest sufficient size in the place of an ample one that helps."""
        for number, trial in enumerate(self.found):
            if helps(trial, self.base):
                self.found[number] = self.with_smallest_size(trial)

    def with_smallest_size(self, trial: Trial) -> Trial:
        """Return a trial with the smallest value of its size with which the outcome is as good; the trial itself if it
        has other changes, or if the size counts bytes and those of the model are not known."""
        change = trial.changes[0]
        name = next(iter(change.options), "")
        has_sizes = bool(split_sizes(self.case.scenario.model)[1])
        capacity = change.capacity
        if len(trial.changes) > 1 or capacity is None or (capacity.counts_bytes and not has_sizes):
            return trial
        now = in_force(server_options(self.case.scenario), self.case.profile)[name]
        high = int(change.options[name])
        tried: dict[int, Trial] = {int(now): self.base, high: trial}

        def is_enough(size: int) -> bool:
            found = self._with_value(trial, name, size)
            if found is not None:
                tried[size] = found
            return found is not None and key(found) <= key(trial)

        size = sufficient_size(int(now), high, capacity.step, is_enough)
        least, below = tried[size.value], tried.get(size.below)
        if below is None:
            return least
        return replace(least, below=SmallerSize(size.below, below.outcome.evaluated, bad(below)))

    def _with_value(self, trial: Trial, name: str, value: int) -> Trial | None:
        """Run a trial with another value of its main option, None if the server does not start with it."""
        change = replace(trial.changes[0], options={**trial.changes[0].options, name: value})
        with suppress(BadInput):
            case = change.of(self.case)
            if case is not None:
                return self.runs.judged(case, (change,), self.bound)
        return None

    def _pairs(self) -> Iterator[tuple[SetupChange, ...]]:
        """Yield pairs of the best changes of flags, of the client and of released builds."""
        good = [one for one in self.found if helps(one, self.base) and one.changes[0].kind < ChangeKind.PROPOSAL]
        best = [one.changes[0] for one in sorted(best_of_families(good), key=rank)[:PAIRED]]
        for pair in combinations(best, 2):
            if not affect_same_setting(*pair):
                yield tuple(sorted(pair, key=lambda one: one.kind))

    def attempt(self, changes: tuple[SetupChange, ...]) -> Trial | None:
        """Run the case with these changes. Return None if the profile does not support them or they have no effect."""
        case: Setup | None = self.case
        with suppress(BadInput):
            for one in changes:
                case = case and one.of(case)
            if case is not None:
                same = not any(one.client for one in changes)
                self.found.append(self._trial(case, changes, self.bound if same else None))
                return self.found[-1]
        return None

    def _trial(self, case: Setup, changes: tuple[SetupChange, ...], bound: EvaluationBound | None) -> Trial:
        """Return a trial, judged unless it cannot be advice. Raise BadInput."""
        if self.counts_first:
            counted = self.runs.counted(case, changes, bound)
            if counted.outcome.evaluated >= self.base.outcome.evaluated:
                return counted
        return self.runs.judged(case, changes, bound)


Data = dict[str, Any]
MIB = 1 << 20


def case_data(search: AdviceSearch, has_texts: bool = True) -> Data:
    """Return the unchanged case, its outcome and its lower bound as data, before any change is tried. ``holds`` of the
    bound is None if it depends on the advice: an answer that is not correct may evaluate fewer tokens. ``has_texts``:
    the prompts are known as sent; otherwise a bound of the simulated requests does not hold for the sent ones."""
    case, base = search.case, search.base
    holds: bool | None = has_texts and base.outcome.evaluated >= search.bound.total
    if holds and bad(base):
        holds = None
    return {
        "scenario": case.scenario.id, "title": case.scenario.title, "model": case.scenario.model,
        "profile": case.profile, "requests": len(case.scenario.steps),
        "prompt_tokens": sum(len(step.request.prompt) for step in case.scenario.steps),
        "notes": _notes(case),
        "base": _outcome(base.outcome),
        "bound": {"total": search.bound.total, "each": list(search.bound.each), "holds": holds},
    }  # fmt: skip


def _notes(case: Setup) -> list[str]:
    """Return sentences about flags of the case that change answers or end the process with its model, and about a pool
    whose size is assumed."""
    rules = rules_of(case.profile)
    assumed = assumed_flags(case.scenario)
    cautions = engine_of(case.profile).cautions(rules, case.scenario.model, case.scenario.server)
    return [*cautions, *([assumption(assumed.flags, assumed.cap)] if assumed.flags else [])]


def advice_data(
    search: AdviceSearch, advice: Advice, sizes: Sizes, asked: CaseArguments | None = None, has_texts: bool = True
) -> Data:
    """Return a search and its chosen advice as data. ``asked``: arguments that name the case and its server on a
    command line, None = its line. ``has_texts``: as in ``case_data``. ``mib`` is None without the sizes of a real
    model, and for a pool that the server reserves. Rule sets that are not released are no advice: a user cannot
    install them."""
    known, named = case_data(search, has_texts), asked or CaseArguments()
    base, bound = known.pop("base"), known.pop("bound")
    if bound["holds"] is None:
        bound["holds"] = all(one.tried.outcome.evaluated >= one.tried.bound.total for one in advice.good)
    return {
        **known, "sizes": sizes.source or None,
        "base": {**base, "mib": _mib(advice.base, sizes),
                 "predicted": [each._asdict() for each in advice.base.predicted]},
        "bound": bound,
        "advice": [piece_data(one, search, sizes, named) for one in advice.released],
        "not_released": [piece_data(one, search, sizes, named) for one in advice.good if not one.is_released],
        "traps": [piece_data(one, search, sizes, named) for one in advice.traps],
        "tried": len(search.found), "changes": len(search),
    }  # fmt: skip


def _outcome(outcome: TrialOutcome) -> Data:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in outcome._asdict().items()}


def _mib(piece: RankedAdvice, sizes: Sizes) -> float | None:
    """Return the peak memory of a case, None without the sizes of a real model, and for a server that reserves its pool
    at its start: it holds the same whatever it is asked."""
    reserved = engine_of(piece.tried.case.profile).manual.pool
    return round(piece.bytes / MIB, 3) if sizes.source and not reserved else None


def piece_data(piece: RankedAdvice, search: AdviceSearch, sizes: Sizes, asked: CaseArguments) -> Data:
    """Return a suggestion of a search as data."""
    one, before = piece.tried, search.base.outcome.evaluated
    return {
        "changes": [_change(change, search.case) for change in one.changes], **_outcome(one.outcome),
        "saved": before - one.outcome.evaluated,
        "share": round((before - one.outcome.evaluated) / before, 4) if before else 0.0,
        "below": None if one.below is None else one.below._asdict(),
        "mib": _mib(piece, sizes), "bound": one.bound.total, "later": piece.later,
        "since": [since._asdict() for since in piece.since],
        "alike": [other.changes[0].profile for other in piece.alike if other.changes[0].profile],
        "profile": one.case.profile, "certain": piece.certain, "rests_on": list(piece.rests_on),
        "predicted": [each._asdict() for each in piece.predicted],
        "command": shell_command(["cachesim", "run", *command_words(one, asked)]),
    }  # fmt: skip


def _change(change: SetupChange, case: Setup) -> Data:
    engine = engine_of(case.profile)
    rules = engine.profiles[change.profile] if change.profile else None
    point = engine.when.own.get(change.profile)
    repair = repair_by(engine, change.profile)
    return {
        "kind": change.kind.name.lower(),
        "name": change.client.name if change.client else change.profile or next(iter(change.options)),
        "text": change.client.text if change.client else "",
        "options": [{"name": name, "value": value} for name, value in change.options.items()],
        "profile": change.profile or None,
        "build": (engine.when.label(point) if point else rules.build) if rules else None,
        "date": point.date if point else None,
        "base": change.base or None,
        "pull": repair.pull if repair else None, "pull_case": repair.case if repair else None,
        "released": change.kind is not ChangeKind.PROPOSAL,
    }
