"""A scenario under one profile, run and judged: what every report starts from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence, TypeVar

from cachesim.engines.inspection import Stored
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Compared, Event, Log
from cachesim.judging.compare_answer import Judge
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.foreign_reads import ForeignContent, ForeignReadFinder, content_name, read_instead
from cachesim.judging.judgement import Judgement
from cachesim.judging.judging_observer import JudgingObserver
from cachesim.judging.verdict import HOLDS, Verdict, undecided, worst
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Expect, Scenario

# Is a run as its file expects? Compares numbers, request by request.

class Mismatch(NamedTuple):
    """One number that is not as expected. ``request`` -1 = a list of requests as a whole (broken, died, undecided)."""

    request: int
    what: str
    expected: Any
    got: Any


def compare_expected(
    expected: Expect, requests: Sequence[Judgement], broken: list[int], unsettled: Sequence[int] = ()
) -> list[Mismatch]:
    """Everything in a run that its file does not allow."""
    out = compare_numbers(expected, requests)
    died = [i for i, one in enumerate(requests) if one.answer.died]
    lists = (
        ("broken", expected.broken, broken), ("died", expected.died, died),
        ("undecided", expected.undecided, list(unsettled)),
    )
    for what, wanted, found in lists:
        if wanted is not None and list(wanted) != found:
            out.append(Mismatch(-1, what, list(wanted), found))
    return out


def compare_numbers(expected: Expect, requests: Sequence[Judgement]) -> list[Mismatch]:
    """Every number of a step that its file does not allow."""
    out = []
    for i, one in enumerate(requests):
        for what, got in numbers(one).items():
            allowed = getattr(expected, what)
            if allowed is not None and got not in allowed[i]:
                out.append(Mismatch(i, what, allowed[i][0] if len(allowed[i]) == 1 else list(allowed[i]), got))
        if expected.checkpoints is not None and list(expected.checkpoints[i]) != one.checkpoints:
            out.append(Mismatch(i, "checkpoints", list(expected.checkpoints[i]), one.checkpoints))
    return out


def numbers(one: Judgement) -> dict[str, int]:
    """What a file may expect of one step, by the names it has there."""
    answer = one.answer
    return {
        "cache_n": answer.cache_n,
        "prompt_n": answer.prompt_n,
        "slots": max(0, answer.id_slot),
        "status": answer.status,
        "entries": one.entries,
    }


# A run read a number that nobody wrote: is its outcome the same whatever that number was?
#
# A server can do one thing with such a number: ask whether it holds more tokens. So 0 and every count that was asked
# about are all the values that make a difference; the scenario is run with each of them. Where the outcome of a request
# is not the same in all these cases, it is undecided.
#
# outcome  what a client can tell: slot, tokens kept and evaluated, status, stored conversations, right or wrong

MOST = 64                # cases; who needs more of them stays undecided from the first question on
Values = Mapping[tuple[int, int], int]


class JudgedCase(Protocol):
    """A judged run."""

    log: Log
    requests: list[Judgement]


R = TypeVar("R", bound=JudgedCase)


def run_every_case(play: Callable[[Values], R]) -> list[R]:
    """The run with every number 0, then with every other value that makes a difference."""
    todo: list[Values] = [{}]
    seen = [todo[0]]
    found: list[R] = []
    while todo and len(found) <= MOST:
        values = todo.pop()
        found.append(play(values))
        for asked in (event for event in found[-1].log.events if isinstance(event, Compared)):
            other = {**values, asked.unset: asked.held}
            if other not in seen:
                seen.append(other)
                todo.append(other)
    return found


def settle(cases: Sequence[JudgedCase]) -> list[int]:
    """Mark the requests of the first case whose outcome is another in another case; returns their numbers. An answer
    that is wrong in every case stays wrong."""
    first, out = cases[0].requests, []
    for i, one in enumerate(first):
        outcomes = [outcome(case.requests[i]) for case in cases]
        cut_off = len(cases) > MOST and i > _first_question(cases)
        wrong = all(case.requests[i].judged.equal_cold is False for case in cases)
        if wrong or (not cut_off and all(found == outcomes[0] for found in outcomes)):
            continue
        one.judged.answer, one.judged.state = undecided(Kind.UNWRITTEN, cases=_told(outcomes)), HOLDS
        one.judged.refused = False
        out.append(i)
    return out


def outcome(one: Judgement) -> dict[str, Any]:
    """What a client can tell of a step."""
    return {**numbers(one), "right": one.judged.equal_cold, "died": one.answer.died}


def _first_question(cases: Sequence[JudgedCase]) -> int:
    """The earliest step in which such a number was read."""
    return min(
        number for case in cases for number in range(len(case.log.marks))
        if any(isinstance(event, Compared) for event in case.log.of(number))
    )  # fmt: skip


def _told(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """What differs: ``cache_n 95 or 130``."""
    parts = []
    for name in outcomes[0]:
        values = list(dict.fromkeys(str(one[name]) for one in outcomes))
        if len(values) > 1:
            parts.append(f"{name} {' or '.join(values)}")
    return ", ".join(parts) or "too many cases"


@dataclass(slots=True)
class Run:
    """A scenario under one profile. ``wrong`` lists where it is not as its file expects; ``unsettled`` are the requests
    whose outcome depends on numbers that nobody wrote: what is shown of them is one case of several; ``told`` the
    refused ones whose status the file expects; ``reads`` what the wrong ones read in place of their own;
    ``stored`` are the entries of the prompt cache at the end: the request whose conversation each is (-1 = of none) and
    its length."""

    scenario: Scenario
    profile: str
    mode: str
    log: Log = field(default_factory=Log)
    requests: list[Judgement] = field(default_factory=list)
    wrong: list[Mismatch] = field(default_factory=list)
    unsettled: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    reads: dict[int, list[ForeignContent]] = field(default_factory=dict)
    reader: ForeignReadFinder | None = None
    stored: list[tuple[int, int]] = field(default_factory=list)

    @property
    def refused(self) -> list[int]:
        """Requests that ended with an error as a cold run of them does: nothing was compared."""
        return [i for i, one in enumerate(self.requests) if one.judged.refused]

    @property
    def broken(self) -> list[int]:
        """Requests whose answer, or what it left behind, is not a cold run's."""
        return [i for i, one in enumerate(self.requests) if one.judged.equal_cold is False]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all requests. A refused one is undecided, unless its file expects it."""
        judged = [one.judged for i, one in enumerate(self.requests) if i not in self.told]
        return worst(v for one in judged for v in (one.answer, one.state))

    def content(self, stored: Stored) -> list[str]:
        """What is in a corrupt object in place of its own rows and states; [] where that is not known."""
        if self.reader is None:
            return []
        return [content_name(one) for one in self.reader.within(stored, len(stored.tokens))]

    def events(self, number: int) -> list[Event]:
        """The events of one step. Of steps that were sent together: those of its slot, and those of no slot."""
        first, stop = number, number + 1
        while self.scenario.steps[first].together:
            first -= 1
        while stop < len(self.scenario.steps) and self.scenario.steps[stop].together:
            stop += 1
        if stop - first == 1:
            return list(self.log.of(number))
        every = [event for one in range(first, stop) for event in self.log.of(one)]
        mine = (None, self.requests[number].answer.id_slot)
        return [event for event in every if getattr(event, "slot", getattr(event, "seq", None)) in mine]


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted. ``run`` is what was judged by then, of a scenario with only these requests; ``asked``: how
    many there are; ``number`` of the signal, None for Ctrl-C."""

    def __init__(self, run: Run, asked: int, number: int | None) -> None:
        self.run, self.asked, self.number = run, asked, number
        super().__init__()


