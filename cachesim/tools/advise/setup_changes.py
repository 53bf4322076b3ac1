"""Changes of a case (server flags, client requests, build), and trials: the outcome of a complete run with changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.build_names import point_of
from cachesim.engines.capabilities import Capacity, Manual, Option
from cachesim.engines.contract import Engine
from cachesim.engines.rule_files import profile_argument
from cachesim.engines.setting_trials import ServerSettings, setting_trials
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.lower_bound import EvaluationBound, evaluated_request, lower_bound
from cachesim.judging.reproduce_command import line_words, set_words
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.server_settings import assumed_options, server_options
from cachesim.tools.advise.case_files import CaseFiles
from cachesim.tools.advise.client_changes import ClientChange, client_changes, load_of, own_slots


class ChangeKind(IntEnum):
    """Kind of a change; larger values cost the user more."""

    FLAG = 1
    CLIENT = 2
    BUILD = 3
    PROPOSAL = 4


@dataclass(frozen=True)
class Setup:
    """A scenario under a rule set."""

    scenario: Scenario
    profile: str


@dataclass(frozen=True)
class SetupChange:
    """A change of a case: ``options`` of the server (the first is the main option), a ``client`` change, perhaps with
    options that it requires, or another ``profile``. ``base``: the rule set that a proposal modifies; ``capacity``:
    describes the main option if it is a size that grows."""

    kind: ChangeKind
    options: Mapping[str, Option] = field(default_factory=dict)
    profile: str = ""
    client: ClientChange | None = None
    base: str = ""
    capacity: Capacity | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return what names the change in the name of a file."""
        client = (self.client.name,) if self.client is not None else ()
        options = (f"{name}-{value}" for name, value in self.options.items())
        return (*client, *options, *((self.profile,) if self.profile else ()))

    @property
    def family(self) -> tuple[str, ...]:
        """Key of alternative changes: those of the same main option, of the same client change, or of the same kind."""
        return tuple(self.options)[:1] or (self.client.name if self.client else self.kind.name,)

    def of(self, case: Setup) -> Setup | None:
        """Return the case with this change, None if it has no effect. Raise BadInput for a case that cannot run, for
        example with more tokens than allowed."""
        if self.profile:
            return Setup(case.scenario, self.profile)
        server = {**case.scenario.server, **self.options}
        scenario = replace(case.scenario, server=server, expect={}, lives=())
        if self.client is None:
            return Setup(scenario, case.profile)
        line = self.client.change(scenario.line)
        if line is None or getattr(scenario.words, "spelled", None):       # a command line cannot express it
            return None
        steps = make_steps(line.steps, line.words, server)
        return Setup(replace(scenario, words=line.words, steps=steps), case.profile)


def affect_same_setting(a: SetupChange, b: SetupChange) -> bool:
    """True if two changes affect the same setting."""
    return bool({*a.options} & {*b.options}) or bool(a.profile and b.profile) or a.family == b.family


def single_changes(case: Setup, engine: Engine) -> Iterator[SetupChange]:
    """Yield every change that is worth trying, in order of cost."""
    yield from flag_changes(case, engine.manual)
    yield from changes_of_client(case, engine.manual)
    yield from builds(case.profile, engine)


def flag_changes(case: Setup, manual: Manual) -> Iterator[SetupChange]:
    """Yield candidate values of settings that differ from the current values."""
    now = in_force(server_options(case.scenario), case.profile)
    settings = ServerSettings(now, in_force({}, case.profile), assumed_options(case.scenario).keys())
    for one in setting_trials(manual, settings, load_of(case.scenario.line)):
        yield SetupChange(ChangeKind.FLAG, options=one.options, capacity=one.capacity)


def changes_of_client(case: Setup, manual: Manual) -> Iterator[SetupChange]:
    """Yield client changes; last a slot for each conversation, with the present slots or with more slots."""
    now = in_force(server_options(case.scenario), case.profile)
    yield from (SetupChange(ChangeKind.CLIENT, client=one) for one in client_changes(manual))
    if manual.slots and (slots := manual.slot_count(now)) > 1:
        yield SetupChange(ChangeKind.CLIENT, client=own_slots(slots))
    for one in flag_changes(case, manual):
        if (slots := manual.slot_count({**now, **one.options})) > max(1, manual.slot_count(now)):
            yield SetupChange(ChangeKind.CLIENT, options=one.options, client=own_slots(slots))


