"""Runs of a scenario under a profile, judged and compared with the expectations of the scenario file.

A run may read a number that was never written. The server can only compare such a number with a token count, so 0 and
every count that it was compared with are all values that make a difference. The scenario is run with each of them; a
request whose outcome (slot, tokens kept and evaluated, status, stored conversations, verdict) differs between these
cases is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Container, Mapping, NamedTuple, Protocol, Sequence, TypeVar

from cachesim.base.errors import OverLimit, cut
from cachesim.base.garbage_collection import with_rare_garbage_collection
from cachesim.engines.inspection import StoredObject
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Compared, Event, Log
from cachesim.judging.compare_answer import Judge
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.foreign_reads import ForeignContent, ForeignReadFinder, content_name, read_instead
from cachesim.judging.judgement import Judgement
from cachesim.judging.judging_observer import JudgingObserver
from cachesim.judging.outcomes import client_values
from cachesim.judging.request_events import LaunchPlace, events_of
from cachesim.judging.verdict import CORRECT, Verdict, undecided, worst
from cachesim.scenarios.runner import Observers, SilentObserver, play
from cachesim.scenarios.schema import Expect, Scenario


class ExpectationMismatch(NamedTuple):
    """A number that differs from the expectation. ``request`` -1 = a list of requests as a whole (broken, died,
    undecided)."""

    request: int
    what: str
    expected: Any
    got: Any


def compare_expected(
    expected: Expect, requests: Sequence[Judgement], broken: list[int], unsettled: Sequence[int]
) -> list[ExpectationMismatch]:
    """Return all differences between a run and the expectations of its file."""
    out = compare_numbers(expected, requests)
    died = [i for i, one in enumerate(requests) if one.answer.died]
    lists = (
        ("broken", expected.broken, broken), ("died", expected.died, died),
        ("undecided", expected.undecided, list(unsettled)),
    )
    for what, wanted, found in lists:
        if wanted is not None and list(wanted) != found:
            out.append(ExpectationMismatch(-1, what, list(wanted), found))
    return out


def compare_numbers(expected: Expect, requests: Sequence[Judgement]) -> list[ExpectationMismatch]:
    """Return the numbers of steps that the file does not allow."""
    out = []
    for i, one in enumerate(requests):
        for what, got in numbers(one).items():
            allowed = getattr(expected, what)
            if allowed is not None and got not in allowed[i]:
                out.append(
                    ExpectationMismatch(i, what, allowed[i][0] if len(allowed[i]) == 1 else list(allowed[i]), got)
                )
        if expected.checkpoints is not None and list(expected.checkpoints[i]) != one.checkpoints:
            out.append(ExpectationMismatch(i, "checkpoints", list(expected.checkpoints[i]), one.checkpoints))
    return out


def numbers(judgement: Judgement) -> dict[str, int]:
    """Return the numbers of a step for which a file may state expectations, by their names there."""
    answer = judgement.answer
    return {
        "cache_n": answer.cache_n,
        "prompt_n": answer.prompt_n,
        "slots": max(0, answer.id_slot),
        "status": answer.status,
        "entries": judgement.entries,
        "accepted": answer.draft_n_accepted,
        "stored_bytes": judgement.stored_bytes,
        "evaluated": sum(one.prompt_n - one.copied_n for one in (answer, *answer.children)),
    }


CASE = 80                # characters of a case in the text of a run
MOST = 64                # cases; a run that needs more is undecided from its first unwritten number on
Values = Mapping[tuple[int, int], int]


class JudgedCase(Protocol):
    """A judged run."""

    log: Log
    requests: list[Judgement]


R = TypeVar("R", bound=JudgedCase)


def run_every_case(run_case: Callable[[Values], R]) -> list[R]:
    """Return the run with every unwritten number 0, then the runs with every other value that makes a difference."""
    todo: list[Values] = [{}]
    seen = [todo[0]]
    found: list[R] = []
    while todo and len(found) <= MOST:
        values = todo.pop()
        found.append(run_case(values))
        for asked in [event for event in found[-1].log.events if type(event) is Compared]:
            other = {**values, asked.unset: asked.held}
            if other not in seen:
                seen.append(other)
                todo.append(other)
    return found


def settle(cases: Sequence[JudgedCase]) -> list[int]:
    """Mark the requests of the first case as undecided whose outcome differs in another case; return their numbers. An
    answer that is wrong in every case stays wrong."""
    if len(cases) == 1:
        return []
    first, out = cases[0].requests, []
    for i, one in enumerate(first):
        outcomes = [outcome(case.requests[i]) for case in cases]
        cut_off = len(cases) > MOST and i > _first_question(cases)
        wrong = all(case.requests[i].judged.equal_cold is False for case in cases)
        if wrong or (not cut_off and all(found == outcomes[0] for found in outcomes)):
            continue
        one.judged.answer, one.judged.state = undecided(FaultKind.UNWRITTEN, cases=_differences(outcomes)), CORRECT
        one.judged.is_refused = False
        out.append(i)
    return out


def outcome(judgement: Judgement) -> dict[str, Any]:
    """Return the outcome of a step: what a client observes, and the number of stored conversations."""
    return {**client_values(judgement), "entries": judgement.entries}


def _first_question(cases: Sequence[JudgedCase]) -> int:
    """Return the earliest step in which an unwritten number was read."""
    return min(
        number for case in cases for number in range(len(case.log.marks))
        if any(isinstance(event, Compared) for event in case.log.of(number))
    )  # fmt: skip


def _differences(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Return the fields that differ: ``cache_n 95 or 130``."""
    parts = []
    for name in outcomes[0]:
        values = list(dict.fromkeys(str(one[name]) for one in outcomes))
        if len(values) > 1:
            parts.append(f"{name} {' or '.join(values)}")
    return ", ".join(parts) or "too many cases"


