"""What can be changed in a case? The server's flags, what its client sends, the build. What came of it in a whole run?
Tokens evaluated, answers right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Manual, Option
from cachesim.engines.contract import Engine
from cachesim.engines.rule_files import profile_argument
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.lower_bound import Bound, lower_bound, sent
from cachesim.judging.reproduce_command import case_words, line_words, set_words
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.client_changes import ClientChange, client_changes, load_of, own_slots


class ChangeKind(IntEnum):
    """Where a change is made; a larger number is dearer."""

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
    """One change of a case: ``options`` of the server (the first is what it is about), what the client does
    (``client``), perhaps with options that it takes, or another ``profile``. ``base``: what a proposal was made on."""

    kind: ChangeKind
    options: Mapping[str, Option] = field(default_factory=dict)
    profile: str = ""
    client: ClientChange | None = None
    base: str = ""

    @property
    def family(self) -> tuple[str, ...]:
        """Changes of one family take each other's place: those that are about the same option, ..."""
        return tuple(self.options)[:1] or (self.client.name if self.client else self.kind.name,)

    def of(self, case: Setup) -> Setup | None:
        """The case with this change, None where it changes nothing there. Raises BadInput for a case that no server
        takes, such as more tokens than are allowed."""
        if self.profile:
            return Setup(case.scenario, self.profile)
        server = {**case.scenario.server, **self.options}
        scenario = replace(case.scenario, server=server, expect={}, lives=())
        if self.client is None:
            return Setup(scenario, case.profile)
        line = self.client.change(scenario.line)
        if line is None or getattr(scenario.words, "spelled", None):       # no command line could say what is sent
            return None
        steps = make_steps(line.steps, line.words, server)
        return Setup(replace(scenario, words=line.words, steps=steps), case.profile)


def clashes(a: SetupChange, b: SetupChange) -> bool:
    """Do two changes change the same thing?"""
    return bool({*a.options} & {*b.options}) or bool(a.profile and b.profile) or a.family == b.family


def single_changes(case: Setup, engine: Engine) -> Iterator[SetupChange]:
    """Every change that is worth trying, from cheap to dear."""
    yield from flag_changes(case, engine.manual)
    yield from of_the_client(case, engine.manual)
    yield from builds(case.profile, engine)


def flag_changes(case: Setup, manual: Manual) -> Iterator[SetupChange]:
    """Flags that the engine's manual names, as far as they are others than now."""
    now = in_force(case.scenario.server, case.profile)
    for one in manual.tries(now, load_of(case.scenario.line)):
        if differing := {name: value for name, value in one.items() if now[name] != value}:
            yield SetupChange(ChangeKind.FLAG, options=differing)


def of_the_client(case: Setup, manual: Manual) -> Iterator[SetupChange]:
    """What a client can do, a slot for each conversation last: of those that there are, or of more slots."""
    now = in_force(case.scenario.server, case.profile)
    yield from (SetupChange(ChangeKind.CLIENT, client=one) for one in client_changes(manual))
    if manual.slots and (slots := manual.slot_count(now)) > 1:
        yield SetupChange(ChangeKind.CLIENT, client=own_slots(slots))
    for one in flag_changes(case, manual):
        if (slots := manual.slot_count({**now, **one.options})) > max(1, manual.slot_count(now)):
            yield SetupChange(ChangeKind.CLIENT, options=one.options, client=own_slots(slots))


def builds(profile: str, engine: Engine) -> Iterator[SetupChange]:
    """Every later build of the main branch, oldest first; then every proposal, those made on the newest build first."""
    line = list(engine.line)
    on = engine.beside.get(profile, profile)
    at = line.index(on) if on in line else -1
    yield from (SetupChange(ChangeKind.BUILD, profile=one) for one in line[at + 1 :])
    proposals = [name for name in engine.beside if name != profile]
    order = {name: i for i, name in enumerate(line)}
    for name in sorted(proposals, key=lambda one: -order.get(engine.beside[one], -1)):
        yield SetupChange(ChangeKind.PROPOSAL, profile=name, base=engine.beside[name])


# What came of a case in a whole run?

MODE = "provenance"


class TrialOutcome(NamedTuple):
    """``evaluated`` prompt tokens, of ``each`` request; the numbers of requests that are ``wrong``, ``undecided`` or
    ``failed`` (no answer, an error, a server that ended); requests after which something stored is ``corrupt``."""

    evaluated: int
    each: tuple[int, ...]
    wrong: tuple[int, ...]
    undecided: tuple[int, ...]
    failed: tuple[int, ...]
    corrupt: tuple[int, ...]


@dataclass(frozen=True)
class Trial:
    """A case with these changes (none = as it is), what its requests must evaluate at least, and what came of it. The
    run is not kept: a search makes many."""

    changes: tuple[SetupChange, ...]
    case: Setup
    bound: Bound
    outcome: TrialOutcome

    @property
    def dearness(self) -> tuple[int, int, int]:
        """How dear the changes are: the dearest of them, how many there are, how many options."""
        kinds = [one.kind for one in self.changes]
        return max(kinds, default=0), len(kinds), sum(len(one.options) for one in self.changes)


def tried(case: Setup, changes: tuple[SetupChange, ...] = (), bound: Bound | None = None) -> Trial:
    """Play and judge a case, by provenance. ``bound``: that of its requests, None = not known yet. Raises BadInput for
    a case that this version cannot play."""
    run = run_judged(case.scenario, case.profile, MODE, bills=False)
    return Trial(changes, case, bound or bound_of(run), outcome_of(run))


def outcome_of(run: Run) -> TrialOutcome:
    """The outcome of a run."""
    each = tuple(one.answer.prompt_n for one in run.requests)
    told = list(enumerate(run.requests))
    undecided = tuple(i for i, one in told if one.judged.equal_cold is None)
    failed = tuple(i for i, one in told if one.answer.died or one.answer.status != 200 or not one.answer.done)
    corrupt = tuple(i for i, one in told if one.judged.armed)
    return TrialOutcome(sum(each), each, tuple(run.broken), undecided, failed, corrupt)


def bound_of(run: Run) -> Bound:
    """What its requests must evaluate at least, on any server."""
    pairs = zip(run.requests, run.scenario.steps, strict=True)
    return lower_bound(sent(one.request, one.answer, step.together) for one, step in pairs)


def loses(scenario: Scenario, profile: str) -> bool:
    """Is more evaluated under this rule set than must be, or is an answer wrong?"""
    one = tried(Setup(scenario, profile))
    return bool(one.outcome.wrong) or one.outcome.evaluated > one.bound.total


# Which command line shows a case with its changes?

def command_words(one: Trial, base: Setup, asked: Sequence[str] = ()) -> list[str]:
    """What is typed behind ``cachesim try`` to see this: the line that the client sends then, or the case as it was
    named. Raises BadInput where no line can say it."""
    if any(change.client for change in one.changes):
        return line_words(one.case.scenario, one.case.profile)
    words = list(asked) or case_words(base.scenario, base.profile)
    if "-p" in words:
        del words[(at := words.index("-p")) : at + 2]
    changed = [word for change in one.changes for word in set_words(change.options)]
    return [words[0], "-p", profile_argument(one.case.profile), *words[1:], *changed]


def sayable(one: Trial) -> bool:
    """Can a command line say what the client sends then?"""
    try:
        return not any(change.client for change in one.changes) or bool(line_words(one.case.scenario, one.case.profile))
    except BadInput:
        return False
