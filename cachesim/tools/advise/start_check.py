"""Check of a server's configuration before it starts: what it can never reuse, what it evaluates again at each hit, and
which requests it refuses or never finishes.

Each habit of clients (``start_examples``) is simulated in several lengths. A finding gets the shortest example that was
found, and the setting with which another outcome follows (``judging/deciding_setting``). A habit without a finding was
simulated in these lengths only.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import OverLimit
from cachesim.engines.capabilities import Option, ServerLoad
from cachesim.engines.registry import engine_of
from cachesim.engines.setting_trials import ServerSettings, SettingRole, setting_trials, sufficient_size
from cachesim.judging.deciding_rule import FailureKind, regains_much
from cachesim.judging.deciding_setting import DecidingSetting, deciding_setting
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.recompute_reasons import what_happened
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.runner import ScenarioStage, SilentObserver
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.start_examples import ENDLESS, HABITS, LENGTHS, LONG_PROMPT, ClientHabit

CONTEXT = 512            # context in which a request without a limit is tried [tokens]
GENERATED = 4 * CONTEXT  # tokens after which a request without a limit counts as endless
LARGEST = 30_000         # prompt tokens of an example for which other settings are tried, at most
FEW = 64                 # prompts of up to so many tokens need not be reused


class FindingKind(StrEnum):
    """What a configuration does to a habit of clients, the worst first."""

    ENDLESS = "endless"            # generates without an end
    UNANSWERED = "unanswered"      # refused, or never answered, from some length on
    NEVER = "never"                # reuses nothing at any length
    LONG = "long"                  # reuses nothing of longer prompts
    SHORT = "short"                # reuses nothing of shorter prompts
    WASTE = "waste"                # evaluates a part again at each hit


class TriedLength(NamedTuple):
    """Outcome of a habit with prompts of ``length`` tokens: that of the first request without an answer, else of the
    one that could reuse tokens. ``reusable``: tokens of its prompt that were evaluated before."""

    length: int
    is_answered: bool
    status: int
    reused: int
    reusable: int

    @property
    def loses(self) -> bool:
        """True if tokens that were evaluated before are evaluated again."""
        return self.is_answered and self.reused < self.reusable


class StartFinding(NamedTuple):
    """A finding. ``tried``: all lengths; ``shown``: the length whose numbers a report shows; ``example``: shortest
    example that was found, as a line; ``run``, ``shortest``: its run and outcome; ``setting``: what another value of a
    setting does with it, None = no value that was tried changes it; ``is_tried``: False if the example is too long to
    try any. ``reason``: what was lost. ``also``: more habits with the same finding. ``server``: options of an endless
    request, whose context is small, and ``cure``: those with which it ends."""

    kind: FindingKind
    habit: str
    tried: tuple[TriedLength, ...]
    shown: TriedLength | None
    example: str
    shortest: TriedLength | None
    run: Run | None
    setting: DecidingSetting | None
    is_tried: bool = True
    reason: str = ""
    also: tuple[str, ...] = ()
    server: Mapping[str, Option] = {}
    cure: Mapping[str, Option] = {}


class StartCheck(NamedTuple):
    """Findings of a configuration, the worst first, and the habits without any."""

    scenario: Scenario
    profile: str
    findings: tuple[StartFinding, ...]
    fine: tuple[str, ...]


def check_start(scenario: Scenario, profile: str) -> StartCheck:
    """Check the server of a scenario, whatever its requests. Raise BadInput for a server that does not start."""
    found: list[StartFinding] = []
    fine: list[str] = []
    long_prompts = _Examples(scenario, profile, LONG_PROMPT)
    if (unanswered := long_prompts.unanswered(LENGTHS)) is not None:
        found.append(unanswered)
    lengths = [length for length in LENGTHS if long_prompts.tried(length).is_answered]
    for habit in HABITS:
        findings = _Examples(scenario, profile, habit).findings(lengths)
        found += findings
        if not findings:
            fine.append(habit.text)
    ordered = sorted([*_joined(found), *_endless(scenario, profile)], key=_order)
    return StartCheck(scenario, profile, tuple(ordered), tuple(fine))


def _order(finding: StartFinding) -> tuple[int, bool, int]:
    """Return the sort key: the kind, findings that a setting changes, then the most tokens."""
    kinds = list(FindingKind)
    lost = 0 if finding.shown is None else finding.shown.reusable - finding.shown.reused
    return kinds.index(finding.kind), finding.setting is None, -lost


def _joined(found: Sequence[StartFinding]) -> Iterator[StartFinding]:
    """Yield each finding once, with the other habits to which the same setting, or the same event, does the same."""
    groups: dict[tuple[object, ...], list[StartFinding]] = {}
    for finding in found:
        best = finding.setting and finding.setting.best
        cause = tuple(best.options) if best else finding.reason
        groups.setdefault((finding.kind, cause), []).append(finding)
    for first, *others in groups.values():
        yield first._replace(also=tuple(one.habit for one in others))


def _endless(scenario: Scenario, profile: str) -> Iterator[StartFinding]:
    """Yield that a request for as many tokens as the server generates does not end: in a small context, not before it
    has generated several times as many tokens as fit into it."""
    manual = engine_of(profile).manual
    context = manual.context
    if not manual.endless or context is None:
        return
    now = in_force(scenario.server, profile)
    small = replace(scenario, server={**scenario.server, context.name: CONTEXT * context.parts(now)})
    if _ends(small, profile):
        return
    settings = ServerSettings(in_force(small.server, profile), in_force({}, profile), {context.name})
    trials = (one for one in setting_trials(manual, settings, ServerLoad(CONTEXT, CONTEXT, 1))
              if one.is_reset or one.role is SettingRole.SWITCH)  # fmt: skip
    cure = next((one.options for one in trials if _ends(_with(small, one.options), profile)), {})
    yield StartFinding(FindingKind.ENDLESS, "a request without a limit of its answer", (), None, ENDLESS, None, None,
                       None, server=small.server, cure=cure)  # fmt: skip


def _ends(scenario: Scenario, profile: str) -> bool:
    """True if the endless request ends before it has generated ``GENERATED`` tokens, or as many as a run may."""
    case = _case(scenario, profile, ENDLESS)
    stage = ScenarioStage(case, profile, "none", Path("."), SilentObserver(), profile)
    waiting = stage.submit(0, case.steps)
    answer = waiting[0][1]
    try:
        stage.work(waiting, until=lambda: len(answer.tokens) >= GENERATED)
    except OverLimit:
        return False
    return len(answer.tokens) < GENERATED


def _with(scenario: Scenario, options: Mapping[str, Option]) -> Scenario:
    return replace(scenario, server={**scenario.server, **options})


def _case(scenario: Scenario, profile: str, line: str) -> Scenario:
    return from_line(line, model=scenario.model, profiles=(profile,), server=scenario.server)


class _Examples:
    """Examples of a habit on a server."""

    def __init__(self, scenario: Scenario, profile: str, habit: ClientHabit) -> None:
        self.scenario = scenario
        self.profile = profile
        self.habit = habit
        self.runs: dict[int, Run] = {}

    def run(self, length: int) -> Run:
        """Return the run with prompts of this length."""
        if length not in self.runs:
            case = _case(self.scenario, self.profile, self.habit.line(length))
            self.runs[length] = run_judged(case, self.profile, "provenance")
        return self.runs[length]

    def tried(self, length: int) -> TriedLength:
        """Return the outcome with prompts of this length."""
        run = self.run(length)
        return _outcome(run, length, self._number(run))

    def _number(self, run: Run) -> int:
        """Return the number of the first request without an answer, else of the one that could reuse tokens."""
        unanswered = (i for i, one in enumerate(run.requests) if not one.answer.done or one.answer.status != 200)
        return next(unanswered, self.habit.request)

    def unanswered(self, lengths: Sequence[int]) -> StartFinding | None:
        """Return the finding that a length has no answer, None if all have one."""
        every = self._until_unanswered(lengths)
        if not every or every[-1].is_answered:
            return None
        return self._made(FindingKind.UNANSWERED, every, every[-1], lambda one: not one.is_answered)

    def _until_unanswered(self, lengths: Sequence[int]) -> list[TriedLength]:
        """Return the outcomes of these lengths up to the first without an answer."""
        every: list[TriedLength] = []
        for length in lengths:
            every.append(self.tried(length))
            if not every[-1].is_answered:
                break
        return every

    def findings(self, lengths: Sequence[int]) -> list[StartFinding]:
        """Return what is found; [] if every length reuses all that was evaluated before."""
        if (unanswered := self.unanswered(lengths)) is not None:
            return [unanswered]
        every = self._until_unanswered(lengths)
        losing = [one for one in every if one.loses]
        hits = [one.length for one in every if one.reused]
        if losing and not hits:
            return [self._made(FindingKind.NEVER, every, losing[min(1, len(losing) - 1)], _reuses_nothing)]
        found: list[StartFinding] = []
        short = [one for one in losing if FEW < one.length < min(hits)]
        if short:
            found.append(self._made(FindingKind.SHORT, every, short[-1], _reuses_nothing))
        long = [one for one in losing if one.reused == 0 and one.length > min(hits)]
        if long:
            found.append(self._made(FindingKind.LONG, every, long[0], partial(_reuses_nothing_of, min(hits))))
        wasting = [one for one in losing if one.reused]
        if wasting:
            worst = max(wasting, key=_share_lost)
            found.append(self._made(FindingKind.WASTE, every, worst, partial(_loses_as_much, worst)))
        return found

    def _made(
        self, kind: FindingKind, every: Sequence[TriedLength], shown: TriedLength, has: Callable[[TriedLength], bool]
    ) -> StartFinding:
        """Return a finding with the shortest example that was found: one that the same setting changes, if any does,
        else the shortest of the lengths."""
        searched = shown.length
        if not self.is_small(searched):
            low = max((one.length for one in every if one.length < searched and not has(one)), default=0)
            searched = sufficient_size(low, searched, 1, lambda length: has(self.tried(length))).value
        setting = self._setting(searched)
        if setting is None or setting.best is None:
            length = min(searched, next(one.length for one in every if has(one)))
        else:
            best = setting.best
            length = sufficient_size(
                0, searched, 1, lambda length: length > 0 and has(self.tried(length))
                and self._is_changed(length, _Examples(_with(self.scenario, best.options), self.profile, self.habit)),
            ).value  # fmt: skip
        return StartFinding(kind, self.habit.text, tuple(every), shown, self.habit.line(length), self.tried(length),
                            self.run(length), self._setting(length), self.is_small(length),
                            _reason(self.run(length), self.habit.request))  # fmt: skip

    def _is_changed(self, length: int, changed: _Examples) -> bool:
        """True if another server answers, or reuses at least half of what is lost with prompts of this length."""
        mine = self.tried(length)
        theirs = changed.tried(length)
        if not mine.is_answered:
            return theirs.is_answered
        lost = mine.reusable - mine.reused
        return theirs.is_answered and lost > 0 and regains_much(FailureKind.LOSS, theirs.reused, mine.reused, lost)

    def _setting(self, length: int) -> DecidingSetting | None:
        """Return the settings that decide with prompts of this length, None for examples that are too long."""
        run = self.run(length)
        return deciding_setting(run, self._number(run)) if self.is_small(length) else None

    def is_small(self, length: int) -> bool:
        """True if other settings are tried with prompts of this length."""
        return sum(len(step.request.prompt) for step in self.run(length).scenario.steps) <= LARGEST


def _outcome(run: Run, length: int, number: int) -> TriedLength:
    answer, ledger = run.requests[number].answer, run.requests[number].ledger
    is_answered = answer.done and answer.status == 200
    return TriedLength(length, is_answered, answer.status, answer.cache_n, max(answer.cache_n, ledger.best))


def _share_lost(outcome: TriedLength) -> float:
    return (outcome.reusable - outcome.reused) / max(1, outcome.reusable)


def _loses_as_much(shown: TriedLength, outcome: TriedLength) -> bool:
    """True if a request reuses tokens and loses at least half the share of ``shown``."""
    return outcome.loses and outcome.reused > 0 and 2 * _share_lost(outcome) >= _share_lost(shown)


def _reuses_nothing_of(shortest: int, outcome: TriedLength) -> bool:
    """True if a request with prompts longer than ``shortest`` reuses nothing."""
    return _reuses_nothing(outcome) and outcome.length > shortest


def _reuses_nothing(outcome: TriedLength) -> bool:
    return outcome.loses and outcome.reused == 0


def _reason(run: Run, number: int) -> str:
    """Return the event of the largest charge of a request in words, "" without one."""
    charges = run.requests[number].ledger.charges
    largest = max(charges, key=lambda charge: charge.tokens, default=None)
    kept = engine_of(run.profile).keeps
    return "" if largest is None else what_happened(largest.event, largest.kind, kept)