def _stopped(run: Run, watch: JudgingObserver, error: KeyboardInterrupt) -> KeyboardInterrupt:
    """The interrupt with the requests that are over; itself where none is."""
    over = next(number for number in range(len(run.scenario.steps) + 1) if number not in watch.found)
    if not over:
        return error
    part = replace(run.scenario, steps=run.scenario.steps[:over], expect={}, lives=())
    requests = [watch.found[number] for number in range(over)]
    done = Run(part, run.profile, run.mode, watch.server.log, requests)
    return RunInterrupted(done, len(run.scenario.steps), getattr(error, "number", None))


def run_judged(
    scenario: Scenario, profile: str, mode: str = "exact", judge: Judge | None = None,
    table: RuleSet | None = None, with_ledger: bool = True,
) -> Run:
    """Run a scenario under a profile and judge every request. Where the server reads a number that nobody wrote, the
    scenario runs once for every value that matters.

    ``table`` replaces the profile's rules by others of the same engine; the run then bears the table's name, and the
    file's expectations apply only where it is the shipped profile of that name. ``judge`` may be shared between runs of
    one model. ``with_ledger`` False = no recompute account. Raises BadInput."""
    known = engine_of(profile).profiles
    rules = table or known[profile]
    name = rules.name if known.get(rules.name) in (None, rules) else f"{rules.name} (changed)"

    def case(values: Values) -> Run:
        mine = rules.changed({"unset": values}) if values else rules
        run, watch = Run(scenario, name, mode), JudgingObserver(scenario, profile, mine, judge, with_ledger)
        try:
            run.log = play(scenario, profile, mode, watch, mine)
        except KeyboardInterrupt as error:
            raise _stopped(run, watch, error) from None
        run.requests = [watch.found[number] for number in range(len(scenario.steps))]
        if with_ledger and watch.judge.model is not None:
            reader = run.reader = ForeignReadFinder(run.requests, watch.judge.cold_runs)
            run.stored = [(reader.whose(tokens), len(tokens)) for tokens in watch.entries]
            run.reads = {number: read_instead(run.requests, number, reader) for number in run.broken}
        return run

    run, *others = cases = run_every_case(case)
    expected = scenario.expect.get(name)
    run.unsettled = settle(cases)
    if expected is not None:
        run.wrong = compare_expected(expected, run.requests, run.broken, run.unsettled)
        run.told = [i for i in run.refused if expected.status and run.requests[i].answer.status in expected.status[i]]
        for other in others:
            run.wrong += [one for one in compare_numbers(expected, other.requests) if one not in run.wrong]
    return run