@dataclass(slots=True, repr=False)
class Run:
    """A scenario run and judged under a profile."""

    scenario: Scenario
    profile: str
    mode: str
    log: Log = field(default_factory=Log)
    launches: list[LaunchPlace] = field(default_factory=list)
    requests: list[Judgement] = field(default_factory=list)
    wrong: list[ExpectationMismatch] = field(default_factory=list)  # differences from the expectations of the file
    unsettled: list[int] = field(default_factory=list)         # requests that depend on unwritten numbers
    told: list[int] = field(default_factory=list)              # refused requests whose status the file expects
    reads: dict[int, list[ForeignContent]] = field(default_factory=dict)       # foreign content that wrong answers read
    reader: ForeignReadFinder | None = None
    stored: list[tuple[int, int]] = field(default_factory=list)    # final prompt cache: request (-1 = none), length
    not_run: int = 0                                           # requests at the end that a limit of the run excludes
    limit: str = ""                                            # that limit, with the flag that raises it
    rules: RuleSet | None = None                               # rules of the run, None = unknown
    watcher: SilentObserver | None = None                              # further observer of the run
    judge: Judge | None = None                                 # judge with the cold runs of the run, None = unknown

    @property
    def refused(self) -> list[int]:
        """Return the requests that ended with an error in a cold run, too: nothing was compared."""
        return [i for i, one in enumerate(self.requests) if one.judged.is_refused]

    @property
    def broken(self) -> list[int]:
        """Return the requests whose answer, or the state that it left behind, differs from a cold run's."""
        return [i for i, one in enumerate(self.requests) if one.judged.equal_cold is False]

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict of all requests. A refused request is undecided, unless its file expects the
        status. A run that a limit ended is undecided or wrong."""
        judged = [one.judged for i, one in enumerate(self.requests) if i not in self.told]
        left = [undecided(FaultKind.NOT_RUN, limit=self.limit)] if self.not_run else []
        return worst([*left, *(v for one in judged for v in (one.answer, one.state))])

    def content(self, stored: StoredObject) -> list[str]:
        """Return the contents of a corrupt object in place of its own rows and states; [] if unknown."""
        if self.reader is None:
            return []
        return [content_name(one) for one in self.reader.within(stored, len(stored.tokens))]

    def events(self, number: int) -> list[Event]:
        """Return the events of a step. For steps sent together: its own events and those without a slot."""
        return events_of(self.log, self.scenario.steps, self.launches, number)

    def __repr__(self) -> str:
        reused = sum(one.answer.cache_n for one in self.requests)
        prompt = sum(len(one.request.prompt) for one in self.requests)
        again = sum(one.re_evaluated for one in self.requests)
        return (f"<{type(self).__name__} of {cut(self.scenario.name, CASE)} under {self.profile}: {self.verdict.word}, "
                f"{reused} of {prompt} prompt tokens reused, {again} re-evaluated>")  # fmt: skip


class RunInterrupted(KeyboardInterrupt):
    """Interrupted run. ``run`` contains the requests judged so far, of a scenario cut to them; ``asked``: number of
    requests of the whole scenario; ``number`` of the signal, None for Ctrl-C."""

    def __init__(self, run: Run, asked: int, number: int | None) -> None:
        self.run = run
        self.asked = asked
        self.number = number
        super().__init__()


class RunCutOff(OverLimit):
    """Run that exceeded a limit. ``run`` contains the requests judged before, of a scenario cut to them."""

    run: Run


def _answered(run: Run, observer: JudgingObserver) -> Run:
    """Return an incomplete run cut to the requests that were answered before the first unanswered request."""
    over = next(number for number in range(len(run.scenario.steps) + 1) if number not in observer.found)
    part = replace(run.scenario, steps=run.scenario.steps[:over], expect={}, lives=())
    requests = [observer.found[number] for number in range(over)]
    return Run(part, run.profile, run.mode, observer.server.log, observer.launches, requests, rules=run.rules,
               watcher=run.watcher)  # fmt: skip


def _stopped(run: Run, observer: JudgingObserver, error: KeyboardInterrupt) -> KeyboardInterrupt:
    """Return the interrupt with the requests that were answered; the bare interrupt if no request was."""
    if not observer.found:                   # perhaps not even the server has started
        return error
    done, asked = _answered(run, observer), len(run.scenario.steps)
    return RunInterrupted(done, asked, getattr(error, "number", None)) if done.requests else error


def _cut_off(run: Run, observer: JudgingObserver, error: OverLimit) -> OverLimit:
    """Return the error with the requests that were answered; the bare error if no request was, or if their outcome
    depends on an unwritten number, whose other values were not run."""
    if not observer.found:                   # perhaps not even the server has started
        return error
    done = _answered(run, observer)
    if not done.requests or any(isinstance(event, Compared) for event in done.log.events):
        return error
    cut_off = RunCutOff(error.cause, file=error.file, line=error.line, hint=error.hint)
    cut_off.run = done
    done.not_run, done.limit = len(run.scenario.steps) - len(done.requests), str(error)
    return cut_off


def _find_foreign_reads(run: Run, observer: JudgingObserver) -> None:
    """Store the foreign content that the wrong answers of a run read, and the requests of the final prompt cache."""
    reader = run.reader = ForeignReadFinder(run.requests, observer.judge.cold_runs)
    run.stored = [(reader.whose(tokens), len(tokens)) for tokens in observer.entries]
    run.reads = {number: read_instead(run.requests, number, reader) for number in run.broken}


@with_rare_garbage_collection()
def run_judged(
    scenario: Scenario, profile: str, mode: str = "exact", judge: Judge | None = None,
    table: RuleSet | None = None, with_ledger: bool = True, watcher: SilentObserver | None = None,
    only: Container[int] | None = None, keeps_decisions: bool = True,
) -> Run:
    """Run a scenario under a profile and judge every request. If the server reads a number that was never written, the
    scenario runs once for every value that matters.

    ``table`` replaces the profile's rules by others of the same engine; the run then has the table's name, and the
    expectations of the file apply only if it is the built-in profile of that name. ``judge`` may be shared between runs
    of a model. Without ``with_ledger`` the recompute ledgers stay empty. ``watcher``: observer of the first run.
    ``only``: numbers of the requests that are judged, without the stored objects; None = all requests, with these
    objects. ``keeps_decisions``: see ``Log``. Raise BadInput; ``RunCutOff`` if a limit of the run was exceeded after
    the first answer. The runs of all values count together for the limits.
    """
    known = engine_of(profile).profiles
    rules = table or known[profile]
    name = rules.name if known.get(rules.name) in (None, rules) else f"{rules.name} (changed)"
    shared, last = judge, None               # judge and log of the previous case

    def case(values: Values) -> Run:
        nonlocal shared, last
        mine = rules.changed({"unset": values}) if values else rules
        run = Run(scenario, name, mode, rules=mine, watcher=None if values else watcher)
        observer = JudgingObserver(scenario, profile, mine, shared, with_ledger, only)
        try:
            run.log = last = play(scenario, profile, mode, Observers.of(observer, run.watcher), mine, before=last,
                                  keeps_decisions=keeps_decisions)
        except KeyboardInterrupt as error:
            raise _stopped(run, observer, error) from None
        except OverLimit as error:
            raise (error if values else _cut_off(run, observer, error)) from None
        shared = run.judge = observer.judge
        run.launches = observer.launches
        run.requests = [observer.found[number] for number in range(len(scenario.steps))]
        if with_ledger and observer.judge.model is not None:
            _find_foreign_reads(run, observer)
        return run

    run, *others = cases = run_every_case(case)
    run.unsettled = settle(cases)
    if name in scenario.expect:
        _compare_with_file(run, others, scenario.expect[name])
    return run


class JudgedRuns:
    """Runs of a search, of which only answers and the states that they leave behind are judged: no stored objects, no
    ledger, and no decisions in the log. Those in mode "provenance" share their cold runs; exact cold runs take too much
    memory to be kept."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._judge: Judge | None = None

    def run(self, scenario: Scenario, profile: str, table: RuleSet | None) -> Run:
        """Return a run of a scenario under a profile, or a table of rules. Raise what ``run_judged`` raises."""
        steps = range(len(scenario.steps))
        found = run_judged(scenario, profile, self.mode, self._judge, table, with_ledger=False, only=steps,
                           keeps_decisions=False)  # fmt: skip
        self._judge = None if self.mode == "exact" else found.judge
        return found


def _compare_with_file(run: Run, others: Sequence[Run], expected: Expect) -> None:
    """Store the differences of a run and of the runs with other unwritten numbers from the expectations of its file."""
    run.wrong = compare_expected(expected, run.requests, run.broken, run.unsettled)
    run.told = [i for i in run.refused if expected.status and run.requests[i].answer.status in expected.status[i]]
    for other in others:
        run.wrong += [one for one in compare_numbers(expected, other.requests) if one not in run.wrong]