def builds(profile: str, engine: Engine) -> Iterator[SetupChange]:
    """Yield every later build of the main branch, oldest first, then every proposal, newest base first; drafts of what
    was merged come last."""
    line = list(engine.line)
    at = _place(engine.beside.get(profile, profile), engine)
    yield from (SetupChange(ChangeKind.BUILD, profile=one) for one in line[at + 1 :])
    proposals = [name for name in engine.beside if name != profile]
    order = {name: i for i, name in enumerate(line)}
    merged = {engine.profiles[name].thread for name in line} - {""}
    last = {one: engine.profiles[one].thread in merged for one in proposals}
    for name in sorted(proposals, key=lambda one: (last[one], -order.get(engine.beside[one], -1))):
        yield SetupChange(ChangeKind.PROPOSAL, profile=name, base=engine.beside[name])


def _place(profile: str, engine: Engine) -> int:
    """Return the index of the newest recorded rule set of the main branch that is not later than this one, -1 = none
    is."""
    line = list(engine.line)
    if profile in line:
        return line.index(profile)
    point = point_of(engine, profile)
    return -1 if point is None else sum(engine.when.own[name].by(point) for name in line) - 1


# Outcome of a case in a complete run.

MODE = "provenance"


class TrialOutcome(NamedTuple):
    """Outcome of a run. Requests are given by number."""

    evaluated: int                  # prompt tokens
    each: tuple[int, ...]           # evaluated prompt tokens of each request
    wrong: tuple[int, ...]
    undecided: tuple[int, ...]
    failed: tuple[int, ...]         # without an answer: an error, or the server ended
    corrupt: tuple[int, ...]        # after which a stored object was corrupt


class SmallerSize(NamedTuple):
    """The next smaller value of a size, with which the server evaluates more tokens, or answers fewer requests."""

    value: int
    evaluated: int
    bad: int                        # requests without a correct answer


@dataclass(frozen=True)
class Trial:
    """A case with these changes (() = unchanged), the lower bound of its requests, and the outcome. The run itself is
    not kept, to save memory. ``below``: the next smaller size, if the smallest sufficient one was searched."""

    changes: tuple[SetupChange, ...]
    case: Setup
    bound: EvaluationBound
    outcome: TrialOutcome
    below: SmallerSize | None = None

    @property
    def dearness(self) -> tuple[int, int, int]:
        """Cost of the changes for the user: the costliest kind, their number, the number of options."""
        kinds = [one.kind for one in self.changes]
        return max(kinds, default=0), len(kinds), sum(len(one.options) for one in self.changes)


def run_trial(case: Setup, changes: tuple[SetupChange, ...] = (), bound: EvaluationBound | None = None) -> Trial:
    """Run and judge a case by provenance. ``bound``: lower bound of its requests, None = compute it. Raise BadInput if
    the profile cannot run the case."""
    return TrialRuns().judged(case, changes, bound)


