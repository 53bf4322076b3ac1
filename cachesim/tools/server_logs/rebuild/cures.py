"""Cures of a cause that a log proves: a flag and the first later build, or else a pull request that is not released,
under which the request evaluates fewer tokens. Each is verified by a run of the reconstructed log."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of
from cachesim.engines.setting_trials import sufficient_size
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.judging.reproduce_command import flag_text
from cachesim.scenarios.known_repairs import repair_by
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.server_settings import server_options
from cachesim.tools.advise.case_facts import NOTHING_KNOWN, CaseFacts
from cachesim.tools.advise.setup_changes import (
    ChangeKind,
    Setup,
    SetupChange,
    TrialOutcome,
    TrialRuns,
    builds,
    flag_changes,
)
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest, Reconstruction

TOKENS = 200_000             # prompt tokens that are run in search of cures, at most
GENERATED = 60_000           # generated tokens, at most
Data = dict[str, Any]
Said = Mapping[str, Any]


def cures(
    found: Reconstruction, statements: Sequence[Said], facts: CaseFacts = NOTHING_KNOWN, runs: TrialRuns | None = None
) -> list[Data]:
    """Return the cures of the request that lost most by a proved cause: the best flag, then the first later build;
    without both, the newest pull request that repairs a rule of the cause. [] if the simulation contradicts the log, or
    if no change that was run helps. ``statements``: as in ``import --json``; ``facts``: what the log shows about its
    server. ``runs``: earlier runs of the reconstructed log, None = all are made here.
    """
    if found.is_rejected or not found.line:
        return []
    pairs = [(said, request) for said in statements if said["what"] == "cause" and "lost" in said["numbers"]
             for request in found.requests if _concerns(said, request)]  # fmt: skip
    if not pairs:
        return []
    worst = max(pairs, key=lambda pair: _least(pair[0]["numbers"]["lost"]))[1]
    causes = [said["numbers"]["cause"] for said, request in pairs if request is worst]
    case = Setup(found.scenario, found.profile)
    generated = sum(max(0, step.request.n_predict) for step in case.scenario.steps)
    prompts = sum(len(step.request.prompt) for step in case.scenario.steps)
    tries = min(TOKENS // max(1, prompts), GENERATED // max(1, generated))
    if tries < 2:
        return []
    runs = runs or TrialRuns()
    base = runs.judged(case).outcome
    best: dict[ChangeKind, tuple[SetupChange, int]] = {}
    left = tries - 1
    for change in islice((one for one in _changes(case, causes) if facts.allows(one, case)), tries - 1):
        left -= 1
        if change.kind is ChangeKind.PROPOSAL and best:
            break                                    # a flag or a build that can be had is enough
        limit = best[change.kind][1] if change.kind in best else base.each[worst.step]
        evaluated = _evaluated(case, change, base, worst.step, limit, runs)
        if evaluated < limit and (change.kind is ChangeKind.FLAG or change.kind not in best):
            best[change.kind] = change, evaluated
    if ChangeKind.FLAG in best:
        change, evaluated = best[ChangeKind.FLAG]
        best[ChangeKind.FLAG] = _with_smallest_size(case, change, base, worst.step, evaluated, runs, left), evaluated
    engine = engine_of(found.profile)
    return [{
        "causes": causes, "request": worst.step, "slot": worst.logged.slot, "task": worst.logged.task,
        "kind": kind.name.lower(), "change": _text(change, engine), "evaluated": evaluated,
        "before": base.each[worst.step], "rests_on": list(facts.conditions(change, case)),
    } for kind, (change, evaluated) in sorted(best.items())]  # fmt: skip


def _with_smallest_size(
    case: Setup, change: SetupChange, base: TrialOutcome, step: int, evaluated: int, runs: TrialRuns, left: int
) -> SetupChange:
    """Return a change of a size with the smallest value that was found under which a request evaluates as few tokens.
    Any other change is returned as it is, and that of a size in bytes if the sizes of the model are not known.
    ``left``: runs at most."""
    capacity = change.capacity
    if capacity is None or (capacity.counts_bytes and not split_sizes(case.scenario.model)[1]):
        return change
    now = int(in_force(server_options(case.scenario), case.profile)[capacity.name])

    def of(size: int) -> SetupChange:
        return replace(change, options={**change.options, capacity.name: size})

    tried: list[int] = []

    def is_enough(size: int) -> bool:
        tried.append(size)
        return len(tried) <= left and _evaluated(case, of(size), base, step, evaluated + 1, runs) <= evaluated

    return of(sufficient_size(now, int(change.options[capacity.name]), capacity.step, is_enough).value)


def _concerns(said: Said, request: ReconstructedRequest) -> bool:
    """True if a statement is about a simulated request."""
    logged, last = request.logged, said["lines"][-1]
    same = (said["slot"], said["task"]) == (logged.slot, logged.task)
    return request.step >= 0 and same and logged.lines[0] <= last <= logged.lines[1]


def _least(lost: int | Sequence[int | None]) -> int:
    return lost if isinstance(lost, int) else lost[0] or 0


def _changes(case: Setup, causes: Sequence[str]) -> Iterator[SetupChange]:
    """Yield the flags that may cure the causes, then the later builds, oldest first, then the pull requests that change
    a rule of the causes and repair a loss, newest base first."""
    engine = engine_of(case.profile)
    signatures = [signature for signature in engine.log().signatures if signature.key in causes]
    words = [word for signature in signatures for word in signature.flags]
    names = {known[0].name for word in words if (known := engine.manual.named(word)) is not None}
    yield from (one for one in flag_changes(case, engine.manual) if {*one.options} <= names)
    later = [*builds(case.profile, engine)]
    yield from (one for one in later if one.kind is ChangeKind.BUILD)
    rules = tuple(rule for signature in signatures for rule in signature.rules)
    for one in later:
        if one.kind is ChangeKind.PROPOSAL and _changes_rule(engine, one, rules) and repair_by(engine, one.profile):
            yield one


def _changes_rule(engine: Engine, change: SetupChange, rules: tuple[str, ...]) -> bool:
    """True if a proposed rule set changes a rule whose id begins with one of these."""
    base, proposed = engine.profiles[change.base], engine.profiles[change.profile]
    return any(one.old.startswith(rules) for one in base.changes(proposed))


def _evaluated(case: Setup, change: SetupChange, base: TrialOutcome, step: int, limit: int, runs: TrialRuns) -> int:
    """Return the evaluated tokens of a request with a change; as many as without it if an answer becomes wrong. A run
    in which it evaluates at least ``limit`` tokens is not judged."""
    try:
        changed = change.of(case)
        if changed is None:
            return base.each[step]
        counted = runs.counted(changed).outcome
        if counted.each[step] >= limit:
            return counted.each[step]
        outcome = runs.judged(changed).outcome
    except BadInput:
        return base.each[step]
    worse = {*outcome.wrong, *outcome.failed, *outcome.undecided} - {*base.wrong, *base.failed, *base.undecided}
    return base.each[step] if worse else outcome.each[step]


def _text(change: SetupChange, engine: Engine) -> str:
    """Return a change as a user types it; a pull request with a case that it repairs."""
    manual = engine.manual
    if change.kind is ChangeKind.PROPOSAL and (repair := repair_by(engine, change.profile)) is not None:
        return f"pull request {repair.pull} (not released; case: {repair.case})"
    flags = [(manual.flag(name), value) for name, value in change.options.items()]
    return " ".join(flag_text(flag, value, manual.open_words) for flag, value in flags if flag) or change.profile