class TrialRuns:
    """Runs of a case with different changes. They share the cold runs of their model, and an equal case is judged
    once."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._outcomes: list[tuple[Setup, TrialOutcome, EvaluationBound]] = []

    def judged(
        self, case: Setup, changes: tuple[SetupChange, ...] = (), bound: EvaluationBound | None = None
    ) -> Trial:
        """Return a case, run and judged by provenance. ``bound``: lower bound of its requests, None = compute it. Raise
        BadInput if the profile cannot run the case."""
        for known, outcome, its_bound in self._outcomes:
            if known == case:
                return Trial(changes, case, bound or its_bound, outcome)
        run = run_judged(case.scenario, case.profile, MODE, self._judge, with_ledger=False)
        self._judge = run.judge
        outcome = outcome_of(run)
        of_run = bound or bound_of(run)
        self._outcomes.append((case, outcome, of_run))
        return Trial(changes, case, of_run, outcome)

    def counted(
        self, case: Setup, changes: tuple[SetupChange, ...] = (), bound: EvaluationBound | None = None
    ) -> Trial:
        """Like ``judged``, but by positions only, in about half of the time: every request is undecided."""
        answers = AnswerCollector()
        play(case.scenario, case.profile, "none", answers)
        steps = range(len(case.scenario.steps))
        each = tuple(answers.found[i][1].prompt_n if i in answers.found else 0 for i in steps)
        outcome = TrialOutcome(sum(each), each, wrong=(), undecided=tuple(steps), failed=(), corrupt=())
        asked = (answers.found.get(i, (Request(()), Answer(i))) for i in steps)
        return Trial(changes, case, bound or _bound_of(asked, case.scenario), outcome)


def outcome_of(run: Run) -> TrialOutcome:
    """Return the outcome of a run."""
    each = tuple(one.answer.prompt_n for one in run.requests)
    told = list(enumerate(run.requests))
    undecided = tuple(i for i, one in told if one.judged.equal_cold is None)
    failed = tuple(i for i, one in told if one.answer.died or one.answer.status != 200 or not one.answer.done)
    corrupt = tuple(i for i, one in told if one.judged.armed)
    return TrialOutcome(sum(each), each, tuple(run.broken), undecided, failed, corrupt)


def bound_of(run: Run) -> EvaluationBound:
    """Return the lower bound of the tokens that any server must evaluate for the requests of a run."""
    return _bound_of(((one.request, one.answer) for one in run.requests), run.scenario)


def _bound_of(answered: Iterable[tuple[Request, Answer]], scenario: Scenario) -> EvaluationBound:
    pairs = zip(answered, scenario.steps, strict=True)
    return lower_bound(evaluated_request(request, answer, step.together) for (request, answer), step in pairs)


def loses(trial: Trial) -> bool:
    """True if more tokens were evaluated than necessary, or an answer is wrong."""
    return bool(trial.outcome.wrong) or trial.outcome.evaluated > trial.bound.total


# Command lines that reproduce a case with its changes.

@dataclass(frozen=True)
class CaseArguments:
    """Arguments of a command that name a case and its server: ``case``, a ``model`` ("" = the case's own), options of
    the ``server``, and the ``limits`` of the run. ``case`` "" = a line that spells the case. ``files``: scenario files
    that take the place of such lines, None = the lines are written."""

    case: str = ""
    model: str = ""
    server: Mapping[str, Option] = field(default_factory=dict)
    limits: Sequence[tuple[str, int]] = ()
    files: CaseFiles | None = None


def command_words(trial: Trial, asked: CaseArguments) -> list[str]:
    """Return the words after ``cachesim run`` that reproduce a trial: its line, or file, if the client changed or the
    case has no name, else the case as it was named, with each option once. Raise BadInput if a line cannot express
    it."""
    limits = case_arguments(CaseArguments(limits=asked.limits))[1:]
    scenario, profile = trial.case.scenario, trial.case.profile
    if not asked.case or any(change.client for change in trial.changes):
        if getattr(scenario.words, "spelled", None):
            raise BadInput("a line cannot express words that are spelled out in pieces")
        if asked.files is not None:
            words = [word for change in trial.changes for word in change.words]
            return [asked.files.name(scenario, profile, words), "-p", profile_argument(profile), *limits]
        return [*line_words(scenario, profile), *limits]
    options = dict(asked.server)
    for change in trial.changes:
        options |= change.options
    named = replace(asked, server=options, limits=())
    case, *more = case_arguments(named)
    return [case, "-p", profile_argument(profile), *more, *limits]


def case_arguments(asked: CaseArguments, case: str = "") -> list[str]:
    """Return the words of these arguments. ``case``: the word for a case without a name."""
    model = ["--model", asked.model] if asked.model else []
    limits = [word for name, amount in asked.limits for word in ("--limit", f"{name}={amount}")]
    return [asked.case or case, *model, *set_words(asked.server), *limits]


def arguments_of(scenario: Scenario) -> CaseArguments:
    """Return the arguments of a case that was not named: its line, or its file if a line cannot express it."""
    try:
        case_line = not getattr(scenario.words, "spelled", None) and bool(line_words(scenario, scenario.profiles[0]))
    except BadInput:
        case_line = False
    return CaseArguments() if case_line else CaseArguments(scenario.file or scenario.id)


def has_command_line(trial: Trial, asked: CaseArguments) -> bool:
    """True if a command line can express the trial."""
    try:
        return bool(command_words(trial, replace(asked, files=None)))
    except BadInput:
        return False
